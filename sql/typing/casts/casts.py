"""Conversions between ClickHouse types, as DuckDB expressions.

``convert_to_supertype`` converts without loss to a supertype. ``cast_to`` is CAST and the ``toT`` functions: narrowed
integers wrap around, floats are truncated, texts are parsed strictly, instants go through the zone of their type.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    MapType,
    NothingType,
    StringType,
    TupleType,
    UUIDType,
    make_nullable,
    parse_type,
    strip_nullable,
)
from sql.typing.casts.time_casts import to_date, to_instant
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.integer_conversions import to_integer, wrap_integer
from sql.typing.result_types import is_date_or_time, is_number
from sql.typing.texts.address_columns import ipv6_of_ipv4
from sql.typing.texts.text_or_null import SPELLED, value_or_null
from sql.typing.texts.value_texts import from_text, to_text
from sql.typing.times.date_ranges import wrap_day, wrap_seconds
from sql.typing.times.time_zones import SERVER_ZONE
from sql.typing.typed_expressions import (
    NULL_TYPE,
    STRING,
    UINT32,
    IntervalType,
    Typed,
    cast,
    element_sql,
    tuple_sql,
)

_EPOCH = "TIMESTAMP '1970-01-01'"


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
    if isinstance(source, (ArrayType, TupleType, MapType)) and type(source) is type(goal):
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
    if isinstance(goal, FixedStringType) and isinstance(source, (BoolType, EnumType)):
        value, source = Typed(to_text(value, zone), STRING), STRING
    if isinstance(goal, StringType):
        return to_text(value, zone)
    if isinstance(source, (StringType, FixedStringType)):
        return from_text(value, target, zone)
    sql = _cast_scalar(value, source, goal, zone)
    if sql is None and isinstance(source, (ArrayType, TupleType, MapType)) and type(source) is type(goal):
        sql = _cast_composite(value, source, goal, zone)
    if sql is None and isinstance(source, ArrayType) and isinstance(goal, MapType):
        sql = _pairs_to_map(value, source, goal, zone)
    if sql is None and isinstance(source, TupleType) and isinstance(goal, MapType):
        sql = bind_value(value.sql, "sides", lambda sides: _arrays_to_map(Typed(sides, source), source, goal, zone))
    if sql is None:
        raise UserError("CANNOT_CONVERT_TYPE", f"Conversion from {value.type} to {target} is not supported")
    return sql


def cast_checked(value: Typed, target: DataType, zone: str = SERVER_ZONE) -> Fragment:
    """Compiles CAST, with NULL for an invalid text in a Nullable type.

    A NULL in a type that is not Nullable is error 349.
    """
    source, goal = strip_nullable(value.type), strip_nullable(target)
    if target.is_nullable and isinstance(source, StringType) and isinstance(goal, SPELLED):
        return value_or_null(Typed(value.number, source), goal, zone)
    sql = cast_to(value, target, zone)
    if value.type.is_nullable and not target.is_nullable and not isinstance(target, (ArrayType, MapType, TupleType)):
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


def _cast_scalar(value: Typed, source: DataType, goal: DataType, zone: str) -> Fragment | None:
    """Compiles the cast of a value that is no string or composite; ``None`` if there is none."""
    if isinstance(goal, BoolType) and (is_number(source) or isinstance(source, (EnumType, IPv4Type))):
        return fragment("({} <> 0)", value.sql)
    if isinstance(goal, BoolType) and isinstance(source, (UUIDType, IPv6Type)):
        return fragment("({} <> unhex(repeat('00', 16)))", value.sql)
    if isinstance(goal, BoolType) and isinstance(source, (DateType, Date32Type)):
        return fragment("({} <> DATE '1970-01-01')", value.sql)
    if isinstance(goal, BoolType) and isinstance(source, (DateTimeType, DateTime64Type)):
        return fragment("({} <> {})", value.sql, cast(_EPOCH, source))
    if isinstance(goal, IntegerType):
        return to_integer(value, source, goal)
    if isinstance(goal, (FloatType, DecimalType)):
        return _to_real(value, source, goal)
    if isinstance(source, EnumType) and isinstance(goal, (DateType, Date32Type, DateTimeType)):
        number = fragment("CAST({} AS BIGINT)", value.sql)
        return wrap_seconds(number) if isinstance(goal, DateTimeType) else _number_to_day(number, goal)
    if isinstance(goal, (DateType, Date32Type)):
        return to_date(value, source, goal, zone)
    if isinstance(goal, (DateTimeType, DateTime64Type)):
        return to_instant(value, source, goal, zone)
    if isinstance(goal, EnumType):
        return _to_enum(value, source, goal)
    if isinstance(goal, IPv4Type) and isinstance(source, BoolType):
        return cast(value.sql, goal)
    if isinstance(goal, IPv4Type) and isinstance(source, IntegerType) and not source.signed:
        return wrap_integer(value.sql, source, UINT32)
    if isinstance(goal, IPv6Type) and isinstance(source, IPv4Type):
        spelled = fragment("unhex('00000000000000000000FFFF' || lpad(to_hex({}), 8, '0'))", value.sql)
        return Scannable(spelled, value.sql, ipv6_of_ipv4, pa.binary())
    return None


def _number_to_day(number: Fragment, goal: DataType) -> Fragment:
    return (
        wrap_day(number)
        if isinstance(goal, DateType)
        else fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", number)
    )


def _to_enum(value: Typed, source: DataType, goal: EnumType) -> Fragment | None:
    if isinstance(source, EnumType):
        names = dict(source.values)
        numbers = {names[name]: number for name, number in goal.values if name in names}
        arms = join_fragments(" ", [fragment("WHEN {} THEN {}", old, new) for old, new in numbers.items()])
        return cast(
            fragment(
                "CASE {} {} ELSE error('pando:691:Unknown element of {}') END",
                value.sql,
                arms,
                _escape_quotes(goal.name),
            ),
            goal,
        )
    if not isinstance(source, (IntegerType, FloatType, BoolType)):
        return None
    return bind_value(value.number, "number", lambda number: _number_to_enum(number, source, goal))


def _number_to_enum(sql: Fragment, source: DataType, goal: EnumType) -> Fragment:
    """Converts a number to an Enum; a float loses its fraction, NaN is 0."""
    number = sql if isinstance(source, IntegerType) else fragment("CAST({} AS INTEGER)", sql)
    if isinstance(source, FloatType):
        number = fragment("(CASE WHEN isnan({0}) THEN 0 ELSE TRY_CAST(trunc({0}) AS INTEGER) END)", sql)
    known = join_fragments(" ", [fragment("WHEN {number} THEN {number}", number=number) for _, number in goal.values])
    limit = 1 << (goal.bits - 1)
    within = fragment(f"({{0}} BETWEEN {-limit} AND {limit - 1} OR isnan(CAST({{0}} AS DOUBLE)))", sql)
    return cast(
        fragment(
            "CASE WHEN NOT {within} THEN error('pando:70:Value ' || {sql} || ' cannot be converted to enum type') "
            "ELSE CASE {number} {known} ELSE CASE WHEN {sql} IS NOT NULL "
            "THEN error('pando:691:Unexpected value ' || {sql} || ' in enum') END END END",
            within=within, sql=sql, number=number, known=known,
        ),
        goal,
    )  # fmt: skip


def _escape_quotes(name: str) -> str:
    return name.replace("'", "''")


def _to_real(value: Typed, source: DataType, goal: DataType) -> Fragment | None:
    """Casts to a float or Decimal; ``None`` if there is no such cast. Raises ``UserError`` 44."""
    if isinstance(source, FloatType) and isinstance(goal, DecimalType):
        return _float_to_decimal(value.sql, source, goal)
    if isinstance(source, DecimalType) and isinstance(goal, DecimalType) and source.scale > goal.scale:
        return cast(fragment("trunc({}, {})", value.sql, goal.scale), goal)
    if goal == FloatType(32) and source == FloatType(64):
        return fragment("pando_narrow_float({})", value.sql)
    if is_number(source) or (isinstance(source, EnumType) and isinstance(goal, FloatType)):
        return cast(value.sql, goal)
    if isinstance(source, DateTime64Type):
        return _instant_to_real(value.sql, source, goal)
    if is_date_or_time(source) and isinstance(goal, DecimalType):
        raise UserError("ILLEGAL_COLUMN", f"Illegal column {source} of first argument of a conversion to {goal}")
    if isinstance(source, (DateType, Date32Type)):
        return cast(fragment("({} - DATE '1970-01-01')", value.sql), goal)
    return cast(fragment("(epoch_us({}) // 1000000)", value.sql), goal) if isinstance(source, DateTimeType) else None


def _instant_to_real(sql: Fragment, source: DateTime64Type, goal: DataType) -> Fragment:
    """Returns seconds since the epoch; digits beyond a Decimal's scale are cut off."""
    digits = 9 if source.precision > 6 else 6
    ticks = fragment("epoch_{}({})", "ns" if digits == 9 else "us", sql)
    if isinstance(goal, FloatType):
        return cast(fragment("({} / 1e{})", ticks, digits), goal)
    unit = fragment("CAST({} AS DECIMAL({}, {}))", f"{10.0**-digits:.{digits}f}", digits + 1, digits)
    exact = fragment("CAST({} AS DECIMAL(19, 0)) * {}", ticks, unit)
    scale = goal.scale  # type: ignore[attr-defined]
    return cast(fragment("trunc({}, {})", exact, scale) if scale < digits else fragment("({})", exact), goal)


def _float_to_decimal(sql: Fragment, source: FloatType, goal: DecimalType) -> Fragment:
    """Converts a float to a Decimal; digits beyond the scale are cut off."""
    scale = goal.scale
    units = fragment("trunc({} * CAST({} AS {}))", sql, 10**scale, duckdb_type(source))
    if scale > 15:
        return cast(fragment("CAST({} AS DECIMAL(38, 0)) / {}", units, 10**scale), goal)
    unit = fragment("CAST({} AS DECIMAL(16, {}))", f"{10.0**-scale:.{scale}f}", scale)
    return cast(fragment("(CAST({} AS DECIMAL(22, 0)) * {})", units, unit), goal)


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
