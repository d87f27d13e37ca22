"""Dates and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from zoneinfo import ZoneInfo

import pyarrow as pa

from parts.common.errors import UserError
from parts.types.data_type import DataType, PrecisionColumns
from parts.types.scalar_type import (
    ScalarType,
    decimal_field,
    quote_argument,
    register_parser,
    register_plain,
)
from parts.types.type_cursor import TypeCursor

_TICK_DIGITS = 18


@dataclass(frozen=True)
class DateType(ScalarType):
    """Days from 1970-01-01 to 2149-06-06."""

    days: ClassVar[tuple[int, int]] = (0, 65_535)
    """The first and the last day, counted from 1970-01-01."""
    is_partition_number: ClassVar[bool] = True
    is_signed_in_partitions: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "Date"

    @property
    def arrow(self) -> pa.DataType:
        return pa.date32()

    @property
    def memory_width_bytes(self) -> int:
        return 2

    @property
    def precision_columns(self) -> PrecisionColumns:
        return None, None, None, None, 0

    def partition_text(self, value: pa.Scalar) -> str:
        return str(value.as_py().strftime("%Y%m%d"))


@dataclass(frozen=True)
class Date32Type(ScalarType):
    """Days from 1900-01-01 to 2299-12-31."""

    days: ClassVar[tuple[int, int]] = (-25_567, 120_529)
    """The first and the last day, counted from 1970-01-01."""
    is_partition_number: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "Date32"

    @property
    def arrow(self) -> pa.DataType:
        return pa.date32()

    @property
    def omitted_value(self) -> object:
        return self.days[0]


@dataclass(frozen=True)
class DateTimeType(ScalarType):
    """Seconds since the epoch, 32 bits unsigned. ``timezone`` only affects reading and writing text."""

    is_partition_number: ClassVar[bool] = True
    is_signed_in_partitions: ClassVar[bool] = False

    timezone: str | None = None

    @property
    def name(self) -> str:
        return f"DateTime({quote_argument(self.timezone)})" if self.timezone else "DateTime"

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("s")

    @property
    def memory_width_bytes(self) -> int:
        return 4

    @property
    def precision_columns(self) -> PrecisionColumns:
        return None, None, None, None, 0


@dataclass(frozen=True)
class DateTime64Type(ScalarType):
    """Instants with ``precision`` (0–9) decimal digits of a second."""

    precision: int
    timezone: str | None = None

    @property
    def name(self) -> str:
        zone = f", {quote_argument(self.timezone)}" if self.timezone else ""
        return f"DateTime64({self.precision}{zone})"

    @property
    def unit(self) -> str:
        """Arrow's unit: the coarsest that holds ``precision`` digits."""
        return ("s", "ms", "us", "ns")[(self.precision + 2) // 3]

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp(self.unit)

    @property
    def precision_columns(self) -> PrecisionColumns:
        return None, None, None, None, self.precision

    def partition_field(self, value: pa.Scalar) -> bytes:
        return decimal_field(int(value.value) // 10 ** (-self.precision % 3), _TICK_DIGITS)


def _parse_datetime(cursor: TypeCursor, name: str) -> DataType:
    """Parses the arguments of DateTime. ``DateTime(2)`` is ``DateTime64(2)``."""
    zone = None
    if cursor.accept("(") and not cursor.accept(")"):
        if (cursor.peek() or ("",))[0] == "number":
            return _datetime_of_precision(cursor, name)
        zone = cursor.string()
        cursor.expect(")")
    return DateTimeType(check_timezone(zone))


def _datetime_of_precision(cursor: TypeCursor, name: str) -> DataType:
    if name == "DateTime32":
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"The argument of {cursor.text} must be a time zone")
    precision = cursor.integer()
    zone = check_timezone(cursor.string()) if cursor.accept(",") else None
    cursor.expect(")")
    _check_precision(cursor, precision)
    return DateTime64Type(precision, zone) if precision else DateTimeType(zone)


def _parse_datetime64(cursor: TypeCursor, _: str) -> DataType:
    precision, zone = 3, None
    if cursor.accept("(") and not cursor.accept(")"):
        precision = cursor.integer()
        zone = cursor.string() if cursor.accept(",") else None
        cursor.expect(")")
    _check_precision(cursor, precision)
    return DateTime64Type(precision, check_timezone(zone))


def _check_precision(cursor: TypeCursor, precision: int) -> None:
    if not 0 <= precision <= 9:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong precision {precision} of {cursor.text}: must be 0 to 9")


def check_timezone(zone: str | None) -> str | None:
    """Returns the zone, or raises 36 (BAD_ARGUMENTS) if it does not exist."""
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise UserError("BAD_ARGUMENTS", f"Cannot load time zone {zone!r}: no such zone") from None
    return zone


register_plain(DateType(), Date32Type())
register_parser(_parse_datetime, "DateTime", "DateTime32")
register_parser(_parse_datetime64, "DateTime64")
