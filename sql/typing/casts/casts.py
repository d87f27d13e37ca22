"""Conversions between ClickHouse types, as DuckDB expressions.

``convert_to_supertype`` converts without loss to a supertype. ``cast_to`` is CAST and the ``toT`` functions: narrowed
integers wrap around, floats are truncated, texts are parsed strictly, instants go through the zone of their type.
"""

from __future__ import annotations

from collections.abc import Callable

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    DateTime64Type,
    DateTimeType,
    DateType,
    FixedStringType,
    IntegerType,
    MapType,
    NothingType,
    StringType,
    TupleType,
    make_nullable,
    parse_type,
    strip_nullable,
)
from sql.typing.casts.text_casts import from_text, is_null_if_misspelled, to_text, value_or_null
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import is_number
from sql.typing.scalars.all_scalars import scalar_of
from sql.typing.times.time_zones import SERVER_ZONE
from sql.typing.typed_expressions import (
    NULL_TYPE,
    IntervalType,
    Typed,
    cast,
    element_sql,
    tuple_sql,
)


def convert_to_supertype(value: Typed, target: DataType, zone: str = SERVER_ZONE) -> Fragment:
    """Returns the value as the DuckDB type of ``target``, a supertype of its own."""
    source, goal = strip_nullable(value.type), strip_nullable(target)
    if source == goal:
        return value.number
    if isinstance(source, NothingType):
        return cast("NULL", goal)
    if is_number(source) and is_number(goal):
        if isinstance(goal, BoolType):
            return value.condition
        return cast(value.number, goal)
    if source.is_composite and type(source) is type(goal):
        return _convert_composite(value, source, goal, zone)
    if isinstance(source, DateType) and isinstance(goal, DateTimeType):
        value = Typed(
            fragment(
                "(CASE WHEN {value} > DATE '2106-02-06' THEN DATE '2106-02-06' ELSE {value} END)", value=value.sql
            ),
            source,
        )
    return cast_to(value, target, zone)


def _convert_composite(value: Typed, source: DataType, goal: DataType, zone: str) -> Fragment:
    if duckdb_type(source) == duckdb_type(goal):
        return value.sql
    if isinstance(source, ArrayType) and isinstance(goal, ArrayType):
        if isinstance(strip_nullable(source.inner), NothingType) or is_number(source.inner):
            return cast(value.sql, goal)
        body = convert_to_supertype(Typed(fragment("x"), source.inner), goal.inner, zone)
        return fragment("list_transform({}, lambda x: {})", value.sql, body)
    if isinstance(source, TupleType) and isinstance(goal, TupleType):
        pairs = enumerate(zip(source.elements, goal.elements, strict=True), 1)
        parts = [
            convert_to_supertype(Typed(element_sql(value.sql, position), inner), wanted, zone)
            for position, ((_, inner), (_, wanted)) in pairs
        ]
        return tuple_sql(goal, parts)
    assert isinstance(source, MapType)
    assert isinstance(goal, MapType)
    return _convert_map(value, source, goal, lambda element, wanted: convert_to_supertype(element, wanted, zone))


def _convert_map(
    value: Typed, source: MapType, goal: MapType, converted: Callable[[Typed, DataType], Fragment]
) -> Fragment:
    if isinstance(source.key, NothingType):
        return cast("[]", goal)
    pairs = ((source.key, goal.key), (source.value, goal.value))
    if all(old == new or (is_number(old) and is_number(new)) for old, new in pairs):
        return cast(value.sql, goal)
    key, item = (
        converted(Typed(fragment(side), old), new) for side, (old, new) in zip(("x.key", "x.value"), pairs, strict=True)
    )
    entry = fragment("struct_pack(key := {}, value := {})", key, item)
    return fragment("list_transform({}, lambda x: {})", value.sql, entry)


def cast_to(value: Typed, target: DataType, zone: str = SERVER_ZONE) -> Fragment:
    """Compiles CAST(value AS target) for all pairs that ClickHouse converts. Raises ``UserError`` 48, 70."""
    source, goal = strip_nullable(value.type), strip_nullable(target)
    if source == goal:
        return value.number
    if isinstance(source, NothingType):
        return cast("NULL", goal)
    if isinstance(source, IntervalType):
        source = IntegerType(64, True)
    value = Typed(value.number, source, value.value, value.is_constant)
    if isinstance(goal, StringType):
        return to_text(value, zone)
    if isinstance(source, (StringType, FixedStringType)):
        return from_text(value, target, zone)
    sql = _cast_scalar(value, source, goal, zone)
    if sql is None and source.is_composite and type(source) is type(goal):
        sql = _cast_composite(value, source, goal, zone)
    if sql is None and isinstance(source, ArrayType) and isinstance(goal, MapType):
        sql = _pairs_to_map(value, source, goal, zone)
    if sql is None and isinstance(source, TupleType) and isinstance(goal, MapType):
        sql = bind_value(value.sql, "sides", lambda sides: _arrays_to_map(Typed(sides, source), source, goal, zone))
    if sql is None:
        raise UserError("CANNOT_CONVERT_TYPE", f"Conversion from {value.type} to {target} is not supported")
    return sql


def _cast_scalar(value: Typed, source: DataType, goal: DataType, zone: str) -> Fragment | None:
    own, other = scalar_of(goal), scalar_of(source)
    if own is None or other is None:
        return None
    sql = own.cast_from(value, source, goal, zone)
    return sql if sql is not None else other.cast_into(value, source, goal, zone)


def cast_checked(value: Typed, target: DataType, zone: str = SERVER_ZONE) -> Fragment:
    """Compiles CAST, with NULL for an invalid text in a Nullable type.

    A NULL in a type that is not Nullable is error 349.
    """
    source, goal = strip_nullable(value.type), strip_nullable(target)
    if target.is_nullable and isinstance(source, StringType) and is_null_if_misspelled(goal):
        return value_or_null(Typed(value.number, source), goal, zone)
    sql = cast_to(value, target, zone)
    if value.type.is_nullable and not target.is_nullable and not target.is_composite:
        failure = fragment("error('pando:349:Cannot convert NULL value to non-Nullable type')")
        return fragment("(CASE WHEN {} IS NULL THEN {} ELSE {} END)", value.sql, failure, sql)
    return sql


def _cast_composite(value: Typed, source: DataType, goal: DataType, zone: str) -> Fragment:
    if isinstance(source, ArrayType) and isinstance(goal, ArrayType):
        if isinstance(strip_nullable(source.inner), NothingType):
            return cast(value.sql, goal)
        if isinstance(source.inner, ArrayType) and isinstance(goal.inner, StringType):
            raise UserError("TYPE_MISMATCH", "CAST AS Array can only be performed between same-dimensional array types")
        return fragment(
            "list_transform({}, lambda x: {})",
            value.sql,
            cast_checked(Typed(fragment("x"), source.inner), goal.inner, zone),
        )
    if isinstance(source, TupleType) and isinstance(goal, TupleType) and len(source.elements) == len(goal.elements):
        pairs = enumerate(zip(source.elements, goal.elements, strict=True), 1)
        parts = [
            cast_to(Typed(element_sql(value.sql, position), inner), wanted, zone)
            for position, ((_, inner), (_, wanted)) in pairs
        ]
        return tuple_sql(goal, parts)
    if isinstance(source, MapType) and isinstance(goal, MapType):
        return _convert_map(value, source, goal, lambda element, wanted: cast_checked(element, wanted, zone))
    return cast(value.sql, goal)


def _pairs_to_map(value: Typed, source: ArrayType, goal: MapType, zone: str) -> Fragment | None:
    """Converts an array of pairs to a map; ``None`` for other arrays."""
    if isinstance(source.inner, NothingType):
        return cast("[]", goal)
    if not isinstance(source.inner, TupleType) or len(source.inner.elements) != 2:
        return None
    sides = zip(source.inner.elements, (goal.key, goal.value), strict=True)
    key, item = [
        cast_checked(Typed(element_sql("x", position), inner), wanted, zone)
        for position, ((_, inner), wanted) in enumerate(sides, 1)
    ]
    entry = fragment("struct_pack(key := {}, value := {})", key, item)
    return fragment("list_transform({}, lambda x: {})", value.sql, entry)


def _arrays_to_map(value: Typed, source: TupleType, goal: MapType, zone: str) -> Fragment:
    """Converts a tuple (array of keys, array of values) to a map. Raises ``UserError`` 53, 70."""
    arrays = [inner for _, inner in source.elements if isinstance(inner, ArrayType)]
    if len(source.elements) != 2 or len(arrays) != 2:
        raise UserError("TYPE_MISMATCH", f"CAST AS Map needs a tuple of two arrays, not {source}")
    if any(
        own.inner == NULL_TYPE and not to.is_nullable for own, to in zip(arrays, (goal.key, goal.value), strict=True)
    ):
        raise UserError("CANNOT_CONVERT_TYPE", "Cannot convert NULL to a non-nullable type")
    sides = [
        _cast_composite(Typed(element_sql(value.sql, position), inner), inner, ArrayType(wanted), zone)
        for position, (inner, wanted) in enumerate(zip(arrays, (goal.key, goal.value), strict=True), 1)
    ]
    entries = fragment("list_transform(list_zip({}, {}), lambda x: struct_pack(key := x[1], value := x[2]))", *sides)
    sizes = [fragment("len({})", element_sql(value.sql, position)) for position in (1, 2)]
    failure = "error('pando:53:CAST AS Map needs a tuple of arrays of equal sizes')"
    return fragment(f"(CASE WHEN {{}} <> {{}} THEN {failure} ELSE {{}} END)", *sizes, cast(entries, goal))


def with_source_zone(target: DataType, source: DataType) -> DataType:
    """Returns ``target`` with the source's time zone if it names none."""
    zone = getattr(source, "timezone", None)
    bare = strip_nullable(target)
    if zone is None or getattr(bare, "timezone", "") is not None:
        return target
    zoned = DateTimeType(zone) if isinstance(bare, DateTimeType) else DateTime64Type(bare.precision, zone)  # type: ignore[attr-defined]
    return make_nullable(zoned) if target.is_nullable else zoned


def parse_type_argument(value: Typed, function: str) -> DataType:
    """Parses the type that a function takes as a constant string. Raises ``UserError`` 43."""
    if not isinstance(value.value, str):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"{function}: the type must be a constant string")
    return parse_type(value.value)
