"""Dates and times in queries."""

from __future__ import annotations

import re
from typing import ClassVar

from parts.common.errors import UserError
from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
)
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.integer_conversions import wrap_integer
from sql.typing.scalars.scalar import (
    DayType,
    Scalar,
    TimeType,
    bits_of_ticks,
    counted,
    find_scalar,
    register,
    require_match,
)
from sql.typing.texts.instant_texts import instant_of_text, timestamp_ns_of_text
from sql.typing.texts.text_or_null import time_or_null
from sql.typing.texts.value_texts import (
    date_of_text,
    format_instant,
    parse_constant_day,
    truncate_second_digits,
)
from sql.typing.times.date_ranges import wrap_day, wrap_instant
from sql.typing.times.time_casts import day_to_instant, floor_to_second, instant_to_day, truncate_instant
from sql.typing.typed_expressions import FLOAT64, INT64, UINT32, Typed, cast

_DAY = r"\d{4}-\d{1,2}-\d{1,2}|\d{8}"
_INSTANT = r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}(:\d{1,2}){1,2}(\.\d*)?)?(Z|[+-]\d{2}:?\d{2})?|\d{4,}(\.\d*)?"


class DateScalar(Scalar[DayType]):
    """``Date`` and ``Date32``."""

    has_key_constants: ClassVar[bool] = True
    is_null_if_misspelled: ClassVar[bool] = True

    def from_text(self, value: Typed, sql: Fragment, type_: DayType, zone: str) -> Fragment:
        day = parse_constant_day(value, type_)
        return fragment("DATE '{}'", str(day)) if day is not None else date_of_text(sql, type_, fails=True)

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: DayType, zone: str, *, basic: bool) -> Fragment:
        return date_of_text(sql, type_, fails=False)

    def check_constant(self, text: str, type_: DayType) -> None:
        require_match(_DAY, text, type_, "TYPE_MISMATCH" if re.match(_DAY, text) else "CANNOT_PARSE_DATE")

    def to_integer(self, value: Typed, type_: DayType, goal: IntegerType) -> Fragment | None:
        return wrap_integer(fragment("({} - DATE '1970-01-01')", value.sql), INT64, goal)

    def to_real(self, value: Typed, type_: DayType, goal: FloatType | DecimalType) -> Fragment | None:
        _refuse_decimal(type_, goal)
        return cast(fragment("({} - DATE '1970-01-01')", value.sql), goal)

    def to_day(self, value: Typed, type_: DayType, goal: DayType, zone: str) -> Fragment | None:
        is_narrowed = isinstance(type_, Date32Type) and isinstance(goal, DateType)
        return wrap_day(fragment("{} - DATE '1970-01-01'", value.sql)) if is_narrowed else value.sql

    def to_instant(self, value: Typed, type_: DayType, goal: TimeType, zone: str) -> Fragment | None:
        return day_to_instant(value, type_, goal, zone)

    def cast_from(self, value: Typed, source: DataType, type_: DayType, zone: str) -> Fragment | None:
        scalar = find_scalar(source)
        return scalar.to_day(value, source, type_, zone) if scalar is not None else None


class DateTimeScalar(Scalar[DateTimeType]):
    """``DateTime``."""

    has_key_constants: ClassVar[bool] = True
    is_null_if_misspelled: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: DateTimeType, zone: str) -> Fragment:
        return format_instant(value, 0, zone)

    def from_text(self, value: Typed, sql: Fragment, type_: DateTimeType, zone: str) -> Fragment:
        return instant_of_text(sql, type_.timezone or zone, fine=False)

    def from_text_or_null(
        self, value: Typed, sql: Fragment, type_: DateTimeType, zone: str, *, basic: bool
    ) -> Fragment:
        return time_or_null(sql, type_, zone, basic=basic)

    def check_constant(self, text: str, type_: DateTimeType) -> None:
        require_match(_INSTANT, text, type_, "CANNOT_PARSE_DATETIME")

    def compared_number(self, value: Typed, type_: DateTimeType, beside: DataType) -> Typed | None:
        return None if isinstance(beside, DecimalType) else counted(self.to_integer(value, type_, UINT32), UINT32)

    def to_integer(self, value: Typed, type_: DateTimeType, goal: IntegerType) -> Fragment | None:
        return wrap_integer(fragment("(epoch_us({}) // 1000000)", value.sql), INT64, goal)

    def to_real(self, value: Typed, type_: DateTimeType, goal: FloatType | DecimalType) -> Fragment | None:
        _refuse_decimal(type_, goal)
        return cast(fragment("(epoch_us({}) // 1000000)", value.sql), goal)

    def to_day(self, value: Typed, type_: DateTimeType, goal: DayType, zone: str) -> Fragment | None:
        return instant_to_day(value, type_, goal, zone)

    def to_instant(self, value: Typed, type_: DateTimeType, goal: TimeType, zone: str) -> Fragment | None:
        if isinstance(goal, DateTimeType):
            return value.sql
        return truncate_instant(value.sql, type_, goal.precision, duckdb_type(goal))

    def cast_from(self, value: Typed, source: DataType, type_: DateTimeType, zone: str) -> Fragment | None:
        return _instant_of(value, source, type_, zone)


class DateTime64Scalar(Scalar[DateTime64Type]):
    """``DateTime64``."""

    has_key_constants: ClassVar[bool] = True
    is_null_if_misspelled: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: DateTime64Type, zone: str) -> Fragment:
        return format_instant(value, type_.precision, zone)

    def from_text(self, value: Typed, sql: Fragment, type_: DateTime64Type, zone: str) -> Fragment:
        instant = instant_of_text(sql, type_.timezone or zone, fine=True)
        if type_.precision > 6:
            return timestamp_ns_of_text(sql, instant)
        return truncate_second_digits(instant, type_.precision)

    def from_text_or_null(
        self, value: Typed, sql: Fragment, type_: DateTime64Type, zone: str, *, basic: bool
    ) -> Fragment:
        return time_or_null(sql, type_, zone, basic=basic)

    def check_constant(self, text: str, type_: DateTime64Type) -> None:
        require_match(_INSTANT, text, type_, "CANNOT_PARSE_DATETIME")

    def compared_number(self, value: Typed, type_: DateTime64Type, beside: DataType) -> Typed | None:
        seconds = FLOAT64 if isinstance(beside, FloatType) else DecimalType(38, type_.precision)
        return counted(self.to_real(value, type_, seconds), seconds)

    def memory_bits(self, value: Typed, type_: DateTime64Type) -> Fragment:
        unit, digits = ("us", 6) if type_.precision <= 6 else ("ns", 9)
        ticks = fragment("(epoch_{}({}) // {})", unit, value.sql, 10 ** (digits - type_.precision))
        return bits_of_ticks(ticks, type_)

    def to_integer(self, value: Typed, type_: DateTime64Type, goal: IntegerType) -> Fragment | None:
        seconds = fragment("epoch_us(CAST({} AS TIMESTAMP)) // 1000000", value.sql)
        return cast(fragment("pando_checked({}, {}, {})", seconds, goal.minimum, goal.maximum), goal)

    def to_real(self, value: Typed, type_: DateTime64Type, goal: FloatType | DecimalType) -> Fragment | None:
        return _instant_to_real(value.sql, type_, goal)

    def to_day(self, value: Typed, type_: DateTime64Type, goal: DayType, zone: str) -> Fragment | None:
        return instant_to_day(value, type_, goal, zone)

    def to_instant(self, value: Typed, type_: DateTime64Type, goal: TimeType, zone: str) -> Fragment | None:
        if isinstance(goal, DateTimeType):
            return wrap_instant(floor_to_second(value.sql, type_))
        return truncate_instant(value.sql, type_, goal.precision, duckdb_type(goal))

    def cast_from(self, value: Typed, source: DataType, type_: DateTime64Type, zone: str) -> Fragment | None:
        return _instant_of(value, source, type_, zone)


def _instant_of(value: Typed, source: DataType, goal: TimeType, zone: str) -> Fragment | None:
    scalar = find_scalar(source)
    return scalar.to_instant(value, source, goal, zone) if scalar is not None else None


def _refuse_decimal(source: DataType, goal: DataType) -> None:
    if isinstance(goal, DecimalType):
        raise UserError("ILLEGAL_COLUMN", f"Illegal column {source} of first argument of a conversion to {goal}")


def _instant_to_real(sql: Fragment, source: DateTime64Type, goal: FloatType | DecimalType) -> Fragment:
    """Returns seconds since the epoch; digits beyond a Decimal's scale are cut off."""
    digits = 9 if source.precision > 6 else 6
    ticks = fragment("epoch_{}({})", "ns" if digits == 9 else "us", sql)
    if isinstance(goal, FloatType):
        return cast(fragment("({} / 1e{})", ticks, digits), goal)
    unit = fragment("CAST({} AS DECIMAL({}, {}))", f"{10.0**-digits:.{digits}f}", digits + 1, digits)
    exact = fragment("CAST({} AS DECIMAL(19, 0)) * {}", ticks, unit)
    scale = goal.scale
    return cast(fragment("trunc({}, {})", exact, scale) if scale < digits else fragment("({})", exact), goal)


register(DateScalar(), DateType, Date32Type)
register(DateTimeScalar(), DateTimeType)
register(DateTime64Scalar(), DateTime64Type)
