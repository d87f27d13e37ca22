"""Scan kernels for maps, which are lists of structs of key and value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parts.types import ArrayType, MapType
from sql.functions.lambda_bodies import lambda_element
from sql.functions.list_kernels.array_search import constant_as_element, find_equal, is_discrete, is_plain
from sql.functions.list_kernels.lambda_results import (
    LambdaBody,
    as_conditions,
    compile_lambda_body,
    is_mapped,
    is_test,
    scan_arrays,
)
from sql.typing.column_kernels.list_arrays import ListValues, build_lists, interleave
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import Typed


def _is_plain(type_: MapType) -> bool:
    return is_discrete(type_.key) and not type_.key.is_nullable and is_plain(type_.value)


def map_keys(value: Typed, type_: MapType) -> Typed:
    """Returns the map's keys as an array, with a scan kernel if the type allows one."""
    sql = fragment("list_transform({}, lambda e: e.key)", value.sql)
    if is_plain(type_.key):
        sql = Scannable(sql, value.sql, lambda given: _entry_field(given, 0), ArrayType(type_.key).arrow)
    return Typed(sql, ArrayType(type_.key))


def map_values(value: Typed, type_: MapType) -> Typed:
    """Returns the map's values as an array, with a scan kernel if the type allows one."""
    sql = fragment("list_transform({}, lambda e: e.value)", value.sql)
    if is_plain(type_.value):
        sql = Scannable(sql, value.sql, lambda given: _entry_field(given, 1), ArrayType(type_.value).arrow)
    return Typed(sql, ArrayType(type_.value))


def _entry_field(given: pa.Array, place: int) -> pa.Array:
    part = given.values.field(place)
    buffers = given.buffers()[:2]
    return pa.Array.from_buffers(pa.list_(part.type), len(given), buffers, offset=given.offset, children=[part])


def _entries(keys: pa.Array, values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([keys, values], ["key", "value"])


def _arrow_type(type_: MapType) -> pa.DataType:
    return pa.list_(pa.struct([("key", type_.key.arrow), ("value", type_.value.arrow)]))


def build_maps(sql: Fragment, keys: Sequence[Typed], values: Sequence[Typed], type_: MapType) -> Fragment:
    """Adds a scan kernel for ``map(key, value, …)`` to ``sql``, if the types allow one."""
    given = [*keys, *values]
    if not _is_plain(type_) or any(value.is_literal and value.value is None for value in given):
        return sql
    if any(value.is_constant and not value.is_literal for value in given) or any(value.is_condition for value in given):
        return sql
    if not all(is_plain(value.type) for value in given):
        return sql
    types = [type_.key.arrow] * len(keys) + [type_.value.arrow] * len(values)
    constants = [
        pa.array([value.value], kind) if value.is_literal else None for value, kind in zip(given, types, strict=True)
    ]

    def compute(*columns: pa.Array) -> pa.Array:
        left = iter(columns)
        rows = len(columns[0])
        pieces = [
            next(left).cast(kind) if known is None else known for known, kind in zip(constants, types, strict=True)
        ]
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(len(keys)))
        both = [interleave(some, rows) for some in (pieces[: len(keys)], pieces[len(keys) :])]
        return pa.ListArray.from_arrays(offsets, _entries(*both))

    return Scannable(sql, [value.sql for value in given if not value.is_literal], compute, _arrow_type(type_))


def from_arrays(sql: Fragment, keys: Typed, values: Typed, type_: MapType, name: str) -> Fragment:
    """Adds a scan kernel for ``mapFromArrays`` to ``sql``, if the types allow one."""
    if not _is_plain(type_):
        return sql

    def compute(lists: Sequence[ListValues], _: Sequence[pa.Array]) -> pa.Array:
        return lists[0].like(_entries(lists[0].values, lists[1].values))

    return scan_arrays(sql, (keys.sql, values.sql), (), name, compute, _arrow_type(type_))


def _keys_and_values(value: Typed, type_: MapType) -> list[Fragment]:
    return [map_keys(value, type_).sql, map_values(value, type_).sql]


def filter_maps(sql: Fragment, value: Typed, type_: MapType, parameters: Sequence[Fragment], test: Typed) -> Fragment:
    """Adds a scan kernel for ``mapFilter`` to ``sql``, if type and lambda allow one."""
    body = (
        compile_lambda_body(_keys_and_values(value, type_), parameters, test)
        if _is_plain(type_) and is_test(test)
        else None
    )
    if body is None:
        return sql

    def compute(lists: Sequence[ListValues], captured: Sequence[pa.Array]) -> pa.Array:
        keep = as_conditions(body.values(lists, captured))
        keys, values = (part.values.filter(pa.array(keep)) for part in lists)
        return lists[0].like(_entries(keys, values), lists[0].counts(keep))

    return scan_arrays(sql, body.arrays, body.captured, "mapFilter", compute, _arrow_type(type_))


def transform_maps(
    sql: Fragment, value: Typed, type_: MapType, parameters: Sequence[Fragment], pair: Sequence[Typed], made: MapType
) -> Fragment:
    """Adds a scan kernel for ``mapApply`` to ``sql``, if types and lambda allow one.

    ``pair`` is the lambda's result: a new key and a new value.
    """
    if not _is_plain(type_) or not _is_plain(made) or not all(map(is_mapped, pair)):
        return sql
    arrays = _keys_and_values(value, type_)
    bodies = [compile_lambda_body(arrays, parameters, part) for part in pair if not part.is_condition]
    known: list[LambdaBody] = [body for body in bodies if body is not None]
    if len(known) < 2:
        return sql
    split = len(known[0].captured)

    def compute(lists: Sequence[ListValues], captured: Sequence[pa.Array]) -> pa.Array:
        keys = known[0].values(lists, captured[:split])
        return lists[0].like(_entries(keys, known[1].values(lists, captured[split:])))

    return scan_arrays(sql, arrays, (*known[0].captured, *known[1].captured), "mapApply", compute, _arrow_type(made))


def look_up_key(sql: Fragment, value: Typed, type_: MapType, key: Typed) -> Fragment:
    """Adds a scan kernel for ``map[key]`` with a literal key to ``sql``; the default if it is missing."""
    constant = constant_as_element(key, type_.key) if key.is_literal and _is_plain(type_) else None
    if constant is None or isinstance(type_.value, ArrayType):
        return sql
    default = pa.array([type_.value.default], type_.value.arrow)

    def compute(given: pa.Array) -> pa.Array:
        lists = build_lists(given)
        numbers = np.flatnonzero(find_equal(lists.values.field(0), constant))[::-1]
        values = pa.concat_arrays([lists.values.field(1), default])
        places = np.full(len(given), len(values) - 1)
        places[lists.owners[numbers]] = numbers
        return values.take(pa.array(places))

    return Scannable(sql, value.sql, compute, type_.value.arrow)


PARAMETERS = (lambda_element("e.key"), lambda_element("e.value"))
