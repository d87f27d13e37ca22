"""Strings, enums and addresses, and the type of NULL."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from parts.common.errors import UserError
from parts.types.data_type import DataType, PrecisionColumns
from parts.types.scalar_type import ScalarType, quote_argument, register_parser, register_plain
from parts.types.type_cursor import TypeCursor

_UUID_KIND = 4


@dataclass(frozen=True)
class StringType(ScalarType):
    """``String``: valid UTF-8."""

    @property
    def name(self) -> str:
        return "String"

    @property
    def arrow(self) -> pa.DataType:
        return pa.string()

    @property
    def memory_width_bytes(self) -> None:
        return None

    @property
    def default(self) -> object:
        return ""


@dataclass(frozen=True)
class FixedStringType(ScalarType):
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

    @property
    def precision_columns(self) -> PrecisionColumns:
        return self.length, None, None, None, None


@dataclass(frozen=True)
class UUIDType(ScalarType):
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

    def partition_field(self, value: pa.Scalar) -> bytes:
        high, low = struct.unpack(">QQ", value.as_py())
        return struct.pack("<BQQ", _UUID_KIND, high, low)


@dataclass(frozen=True)
class IPv4Type(ScalarType):
    """``IPv4``, stored as an unsigned integer."""

    is_partition_number: ClassVar[bool] = True
    is_signed_in_partitions: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "IPv4"

    @property
    def arrow(self) -> pa.DataType:
        return pa.uint32()


@dataclass(frozen=True)
class IPv6Type(ScalarType):
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
class EnumType(ScalarType):
    """An enum. ``values`` are (name, number) pairs sorted by number, both unique."""

    may_be_low_cardinality: ClassVar[bool] = False
    is_partition_number: ClassVar[bool] = True

    bits: int
    values: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        pairs = ", ".join(f"{quote_argument(name)} = {number}" for name, number in self.values)
        return f"Enum{self.bits}({pairs})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.int8() if self.bits == 8 else pa.int16()

    @property
    def default(self) -> object:
        return self.values[0][1]


@dataclass(frozen=True)
class NothingType(ScalarType):
    """The type of ``NULL`` and of the elements of ``[]``. No column has it."""

    @property
    def name(self) -> str:
        return "Nothing"

    @property
    def arrow(self) -> pa.DataType:
        return pa.null()

    @property
    def memory_width_bytes(self) -> int:
        return 1

    @property
    def default(self) -> object:
        return None


def _parse_fixed_string(cursor: TypeCursor, _: str) -> DataType:
    length = cursor.integer_argument()
    if not 1 <= length <= 0xFFFFFF:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"FixedString({length}): the size must be 1 to 16777215")
    return FixedStringType(length)


def _parse_enum(cursor: TypeCursor, name: str) -> DataType:
    """Parses the values of an Enum. Raises 36 for duplicates, 69 for numbers that do not fit."""
    pairs: list[tuple[str, int]] = []
    cursor.expect("(")
    while True:
        label = cursor.string()
        number = cursor.integer() if cursor.accept("=") else (pairs[-1][1] + 1 if pairs else 1)
        pairs.append((label, number))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    if len({p[0] for p in pairs}) < len(pairs) or len({p[1] for p in pairs}) < len(pairs):
        raise UserError("BAD_ARGUMENTS", f"Names and numbers of {cursor.text} must each be unique")
    fits_8 = all(-128 <= number <= 127 for _, number in pairs)
    bits = 16 if name == "Enum16" or (name == "Enum" and not fits_8) else 8
    if (bits == 8 and not fits_8) or not all(-32768 <= number <= 32767 for _, number in pairs):
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"A number of {cursor.text} does not fit {bits} bits")
    return EnumType(bits, tuple(sorted(pairs, key=lambda pair: pair[1])))


register_plain(StringType(), UUIDType(), IPv4Type(), IPv6Type(), NothingType())
register_parser(_parse_fixed_string, "FixedString")
register_parser(_parse_enum, "Enum", "Enum8", "Enum16")
