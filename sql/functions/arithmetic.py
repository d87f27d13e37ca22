"""``+ - * / %`` and their kin: ClickHouse's widening result types, with wrap-around at 64 bits.

Below 64 bits the result type always has room. At 64 bits DuckDB would refuse an overflow, so the fast operation is
taken for numbers that are small enough, and for others the low 64 bits of the exact 128-bit result. (To try the fast
one and to catch its error costs some hundred times as much: DuckDB then goes through the vector row by row.)"""

from __future__ import annotations

from math import isqrt

from parts.errors import UserError
from parts.types import (
    BoolType,
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    TupleType,
)
from sql.functions.date_arithmetic import add_interval, add_number, difference
from sql.functions.registry import Call, function
from sql.typing.casts import cast_to
from sql.typing.inference import (
    as_integer,
    decimal_width,
    difference_type,
    is_date_or_time,
    is_number,
    sum_type,
)
from sql.typing.integers import wrap_64, wrap_integer
from sql.typing.typed import FLOAT64, INT64, IntervalType, Typed, cast, integer_literal_type


def _illegal(call: Call) -> UserError:
    types = " and ".join(str(type_) for type_ in call.types)
    return UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal types {types} of arguments of function {call.name}")


def _is_integer(type_: DataType) -> bool:
    return isinstance(type_, (IntegerType, BoolType))


_LONGEST_WRITTEN_THRICE = 500
_MOST_SUMMANDS = 64


def _wrapped(operator: str, left: Typed, right: Typed, type_: IntegerType) -> str:
    """``left operator right`` in ``type_`` of 64 bits, wrapping around where it overflows."""
    fast = f"({cast(left.sql, type_)} {operator} {cast(right.sql, type_)})"
    wide = [f"CAST({value.sql} AS HUGEINT)" for value in (left, right)]
    sizes = [_magnitude(value) or 2**64 for value in (left, right)]
    if operator == "*" and not type_.signed and min(sizes) >= 2**63:
        slow = f"pando_product({wide[0]}, {wide[1]})"
    else:
        slow = wrap_64(f"({wide[0]} {operator} {wide[1]})", type_)
    bounds = [_bound(operator, own, other, type_) for own, other in ((left, right), (right, left))]
    if None in bounds or len(fast) > _LONGEST_WRITTEN_THRICE:  # a sum of sums would grow threefold with every operand
        return slow
    if any(word in fast for word in ("SELECT", "random()", "uuid()", "OVER (", "error(")):
        return slow
    conditions = " AND ".join(bound for bound in bounds if bound)
    return f"(CASE WHEN {conditions} THEN {fast} ELSE {slow} END)" if conditions else slow


def _magnitude(value: Typed) -> int | None:
    """The most that the value can be, or its opposite; None for a column of 64 bits."""
    if value.is_literal and isinstance(value.value, int):
        return abs(value.value)
    type_ = as_integer(value.type)
    return None if type_.bits == 64 else max(-type_.minimum, type_.maximum)


def _bound(operator: str, own: Typed, other: Typed, type_: IntegerType) -> str | None:
    """The condition under which the operation cannot overflow for ``own``; "" for always, None for never."""
    given, beside = _magnitude(own), _magnitude(other)
    if given is not None:
        return "" if given <= type_.maximum else None
    if operator == "*":
        most = isqrt(type_.maximum) if beside is None else type_.maximum // max(beside, 1)
    else:
        most = type_.maximum // 2 if beside is None else type_.maximum - beside
    if most < 0:
        return None
    return f"{own.sql} BETWEEN -{most} AND {most}" if as_integer(own.type).signed else f"{own.sql} <= {most}::UBIGINT"


def _integers(call: Call, operator: str, type_: IntegerType) -> Typed:
    left, right = call.args
    summands = () if operator == "*" else (*_summands(left), *_summands(right, operator))
    if summands and type_.bits == 64 and len(left.sql) + len(right.sql) > _LONGEST_WRITTEN_THRICE:
        return _long_sum(summands, type_)
    if max(as_integer(left.type).bits, as_integer(right.type).bits) == 64:
        sql = _wrapped(operator, left, right, type_)
    else:
        sql = f"({cast(left.sql, type_)} {operator} {cast(right.sql, type_)})"
    return Typed(sql, type_, summands=(sql, summands))


def _long_sum(summands: tuple[str, ...], type_: IntegerType) -> Typed:
    """Integers wrap around, so that only the exact sum counts, and that has no order: DuckDB plans halves fastest."""
    whole = _in_halves(summands)
    sql = wrap_64(whole, type_)
    return Typed(sql, type_, summands=(sql, summands if len(summands) < _MOST_SUMMANDS else (whole,)))


def _summands(value: Typed, operator: str = "+") -> tuple[str, ...]:
    sql, known = value.summands
    if known and sql == value.sql and operator == "+":
        return known
    return (f"{'-' if operator == '-' else ''}CAST({value.sql} AS HUGEINT)",)


def _in_halves(terms: tuple[str, ...]) -> str:
    middle = len(terms) // 2
    return f"({_in_halves(terms[:middle])} + {_in_halves(terms[middle:])})" if middle else terms[0]


def _floats(call: Call, operator: str) -> Typed:
    left, right = (cast(arg.sql, FLOAT64) if arg.type != FLOAT64 else arg.sql for arg in call.args)
    return Typed(f"({left} {operator} {right})", FLOAT64)


def _decimal_type(left: DataType, right: DataType, scale: int) -> DecimalType:
    """Beside an integer a decimal keeps its digits; two decimals get the wider one's machine type."""
    if not isinstance(left, DecimalType) or not isinstance(right, DecimalType):
        own = left if isinstance(left, DecimalType) else right
        assert isinstance(own, DecimalType)
        return DecimalType(own.precision, scale)
    return DecimalType(decimal_width(max(left.precision, right.precision)), scale)


def _decimal_operand(value: Typed) -> str:
    if isinstance(value.type, DecimalType):
        return value.sql
    type_ = integer_literal_type(value.value) if isinstance(value.value, int) else as_integer(value.type)
    digits = len(str(value.value)) if value.is_literal else {8: 3, 16: 5, 32: 10, 64: 20}[type_.bits]
    return f"CAST({value.sql} AS DECIMAL({digits}, 0))"


def _decimals(call: Call, operator: str) -> Typed:
    left, right = call.args
    scales = [arg.type.scale if isinstance(arg.type, DecimalType) else 0 for arg in call.args]
    scale = sum(scales) if operator == "*" else max(scales)
    type_ = _decimal_type(left.type, right.type, scale)
    return Typed(cast(f"({_decimal_operand(left)} {operator} {_decimal_operand(right)})", type_), type_)


def _kinds(call: Call) -> str:
    """``integer``, ``float``, ``decimal`` or ``other``: which arithmetic applies."""
    types = call.types
    if all(_is_integer(type_) for type_ in types):
        return "integer"
    if not all(is_number(type_) for type_ in types):
        return "other"
    return "float" if any(isinstance(type_, FloatType) for type_ in types) else "decimal"


def _arithmetic(call: Call, operator: str, type_: IntegerType | None) -> Typed:
    kind = _kinds(call)
    if kind == "integer":
        assert type_ is not None
        return _integers(call, operator, type_)
    if kind == "float":
        return _floats(call, operator)
    if kind == "decimal":
        return _decimals(call, operator)
    raise _illegal(call)


def _sum_type(call: Call) -> IntegerType | None:
    left, right = call.types
    return sum_type(as_integer(left), as_integer(right)) if _is_integer(left) and _is_integer(right) else None


@function("plus", 2)
def plus(call: Call) -> Typed:
    left, right = call.args
    for value, other in ((left, right), (right, left)):
        if isinstance(other.type, IntervalType) and is_date_or_time(value.type):
            return add_interval(call, value, other, 1)
        if is_date_or_time(value.type) and is_number(other.type):
            return add_number(value, other, 1, call)
    if isinstance(left.type, TupleType) and isinstance(right.type, TupleType):
        raise UserError("NOT_IMPLEMENTED", "Arithmetic of tuples is not supported")
    return _arithmetic(call, "+", _sum_type(call))


@function("minus", 2)
def minus(call: Call) -> Typed:
    left, right = call.args
    if is_date_or_time(left.type):
        if isinstance(right.type, IntervalType):
            return add_interval(call, left, right, -1)
        if is_date_or_time(right.type):
            return difference(call, left, right)
        if is_number(right.type):
            return add_number(left, right, -1, call)
    integers = _is_integer(left.type) and _is_integer(right.type)
    type_ = difference_type(as_integer(left.type), as_integer(right.type)) if integers else None
    return _arithmetic(call, "-", type_)


@function("multiply", 2)
def multiply(call: Call) -> Typed:
    return _arithmetic(call, "*", _sum_type(call))


@function("divide", 2)
def divide(call: Call) -> Typed:
    kind = _kinds(call)
    if kind == "decimal":
        return _divide_decimals(call)
    if kind == "other":
        raise _illegal(call)
    left, right = (cast(arg.sql, FLOAT64) if arg.type != FLOAT64 else arg.sql for arg in call.args)
    if call.args[1].is_literal and call.args[1].value:
        return Typed(f"({left} / {right})", FLOAT64)
    return Typed(f"pando_divide({left}, {right})", FLOAT64)


def _divide_decimals(call: Call) -> Typed:
    """Exact, truncated to the scale of the dividend."""
    left, right = call.args
    divisor_scale = right.type.scale if isinstance(right.type, DecimalType) else 0
    scale = left.type.scale if isinstance(left.type, DecimalType) else divisor_scale
    if divisor_scale > scale:
        raise UserError("ARGUMENT_OUT_OF_BOUND", "Decimal result's scale is less than argument's one")
    type_ = _decimal_type(left.type, right.type, scale)
    dividend = f"CAST(CAST({left.sql} AS DECIMAL(38, {scale})) * {10**scale} AS HUGEINT) * {10**divisor_scale}"
    if not isinstance(left.type, DecimalType):
        dividend = f"CAST({left.sql} AS HUGEINT) * {10 ** (2 * scale)}"
    divisor = f"CAST({_decimal_operand(right)} * {10**divisor_scale} AS HUGEINT)"
    quotient = f"(({dividend}) // {_nonzero(Typed(divisor, INT64))})"
    if scale == 0:
        return Typed(cast(quotient, type_), type_)
    unit = f"CAST('{10.0**-scale:.{scale}f}' AS DECIMAL({scale + 1}, {scale}))"
    return Typed(cast(f"(CAST({quotient} AS DECIMAL({37 - scale}, 0)) * {unit})", type_), type_)


def _nonzero(value: Typed) -> str:
    if value.is_literal and value.value:
        return value.sql
    return f"(CASE WHEN {value.sql} = 0 THEN error('pando:153:Division by zero') ELSE {value.sql} END)"


@function("intDiv", 2)
def int_div(call: Call) -> Typed:
    return _int_div(call, zero="error")


@function("intDivOrZero", 2)
def int_div_or_zero(call: Call) -> Typed:
    return _int_div(call, zero="zero")


def _int_div(call: Call, zero: str) -> Typed:
    left, right = call.args
    kind = _kinds(call)
    if kind == "other":
        raise _illegal(call)
    if kind != "integer":
        type_ = IntegerType(_bits(left.type), True)
        quotient = _float_quotient(call, zero, type_) if kind == "float" else _decimal_quotient(call, zero)
        return Typed(cast(quotient, type_), type_)
    a, b = as_integer(left.type), as_integer(right.type)
    type_ = IntegerType(a.bits, a.signed or b.signed)
    divisor = _nonzero(right) if zero == "error" else f"nullif({right.sql}, 0)"
    wide = "HUGEINT" if max(a.bits, b.bits) == 64 and a.signed != b.signed else "BIGINT"
    if not a.signed and not b.signed:
        wide = "UBIGINT"
    dividend, divisor = _as_signed(left.sql, a, b), _as_signed(divisor, b, a)
    if zero == "zero" and type_.signed and not right.is_literal:
        divisor = _no_least_by_minus_one(dividend, divisor, type_)
    quotient = f"(CAST({dividend} AS {wide}) // CAST({divisor} AS {wide}))"
    if wide == "HUGEINT":
        sql = wrap_64(quotient, type_) if type_.bits == 64 else cast(quotient, type_)
    else:
        sql = wrap_integer(quotient, IntegerType(64, wide == "BIGINT"), type_)
    return Typed(sql if zero == "error" else f"coalesce({sql}, {cast('0', type_)})", type_)


def _no_least_by_minus_one(dividend: str, divisor: str, type_: IntegerType) -> str:
    """The divisor, or NULL where the quotient of the least number and -1 has no room."""
    return f"(CASE WHEN {dividend} = ({type_.minimum + 1} - 1) AND {divisor} = -1 THEN NULL ELSE {divisor} END)"


def _bits(type_: DataType) -> int:
    if isinstance(type_, FloatType):
        return type_.bits
    if isinstance(type_, DecimalType):
        return 32 if type_.precision <= 9 else 64
    return as_integer(type_).bits


def _float_quotient(call: Call, zero: str, type_: IntegerType) -> str:
    left, right = (cast(arg.sql, FLOAT64) for arg in call.args)
    quotient = f"pando_float_quotient({left}, {right}, {float(type_.maximum)!r})"
    return quotient if zero == "error" else f"(CASE WHEN {right} = 0 THEN 0 ELSE {quotient} END)"


def _decimal_quotient(call: Call, zero: str) -> str:
    """Of Decimals (or one and an integer) by their units; HUGEINT."""
    scales = []
    for value in call.args:
        if isinstance(value.type, DecimalType) and value.type.precision > 18:
            raise UserError("NOT_IMPLEMENTED", f"{call.name} of {value.type} is not supported")
        scales.append(value.type.scale if isinstance(value.type, DecimalType) else 0)
    units = [
        f"CAST(CAST({value.sql} AS DECIMAL(38, {scale})) * {10**scale} AS HUGEINT)"
        if scale
        else f"CAST({value.sql} AS HUGEINT)"
        for value, scale in zip(call.args, scales, strict=True)
    ]
    scale = max(scales)
    dividend, divisor = (f"{unit} * {10 ** (scale - own)}" for unit, own in zip(units, scales, strict=True))
    if zero == "zero":
        return f"(CASE WHEN {call.args[1].sql} = 0 THEN 0 ELSE ({dividend}) // nullif({divisor}, 0) END)"
    return f"(({dividend}) // {_nonzero(Typed(f'({divisor})', INT64))})"


def _as_signed(sql: str, own: IntegerType, other: IntegerType) -> str:
    """Beside a signed number ClickHouse takes the bits of an unsigned one as a signed number of its width."""
    if own.signed or not other.signed:
        return sql
    return wrap_integer(sql, own, IntegerType(own.bits, True))


@function("modulo mod", 2, any_case=True)
def modulo(call: Call) -> Typed:
    return _modulo(call, zero="error")


@function("moduloOrZero", 2)
def modulo_or_zero(call: Call) -> Typed:
    return _modulo(call, zero="zero")


def _modulo(call: Call, zero: str) -> Typed:
    left, right = call.args
    if is_date_or_time(left.type) and is_number(right.type):
        days = IntegerType(16 if left.type.name == "Date" else 32, False)
        left = Typed(cast_to(left, days, call.environment.zone), days)
        call = Call(call.name, (left, right), call.environment)
    kind = _kinds(call)
    if zero == "zero" and any(isinstance(type_, DecimalType) for type_ in call.types):
        raise _illegal(call)
    if kind == "float":
        return Typed(f"pando_float_modulo({cast(left.sql, FLOAT64)}, {cast(right.sql, FLOAT64)})", FLOAT64)
    if kind != "integer":
        raise _illegal(call) if kind == "other" else UserError("NOT_IMPLEMENTED", "modulo of decimals is not supported")
    a, b = as_integer(left.type), as_integer(right.type)
    type_ = IntegerType(min(64, 2 * b.bits) if a.signed else b.bits, a.signed)
    divisor = _nonzero(right) if zero == "error" else f"nullif({right.sql}, 0)"
    wide = (
        "HUGEINT"
        if 64 in (a.bits, b.bits) and a.signed != b.signed
        else ("BIGINT" if a.signed or b.signed else "UBIGINT")
    )
    sql = cast(f"(CAST({left.sql} AS {wide}) % CAST({divisor} AS {wide}))", type_)
    return Typed(sql if zero == "error" else f"coalesce({sql}, {cast('0', type_)})", type_)


@function("positiveModulo positive_modulo pmod", 2)
def positive_modulo(call: Call) -> Typed:
    left, right = call.args
    kind = _kinds(call)
    if kind == "float":
        return Typed(f"pando_positive_float_modulo({cast(left.sql, FLOAT64)}, {cast(right.sql, FLOAT64)})", FLOAT64)
    if kind != "integer":
        raise _illegal(call)
    type_ = IntegerType(as_integer(right.type).bits, False)
    a, b = f"CAST({left.sql} AS HUGEINT)", f"abs(CAST({_nonzero(right)} AS HUGEINT))"
    return Typed(cast(f"((({a} % {b}) + {b}) % {b})", type_), type_)


@function("negate", 1)
def negate(call: Call) -> Typed:
    value = call.args[0]
    if isinstance(value.type, IntervalType):
        return Typed(f"(-{value.sql})", value.type)
    if isinstance(value.type, (FloatType, DecimalType)):
        return Typed(f"(-{value.sql})", value.type)
    if not _is_integer(value.type):
        raise call.wrong_type(0, "a number")
    given = as_integer(value.type)
    type_ = given if given.signed else IntegerType(min(64, given.bits * 2), True)
    if given.bits == 64:
        return Typed(wrap_64(f"(-CAST({value.sql} AS HUGEINT))", type_), type_)
    wide = IntegerType(64, True)
    return Typed(wrap_integer(f"(-{cast(value.sql, wide)})", wide, type_), type_)


@function("abs", 1, any_case=True)
def absolute(call: Call) -> Typed:
    value = call.args[0]
    if isinstance(value.type, (FloatType, DecimalType)):
        return Typed(f"abs({value.sql})", value.type)
    if not _is_integer(value.type):
        raise call.wrong_type(0, "a number")
    given = as_integer(value.type)
    type_ = IntegerType(given.bits, False)
    if not given.signed:
        return Typed(cast(value.sql, type_), type_)
    return Typed(cast(f"abs(CAST({value.sql} AS {'HUGEINT' if given.bits == 64 else 'BIGINT'}))", type_), type_)


@function("gcd", 2)
def gcd(call: Call) -> Typed:
    return _common_divisor(call, "gcd")


@function("lcm", 2)
def lcm(call: Call) -> Typed:
    return _common_divisor(call, "lcm")


def _common_divisor(call: Call, name: str) -> Typed:
    if _kinds(call) != "integer":
        raise _illegal(call)
    left, right = (as_integer(type_) for type_ in call.types)
    type_ = sum_type(left, right)
    values = ", ".join(f"CAST({_nonzero(arg)} AS HUGEINT)" for arg in call.args)
    return Typed(cast(f"{name}({values})", type_), type_)


MACROS = (
    # The low 64 bits of a product of 128, which HUGEINT has no room for: one factor goes in halves.
    """pando_product(a, b) AS pando_low_unsigned((a & 4294967295) * b
        + (((a >> 32) * b) & 4294967295) * 4294967296)""",
    "pando_divide(a, b) AS a / b",
    r"""pando_float_quotient(a, b, most) AS CASE WHEN b = 0 OR abs(trunc(a / b)) > most
        THEN error('pando:153:Cannot perform integer division, because it will produce infinite or too large number')
        WHEN isnan(a) OR isnan(b) OR abs(a) >= 9223372036854775808.0 OR abs(b) >= 9223372036854775808.0
        THEN error('pando:153:Cannot perform integer division on infinite or too large floating point numbers')
        ELSE trunc(a / b) END""",
    # ClickHouse's rule, which differs from C's fmod where the quotient has more digits than a float.
    "pando_float_modulo(a, b) AS a - trunc(a / b) * b",
    r"""pando_positive_float_modulo(a, b) AS CASE WHEN pando_float_modulo(a, b) < 0
        THEN pando_float_modulo(a, b) + abs(b) ELSE pando_float_modulo(a, b) END""",
)
