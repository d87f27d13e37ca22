"""The base of the types of single values, and the registry of their names.

What a class does not say follows from the Arrow type in which its values are stored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from parts.types.data_type import DataType
from parts.types.type_cursor import TypeCursor

_UNSIGNED, _SIGNED, _FLOAT, _STRING = 1, 2, 3, 16
_WORD = (1 << 64) - 1

PLAIN_TYPES: dict[str, DataType] = {}
"""Types whose names take no arguments, by these names."""
TYPE_PARSERS: dict[str, Callable[[TypeCursor, str], DataType]] = {}
"""Parsers of the arguments of the other types, by the types' names. They get the name too."""


def register_plain(*types: DataType) -> None:
    """Enters types whose names take no arguments."""
    PLAIN_TYPES.update({type_.name: type_ for type_ in types})


def register_parser(parse: Callable[[TypeCursor, str], DataType], *names: str) -> None:
    """Enters the parser of what may follow these names."""
    TYPE_PARSERS.update(dict.fromkeys(names, parse))


@dataclass(frozen=True)
class ScalarType(DataType):
    """Base of the types of single values."""

    is_signed_in_partitions: ClassVar[bool] = True
    """Whether the hash of a partition takes the number for a signed one."""

    @property
    def memory_width_bytes(self) -> int | None:
        return int(self.arrow.bit_width) // 8

    @property
    def codec_width_bytes(self) -> int | None:
        arrow = self.arrow
        if pa.types.is_decimal(arrow):
            return 8
        if pa.types.is_boolean(arrow):
            return 1
        return arrow.bit_width // 8 if pa.types.is_primitive(arrow) else None

    def partition_text(self, value: pa.Scalar) -> str:
        return str(stored_number(value))

    def partition_field(self, value: pa.Scalar) -> bytes:
        kind = value.type
        if pa.types.is_floating(kind):
            return struct.pack("<Bd", _FLOAT, value.as_py())
        if pa.types.is_primitive(kind):
            sign = _SIGNED if self.is_signed_in_partitions else _UNSIGNED
            return struct.pack("<BQ", sign, stored_number(value) & _WORD)
        if pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind):
            text = value.as_buffer().to_pybytes()
            return struct.pack("<BQ", _STRING, len(text)) + text
        return super().partition_field(value)


def stored_number(value: pa.Scalar) -> int:
    """Returns the number in which a value is stored."""
    return int(value.value if isinstance(value, (pa.Date32Scalar, pa.TimestampScalar)) else value.as_py())


def decimal_field(value: int, precision: int) -> bytes:
    """Returns the field of a decimal for the hash of a partition, of its unscaled value."""
    kind, size = (19, 4) if precision <= 9 else (20, 8) if precision <= 18 else (21, 16)
    return bytes([kind]) + value.to_bytes(size, "little", signed=True)


def quote_argument(text: str) -> str:
    """Quotes a string in the name of a type."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
