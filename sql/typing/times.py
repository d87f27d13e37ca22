"""Conversions to dates and times, as DuckDB expressions: instants go through the zone of their type."""

from __future__ import annotations

from parts.errors import UserError
from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
)
from sql.typing.inference import is_date_or_time
from sql.typing.mapping import engine_type
from sql.typing.ranges import clamped_date, clamped_seconds, wrapped_day, wrapped_instant
from sql.typing.typed import Typed
from sql.typing.zones import epoch_offset, from_zone, local_time, to_zone


def to_date(value: Typed, source: DataType, goal: DataType, zone: str) -> str | None:
    if is_date_or_time(source):
        return _day_of_time(value, source, goal, zone)
    if isinstance(source, BoolType):
        return f"(DATE '1970-01-01' + CAST({value.sql} AS INTEGER))"
    if not isinstance(source, (IntegerType, FloatType)):
        return None
    number = value.sql
    if isinstance(goal, DateType):
        number = f"pando_known({number})" if isinstance(source, FloatType) else number
        seconds = to_zone(f"make_timestamp({clamped_seconds(number)} * 1000000)", zone)
        day = f"DATE '1970-01-01' + CAST({clamped_seconds(number)} AS INTEGER)"
        return f"(CASE WHEN {number} <= 65535 THEN {day} ELSE CAST({seconds} AS DATE) END)"
    if isinstance(source, IntegerType) and source.bits <= 16:
        return f"(DATE '1970-01-01' + CAST({value.sql} AS INTEGER))"
    seconds = to_zone(f"make_timestamp(pando_clamped_moment({number}) * 1000000)", zone)
    day = f"DATE '1970-01-01' + CAST(pando_clamped_moment({number}) AS INTEGER)"
    first = f"{number} < -719528" + (f" OR isnan({number})" if isinstance(source, FloatType) else "")
    return f"(CASE WHEN {first} THEN DATE '0000-01-01' WHEN {number} < 2932897 THEN {day} " + (
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


def to_instant(value: Typed, source: DataType, goal: DataType, zone: str) -> str | None:
    target_zone = goal.timezone or zone  # type: ignore[attr-defined]
    engine = engine_type(goal)
    narrow = isinstance(goal, DateTimeType)
    if isinstance(source, (DateType, Date32Type)):
        midnight = _midnight(value, source, target_zone)
        return wrapped_instant(midnight) if narrow else f"CAST({midnight} AS {engine})"
    if isinstance(source, (DateTimeType, DateTime64Type)):
        if narrow:
            return value.sql if isinstance(source, DateTimeType) else wrapped_instant(floored_second(value.sql, source))
        return truncated_instant(value.sql, source, goal.precision, engine)  # type: ignore[attr-defined]
    if isinstance(source, BoolType):
        return f"CAST(make_timestamp(CAST({value.sql} AS BIGINT) * 1000000) AS {engine})"
    if narrow and isinstance(source, DecimalType):
        raise UserError("ILLEGAL_COLUMN", f"Illegal column {source} of first argument of function toDateTime")
    if isinstance(source, (IntegerType, FloatType)) and narrow:
        number = f"pando_known({value.sql})" if isinstance(source, FloatType) else value.sql
        return f"make_timestamp({clamped_seconds(number)} * 1000000)"
    if isinstance(source, IntegerType):
        fraction = 1000000 - 10 ** max(0, 6 - goal.precision)  # type: ignore[attr-defined]
        wide = source.bits == 64
        micros = f"pando_moment({value.sql}, {fraction})" if wide else f"CAST({value.sql} AS BIGINT) * 1000000"
        return f"CAST(make_timestamp({micros}) AS {engine})"
    if isinstance(source, (FloatType, DecimalType)):
        return _fractional_instant(value.sql, source, goal, engine)
    return None


def _midnight(value: Typed, source: DataType, zone: str) -> str:
    """The epoch's first day begins before it in the zones of the east: ClickHouse takes the next one."""
    day = value.sql
    if isinstance(source, DateType) and epoch_offset(zone) > 0:
        day = f"({day} + CAST({day} = DATE '1970-01-01' AS INTEGER))"
    return from_zone(f"CAST({day} AS TIMESTAMP)", zone)


def floored_second(sql: str, source: DateTime64Type) -> str:
    return f"date_trunc('second', {sql})" if source.precision else sql


def _fractional_instant(sql: str, source: DataType, goal: DataType, engine: str) -> str:
    precision = goal.precision if isinstance(goal, DateTime64Type) else 0
    unit = 10 ** max(0, 6 - precision)
    if isinstance(source, FloatType) and precision > 6:
        return (
            f"pando_float_nanoseconds({sql}, CAST({10**precision} AS {engine_type(source)}), {10 ** (9 - precision)})"
        )
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
    if have <= precision:
        return sql if engine == engine_type(source) else f"CAST({sql} AS {engine})"
    if precision > 6:
        step = 10 ** (9 - precision)
        return f"make_timestamp_ns(epoch_ns({sql}) // {step} * {step})"
    micros = f"epoch_ns({sql}) // 1000" if have > 6 else f"epoch_us({sql})"
    step = 10 ** (6 - precision)
    return f"CAST(make_timestamp({micros} // {step} * {step}) AS {engine})"
