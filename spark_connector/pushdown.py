"""Spark's pushed filters as a ClickHouse condition that chooses granules.

Invariant: the condition holds for every row for which the filters hold (under Spark's rules), so what it leaves out
is not wanted. It may hold for more: Spark filters the rows again. Where the two systems order values differently
(NaN, Enum, UUID as text) only what is safe is pushed; a filter without a safe form is left out.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as spark

from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    StringType,
    UUIDType,
    strip_nullable,
)
from spark_connector.options import quoted

_MOST_VALUES = 1000
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_COMPARISONS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "=", spark.EqualNullSafe: "=", spark.GreaterThan: ">", spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<", spark.LessThanOrEqual: "<=",
}  # fmt: skip
_OPPOSITES = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def to_condition(filters: Sequence[spark.Filter], types: Mapping[str, DataType]) -> str:
    """The pushed filters joined by AND; empty when none can choose granules."""
    texts = [text for text in (_condition(item, types) for item in filters) if text]
    return " AND ".join(texts)


def _condition(item: spark.Filter, types: Mapping[str, DataType]) -> str | None:
    is_negated = isinstance(item, spark.Not)
    if isinstance(item, spark.Not):
        item = item.child
    path: tuple[str, ...] = tuple(getattr(item, "attribute", ()))
    if len(path) != 1 or path[0] not in types:
        return None
    type_, name = types[path[0]], quoted(path[0])
    value = getattr(item, "value", None)
    if isinstance(item, (spark.IsNull, spark.IsNotNull)):
        if not type_.is_nullable:
            return None
        return f"{name} IS {'' if isinstance(item, spark.IsNull) != is_negated else 'NOT '}NULL"
    if isinstance(item, spark.In) and not is_negated:
        return _in(name, value, strip_nullable(type_))
    if isinstance(item, spark.StringStartsWith) and not is_negated:
        return _starts_with(name, value, strip_nullable(type_))
    operator = _COMPARISONS.get(type(item))
    if operator is None or value is None:
        return None
    if is_negated:
        operator = _OPPOSITES.get(operator)
    return _compare(name, operator, value, strip_nullable(type_)) if operator else None


def _in(name: str, values: Any, type_: DataType) -> str | None:
    """NULL in the list makes no row true."""
    if not isinstance(values, (list, tuple)) or not 0 < len(values) <= _MOST_VALUES:
        return None
    texts = [_equal_literal(value, type_) for value in values if value is not None]
    if not texts or any(text is None for text in texts):
        return None
    return f"{name} IN ({', '.join(str(text) for text in texts)})"


def _starts_with(name: str, prefix: Any, type_: DataType) -> str | None:
    if not isinstance(type_, StringType) or not isinstance(prefix, str) or not prefix:
        return None
    lower = f"{name} >= {_string(prefix)}"
    last = prefix[-1]
    if last >= _LAST_CHARACTER or 0xD7FF <= ord(last) < 0xDFFF:
        return lower
    return f"{lower} AND {name} < {_string(prefix[:-1] + chr(ord(last) + 1))}"


def _compare(name: str, operator: str, value: Any, type_: DataType) -> str | None:
    if isinstance(type_, (DateTimeType, DateTime64Type)):
        return _compare_instant(name, operator, value, type_)
    if operator == "=":
        text = _equal_literal(value, type_)
    elif isinstance(type_, FloatType) and operator in (">", ">="):
        return None  # NaN is the greatest number in Spark and none in ClickHouse
    else:
        text = _ordered_literal(value, type_)
    return f"{name} {operator} {text}" if text is not None else None


# -- literals --------------------------------------------------------------------------------------------------------


def _equal_literal(value: Any, type_: DataType) -> str | None:
    """A literal that equals the value; for types whose order is not that of their Spark text too."""
    if isinstance(type_, (EnumType, UUIDType, IPv4Type, IPv6Type)):
        return _checked_text(value, type_)
    return _ordered_literal(value, type_)


def _ordered_literal(value: Any, type_: DataType) -> str | None:
    render = _LITERALS.get(type(type_))
    return render(value, type_) if render else None


def _integer(value: Any, type_: DataType) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    if value != int(value):
        return None
    number = int(value)
    # Beyond 64 bits there is no such literal; the column has no such values either.
    return str(number) if -(1 << 63) <= number < 1 << 64 else None


def _float(value: Any, type_: DataType) -> str | None:
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    text = repr(value)
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def _decimal(value: Any, type_: DataType) -> str | None:
    assert isinstance(type_, DecimalType)
    if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
        return None
    text = f"{Decimal(value):f}"
    digits = len(text.lstrip("-").replace(".", "").lstrip("0"))
    scale = len(text.partition(".")[2])
    return f"toDecimal128('{text}', {scale})" if digits <= 38 and scale <= 38 else None


def _bool(value: Any, type_: DataType) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None


def _text(value: Any, type_: DataType) -> str | None:
    return _string(value) if isinstance(value, str) else None


def _fixed(value: Any, type_: DataType) -> str | None:
    """Spark sees the value without its padding; the padded literal compares as the stored one."""
    assert isinstance(type_, FixedStringType)
    if not isinstance(value, str) or len(value.encode()) > type_.length:
        return None
    return _string(value + "\0" * (type_.length - len(value.encode())))


def _date(value: Any, type_: DataType) -> str | None:
    """Outside the type's days a literal would be clipped."""
    first, last = (
        (datetime.date(1970, 1, 1), datetime.date(2149, 6, 6))
        if isinstance(type_, DateType)
        else (datetime.date(1900, 1, 1), datetime.date(2299, 12, 31))
    )
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date) or not first <= value <= last:
        return None
    return f"{'toDate' if isinstance(type_, DateType) else 'toDate32'}('{value.isoformat()}')"


_LITERALS: dict[type[DataType], Callable[[Any, DataType], str | None]] = {
    IntegerType: _integer, FloatType: _float, DecimalType: _decimal, BoolType: _bool, StringType: _text,
    FixedStringType: _fixed, DateType: _date, Date32Type: _date,
}  # fmt: skip


def _checked_text(value: Any, type_: DataType) -> str | None:
    """A value that is none of the type's would be an error there, and simply unequal in Spark."""
    import ipaddress
    import uuid

    if not isinstance(value, str):
        return None
    try:
        if isinstance(type_, EnumType):
            return _string(value) if value in dict(type_.values) else None
        if isinstance(type_, UUIDType):
            return f"toUUID('{uuid.UUID(value)}')"
        if isinstance(type_, IPv4Type):
            return f"toIPv4('{ipaddress.IPv4Address(value)}')"
        return f"toIPv6('{ipaddress.IPv6Address(value)}')"
    except ValueError:
        return None


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"'{escaped}'"


# -- instants --------------------------------------------------------------------------------------------------------


def _compare_instant(name: str, operator: str, value: Any, type_: DateTimeType | DateTime64Type) -> str | None:
    """Between ticks of the column: the bound moves to the next tick on the side that loses nothing.

    Below microseconds Spark sees the column rounded down, so that its upper bounds move up by one microsecond.
    """
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    microseconds = (value - _EPOCH) // datetime.timedelta(microseconds=1)
    precision = type_.precision if isinstance(type_, DateTime64Type) else 0
    if precision > 6:
        lower = f"{name} >= {_instant(microseconds, 6)}"
        upper = f"{name} < {_instant(microseconds + 1, 6)}"
        return {
            "=": f"{lower} AND {upper}", ">": lower, ">=": lower, "<=": upper,
            "<": f"{name} < {_instant(microseconds, 6)}",
        }[operator]  # fmt: skip
    tick = 10 ** (6 - precision)
    down, up = microseconds // tick, -(-microseconds // tick)
    if operator == "=" and down != up:
        return None
    ticks = down if operator in (">", "<=", "=") else up
    if precision == 0 and isinstance(type_, DateTimeType) and not 0 <= ticks < 1 << 32:
        return None
    return f"{name} {operator} {_instant(ticks * tick, precision)}"


def _instant(microseconds: int, precision: int) -> str:
    try:
        value = _EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        value = _EPOCH
    text = value.strftime("%Y-%m-%d %H:%M:%S")
    if precision == 0:
        return f"toDateTime('{text}', 'UTC')"
    return f"toDateTime64('{text}.{value.microsecond:06d}', {precision}, 'UTC')"
