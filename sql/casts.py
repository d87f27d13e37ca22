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
    parse_type,
    strip_nullable,
)
from sql.ranges import clamped_date, clamped_seconds, wrapped_day, wrapped_instant
from sql.text_conversion import from_text, to_text
from sql.type_inference import is_date_or_time, is_number
from sql.type_mapping import engine_type
from sql.typed import IntervalType, Typed, cast, quoted, text

SERVER_ZONE = "UTC"
_EPOCH = "TIMESTAMP '1970-01-01'"


def local_time(value: Typed, zone: str) -> str:
    """A TIMESTAMP that shows the wall clock of the value's zone (``zone`` when its type names none)."""
    type_ = strip_nullable(value.type)
    if isinstance(type_, (DateType, Date32Type)):
        return f"CAST({value.sql} AS TIMESTAMP)"
    name = type_.timezone or zone  # type: ignore[attr-defined]
    return to_zone(value.sql, name)


def to_zone(sql: str, zone: str) -> str:
    """From a UTC instant to the wall clock of ``zone``."""
    if zone in ("UTC", "Etc/UTC", "GMT"):
        return sql
    return f"timezone({text(zone)}, timezone('UTC', CAST({sql} AS TIMESTAMP)))"


def from_zone(sql: str, zone: str) -> str:
    """From the wall clock of ``zone`` to the UTC instant."""
    if zone in ("UTC", "Etc/UTC", "GMT"):
        return sql
    return f"timezone('UTC', timezone({text(zone)}, CAST({sql} AS TIMESTAMP)))"


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


def _cast_composite(value: Typed, source: DataType, goal: DataType, zone: str) -> str:
    if isinstance(source, ArrayType) and isinstance(goal, ArrayType):
        if isinstance(strip_nullable(source.inner), NothingType):
            return cast(value.sql, goal)
        return f"list_transform({value.sql}, lambda x: {cast_to(Typed('x', source.inner), goal.inner, zone)})"
    if isinstance(source, TupleType) and isinstance(goal, TupleType) and len(source.elements) == len(goal.elements):
        parts = []
        for position, ((name, inner), (new, wanted)) in enumerate(zip(source.elements, goal.elements, strict=True), 1):
            field = Typed(f"struct_extract({value.sql}, {text(name or str(position))})", inner)
            parts.append(f"{quoted(new or str(position))} := {cast_to(field, wanted, zone)}")
        return f"struct_pack({', '.join(parts)})"
    return cast(value.sql, goal)


def _cast_scalar(value: Typed, source: DataType, goal: DataType, zone: str) -> str | None:
    if isinstance(goal, BoolType) and is_number(source):
        return f"({value.sql} <> 0)"
    if isinstance(goal, BoolType) and isinstance(source, (DateType, Date32Type)):
        return f"({value.sql} <> DATE '1970-01-01')"
    if isinstance(goal, BoolType) and isinstance(source, (DateTimeType, DateTime64Type)):
        return f"({value.sql} <> {cast(_EPOCH, source)})"
    if isinstance(goal, IntegerType):
        return _to_integer(value, source, goal, zone)
    if isinstance(goal, (FloatType, DecimalType)):
        return _to_real(value, source, goal)
    if isinstance(goal, (DateType, Date32Type)):
        return _to_date(value, source, goal, zone)
    if isinstance(goal, (DateTimeType, DateTime64Type)):
        return _to_instant(value, source, goal, zone)
    if isinstance(goal, EnumType):
        return _to_enum(value, source, goal)
    if isinstance(goal, IPv4Type) and isinstance(source, IntegerType):
        return cast(value.sql, goal)
    if isinstance(goal, IPv6Type) and isinstance(source, IPv4Type):
        return f"unhex('00000000000000000000FFFF' || lpad(to_hex({value.sql}), 8, '0'))"
    return None


def _to_enum(value: Typed, source: DataType, goal: EnumType) -> str | None:
    if isinstance(source, EnumType):
        names = dict(source.values)
        numbers = {names[name]: number for name, number in goal.values if name in names}
        arms = " ".join(f"WHEN {old} THEN {new}" for old, new in numbers.items())
        return cast(f"CASE {value.sql} {arms} ELSE error('pando:691:Unknown element of {_plain(goal.name)}') END", goal)
    return cast(value.sql, goal) if isinstance(source, IntegerType) else None


def _plain(name: str) -> str:
    return name.replace("'", "''")


# Integers -------------------------------------------------------------------------------------------------------------


def wrap_integer(sql: str, source: IntegerType, goal: IntegerType) -> str:
    """Two's complement: the low bits of the value."""
    if source.minimum >= goal.minimum and source.maximum <= goal.maximum:
        return sql if source == goal else cast(sql, goal)
    if goal.bits == 64:
        return wrap_64(sql, goal)
    mask = (1 << goal.bits) - 1
    low = f"({sql} & {mask})" if source.bits > goal.bits else f"(CAST({sql} AS BIGINT) & {mask})"
    if source.bits == 64 and not source.signed:
        low = f"CAST({low} AS BIGINT)"
    if goal.signed:
        half = 1 << (goal.bits - 1)
        low = f"(xor(CAST({low} AS BIGINT), {half}) - {half})"
    return cast(low, goal)


def wrap_64(sql: str, goal: IntegerType) -> str:
    """The low 64 bits of a HUGEINT (or narrower) value as BIGINT or UBIGINT."""
    return f"pando_low_{'signed' if goal.signed else 'unsigned'}(CAST({sql} AS HUGEINT))"


def _to_integer(value: Typed, source: DataType, goal: IntegerType, zone: str) -> str | None:
    wide = IntegerType(64, True)
    match source:
        case IntegerType():
            if value.is_literal and isinstance(value.value, int) and goal.minimum <= value.value <= goal.maximum:
                return cast(str(value.value), goal)
            return wrap_integer(value.sql, source, goal)
        case BoolType():
            return cast(value.sql, goal)
        case FloatType():
            return _integer_of_float(value.sql, goal)
        case DecimalType(_, scale):
            return cast(f"trunc({value.sql})" if scale else value.sql, goal)
        case DateType() | Date32Type():
            return wrap_integer(f"({value.sql} - DATE '1970-01-01')", wide, goal)
        case DateTimeType():
            return wrap_integer(f"(epoch_us({value.sql}) // 1000000)", wide, goal)
        case DateTime64Type():
            seconds = f"epoch_us(CAST({value.sql} AS TIMESTAMP)) // 1000000"
            return cast(f"pando_checked({seconds}, {goal.minimum}, {goal.maximum})", goal)
        case EnumType(bits):
            return wrap_integer(value.sql, IntegerType(bits, True), goal)
        case IPv4Type():
            return wrap_integer(value.sql, IntegerType(32, False), goal)
    return None


def _integer_of_float(sql: str, goal: IntegerType) -> str:
    if goal.bits == 64:
        return f"pando_float_64({sql})" if goal.signed else f"pando_float_unsigned_64({sql})"
    if goal.bits == 32 and not goal.signed:
        return wrap_integer(f"pando_float_64({sql})", IntegerType(64, True), goal)
    return wrap_integer(f"pando_float_32({sql})", IntegerType(32, True), goal)


def _to_real(value: Typed, source: DataType, goal: DataType) -> str | None:
    if isinstance(source, FloatType) and isinstance(goal, DecimalType):
        return _decimal_of_float(value.sql, source, goal)
    if isinstance(source, DecimalType) and isinstance(goal, DecimalType) and source.scale > goal.scale:
        return cast(f"trunc({value.sql}, {goal.scale})", goal)
    if goal == FloatType(32) and source == FloatType(64):
        return f"pando_narrow_float({value.sql})"
    if is_number(source) or isinstance(source, EnumType):
        return cast(value.sql, goal)
    if isinstance(source, (DateType, Date32Type)):
        return cast(f"({value.sql} - DATE '1970-01-01')", goal)
    if is_date_or_time(source):
        return cast(f"(epoch_us({value.sql}) / 1000000.0)", goal)
    return None


def _decimal_of_float(sql: str, source: FloatType, goal: DecimalType) -> str:
    """Digits behind the scale are cut off."""
    scale = goal.scale
    units = f"trunc({sql} * CAST({10**scale} AS {engine_type(source)}))"
    if scale > 15:
        return cast(f"CAST({units} AS DECIMAL(38, 0)) / {10**scale}", goal)
    unit = f"CAST({10.0**-scale:.{scale}f} AS DECIMAL(16, {scale}))"
    return cast(f"(CAST({units} AS DECIMAL(22, 0)) * {unit})", goal)


# Dates ----------------------------------------------------------------------------------------------------------------


def _to_date(value: Typed, source: DataType, goal: DataType, zone: str) -> str | None:
    if is_date_or_time(source):
        return _day_of_time(value, source, goal, zone)
    if isinstance(source, BoolType):
        return f"(DATE '1970-01-01' + CAST({value.sql} AS INTEGER))"
    if not isinstance(source, (IntegerType, FloatType)):
        return None
    number = f"pando_known({value.sql})" if isinstance(source, FloatType) else value.sql
    if isinstance(goal, DateType):
        seconds = to_zone(f"make_timestamp({clamped_seconds(number)} * 1000000)", zone)
        day = f"DATE '1970-01-01' + CAST({clamped_seconds(number)} AS INTEGER)"
        return f"(CASE WHEN {number} <= 65535 THEN {day} ELSE CAST({seconds} AS DATE) END)"
    if isinstance(source, IntegerType) and source.bits <= 16:
        return f"(DATE '1970-01-01' + CAST({value.sql} AS INTEGER))"
    seconds = to_zone(f"make_timestamp(pando_clamped_moment({number}) * 1000000)", zone)
    day = f"DATE '1970-01-01' + CAST(pando_clamped_moment({number}) AS INTEGER)"
    return f"(CASE WHEN {number} < -719528 THEN DATE '0000-01-01' WHEN {number} < 2932897 THEN {day} " + (
        f"ELSE CAST({seconds} AS DATE) END)"
    )


def _day_of_time(value: Typed, source: DataType, goal: DataType, zone: str) -> str:
    if isinstance(source, (DateType, Date32Type)):
        is_narrowed = isinstance(source, Date32Type) and isinstance(goal, DateType)
        return wrapped_day(f"{value.sql} - DATE '1970-01-01'") if is_narrowed else value.sql
    day = f"CAST({local_time(value, zone)} AS DATE)"
    if isinstance(goal, Date32Type):
        return day
    if isinstance(source, DateTime64Type):
        return wrapped_day(f"{day} - DATE '1970-01-01'")
    return day if day == f"CAST({value.sql} AS DATE)" else clamped_date(day)


def _to_instant(value: Typed, source: DataType, goal: DataType, zone: str) -> str | None:
    target_zone = goal.timezone or zone  # type: ignore[attr-defined]
    engine = engine_type(goal)
    narrow = isinstance(goal, DateTimeType)
    if isinstance(source, (DateType, Date32Type)):
        midnight = from_zone(f"CAST({value.sql} AS TIMESTAMP)", target_zone)
        return wrapped_instant(midnight) if narrow else f"CAST({midnight} AS {engine})"
    if isinstance(source, (DateTimeType, DateTime64Type)):
        if narrow:
            return value.sql if isinstance(source, DateTimeType) else wrapped_instant(floored_second(value.sql, source))
        return truncated_instant(value.sql, source, goal.precision, engine)  # type: ignore[attr-defined]
    if isinstance(source, (IntegerType, FloatType, BoolType)) and narrow:
        number = f"pando_known({value.sql})" if isinstance(source, FloatType) else value.sql
        return f"make_timestamp({clamped_seconds(number)} * 1000000)"
    if isinstance(source, IntegerType):
        seconds = f"CAST({value.sql} AS BIGINT)" if source.bits < 64 else f"pando_clamped_moment({value.sql})"
        return f"CAST(make_timestamp({seconds} * 1000000) AS {engine})"
    if isinstance(source, (FloatType, DecimalType)):
        return _fractional_instant(value.sql, source, goal, engine)
    return None


def floored_second(sql: str, source: DateTime64Type) -> str:
    return f"date_trunc('second', {sql})" if source.precision else sql


def _fractional_instant(sql: str, source: DataType, goal: DataType, engine: str) -> str:
    precision = goal.precision if isinstance(goal, DateTime64Type) else 0
    unit = 10 ** max(0, 6 - precision)
    if isinstance(source, FloatType):
        micros = f"pando_clamped_units({sql}, {1000000 // unit}, {unit})"
    else:
        micros = (
            f"CAST(trunc(CAST({sql} AS DECIMAL(38, {min(source.scale, 6)})) * {1000000 // unit}) AS BIGINT) * {unit}"  # type: ignore[attr-defined]
        )
    return f"CAST(make_timestamp({micros}) AS {engine})"


def truncated_instant(sql: str, source: DataType, precision: int, engine: str) -> str:
    """An instant with at most ``precision`` digits of a second."""
    have = source.precision if isinstance(source, DateTime64Type) else 0
    if have > precision:
        unit = {0: "second", 3: "millisecond", 6: "microsecond"}.get(precision)
        if unit is None:
            step = 10 ** (6 - precision)
            return f"CAST(make_timestamp(epoch_us({sql}) // {step} * {step}) AS {engine})"
        return f"CAST(date_trunc('{unit}', {sql}) AS {engine})"
    return sql if engine == engine_type(source) else f"CAST({sql} AS {engine})"


def type_argument(value: Typed, function: str) -> DataType:
    """The type a function takes as a constant string."""
    if not isinstance(value.value, str):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"{function}: the type must be a constant string")
    return parse_type(value.value)
