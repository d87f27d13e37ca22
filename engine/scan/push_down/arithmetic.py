"""Translates sums, differences and products of Spark, where the server gets the same values.

Decimals have the digits that Spark gives a result (its page "ANSI Compliance"). With up to 38 digits nothing is rounded
and nothing overflows. With more, both sides keep up to six digits behind the point, and values that need more than 38
are errors: in Spark only in ANSI mode, elsewhere NULL. Floating numbers have 64 bits on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Call, ColumnName, Literal, Node, is_wider, parse_decimal_type
from engine.scan.push_down.literals import UntranslatableError, format_constant
from parts.types import DecimalType, FloatType

MOST_DIGITS = 38
_KEPT_SCALE = 6
"""Digits behind the point that Spark keeps of a result with more than 38 digits."""


@dataclass(frozen=True)
class Number:
    """A value in SQL, the name of its type in Spark, and the columns that it reads."""

    sql: str
    type: str
    columns: tuple[str, ...] = ()


def translate_number(node: Node, columns: ScanColumns, *, is_ansi: bool) -> Number:
    """Returns a number. Raises ``UntranslatableError`` for what is not known to be the same in Spark."""
    match node:
        case ColumnName(name):
            operand = columns.get_operand(node)
            found = parse_decimal_type(operand.shown)
            sql = f"toDecimal128({operand.sql}, {found[1]})" if found else operand.sql
            return Number(sql, operand.shown, (name,))
        case Literal(Decimal() as value, type_) if found := parse_decimal_type(type_):
            return Number(format_constant(value, DecimalType(*found)), type_)
        case Literal(float() as value, "double"):
            return Number(f"({format_constant(value, FloatType(64))})", "double")
        case Call("CAST", (child,), type_):
            return _cast(translate_number(child, columns, is_ansi=is_ansi), type_)
        case Call("+" | "-" | "*" as sign, (left, right)):
            sides = [translate_number(side, columns, is_ansi=is_ansi) for side in (left, right)]
            return _combine(sign, sides[0], sides[1], is_ansi=is_ansi)
    raise UntranslatableError


def _cast(value: Number, type_: str) -> Number:
    """Casts to a type that has every value."""
    found = parse_decimal_type(type_)
    if type_ == value.type:
        return value
    if not is_wider(value.type, type_) or (found is None and type_ != "double"):
        raise UntranslatableError
    return Number(
        f"toDecimal128({value.sql}, {found[1]})" if found else f"toFloat64({value.sql})", type_, value.columns
    )


def _combine(sign: str, left: Number, right: Number, *, is_ansi: bool) -> Number:
    sql, columns = f"({left.sql} {sign} {right.sql})", tuple(dict.fromkeys(left.columns + right.columns))
    if left.type == right.type == "double":
        return Number(sql, "double", columns)
    first, second = parse_decimal_type(left.type), parse_decimal_type(right.type)
    if first is None or second is None:
        raise UntranslatableError
    if sign == "*":
        precision, scale = first[0] + second[0] + 1, first[1] + second[1]
    else:
        scale = max(first[1], second[1])
        precision = max(first[0] - first[1], second[0] - second[1]) + scale + 1
    if precision > MOST_DIGITS and not (is_ansi and scale <= _KEPT_SCALE):
        raise UntranslatableError
    return Number(sql, f"decimal({min(precision, MOST_DIGITS)},{scale})", columns)
