"""Casts to and from texts, as DuckDB expressions. Those of scalar types are in ``sql.typing.scalars``.

Elements of arrays, maps and tuples are quoted. The conversions that give NULL for an invalid text serve the ``…OrNull``
and ``…OrZero`` functions, ``accurateCast…`` and CAST to a Nullable type.
"""

from __future__ import annotations

from parts.common.errors import UserError
from parts.types import ArrayType, DataType, FixedStringType, MapType, TupleType, strip_nullable
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.scalars.all_scalars import scalar_of
from sql.typing.typed_expressions import Typed, element_sql


def to_text(value: Typed, zone: str) -> Fragment:
    """Compiles ``toString(value)`` as VARCHAR. Raises ``UserError`` 48."""
    type_ = strip_nullable(value.type)
    scalar = scalar_of(type_)
    if scalar is not None:
        return scalar.to_text(value, type_, zone)
    if type_.is_composite:
        return _format_composite(value.number, type_, zone)
    raise UserError("NOT_IMPLEMENTED", f"Conversion from {value.type} to String is not supported")


def _format_quoted(sql: Fragment, type_: DataType, zone: str) -> Fragment:
    """Formats a value inside an array, map or tuple."""
    bare = strip_nullable(type_)
    text, scalar = to_text(Typed(sql, bare), zone), scalar_of(bare)
    text = scalar.quoted_text(text) if scalar is not None else text
    return fragment("coalesce({}, 'NULL')", text) if type_.is_nullable else fragment("({})", text)


def _format_composite(sql: Fragment, type_: DataType, zone: str) -> Fragment:
    if isinstance(type_, ArrayType):
        body = _format_quoted(fragment("x"), type_.inner, zone)
        return fragment("('[' || array_to_string(list_transform({}, lambda x: {}), ',') || ']')", sql, body)
    if isinstance(type_, MapType):
        key, value = (
            _format_quoted(fragment(name), inner, zone)
            for name, inner in (("x.key", type_.key), ("x.value", type_.value))
        )
        entries = fragment("list_transform({}, lambda x: {} || ':' || {})", sql, key, value)
        return fragment("('{{' || array_to_string({}, ',') || '}}')", entries)
    assert isinstance(type_, TupleType)
    parts = [
        _format_quoted(element_sql(sql, position), inner, zone) for position, (_, inner) in enumerate(type_.elements, 1)
    ]
    return fragment("('(' || {} || ')')", join_fragments(" || ',' || ", parts))


def from_text(value: Typed, target: DataType, zone: str) -> Fragment:
    """Compiles the conversion of a String. An invalid text raises an error at run time."""
    goal, source = strip_nullable(target), strip_nullable(value.type)
    scalar = scalar_of(goal)
    if scalar is None:
        raise UserError("NOT_IMPLEMENTED", f"Conversion from {value.type} to {target} is not supported")
    return scalar.from_text(value, _as_text(value, source), goal, zone)


def _as_text(value: Typed, source: DataType) -> Fragment:
    return fragment("pando_fixed_text({})", value.sql) if isinstance(source, FixedStringType) else value.sql


def is_null_if_misspelled(type_: DataType) -> bool:
    """Tells whether an invalid text gives NULL where the type is Nullable; otherwise it is an error."""
    scalar = scalar_of(type_)
    return scalar is not None and scalar.is_null_if_misspelled


def value_or_null(value: Typed, target: DataType, zone: str, *, basic: bool = False) -> Fragment:
    """Converts a String or FixedString, with NULL for an invalid text.

    ``basic``: instants only in the basic spelling.
    """
    scalar = scalar_of(target)
    if scalar is None:
        return from_text(value, target, zone)
    sql = _as_text(value, value.type)
    return scalar.from_text_or_null(value, sql, strip_nullable(target), zone, basic=basic)
