"""Formats constants of Spark as literals that compare with a column's values as in Spark."""

from __future__ import annotations

import ctypes
import datetime
import math
from decimal import Decimal

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
    StringType,
)

_EPOCH = datetime.date(1970, 1, 1)
_DATES = {DateType: ("toDate", _EPOCH, datetime.date(2149, 6, 6)),
          Date32Type: ("toDate32", datetime.date(1900, 1, 1), datetime.date(2299, 12, 31))}  # fmt: skip
_MICROSECONDS = 1_000_000
_FIRST_SECOND, _LAST_SECOND = -2_208_988_800, 10_413_791_999
"""The range of a DateTime64: 1900 to 2299."""


class UntranslatableError(Exception):
    """Raised where ClickHouse has nothing that means the same."""


def format_constant(value: object, type_: DataType, *, is_bound: bool = False) -> str:
    """Returns a literal that compares with values of the type as in Spark.

    Raises for a literal that no value of the type equals, because it is out of range or finer: for IN and = the server
    would cast it to the type, and find another value. Only a bound (``is_bound``, of < or >) may be such a literal.
    """
    if not is_bound and not _can_hold(type_, value):
        raise UntranslatableError
    match type_, value:
        case BoolType(), bool():
            return str(value).lower()
        case IntegerType(), int() | float() | Decimal() if -(1 << 63) <= value < 1 << 64 and value == int(value):
            return str(int(value))
        case FloatType(), int() | float() if math.isfinite(value):
            return repr(float(value))
        case DecimalType(), int() | Decimal():
            return _format_decimal(Decimal(value), type_)
        case StringType(), str():
            return quote_text(value)
        case DateType() | Date32Type(), datetime.date():
            function, first, last = _DATES[type(type_)]
            if first <= value <= last:
                return f"{function}('{value}')"
        case DateTimeType(), int() if value % _MICROSECONDS == 0 and 0 <= value < _MICROSECONDS << 32:
            return f"toDateTime({value // _MICROSECONDS})"
        case ((DateTimeType() | DateTime64Type()), int()) if _FIRST_SECOND <= value // _MICROSECONDS < _LAST_SECOND:
            return f"fromUnixTimestamp64Micro({value})"
    raise UntranslatableError


def quote_text(text: str) -> str:
    """Returns a text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_name(name: str) -> str:
    """Returns an identifier in SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _can_hold(type_: DataType, value: object) -> bool:
    match type_, value:
        case IntegerType(bits, signed), int() | float() | Decimal():
            low = -(1 << bits - 1) if signed else 0
            return low <= value < low + (1 << bits)
        case FloatType(32), int() | float():
            return ctypes.c_float(value).value == value
        case DateTimeType(), int():
            return value % _MICROSECONDS == 0 and 0 <= value < _MICROSECONDS << 32
        case DateTime64Type(precision), int():
            return bool(value % 10 ** max(0, 6 - precision) == 0)
    return True


def _format_decimal(value: Decimal, type_: DecimalType) -> str:
    """Returns a decimal literal; raises for one that no value of the column can be.

    So it is never scaled beyond the column's digits.
    """
    _, digits, exponent = value.as_tuple()
    scaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, type_.scale + int(exponent))
    if int(exponent) < -type_.scale:
        scaled, rest = divmod(scaled, 10 ** (-type_.scale - int(exponent)))
        if rest:
            raise UntranslatableError
    if scaled >= 10**type_.precision:
        raise UntranslatableError
    return f"toDecimal128('{value:f}', {type_.scale})"
