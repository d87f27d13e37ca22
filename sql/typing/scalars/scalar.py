"""The base of the objects that say how a scalar type behaves in queries, and their registry.

All methods return DuckDB expressions. ``value`` is never a condition, ``type_`` is the type of the object without
Nullable, and ``zone`` the time zone of types that name none. A ``None`` means that there is no such conversion.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

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
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.integer_conversions import wrap_integer
from sql.typing.typed_expressions import INT64, STRING, UINT64, Typed, cast

DayType = DateType | Date32Type
TimeType = DateTimeType | DateTime64Type
T = TypeVar("T", bound=DataType)
_LONGEST_VALUE = 1000


class Scalar(Generic[T]):
    """The behaviour of one type in queries. What it does not say follows from the type's storage."""

    is_null_if_misspelled: ClassVar[bool] = False
    """Whether CAST of an invalid text to Nullable gives NULL, not an error."""
    needs_quotes: ClassVar[bool] = True
    """Whether the text is in quotes inside arrays, maps and tuples."""
    has_key_constants: ClassVar[bool] = False
    """Whether constants beside a key of the type say which granules need not be read."""
    has_own_order: ClassVar[bool] = False
    """Whether DuckDB orders the stored values differently: then ``order_key`` gives what to order by."""

    def to_text(self, value: Typed, type_: T, zone: str) -> Fragment:
        """Returns ``toString`` of the value."""
        return fragment("CAST({} AS VARCHAR)", value.number)

    def quoted_text(self, text: Fragment) -> Fragment:
        """Returns the text as it stands inside arrays, maps and tuples."""
        return fragment("'''' || {} || ''''", text) if self.needs_quotes else text

    def from_text(self, value: Typed, sql: Fragment, type_: T, zone: str) -> Fragment:
        """Parses ``sql``, the VARCHAR of ``value``. An invalid text raises an error at run time."""
        return cast(sql, type_)

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: T, zone: str, *, basic: bool) -> Fragment:
        """Parses ``sql`` as ``from_text`` does, with NULL for an invalid text if ``is_null_if_misspelled``.

        ``basic``: instants only in the basic spelling.
        """
        return self.from_text(Typed(sql, STRING), sql, type_, zone)

    def check_constant(self, text: str, type_: T) -> None:
        """Raises ``UserError`` for a constant text beside a value of the type, if it is no value."""

    def order_key(self, sql: Fragment) -> Fragment:
        """Returns what to order the values by."""
        return sql

    def compared_number(self, value: Typed, type_: T, beside: DataType) -> Typed | None:
        """Returns the number by which the value is compared with a number of the type ``beside``."""
        return None

    # Casts of the type's values ---------------------------------------------------------------------------------------

    def to_condition(self, value: Typed, type_: T) -> Fragment | None:
        """Casts to Bool: whether the value is not the default."""
        arrow = type_.arrow
        if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
            zero = cast("TIMESTAMP '1970-01-01'", type_) if pa.types.is_timestamp(arrow) else "DATE '1970-01-01'"
            return fragment("({} <> {})", value.sql, zero)
        if pa.types.is_fixed_size_binary(arrow):
            return fragment("({} <> unhex(repeat('00', {})))", value.sql, arrow.byte_width)
        return fragment("({} <> 0)", value.sql)

    def memory_bits(self, value: Typed, type_: T) -> Fragment:
        """Returns the bytes of a number in ClickHouse's memory as a UBIGINT. It has at most 8 bytes."""
        arrow, width = type_.arrow, type_.memory_width_bytes
        assert width is not None, type_
        whole = IntegerType(8 * width, False)
        if pa.types.is_integer(arrow):
            own = IntegerType(arrow.bit_width, pa.types.is_signed_integer(arrow))
            return cast(wrap_integer(value.sql, own, whole), UINT64)
        number = self.to_integer(value, type_, whole)
        assert number is not None, type_
        return cast(number, UINT64)

    def to_integer(self, value: Typed, type_: T, goal: IntegerType) -> Fragment | None:
        """Casts to an integer type. A number that does not fit wraps around."""
        return None

    def to_real(self, value: Typed, type_: T, goal: FloatType | DecimalType) -> Fragment | None:
        """Casts to a float or Decimal. Raises ``UserError`` 44."""
        return None

    def to_day(self, value: Typed, type_: T, goal: DayType, zone: str) -> Fragment | None:
        """Casts to a date."""
        return None

    def to_instant(self, value: Typed, type_: T, goal: TimeType, zone: str) -> Fragment | None:
        """Casts to a time. Raises ``UserError`` 44."""
        return None

    def cast_into(self, value: Typed, type_: T, goal: DataType, zone: str) -> Fragment | None:
        """Casts to a type whose ``cast_from`` does not know this one."""
        return None

    # Casts to the type ------------------------------------------------------------------------------------------------

    def cast_from(self, value: Typed, source: DataType, type_: T, zone: str) -> Fragment | None:
        """Casts from another scalar type that is no string."""
        return None


def counted(sql: Fragment | None, type_: DataType) -> Typed | None:
    """Returns the number as an expression of its type, if there is one."""
    return Typed(sql, type_) if sql is not None else None


def bits_of_ticks(ticks: Fragment, type_: DataType) -> Fragment:
    """Returns the bytes of a value as a UBIGINT, of its whole number as a BIGINT."""
    return cast(wrap_integer(ticks, INT64, IntegerType(8 * (type_.memory_width_bytes or 0), False)), UINT64)


def require_match(pattern: str, text: str, goal: DataType, error: str = "TYPE_MISMATCH") -> None:
    """Raises the error unless the whole text matches; letters of any case do."""
    if len(text) > _LONGEST_VALUE or re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII) is None:
        raise UserError(error, f"Cannot convert string {text[:_LONGEST_VALUE]!r} to type {goal.name}")


_SCALARS: dict[type[DataType], Scalar[Any]] = {}


def register(scalar: Scalar[Any], *types: type[DataType]) -> None:
    """Enters the object for these classes of types."""
    _SCALARS.update(dict.fromkeys(types, scalar))


def find_scalar(type_: DataType) -> Scalar[Any] | None:
    """Returns the object of a scalar type, or ``None`` for a composite one."""
    return _SCALARS.get(type(type_))
