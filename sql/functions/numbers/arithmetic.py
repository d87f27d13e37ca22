"""``plus``, ``minus``, ``multiply``, ``negate``, ``abs``, with ClickHouse's widening result types.

Below 64 bits the result type holds every result. At 64 bits ClickHouse wraps around, where DuckDB would raise an error.
So the fast operation serves for numbers that are small enough, and the low 64 bits of the exact 128-bit result for
others. (To try the fast one and catch its error costs some hundred times as much: DuckDB then goes through the vector
row by row.)
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from parts.common.errors import UserError
from parts.types import (
    BoolType,
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    IPv4Type,
    TupleType,
)
from sql.functions.dates.date_arithmetic import add_default_unit, add_interval, as_time, subtract_dates
from sql.functions.registry import Build, Call, function
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import EMPTY, WRITE_ONCE, Fragment, IntegerSum, Summands, fragment, join_fragments
from sql.typing.integer_conversions import wrap_integer, wrap_to_64_bits
from sql.typing.result_types import (
    bool_as_integer,
    difference_type,
    is_date_or_time,
    is_number,
    machine_decimal_digits,
    sum_type,
)
from sql.typing.typed_expressions import FLOAT64, UINT32, IntervalType, Typed, cast, integer_literal_type


def illegal_types_error(call: Call) -> UserError:
    """Returns error 43 for the types of a call's arguments."""
    types = " and ".join(str(type_) for type_ in call.types)
    return UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal types {types} of arguments of function {call.name}")


def is_integer(type_: DataType) -> bool:
    return isinstance(type_, (IntegerType, BoolType))


def with_addresses(build: Build) -> Build:
    """Makes ``build`` take an IPv4 beside integers as the UInt32 that it is."""

    def build_of_numbers(call: Call) -> Typed:
        kinds = {type(type_) for type_ in call.types}
        if IPv4Type in kinds and kinds <= {IPv4Type, IntegerType, BoolType}:
            args = [replace(arg, type=UINT32) if isinstance(arg.type, IPv4Type) else arg for arg in call.args]
            call = replace(call, args=tuple(args))
        return build(call)

    return build_of_numbers


_LONGEST_WRITTEN_THRICE = 500


def _compile_wrapping(operator: str, left: Typed, right: Typed, type_: IntegerType) -> Fragment:
    """Returns ``left operator right`` in the 64-bit ``type_``, wrapping around."""
    fast = fragment("({} {} {})", cast(left.sql, type_), operator, cast(right.sql, type_))
    wide = [fragment("CAST({} AS HUGEINT)", value.sql) for value in (left, right)]
    sizes = [_magnitude(value) or 2**64 for value in (left, right)]
    if operator == "*" and not type_.signed and min(sizes) >= 2**63:
        slow = fragment("pando_product({}, {})", wide[0], wide[1])
    else:
        slow = wrap_to_64_bits(fragment("({} {} {})", wide[0], operator, wide[1]), type_)
    bounds = [_no_overflow_condition(operator, own, other, type_) for own, other in ((left, right), (right, left))]
    # The CASE contains each operand three times, so nested sums would triple in size with every operand.
    if None in bounds or fast.size > _LONGEST_WRITTEN_THRICE or fast.traits & WRITE_ONCE:
        return slow
    conditions = join_fragments(" AND ", [bound for bound in bounds if bound])
    return fragment("(CASE WHEN {} THEN {} ELSE {} END)", conditions, fast, slow) if conditions else slow


def _magnitude(value: Typed) -> int | None:
    """Returns the greatest absolute value of an operand; ``None`` for a column of 64 bits."""
    if value.is_literal and isinstance(value.value, int):
        return abs(value.value)
    type_ = bool_as_integer(value.type)
    return None if type_.bits == 64 else max(-type_.minimum, type_.maximum)


def _no_overflow_condition(operator: str, own: Typed, other: Typed, type_: IntegerType) -> Fragment | None:
    """Returns the condition under which the operation cannot overflow for ``own``.

    EMPTY stands for always, ``None`` for never.
    """
    given, beside = _magnitude(own), _magnitude(other)
    if given is not None:
        return EMPTY if given <= type_.maximum else None
    if operator == "*":
        most = isqrt(type_.maximum) if beside is None else type_.maximum // max(beside, 1)
    else:
        most = type_.maximum // 2 if beside is None else type_.maximum - beside
    if most < 0:
        return None
    within = "{} BETWEEN -{most} AND {most}" if bool_as_integer(own.type).signed else "{} <= {most}::UBIGINT"
    return fragment(within, own.sql, most=most)


def _compile_integers(call: Call, operator: str, type_: IntegerType) -> Typed:
    left, right = call.args
    summands = () if operator == "*" else _merge_sums(_to_summands(left), _to_summands(right, operator))
    if summands and type_.bits == 64 and left.sql.size + right.sql.size > _LONGEST_WRITTEN_THRICE:
        return _compile_long_sum(summands, type_)
    if max(bool_as_integer(left.type).bits, bool_as_integer(right.type).bits) == 64:
        sql = _compile_wrapping(operator, left, right, type_)
    else:
        sql = fragment("({} {} {})", cast(left.sql, type_), operator, cast(right.sql, type_))
    return Typed(IntegerSum(sql, summands) if summands else sql, type_)


def _compile_long_sum(summands: Summands, type_: IntegerType) -> Typed:
    """Returns a sum as one exact sum that is wrapped once, in any order of its summands."""
    *others, (_, whole) = summands
    for _, other in reversed(others):
        whole = fragment("({} + {})", other, whole)
    return Typed(IntegerSum(wrap_to_64_bits(whole, type_), summands), type_)


def _to_summands(value: Typed, operator: str = "+") -> Summands:
    if isinstance(value.sql, IntegerSum) and operator == "+":
        return value.sql.summands
    return ((1, fragment("-CAST({} AS HUGEINT)" if operator == "-" else "CAST({} AS HUGEINT)", value.sql)),)


def _merge_sums(left: Summands, right: Summands) -> Summands:
    """Merges two sums into parts of about equal size, which DuckDB plans fastest."""
    sums = list(left)
    for count, sql in right:
        while sums and sums[-1][0] <= count:
            before, other = sums.pop()
            count, sql = before + count, fragment("({} + {})", other, sql)
        sums.append((count, sql))
    return tuple(sums)


def _compile_floats(call: Call, operator: str) -> Typed:
    left, right = (cast(arg.sql, FLOAT64) if arg.type != FLOAT64 else arg.sql for arg in call.args)
    return Typed(fragment("({} {} {})", left, operator, right), FLOAT64)


def decimal_type(left: DataType, right: DataType, scale: int) -> DecimalType:
    """Returns the Decimal type of a result with this scale.

    Beside an integer a Decimal keeps its precision; two Decimals get the machine type of the wider one.
    """
    if not isinstance(left, DecimalType) or not isinstance(right, DecimalType):
        own = left if isinstance(left, DecimalType) else right
        assert isinstance(own, DecimalType)
        return DecimalType(own.precision, scale)
    return DecimalType(machine_decimal_digits(max(left.precision, right.precision)), scale)


def as_decimal_operand(value: Typed) -> Fragment:
    """Returns a Decimal or integer as a DuckDB decimal."""
    if isinstance(value.type, DecimalType):
        return value.sql
    type_ = integer_literal_type(value.value) if isinstance(value.value, int) else bool_as_integer(value.type)
    digits = len(str(value.value)) if value.is_literal else {8: 3, 16: 5, 32: 10, 64: 20}[type_.bits]
    return fragment("CAST({} AS DECIMAL({}, 0))", value.sql, digits)


def _compile_decimals(call: Call, operator: str) -> Typed:
    left, right = call.args
    scales = [arg.type.scale if isinstance(arg.type, DecimalType) else 0 for arg in call.args]
    scale = sum(scales) if operator == "*" else max(scales)
    type_ = decimal_type(left.type, right.type, scale)
    return Typed(
        cast(fragment("({} {} {})", as_decimal_operand(left), operator, as_decimal_operand(right)), type_), type_
    )


def arithmetic_kind(call: Call) -> str:
    """Returns which arithmetic applies: ``integer``, ``float``, ``decimal`` or ``other``."""
    types = call.types
    if all(is_integer(type_) for type_ in types):
        return "integer"
    if not all(is_number(type_) for type_ in types):
        return "other"
    return "float" if any(isinstance(type_, FloatType) for type_ in types) else "decimal"


def _compile_arithmetic(call: Call, operator: str, type_: IntegerType | None) -> Typed:
    kind = arithmetic_kind(call)
    if kind == "integer":
        assert type_ is not None
        return _compile_integers(call, operator, type_)
    if kind == "float":
        return _compile_floats(call, operator)
    if kind == "decimal":
        return _compile_decimals(call, operator)
    raise illegal_types_error(call)


def _sum_type(call: Call) -> IntegerType | None:
    left, right = call.types
    return sum_type(bool_as_integer(left), bool_as_integer(right)) if is_integer(left) and is_integer(right) else None


@function("plus", 2)
@with_addresses
def add(call: Call) -> Typed:
    """Compiles ``a + b`` of numbers, or of a date and an interval or number. Raises ``UserError`` 43, 48."""
    left, right = call.args
    for value, other in ((left, right), (right, left)):
        if isinstance(other.type, IntervalType) and (time := as_time(value, call)):
            return add_interval(call, time, other, 1)
        if is_date_or_time(value.type) and is_number(other.type):
            return add_default_unit(value, other, 1, call)
    if isinstance(left.type, TupleType) and isinstance(right.type, TupleType):
        raise UserError("NOT_IMPLEMENTED", "Arithmetic of tuples is not supported")
    return _compile_arithmetic(call, "+", _sum_type(call))


@function("minus", 2)
@with_addresses
def subtract(call: Call) -> Typed:
    """Compiles ``a - b`` of numbers or dates. Raises ``UserError`` 43."""
    left, right = call.args
    if isinstance(right.type, IntervalType) and (time := as_time(left, call)):
        return add_interval(call, time, right, -1)
    if is_date_or_time(left.type):
        if is_date_or_time(right.type):
            return subtract_dates(call, left, right)
        if is_number(right.type):
            return add_default_unit(left, right, -1, call)
    integers = is_integer(left.type) and is_integer(right.type)
    type_ = difference_type(bool_as_integer(left.type), bool_as_integer(right.type)) if integers else None
    return _compile_arithmetic(call, "-", type_)


@function("multiply", 2)
@with_addresses
def multiply(call: Call) -> Typed:
    """Compiles ``a * b``. Raises ``UserError`` 43."""
    return _compile_arithmetic(call, "*", _sum_type(call))


@function("negate", 1)
def negate(call: Call) -> Typed:
    """Compiles ``-x``; an unsigned integer gets a wider signed type. Raises ``UserError`` 43."""
    value = call.args[0]
    if isinstance(value.type, IntervalType):
        return Typed(fragment("(-{})", value.sql), value.type)
    if isinstance(value.type, (FloatType, DecimalType)):
        return Typed(fragment("(-{})", value.sql), value.type)
    if not is_integer(value.type):
        raise call.wrong_type(0, "a number")
    given = bool_as_integer(value.type)
    type_ = given if given.signed else IntegerType(min(64, given.bits * 2), True)
    if given.bits == 64:
        return Typed(wrap_to_64_bits(fragment("(-CAST({} AS HUGEINT))", value.sql), type_), type_)
    wide = IntegerType(64, True)
    return Typed(wrap_integer(fragment("(-{})", cast(value.sql, wide)), wide, type_), type_)


@function("abs", 1)
def absolute_value(call: Call) -> Typed:
    """Compiles ``abs(x)``; the result of an integer is unsigned. Raises ``UserError`` 43."""
    value = call.args[0]
    if isinstance(value.type, (FloatType, DecimalType)):
        return Typed(fragment("abs({})", value.sql), value.type)
    if not is_integer(value.type):
        raise call.wrong_type(0, "a number")
    given = bool_as_integer(value.type)
    type_ = IntegerType(given.bits, False)
    if not given.signed:
        return Typed(cast(value.sql, type_), type_)
    return Typed(
        cast(fragment("abs(CAST({} AS {}))", value.sql, "HUGEINT" if given.bits == 64 else "BIGINT"), type_), type_
    )


MACROS = define_macros(
    # The low 64 bits of a 128-bit product, which may overflow HUGEINT: one factor is split into halves.
    """pando_product(a, b) AS pando_low_unsigned((a & 4294967295) * b
        + (((a >> 32) * b) & 4294967295) * 4294967296)""",
)
