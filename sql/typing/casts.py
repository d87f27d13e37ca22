"""Conversions between ClickHouse types, as DuckDB expressions.

``convert`` is the lossless conversion to a supertype; ``cast_to`` is CAST and the ``toT`` functions: integers wrap
around when narrowed, floats are truncated, text is parsed strictly, instants go through the zone of their type.
"""

from __future__ import annotations

from parts.errors import UserError
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
from sql.typing.inference import is_date_or_time, is_number
from sql.typing.integers import to_integer, wrap_integer
from sql.typing.mapping import engine_type
from sql.typing.ranges import wrapped_day, wrapped_seconds
from sql.typing.text_or_null import SPELLED, text_or_null
from sql.typing.texts import from_text, to_text
from sql.typing.times import to_date, to_instant
from sql.typing.typed import STRING, UINT32, IntervalType, Typed, cast, quoted, text
from sql.typing.zones import SERVER_ZONE

_EPOCH = "TIMESTAMP '1970-01-01'"


def convert(value: Typed, target: DataType, zone: str = SERVER_ZONE) -> str:
    """The value's text as the engine type of ``target``, its supertype."""
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
            f"(CASE WHEN {value.sql} > DATE '2106-02-06' THEN DATE '2106-02-06' ELSE {value.sql} END)", source
        )
    return cast_to(value, target, zone)


def _convert_composite(value: Typed, source: DataType, goal: DataType, zone: str) -> str:
    if engine_type(source) == engine_type(goal):
        return value.sql
    if isinstance(source, ArrayType) and isinstance(goal, ArrayType):
        if isinstance(strip_nullable(source.inner), NothingType) or is_number(source.inner):
            return cast(value.sql, goal)
        body = convert(Typed("x", source.inner), goal.inner, zone)
        return f"list_transform({value.sql}, lambda x: {body})"
    if isinstance(source, TupleType) and isinstance(goal, TupleType):
        parts = []
        for position, ((name, inner), (new, wanted)) in enumerate(zip(source.elements, goal.elements, strict=True), 1):
            field = Typed(f"struct_extract({value.sql}, {text(name or str(position))})", inner)
            parts.append(f"{quoted(new or str(position))} := {convert(field, wanted, zone)}")
        return f"struct_pack({', '.join(parts)})"
    return cast(value.sql, goal)


def cast_to(value: Typed, target: DataType, zone: str = SERVER_ZONE) -> str:
    """The text of CAST(value AS target), for any pair ClickHouse converts. Raises ``UserError`` 70 or 48 otherwise."""
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
    if sql is None:
        raise UserError("CANNOT_CONVERT_TYPE", f"Conversion from {value.type} to {target} is not supported")
    return sql


def cast_checked(value: Typed, target: DataType, zone: str = SERVER_ZONE) -> str:
    """As :func:`cast_to`; a wrong text is NULL in a Nullable type, a NULL is error 349 in one that is not."""
    source, goal = strip_nullable(value.type), strip_nullable(target)
    if target.is_nullable and isinstance(source, StringType) and isinstance(goal, SPELLED):
        return text_or_null(Typed(value.number, source), goal, zone)
    sql = cast_to(value, target, zone)
    if value.type.is_nullable and not target.is_nullable and not isinstance(target, (ArrayType, MapType, TupleType)):
        failure = "error('pando:349:Cannot convert NULL value to non-Nullable type')"
        return f"(CASE WHEN {value.sql} IS NULL THEN {failure} ELSE {sql} END)"
    return sql


def _cast_composite(value: Typed, source: DataType, goal: DataType, zone: str) -> str:
    if isinstance(source, ArrayType) and isinstance(goal, ArrayType):
        if isinstance(strip_nullable(source.inner), NothingType):
            return cast(value.sql, goal)
        if isinstance(source.inner, ArrayType) and isinstance(goal.inner, StringType):
            raise UserError("TYPE_MISMATCH", "CAST AS Array can only be performed between same-dimensional array types")
        return f"list_transform({value.sql}, lambda x: {cast_checked(Typed('x', source.inner), goal.inner, zone)})"
    if isinstance(source, TupleType) and isinstance(goal, TupleType) and len(source.elements) == len(goal.elements):
        parts = []
        for position, ((name, inner), (new, wanted)) in enumerate(zip(source.elements, goal.elements, strict=True), 1):
            field = Typed(f"struct_extract({value.sql}, {text(name or str(position))})", inner)
            parts.append(f"{quoted(new or str(position))} := {cast_to(field, wanted, zone)}")
        return f"struct_pack({', '.join(parts)})"
    return cast(value.sql, goal)


def _cast_scalar(value: Typed, source: DataType, goal: DataType, zone: str) -> str | None:
    if isinstance(goal, BoolType) and (is_number(source) or isinstance(source, (EnumType, IPv4Type))):
        return f"({value.sql} <> 0)"
    if isinstance(goal, BoolType) and isinstance(source, (UUIDType, IPv6Type)):
        return f"({value.sql} <> unhex(repeat('00', 16)))"
    if isinstance(goal, BoolType) and isinstance(source, (DateType, Date32Type)):
        return f"({value.sql} <> DATE '1970-01-01')"
    if isinstance(goal, BoolType) and isinstance(source, (DateTimeType, DateTime64Type)):
        return f"({value.sql} <> {cast(_EPOCH, source)})"
    if isinstance(goal, IntegerType):
        return to_integer(value, source, goal)
    if isinstance(goal, (FloatType, DecimalType)):
        return _to_real(value, source, goal)
    if isinstance(source, EnumType) and isinstance(goal, (DateType, Date32Type, DateTimeType)):
        number = f"CAST({value.sql} AS BIGINT)"
        return wrapped_seconds(number) if isinstance(goal, DateTimeType) else _day_of_number(number, goal)
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
        return f"unhex('00000000000000000000FFFF' || lpad(to_hex({value.sql}), 8, '0'))"
    return None


def _day_of_number(number: str, goal: DataType) -> str:
    return wrapped_day(number) if isinstance(goal, DateType) else f"(DATE '1970-01-01' + CAST({number} AS INTEGER))"


def _to_enum(value: Typed, source: DataType, goal: EnumType) -> str | None:
    if isinstance(source, EnumType):
        names = dict(source.values)
        numbers = {names[name]: number for name, number in goal.values if name in names}
        arms = " ".join(f"WHEN {old} THEN {new}" for old, new in numbers.items())
        return cast(f"CASE {value.sql} {arms} ELSE error('pando:691:Unknown element of {_plain(goal.name)}') END", goal)
    if not isinstance(source, IntegerType):
        return None
    known = " ".join(f"WHEN {number} THEN {number}" for _, number in goal.values)
    failure = f"error('pando:691:Unexpected value ' || {value.sql} || ' in enum')"
    return cast(f"CASE {value.sql} {known} ELSE CASE WHEN {value.sql} IS NOT NULL THEN {failure} END END", goal)


def _plain(name: str) -> str:
    return name.replace("'", "''")


def _to_real(value: Typed, source: DataType, goal: DataType) -> str | None:
    if isinstance(source, FloatType) and isinstance(goal, DecimalType):
        return _decimal_of_float(value.sql, source, goal)
    if isinstance(source, DecimalType) and isinstance(goal, DecimalType) and source.scale > goal.scale:
        return cast(f"trunc({value.sql}, {goal.scale})", goal)
    if goal == FloatType(32) and source == FloatType(64):
        return f"pando_narrow_float({value.sql})"
    if is_number(source) or (isinstance(source, EnumType) and isinstance(goal, FloatType)):
        return cast(value.sql, goal)
    if isinstance(source, DateTime64Type):
        return _real_of_instant(value.sql, source, goal)
    if is_date_or_time(source) and isinstance(goal, DecimalType):
        raise UserError("ILLEGAL_COLUMN", f"Illegal column {source} of first argument of a conversion to {goal}")
    if isinstance(source, (DateType, Date32Type)):
        return cast(f"({value.sql} - DATE '1970-01-01')", goal)
    return cast(f"(epoch_us({value.sql}) // 1000000)", goal) if isinstance(source, DateTimeType) else None


def _real_of_instant(sql: str, source: DateTime64Type, goal: DataType) -> str:
    """Seconds since the epoch; digits behind a decimal's scale are cut off."""
    digits = 9 if source.precision > 6 else 6
    ticks = f"epoch_{'ns' if digits == 9 else 'us'}({sql})"
    if isinstance(goal, FloatType):
        return cast(f"({ticks} / 1e{digits})", goal)
    unit = f"CAST({10.0**-digits:.{digits}f} AS DECIMAL({digits + 1}, {digits}))"
    exact = f"CAST({ticks} AS DECIMAL(19, 0)) * {unit}"
    scale = goal.scale  # type: ignore[attr-defined]
    return cast(f"trunc({exact}, {scale})" if scale < digits else f"({exact})", goal)


def _decimal_of_float(sql: str, source: FloatType, goal: DecimalType) -> str:
    """Digits behind the scale are cut off."""
    scale = goal.scale
    units = f"trunc({sql} * CAST({10**scale} AS {engine_type(source)}))"
    if scale > 15:
        return cast(f"CAST({units} AS DECIMAL(38, 0)) / {10**scale}", goal)
    unit = f"CAST({10.0**-scale:.{scale}f} AS DECIMAL(16, {scale}))"
    return cast(f"(CAST({units} AS DECIMAL(22, 0)) * {unit})", goal)


def zoned_as(target: DataType, source: DataType) -> DataType:
    """A target that names no zone keeps the source's."""
    zone = getattr(source, "timezone", None)
    bare = strip_nullable(target)
    if zone is None or getattr(bare, "timezone", "") is not None:
        return target
    zoned = DateTimeType(zone) if isinstance(bare, DateTimeType) else DateTime64Type(bare.precision, zone)  # type: ignore[attr-defined]
    return make_nullable(zoned) if target.is_nullable else zoned


def type_argument(value: Typed, function: str) -> DataType:
    """The type a function takes as a constant string."""
    if not isinstance(value.value, str):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"{function}: the type must be a constant string")
    return parse_type(value.value)
