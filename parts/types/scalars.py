"""Types of single values: numbers, strings, times, addresses, enums."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parts.types.data_type import DataType


@dataclass(frozen=True)
class IntegerType(DataType):
    """``Int8`` to ``Int64`` and ``UInt8`` to ``UInt64``."""

    bits: int
    signed: bool

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'U'}Int{self.bits}"

    @property
    def arrow(self) -> pa.DataType:
        return pa.type_for_alias(f"{'' if self.signed else 'u'}int{self.bits}")

    @property
    def minimum(self) -> int:
        """The smallest value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """The largest value."""
        return (1 << (self.bits - 1 if self.signed else self.bits)) - 1


@dataclass(frozen=True)
class FloatType(DataType):
    """``Float32`` or ``Float64``."""

    bits: int

    @property
    def name(self) -> str:
        return f"Float{self.bits}"

    @property
    def arrow(self) -> pa.DataType:
        return pa.float32() if self.bits == 32 else pa.float64()

    @property
    def default(self) -> object:
        return 0.0


@dataclass(frozen=True)
class BoolType(DataType):
    """``Bool``."""

    @property
    def name(self) -> str:
        return "Bool"

    @property
    def arrow(self) -> pa.DataType:
        return pa.bool_()

    @property
    def default(self) -> object:
        return False


@dataclass(frozen=True)
class DecimalType(DataType):
    """``Decimal(precision, scale)``, stored in 16 bytes."""

    precision: int
    scale: int

    @property
    def name(self) -> str:
        return f"Decimal({self.precision}, {self.scale})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True)
class StringType(DataType):
    """``String``: valid UTF-8."""

    @property
    def name(self) -> str:
        return "String"

    @property
    def arrow(self) -> pa.DataType:
        return pa.string()

    @property
    def default(self) -> object:
        return ""


@dataclass(frozen=True)
class FixedStringType(DataType):
    """``FixedString(length)``: bytes, padded with zeros."""

    length: int

    @property
    def name(self) -> str:
        return f"FixedString({self.length})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary(self.length)

    @property
    def default(self) -> object:
        return bytes(self.length)


@dataclass(frozen=True)
class DateType(DataType):
    """Days from 1970-01-01 to 2149-06-06."""

    @property
    def name(self) -> str:
        return "Date"

    @property
    def arrow(self) -> pa.DataType:
        return pa.date32()


@dataclass(frozen=True)
class Date32Type(DataType):
    """Days from 1900-01-01 to 2299-12-31."""

    @property
    def name(self) -> str:
        return "Date32"

    @property
    def arrow(self) -> pa.DataType:
        return pa.date32()


@dataclass(frozen=True)
class DateTimeType(DataType):
    """Seconds since the epoch, 32 bits unsigned. ``timezone`` only affects reading and writing text."""

    timezone: str | None = None

    @property
    def name(self) -> str:
        return f"DateTime({_quote(self.timezone)})" if self.timezone else "DateTime"

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("s")


@dataclass(frozen=True)
class DateTime64Type(DataType):
    """Instants with ``precision`` (0–9) decimal digits of a second."""

    precision: int
    timezone: str | None = None

    @property
    def name(self) -> str:
        zone = f", {_quote(self.timezone)}" if self.timezone else ""
        return f"DateTime64({self.precision}{zone})"

    @property
    def unit(self) -> str:
        """Arrow's unit: the coarsest that holds ``precision`` digits."""
        return ("s", "ms", "us", "ns")[(self.precision + 2) // 3]

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp(self.unit)


@dataclass(frozen=True)
class UUIDType(DataType):
    """``UUID``: 16 bytes in network byte order."""

    @property
    def name(self) -> str:
        return "UUID"

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary(16)

    @property
    def default(self) -> object:
        return bytes(16)


@dataclass(frozen=True)
class IPv4Type(DataType):
    """``IPv4``, stored as an unsigned integer."""

    @property
    def name(self) -> str:
        return "IPv4"

    @property
    def arrow(self) -> pa.DataType:
        return pa.uint32()


@dataclass(frozen=True)
class IPv6Type(DataType):
    """``IPv6``: 16 bytes in network byte order."""

    @property
    def name(self) -> str:
        return "IPv6"

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary(16)

    @property
    def default(self) -> object:
        return bytes(16)


@dataclass(frozen=True)
class EnumType(DataType):
    """An enum. ``values`` are (name, number) pairs sorted by number, both unique."""

    bits: int
    values: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        pairs = ", ".join(f"{_quote(name)} = {number}" for name, number in self.values)
        return f"Enum{self.bits}({pairs})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.int8() if self.bits == 8 else pa.int16()

    @property
    def default(self) -> object:
        return self.values[0][1]


@dataclass(frozen=True)
class NothingType(DataType):
    """The type of ``NULL`` and of the elements of ``[]``. No column has it."""

    @property
    def name(self) -> str:
        return "Nothing"

    @property
    def arrow(self) -> pa.DataType:
        return pa.null()

    @property
    def default(self) -> object:
        return None


def _quote(text: str | None) -> str:
    escaped = (text or "").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
