"""Numbers: integers, floats, Bool, Decimal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from parts.common.errors import UserError
from parts.types.data_type import DataType, PrecisionColumns
from parts.types.scalar_type import ScalarType, decimal_field, register_parser, register_plain
from parts.types.type_cursor import TypeCursor

_DECIMAL_WIDTHS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38}


@dataclass(frozen=True)
class IntegerType(ScalarType):
    """``Int8`` to ``Int64`` and ``UInt8`` to ``UInt64``."""

    is_partition_number: ClassVar[bool] = True

    bits: int
    signed: bool

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'U'}Int{self.bits}"

    @property
    def arrow(self) -> pa.DataType:
        return pa.type_for_alias(f"{'' if self.signed else 'u'}int{self.bits}")

    @property
    def is_signed_in_partitions(self) -> bool:  # type: ignore[override]
        return self.signed

    @property
    def precision_columns(self) -> PrecisionColumns:
        return None, self.bits, 2, 0, None

    @property
    def minimum(self) -> int:
        """The smallest value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """The largest value."""
        return (1 << (self.bits - 1 if self.signed else self.bits)) - 1


@dataclass(frozen=True)
class FloatType(ScalarType):
    """``Float32`` or ``Float64``."""

    may_be_map_key: ClassVar[bool] = False

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
class BoolType(ScalarType):
    """``Bool``."""

    may_be_low_cardinality: ClassVar[bool] = False
    is_partition_number: ClassVar[bool] = True
    is_signed_in_partitions: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "Bool"

    @property
    def arrow(self) -> pa.DataType:
        return pa.bool_()

    @property
    def default(self) -> object:
        return False

    @property
    def memory_width_bytes(self) -> int:
        return 1

    @property
    def precision_columns(self) -> PrecisionColumns:
        return None, 8, 2, 0, None


@dataclass(frozen=True)
class DecimalType(ScalarType):
    """``Decimal(precision, scale)``, stored in 16 bytes."""

    may_be_low_cardinality: ClassVar[bool] = False

    precision: int
    scale: int

    @property
    def name(self) -> str:
        return f"Decimal({self.precision}, {self.scale})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    @property
    def memory_width_bytes(self) -> int:
        return 4 if self.precision <= 9 else 8 if self.precision <= 18 else 16

    @property
    def precision_columns(self) -> PrecisionColumns:
        return None, self.precision, 10, self.scale, None

    def partition_field(self, value: pa.Scalar) -> bytes:
        return decimal_field(int(value.as_py().scaleb(self.scale)), self.precision)


def _parse_decimal(cursor: TypeCursor, name: str) -> DataType:
    """Parses the arguments of a Decimal. Raises 69 for a wrong precision or scale."""
    if name in _DECIMAL_WIDTHS:
        precision, scale = _DECIMAL_WIDTHS[name], cursor.integer_argument()
    else:
        precision, scale = 10, 0
        if cursor.accept("(") and not cursor.accept(")"):
            precision = cursor.integer()
            scale = cursor.integer() if cursor.accept(",") else 0
            cursor.expect(")")
    if not 1 <= precision <= 76:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong precision {precision} of {cursor.text}: must be 1 to 76")
    if precision > 38:
        raise UserError("NOT_IMPLEMENTED", f"{cursor.text}: decimals of more than 38 digits are not supported")
    if not 0 <= scale <= precision:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong scale {scale} of {cursor.text}: must be 0 to {precision}")
    return DecimalType(precision, scale)


register_plain(*(IntegerType(bits, signed) for signed in (False, True) for bits in (8, 16, 32, 64)))
register_plain(FloatType(32), FloatType(64), BoolType())
register_parser(_parse_decimal, "Decimal", *_DECIMAL_WIDTHS)
