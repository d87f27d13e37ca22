"""Subcolumns by name: ``column.size0``, ``.null``, ``.keys``, ``.values``, ``.size``."""

from __future__ import annotations

import re

from parts.types import ArrayType, DataType, MapType, StringType, TupleType, make_nullable, strip_nullable
from sql.functions.list_kernels import map_kernels
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import UINT8, UINT64, Typed, cast

_SIZE = re.compile(r"size(\d)")


def find_subcolumn(value: Typed, name: str) -> Typed | None:
    """Returns the subcolumn of a value, or ``None`` if there is none of the name."""
    type_ = strip_nullable(value.type)
    if name == "null" and value.type.is_nullable:
        return Typed(fragment("({} IS NULL)", value.sql), UINT8, is_condition=True)
    if name == "size" and isinstance(type_, StringType):
        return Typed(
            cast(fragment("strlen({})", value.sql), UINT64), make_nullable(UINT64) if value.type.is_nullable else UINT64
        )
    if isinstance(type_, MapType):
        return _map_subcolumn(value, type_, name)
    if not isinstance(type_, ArrayType) or _is_element(type_, name):
        return None
    size = _SIZE.fullmatch(name)
    if size is not None:
        return _size_subcolumn(value.sql, type_, int(size[1]))
    return _null_subcolumn(value.sql, type_) if name == "null" else None


def _is_element(type_: DataType, name: str) -> bool:
    """Tells whether an array of tuples has elements of the name."""
    while isinstance(type_, ArrayType):
        type_ = strip_nullable(type_.inner)
    return isinstance(type_, TupleType) and any(own == name for own, _ in type_.elements)


def _map_subcolumn(value: Typed, type_: MapType, name: str) -> Typed | None:
    if name == "keys":
        return map_kernels.map_keys(value, type_)
    if name == "values":
        return map_kernels.map_values(value, type_)
    if name == "size0":
        return Typed(cast(fragment("len({})", value.sql), UINT64), UINT64)
    return None


def _size_subcolumn(sql: Fragment, type_: ArrayType, level: int) -> Typed | None:
    if level == 0:
        return Typed(cast(fragment("len({})", sql), UINT64), UINT64)
    if not isinstance(type_.inner, ArrayType):
        return None
    inner = _size_subcolumn(fragment(f"x{level}"), type_.inner, level - 1)
    if inner is None:
        return None
    return Typed(fragment("list_transform({}, lambda {}: {})", sql, f"x{level}", inner.sql), ArrayType(inner.type))


def _null_subcolumn(sql: Fragment, type_: ArrayType, level: int = 0) -> Typed | None:
    variable = f"x{level}"
    if isinstance(type_.inner, ArrayType):
        inner = _null_subcolumn(fragment(variable), type_.inner, level + 1)
    elif type_.inner.is_nullable:
        inner = Typed(cast(fragment("({} IS NULL)", variable), UINT8), UINT8)
    else:
        inner = None
    if inner is None:
        return None
    return Typed(fragment("list_transform({}, lambda {}: {})", sql, variable, inner.sql), ArrayType(inner.type))
