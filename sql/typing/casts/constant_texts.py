"""Constant strings beside values of another type (``d >= '2020-01-01'``, ``id IN ('5')``).

Such a string is a value of the other type. ClickHouse parses it once, before the query runs; so an invalid string is an
error even if no row is read. The accepted spellings are narrower than those of CAST: a Date takes no time of day.
"""

from __future__ import annotations

import ipaddress
import re

from parts.common.errors import UserError
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
    IPv4Type,
    IPv6Type,
    UUIDType,
    strip_nullable,
)
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.sql_fragments import Fragment
from sql.typing.typed_expressions import Typed

_REAL = r"[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?|[+-]?(inf|infinity|nan)"
_LONGEST_VALUE = 1000
_DAY = r"\d{4}-\d{1,2}-\d{1,2}|\d{8}"
_INSTANT = r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}(:\d{1,2}){1,2}(\.\d*)?)?(Z|[+-]\d{2}:?\d{2})?|\d{4,}(\.\d*)?"
_UUID = r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}"
_TRUTH = r"true|false|t|f|yes|no|y|n|on|off|1|0|enable|disable|enabled|disabled"


def convert_constant_text(value: Typed, target: DataType, zone: str) -> Fragment:
    """Returns a constant string as a value of ``target``.

    Raises ``UserError`` with the code of ClickHouse's parser of that type (53, 38, 41, 72, 376, 467, 675, 676).
    """
    if isinstance(value.value, str):
        check_constant_text(value.value, target)
    return cast_to(value, target, zone)


def check_constant_text(text: str, target: DataType) -> None:
    """Raises the errors of :func:`convert_constant_text`."""
    _check_spelling(text, strip_nullable(target))


def _check_spelling(text: str, goal: DataType) -> None:
    match goal:
        case IntegerType(signed=signed):
            _require_match(r"[+-]?\d+" if signed else r"\+?\d+", text, goal)
        case FloatType():
            has_number = re.match(r"\s*[+-]?\.?\d", text) is not None
            _require_match(_REAL, text, goal, "TYPE_MISMATCH" if has_number else "CANNOT_PARSE_NUMBER")
        case DecimalType():
            _require_match(_REAL, text, goal)
        case DateType() | Date32Type():
            _require_match(_DAY, text, goal, "TYPE_MISMATCH" if re.match(_DAY, text) else "CANNOT_PARSE_DATE")
        case DateTimeType() | DateTime64Type():
            _require_match(_INSTANT, text, goal, "CANNOT_PARSE_DATETIME")
        case UUIDType():
            _require_match(_UUID, text, goal, "CANNOT_PARSE_UUID")
        case BoolType():
            _require_match(_TRUTH, text, goal, "CANNOT_PARSE_BOOL")
        case IPv4Type() | IPv6Type():
            _check_address(text, goal)


def _require_match(pattern: str, text: str, goal: DataType, error: str = "TYPE_MISMATCH") -> None:
    if len(text) > _LONGEST_VALUE or re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII) is None:
        raise UserError(error, f"Cannot convert string {text[:_LONGEST_VALUE]!r} to type {goal.name}")


def _check_address(text: str, goal: DataType) -> None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or (address.version == 6 and isinstance(goal, IPv4Type)):
        name = "CANNOT_PARSE_IPV4" if isinstance(goal, IPv4Type) else "CANNOT_PARSE_IPV6"
        raise UserError(name, f"Cannot convert string {text!r} to type {goal.name}")
