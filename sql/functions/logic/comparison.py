"""Comparisons ``= != < <= > >=``, ``IS [NOT] DISTINCT FROM``, ``greatest``, ``least``.

Floats compare by IEEE 754: NaN equals nothing and has no order, while DuckDB takes NaN for the greatest number. A
constant string is read as a value of the other side's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    NothingType,
    UUIDType,
    make_nullable,
    strip_nullable,
)
from sql.functions.logic.tuple_comparison import compare_tuples, needs_element_comparison
from sql.functions.registry import Call, define, function
from sql.typing.casts.casts import convert_to_supertype
from sql.typing.casts.constant_texts import convert_constant_text
from sql.typing.casts.text_casts import to_text
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.order_keys import order_key
from sql.typing.result_types import is_number, is_string, machine_decimal_digits, supertype
from sql.typing.scalars.all_scalars import scalar_of
from sql.typing.typed_expressions import FLOAT64, UINT8, Typed, string_literal
from sql.typing.uuid_order import swap_uuid_halves

_EXACT_FLOATS = 1 << 53
_FLOAT_BITS = {32: 24, 64: 53}
"""Integers of fewer bits than this are exact as floats of the given width."""
_OPERATORS = {
    "equals": "=", "notEquals": "<>", "less": "<", "lessOrEquals": "<=", "greater": ">", "greaterOrEquals": ">=",
}  # fmt: skip


def to_common_type(left: Typed, right: Typed, zone: str) -> tuple[Fragment, Fragment]:
    """Returns both sides as DuckDB values of one type.

    Raises ``UserError`` 386 or 43 if ClickHouse does not compare them.
    """
    a, b = strip_nullable(left.type), strip_nullable(right.type)
    if a == b:
        return left.number, right.number
    if is_number(a) and is_number(b):
        return _as_number(left), _as_number(right)
    if is_string(a) and is_string(b):
        return _as_string(left, a, b, zone), _as_string(right, b, a, zone)
    if is_string(b) and right.is_constant:
        return left.number, convert_constant_text(right, a, zone)
    if is_string(a) and left.is_constant:
        return convert_constant_text(left, b, zone), right.number
    if (number := _as_compared_number(left, b)) is not None:
        return _as_number(number), _as_number(right)
    if (number := _as_compared_number(right, a)) is not None:
        return _as_number(left), _as_number(number)
    common = _common_type(a, b)
    return convert_to_supertype(left, common, zone), convert_to_supertype(right, common, zone)


def _as_compared_number(value: Typed, beside: DataType) -> Typed | None:
    """Returns the number by which an Enum, time or IPv4 is compared with numbers, or ``None``."""
    own = strip_nullable(value.type)
    scalar = scalar_of(own)
    return scalar.compared_number(value, own, beside) if scalar is not None and is_number(beside) else None


def enums_as_numbers(call: Call) -> Call:
    """Replaces Enums by their numbers, if the array and the value have different types."""
    types = [strip_nullable(arg.type.inner if isinstance(arg.type, ArrayType) else arg.type) for arg in call.args]
    numbers = (IntegerType, BoolType, FloatType, EnumType)
    if types[0] == types[1] or EnumType not in map(type, types) or not all(isinstance(own, numbers) for own in types):
        return call
    args = [_enum_as_number(arg) for arg in call.args]
    return replace(call, args=tuple(args))


def _enum_as_number(value: Typed) -> Typed:
    inner = value.type.inner if isinstance(value.type, ArrayType) else value.type
    bare = strip_nullable(inner)
    if not isinstance(bare, EnumType):
        return value
    number: DataType = IntegerType(bare.bits, True)
    if inner.is_nullable:
        number = make_nullable(number)
    return replace(value, type=ArrayType(number) if isinstance(value.type, ArrayType) else number, elements=None)


def _as_number(value: Typed) -> Fragment:
    return (
        fragment("CAST({} AS UTINYINT)", value.sql)
        if isinstance(strip_nullable(value.type), BoolType)
        else value.number
    )


def _common_type(a: DataType, b: DataType) -> DataType:
    try:
        return supertype([a, b])
    except UserError:
        if is_string(a) or is_string(b):
            raise
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal types {a.name} and {b.name} of a comparison") from None


def _as_string(value: Typed, type_: DataType, other: DataType, zone: str) -> Fragment:
    """Returns a string to compare. Beside a FixedString zero bytes at the end are padding."""
    if isinstance(type_, FixedStringType):
        return to_text(value, zone)
    if not isinstance(other, FixedStringType):
        return value.sql
    return (
        string_literal(value.value.rstrip("\0"))
        if isinstance(value.value, str)
        else fragment("rtrim({}, chr(0))", value.sql)
    )


def _may_be_nan(value: Typed) -> bool:
    if not isinstance(strip_nullable(value.type), FloatType):
        return False
    return not value.is_literal or value.value != value.value


def _build_comparison(name: str) -> Callable[[Call], Typed]:
    return lambda call: compare(name, call.args[0], call.args[1], call.environment.zone)


def compare(name: str, left: Typed, right: Typed, zone: str) -> Typed:
    """Compiles the comparison of that function name. It is Nullable if a side is."""
    if needs_element_comparison(left, right):
        return compare_tuples(name, left, right, partial(compare, zone=zone))
    nullable = left.type.is_nullable or right.type.is_nullable
    type_ = make_nullable(UINT8) if nullable else UINT8
    if any(isinstance(strip_nullable(side.type), NothingType) for side in (left, right)):
        return Typed(fragment("CAST(NULL AS BOOLEAN)"), type_, is_condition=True)
    a, b = to_common_type(left, right, zone)
    exact = _compare_exactly(_OPERATORS[name], (left, a), (right, b))
    if exact is None and name not in ("equals", "notEquals"):
        ordered = right.type if is_string(strip_nullable(left.type)) else left.type
        a, b = (order_key(side, ordered, nulls_least=False) for side in (a, b))
    sql = exact or fragment("({} {} {})", a, _OPERATORS[name], b)
    if any(isinstance(strip_nullable(side.type), FloatType) for side in (left, right)):
        sql = _add_nan_checks(sql, name, (left, a), (right, b))
    return Typed(sql, type_, is_condition=True)


def _compare_exactly(operator: str, left: tuple[Typed, Fragment], right: tuple[Typed, Fragment]) -> Fragment | None:
    """Compares an integer with a float by value, where the integer may not be exact as a float.

    Returns ``None`` if a plain comparison does. Floats from 2^53 on are integers, and fit a HUGEINT as far as integers
    go.
    """
    kinds = [strip_nullable(side[0].type) for side in (left, right)]
    for kind, other in (kinds, reversed(kinds)):
        if isinstance(kind, IntegerType) and isinstance(other, FloatType):
            break
    else:
        return None
    if kind.bits < _FLOAT_BITS[other.bits]:
        return None
    is_float = kind.bits < _FLOAT_BITS[64] or any(_is_small(side) for side, _ in (left, right))
    if is_float and other.bits == 64:
        return None
    values = [fragment("CAST({} AS DOUBLE)", sql) for _, sql in (left, right)]
    plain = fragment("({} {} {})", values[0], operator, values[1])
    if is_float:
        return plain
    whole = fragment("(CAST({} AS HUGEINT) {} CAST({} AS HUGEINT))", left[1], operator, right[1])
    number = values[0] if isinstance(kinds[0], FloatType) else values[1]
    return fragment(
        "CASE WHEN abs({number}) BETWEEN {least}e0 AND {most}e0 THEN {whole} ELSE {plain} END",
        number=number, least=_EXACT_FLOATS, most=1 << 65, whole=whole, plain=plain,
    )  # fmt: skip


def _is_small(side: Typed) -> bool:
    """Tells whether a side is a literal so small that comparing as floats is exact."""
    return isinstance(side.value, (int, float)) and (abs(side.value) < _EXACT_FLOATS or side.value != side.value)


def _add_nan_checks(sql: Fragment, name: str, left: tuple[Typed, Fragment], right: tuple[Typed, Fragment]) -> Fragment:
    """Adds checks to a comparison where DuckDB treats NaN as a number."""
    first, second = _may_be_nan(left[0]), _may_be_nan(right[0])
    nan_left, nan_right = _is_nan(left, right), _is_nan(right, left)
    if name == "equals":
        return fragment("({} AND NOT {})", sql, nan_left) if first and second else sql
    if name == "notEquals":
        return fragment("({} OR {})", sql, nan_left) if first and second else sql
    if name in ("less", "lessOrEquals"):
        return fragment("({} AND NOT {})", sql, nan_right) if second else sql
    return fragment("({} AND NOT {})", sql, nan_left) if first else sql


def _is_nan(side: tuple[Typed, Fragment], other: tuple[Typed, Fragment]) -> Fragment:
    """Whether it is NaN, and not compared with NULL: that is NULL whatever it is."""
    nan = fragment("isnan({})", _as_float(side))
    is_value = other[0].is_literal and other[0].value is not None
    return nan if is_value else fragment("({} AND {} IS NOT NULL)", nan, other[1])


def _as_float(side: tuple[Typed, Fragment]) -> Fragment:
    return side[1] if isinstance(strip_nullable(side[0].type), FloatType) else fragment("CAST({} AS DOUBLE)", side[1])


for _name in _OPERATORS:
    define(_name, _build_comparison(_name), 2)


@function("isNotDistinctFrom", 2, nulls=False)
def is_not_distinct(call: Call) -> Typed:
    """Compiles ``isNotDistinctFrom(a, b)`` and ``a <=> b``. NaN equals nothing."""
    a, b = _distinct_sides(call)
    nan = _both_nan_condition(call, a)
    template = "({} IS NOT DISTINCT FROM {} AND NOT {})" if nan else "({} IS NOT DISTINCT FROM {})"
    return Typed(fragment(template, a, b, *nan), UINT8, is_condition=True)


@function("isDistinctFrom", 2, nulls=False)
def is_distinct(call: Call) -> Typed:
    """Compiles ``isDistinctFrom(a, b)``. NaN equals nothing."""
    a, b = _distinct_sides(call)
    nan = _both_nan_condition(call, a)
    template = "({} IS DISTINCT FROM {} OR {})" if nan else "({} IS DISTINCT FROM {})"
    return Typed(fragment(template, a, b, *nan), UINT8, is_condition=True)


def _both_nan_condition(call: Call, left: Fragment) -> list[Fragment]:
    """Returns the condition that both sides are NaN, which ClickHouse takes for distinct.

    The list is empty if they cannot be NaN.
    """
    if not all(_may_be_nan(arg) for arg in call.args):
        return []
    return [fragment("coalesce(isnan(CAST({} AS DOUBLE)), false)", left)]


def _distinct_sides(call: Call) -> tuple[Fragment, Fragment]:
    left, right = call.args
    if left.value is None or right.value is None:
        return left.sql, right.sql
    return to_common_type(left, right, call.environment.zone)


@function("greatest", (1, None), nulls=False)
def greatest(call: Call) -> Typed:
    """Compiles ``greatest(…)``; NULLs are ignored."""
    return _compile_extreme(call, "greatest")


@function("least", (1, None), nulls=False)
def least(call: Call) -> Typed:
    """Compiles ``least(…)``; NULLs are ignored."""
    return _compile_extreme(call, "least")


def _extreme_type(types: Sequence[DataType]) -> DataType:
    """Returns the result type of ``greatest`` and ``least``.

    A Decimal stays one beside an integer and becomes a float beside a float. A Bool becomes a number.
    """
    bare = [strip_nullable(type_) for type_ in types]
    decimals = [type_ for type_ in bare if isinstance(type_, DecimalType)]
    if decimals and any(isinstance(type_, FloatType) for type_ in bare):
        picked: DataType = FLOAT64
    elif decimals and all(is_number(type_) for type_ in bare):
        width = machine_decimal_digits(max(type_.precision for type_ in decimals))
        picked = DecimalType(width, max(type_.scale for type_ in decimals))
    elif all(isinstance(type_, BoolType) for type_ in bare):
        picked = UINT8
    else:
        return supertype(types)
    return make_nullable(picked) if any(type_.is_nullable for type_ in types) else picked


def _pick_of_two(a: Fragment, b: Fragment, sign: str, *, is_nullable: bool) -> Fragment:
    """Picks the greater or lesser of two floats.

    ClickHouse compares once: the second value wins beside a NaN and among equal ones. Where one may be NULL it passes
    over a NaN, and the first of equal ones wins.
    """
    if is_nullable:
        text = """(CASE WHEN {a} IS NULL THEN {b} WHEN {b} IS NULL OR isnan({b}) THEN {a}
            WHEN isnan({a}) OR {b} {sign} {a} THEN {b} ELSE {a} END)"""
    else:
        # Both are tested: DuckDB makes -x > nan to x < nan, which is true.
        text = "(CASE WHEN {a} {sign} {b} AND NOT isnan({a}) AND NOT isnan({b}) THEN {a} ELSE {b} END)"
    return fragment(text.replace("{sign}", sign), a=a, b=b)


def _compile_extreme(call: Call, name: str) -> Typed:
    """Compiles ``greatest`` or ``least``."""
    type_ = _extreme_type(call.types)
    zone = call.environment.zone
    values = [convert_to_supertype(arg, type_, zone) for arg in call.args]
    # ClickHouse and DuckDB both ignore NULLs here.
    if isinstance(strip_nullable(type_), UUIDType):
        return Typed(swap_uuid_halves(function_call(name, *map(swap_uuid_halves, values))), type_)
    if not isinstance(strip_nullable(type_), FloatType):
        return Typed(function_call(name, *values), type_)
    if len(values) == 2:
        sign = ">" if name == "greatest" else "<"
        return Typed(_pick_of_two(values[0], values[1], sign, is_nullable=type_.is_nullable), type_)
    known = [fragment("(CASE WHEN isnan({value}) THEN NULL ELSE {value} END)", value=value) for value in values]
    return Typed(fragment("coalesce({}, {})", function_call(name, *known), values[0]), type_)
