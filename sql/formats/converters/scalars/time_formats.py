"""Dates and times in formats."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from sql.formats.converters import time_parsing
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.converters.scalars.number_formats import BARE_NUMBER, number_to_decimal
from sql.formats.converters.scalars.scalar_format import (
    ScalarFormat,
    array_of_bytes,
    checked_cast,
    find_format,
    mismatch_error,
    register,
    stored_bytes,
)
from sql.formats.converters.time_parsing import UNIT_DIGITS, truncate_fraction, wall_clocks_to_utc
from sql.formats.converters.value_checks import check_range, describe_value
from sql.formats.converters.wall_clocks import to_wall_clock
from sql.formats.format_options import BadValueError, FormatOptions, range_error

_INT32 = (-(1 << 31), (1 << 31) - 1)
_LAST_SECOND = (1 << 32) - 1
_UNITS = ("s", "ms", "us", "ns")
D = TypeVar("D", bound=DateType | Date32Type)
M = TypeVar("M", DateTimeType, DateTime64Type)


class DateFormat(ScalarFormat[D]):
    """``Date`` and ``Date32``: days."""

    is_right_aligned: ClassVar[bool] = True
    refuses_blanks: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: D, options: FormatOptions) -> pa.Array:
        return time_parsing.parse_dates(texts, type_, options)

    def check(self, array: pa.Array, type_: D) -> pa.Array:
        check_range(pc.cast(array, pa.int32()), *type_.days, array, type_)
        return array

    def from_file(self, array: pa.Array, type_: D, options: FormatOptions) -> pa.Array:
        days = pc.cast(array, pa.int32()) if pa.types.is_integer(array.type) else array
        return super().from_file(days, type_, options)

    def to_number(self, array: pa.Array, type_: D) -> tuple[pa.Array, DataType] | None:
        return pc.cast(array, pa.int32()), IntegerType(32, True)

    def cast_from(self, array: pa.Array, source: DataType, type_: D, options: FormatOptions) -> pa.Array:
        if isinstance(source, (DateTimeType, DateTime64Type)):
            zone = source.timezone or options.timezone
            clock = array if zone == "UTC" else to_wall_clock(array, zone)
            return self.check(pc.cast(clock, pa.date32(), safe=False), type_)
        if isinstance(source, (DateType, Date32Type)):
            return self.check(array, type_)
        if isinstance(source, IntegerType):
            return self.check(pc.cast(_number_to_days(array), pa.date32()), type_)
        raise mismatch_error(source, type_)


class NarrowDateFormat(DateFormat[DateType]):
    """``Date``: in bytes 16 bits."""

    def to_bytes(self, array: pa.Array, type_: DateType) -> np.ndarray:
        return stored_bytes(array).view("<i4").astype("<u2").view(np.uint8).reshape(len(array), 2)

    def from_bytes(self, raw: np.ndarray, type_: DateType) -> pa.Array:
        days = np.ascontiguousarray(raw).reshape(-1).view("<u2").astype("<i4")
        return self.check(array_of_bytes(days.view(np.uint8).reshape(len(raw), 4), type_), type_)


class InstantFormat(ScalarFormat[M]):
    """The conversions that DateTime and DateTime64 share."""

    may_be_json_number: ClassVar[bool] = True
    is_right_aligned: ClassVar[bool] = True
    bare_literal: ClassVar[str | None] = BARE_NUMBER

    def parse(self, texts: pa.Array, type_: M, options: FormatOptions) -> pa.Array:
        return time_parsing.parse_datetimes(texts, type_, options)

    def render(self, array: pa.Array, type_: M, options: FormatOptions) -> pa.Array:
        zone = type_.timezone or options.timezone
        return pc.cast(array if zone == "UTC" else to_wall_clock(array, zone), pa.string())

    def file_type(self, type_: M) -> pa.DataType:
        return pa.timestamp(type_.arrow.unit, type_.timezone or "UTC")

    def to_file(self, array: pa.Array, type_: M) -> pa.Array:
        return pc.cast(pc.cast(array, pa.int64()), self.file_type(type_))

    def from_file(self, array: pa.Array, type_: M, options: FormatOptions) -> pa.Array:
        kind = array.type
        if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
            return self.check(pc.cast(pc.cast(array, pa.int64()), type_.arrow), type_)
        naive = pc.cast(array, pa.timestamp(kind.unit)) if pa.types.is_timestamp(kind) else array
        if pa.types.is_timestamp(kind) and kind.tz:
            naive = pc.cast(pc.cast(array, pa.int64()), pa.timestamp(kind.unit))
        result = in_unit(naive, type_)
        if pa.types.is_date(kind):
            result = wall_clocks_to_utc(result, type_.timezone or options.timezone)
        return self.cut(result, type_)

    def cut(self, times: pa.Array, type_: M) -> pa.Array:
        """Returns times of the type's unit as values of the type."""
        raise NotImplementedError

    def cast_from(self, array: pa.Array, source: DataType, type_: M, options: FormatOptions) -> pa.Array:
        if isinstance(source, (DateType, Date32Type)):
            midnight = wall_clocks_to_utc(in_unit(array, type_), type_.timezone or options.timezone)
            return self.check(midnight, type_)
        if isinstance(source, (DateTimeType, DateTime64Type)):
            return self.of_instant(array, type_)
        if isinstance(source, (IntegerType, FloatType, DecimalType)):
            return self.of_number(array, source, type_, options)
        raise mismatch_error(source, type_)

    def of_instant(self, array: pa.Array, type_: M) -> pa.Array:
        """Casts times of any unit."""
        raise NotImplementedError

    def of_number(self, array: pa.Array, source: DataType, type_: M, options: FormatOptions) -> pa.Array:
        """Casts seconds since the epoch."""
        raise NotImplementedError


class DateTimeFormat(InstantFormat[DateTimeType]):
    """``DateTime``: in bytes 32 bits."""

    def to_bytes(self, array: pa.Array, type_: DateTimeType) -> np.ndarray:
        return stored_bytes(array).view("<i8").astype("<u4").view(np.uint8).reshape(len(array), 4)

    def from_bytes(self, raw: np.ndarray, type_: DateTimeType) -> pa.Array:
        seconds = np.ascontiguousarray(raw).reshape(-1).view("<u4").astype("<i8")
        return self.check(array_of_bytes(seconds.view(np.uint8).reshape(len(raw), 8), type_), type_)

    def check(self, array: pa.Array, type_: DateTimeType) -> pa.Array:
        check_range(pc.cast(array, pa.int64()), 0, _LAST_SECOND, array, type_)
        return array

    def cut(self, times: pa.Array, type_: DateTimeType) -> pa.Array:
        return self.check(times, type_)

    def to_number(self, array: pa.Array, type_: DateTimeType) -> tuple[pa.Array, DataType] | None:
        return pc.cast(array, pa.int64()), IntegerType(64, True)

    def of_instant(self, array: pa.Array, type_: DateTimeType) -> pa.Array:
        return self.check(pc.cast(pc.floor_temporal(array, unit="second"), type_.arrow), type_)

    def of_number(self, array: pa.Array, source: DataType, type_: DateTimeType, options: FormatOptions) -> pa.Array:
        seconds = IntegerType(64, True)
        integers = find_format(seconds)
        assert integers is not None
        return self.check(pc.cast(integers.cast_from(array, source, seconds, options), type_.arrow), type_)


class DateTime64Format(InstantFormat[DateTime64Type]):
    """``DateTime64``: in bytes 64 bits, ticks of the type's precision."""

    def render(self, array: pa.Array, type_: DateTime64Type, options: FormatOptions) -> pa.Array:
        length = 19 if type_.precision == 0 else 20 + type_.precision
        return pc.utf8_slice_codeunits(super().render(array, type_, options), 0, length)

    def to_bytes(self, array: pa.Array, type_: DateTime64Type) -> np.ndarray:
        raw, factor = stored_bytes(array), _factor(type_)
        return ((raw.view("<i8") // factor).view(np.uint8) if factor > 1 else raw).reshape(len(array), 8)

    def from_bytes(self, raw: np.ndarray, type_: DateTime64Type) -> pa.Array:
        ticks = _ticks(np.ascontiguousarray(raw).reshape(-1).view("<i8"), type_)
        return array_of_bytes(ticks.view(np.uint8).reshape(len(raw), 8), type_)

    def cut(self, times: pa.Array, type_: DateTime64Type) -> pa.Array:
        return truncate_fraction(times, type_)

    def to_number(self, array: pa.Array, type_: DateTime64Type) -> tuple[pa.Array, DataType] | None:
        whole = pc.cast(pc.floor_temporal(array, unit="second"), pa.timestamp("s"))
        return pc.cast(whole, pa.int64()), IntegerType(64, True)

    def of_instant(self, array: pa.Array, type_: DateTime64Type) -> pa.Array:
        return truncate_fraction(in_unit(array, type_), type_)

    def of_number(self, array: pa.Array, source: DataType, type_: DateTime64Type, options: FormatOptions) -> pa.Array:
        exact = number_to_decimal(array, source, DecimalType(38, UNIT_DIGITS[type_.unit]))
        ticks = pa.Array.from_buffers(pa.decimal128(38, 0), len(exact), exact.buffers(), offset=exact.offset)
        return truncate_fraction(pc.cast(checked_cast(ticks, IntegerType(64, True)), type_.arrow), type_)


def _number_to_days(array: pa.Array) -> pa.Array:
    """Returns numbers as days; one beyond the last day is seconds since the epoch, as in ClickHouse."""
    if pa.types.is_uint64(array.type):
        array = pc.min_element_wise(array, pa.scalar((1 << 63) - 1, pa.uint64()), skip_nulls=False)
    days = pc.cast(array, pa.int64())
    seconds = pc.cast(pc.floor(pc.divide(days, 86400)), pa.int64())
    days = pc.if_else(pc.greater(days, 65535), seconds, days)
    least, most = (pa.scalar(bound, pa.int64()) for bound in _INT32)
    days = pc.min_element_wise(pc.max_element_wise(days, least, skip_nulls=False), most, skip_nulls=False)
    return pc.cast(days, pa.int32())


def in_unit(times: pa.Array, type_: DateTimeType | DateTime64Type) -> pa.Array:
    """Returns dates or times in the type's unit; digits beyond it are cut.

    Raises ``BadValueError`` (407) for a time beyond what 64 bits of that unit reach: 2262 for nanoseconds.
    """
    kind = times.type
    is_cut = pa.types.is_timestamp(kind) and _UNITS.index(kind.unit) > _UNITS.index(type_.arrow.unit)
    try:
        return pc.cast(times, type_.arrow, safe=not is_cut)
    except pa.ArrowInvalid:
        index = first_invalid_row(times, type_.arrow)
        text = describe_value(times, index)
        raise BadValueError("DECIMAL_OVERFLOW", index, text, f"{text} is out of range of {type_}") from None


def _factor(type_: DateTime64Type) -> int:
    return int(10 ** (UNIT_DIGITS[type_.unit] - type_.precision))


def _ticks(values: np.ndarray, type_: DateTime64Type) -> np.ndarray:
    factor = _factor(type_)
    if factor == 1:
        return values
    limit = np.iinfo(np.int64).max // factor
    outside = (values > limit) | (values < -limit)
    if outside.any():
        index = int(outside.argmax())
        raise range_error(index, str(values[index]), type_)
    return values * factor


register(NarrowDateFormat(), DateType)
register(DateFormat[Date32Type](), Date32Type)
register(DateTimeFormat(), DateTimeType)
register(DateTime64Format(), DateTime64Type)
