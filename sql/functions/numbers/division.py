"""Division, remainders and common divisors, with ClickHouse's answers for a divisor of zero."""

from __future__ import annotations

from parts.common.errors import UserError
from parts.types import DataType, Date32Type, DateTime64Type, DecimalType, FloatType, IntegerType
from sql.functions.numbers.arithmetic import (
    arithmetic_kind,
    as_decimal_operand,
    decimal_type,
    illegal_types_error,
    with_addresses,
)
from sql.functions.registry import Call, function
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.integer_conversions import wrap_integer, wrap_to_64_bits
from sql.typing.result_types import bool_as_integer, is_date_or_time, is_number, sum_type
from sql.typing.typed_expressions import FLOAT64, INT64, UINT64, Typed, cast


@function("divide", 2)
@with_addresses
def divide(call: Call) -> Typed:
    """Compiles ``a / b``: a float, or a Decimal if a side is one. Raises ``UserError`` 43, 69."""
    kind = arithmetic_kind(call)
    if kind == "decimal":
        return _divide_decimals(call)
    if kind == "other":
        raise illegal_types_error(call)
    left, right = (cast(arg.sql, FLOAT64) if arg.type != FLOAT64 else arg.sql for arg in call.args)
    if call.args[1].is_literal and call.args[1].value:
        return Typed(fragment("({} / {})", left, right), FLOAT64)
    return Typed(fragment("pando_divide({}, {})", left, right), FLOAT64)


def _divide_decimals(call: Call) -> Typed:
    """Divides exactly and cuts the quotient to the dividend's scale. Raises ``UserError`` 69."""
    left, right = call.args
    divisor_scale = right.type.scale if isinstance(right.type, DecimalType) else 0
    scale = left.type.scale if isinstance(left.type, DecimalType) else divisor_scale
    if divisor_scale > scale:
        raise UserError("ARGUMENT_OUT_OF_BOUND", "Decimal result's scale is less than argument's one")
    type_ = decimal_type(left.type, right.type, scale)
    dividend = fragment(
        "CAST(CAST({} AS DECIMAL(38, {})) * {} AS HUGEINT) * {}", left.sql, scale, 10**scale, 10**divisor_scale
    )
    if not isinstance(left.type, DecimalType):
        dividend = fragment("CAST({} AS HUGEINT) * {}", left.sql, 10 ** (2 * scale))
    divisor = fragment("CAST({} * {} AS HUGEINT)", as_decimal_operand(right), 10**divisor_scale)
    quotient = fragment("(({}) // {})", dividend, _check_nonzero(Typed(divisor, INT64)))
    if scale == 0:
        return Typed(cast(quotient, type_), type_)
    unit = fragment("CAST('{}' AS DECIMAL({}, {}))", f"{10.0**-scale:.{scale}f}", scale + 1, scale)
    return Typed(cast(fragment("(CAST({} AS DECIMAL({}, 0)) * {})", quotient, 37 - scale, unit), type_), type_)


def _check_nonzero(value: Typed) -> Fragment:
    if value.is_literal and value.value:
        return value.sql
    return fragment(
        "(CASE WHEN {value} = 0 THEN error('pando:153:Division by zero') ELSE {value} END)", value=value.sql
    )


def _checked_divisor(left: Typed, right: Typed) -> Fragment:
    """Returns the divisor with checks, which end the query with 153.

    ClickHouse refuses zero, and -1 for the least number of a signed type.
    """
    if right.is_literal and right.value not in (0, -1):
        return right.sql
    a, b = bool_as_integer(left.type), bool_as_integer(right.type)
    if not a.signed or not b.signed:
        return _check_nonzero(right)
    return fragment(
        "(CASE WHEN {value} = 0 THEN error('pando:153:Division by zero') WHEN {value} = -1 AND {left} = ({near} - 1) "
        "THEN error('pando:153:Division of minimal signed number by minus one') ELSE {value} END)",
        value=right.sql, left=left.sql, near=a.minimum + 1,
    )  # fmt: skip


def _refuse_least(call: Call, bits: tuple[int, ...]) -> None:
    """Raises 153 for remainders of a column by the least number of the literal's type, as ClickHouse does."""
    left, right = (bool_as_integer(type_) for type_ in call.types)
    is_fast_there = left.signed and left.bits in bits and right.bits <= left.bits
    literal = call.args[1]
    if is_fast_there and right.signed and literal.value == right.minimum and not call.args[0].is_constant:
        raise UserError("ILLEGAL_DIVISION", f"Division by the most negative number {literal.value} of {right.name}")


@function("intDiv", 2)
@with_addresses
def divide_integers(call: Call) -> Typed:
    """Compiles ``intDiv(a, b)``; zero ends the query with 153. Raises ``UserError`` 43, 48."""
    return _compile_int_div(call, zero="error")


@function("intDivOrZero", 2)
@with_addresses
def int_div_or_zero(call: Call) -> Typed:
    """Compiles ``intDivOrZero(a, b)``: 0 where ``intDiv`` fails. Raises ``UserError`` 43, 48."""
    return _compile_int_div(call, zero="zero")


def _compile_int_div(call: Call, zero: str) -> Typed:
    """Compiles ``intDiv`` or ``intDivOrZero``; ``zero`` is ``error`` or ``zero``."""
    left, right = call.args
    kind = arithmetic_kind(call)
    if kind == "other":
        raise illegal_types_error(call)
    if kind != "integer":
        type_ = IntegerType(_quotient_bits(left.type), True)
        quotient = _float_quotient(call, zero, type_) if kind == "float" else _decimal_quotient(call, zero)
        return Typed(cast(quotient, type_), type_)
    a, b = bool_as_integer(left.type), bool_as_integer(right.type)
    type_ = IntegerType(a.bits, a.signed or b.signed)
    divisor = _checked_divisor(left, right) if zero == "error" else fragment("nullif({}, 0)", right.sql)
    # Only the least Int64 divided by -1 overflows 64 bits. OrZero and other literals exclude that case.
    is_safe = (right.is_literal and right.value != -1) or zero == "zero"
    wide = "HUGEINT" if max(a.bits, b.bits) == 64 and a.signed != b.signed and not is_safe else "BIGINT"
    if not a.signed and not b.signed:
        wide = "UBIGINT"
    dividend, divisor = _as_signed(left.sql, a, b), _as_signed(divisor, b, a)
    if zero == "zero" and type_.signed and (not right.is_literal or right.value == -1):
        divisor = _null_on_overflow(dividend, divisor, type_)
    quotient = fragment("(CAST({} AS {wide}) // CAST({} AS {wide}))", dividend, divisor, wide=wide)
    if wide == "HUGEINT":
        sql = wrap_to_64_bits(quotient, type_) if type_.bits == 64 else cast(quotient, type_)
    else:
        sql = wrap_integer(quotient, IntegerType(64, wide == "BIGINT"), type_)
    return Typed(sql if zero == "error" else fragment("coalesce({}, {})", sql, cast("0", type_)), type_)


def _null_on_overflow(dividend: Fragment, divisor: Fragment, type_: IntegerType) -> Fragment:
    """Returns the divisor, or NULL where the least number is divided by -1."""
    return fragment(
        "(CASE WHEN {} = ({} - 1) AND {divisor} = -1 THEN NULL ELSE {divisor} END)",
        dividend,
        type_.minimum + 1,
        divisor=divisor,
    )


def _quotient_bits(type_: DataType) -> int:
    if isinstance(type_, FloatType):
        return type_.bits
    if isinstance(type_, DecimalType):
        return 32 if type_.precision <= 9 else 64
    return bool_as_integer(type_).bits


def _float_quotient(call: Call, zero: str, type_: IntegerType) -> Fragment:
    left, right = (cast(arg.sql, FLOAT64) for arg in call.args)
    quotient = fragment("pando_float_quotient({}, {}, {})", left, right, repr(float(type_.maximum)))
    return quotient if zero == "error" else fragment("(CASE WHEN {} = 0 THEN 0 ELSE {} END)", right, quotient)


def _decimal_quotient(call: Call, zero: str) -> Fragment:
    """Divides Decimals (or one and an integer) as integers of equal scale. Raises ``UserError`` 48."""
    scales = []
    for value in call.args:
        if isinstance(value.type, DecimalType) and value.type.precision > 18:
            raise UserError("NOT_IMPLEMENTED", f"{call.name} of {value.type} is not supported")
        scales.append(value.type.scale if isinstance(value.type, DecimalType) else 0)
    scale = max(scales)
    wide = "BIGINT" if all(map(_fits_bigint, call.args, (10 ** (scale - own) for own in scales))) else "HUGEINT"
    units = [_smallest_units(value, own, wide) for value, own in zip(call.args, scales, strict=True)]
    dividend, divisor = (
        fragment("{} * {}", unit, 10 ** (scale - own)) for unit, own in zip(units, scales, strict=True)
    )
    if zero == "zero":
        return fragment("(CASE WHEN {} = 0 THEN 0 ELSE ({}) // nullif({}, 0) END)", call.args[1].sql, dividend, divisor)
    return fragment("(({}) // {})", dividend, _check_nonzero(Typed(fragment("({})", divisor), INT64)))


def _fits_bigint(value: Typed, factor: int) -> bool:
    """Tells whether the value's units times ``factor`` fit a BIGINT."""
    if isinstance(value.type, DecimalType):
        return 10**value.type.precision * factor < 2**63
    type_ = bool_as_integer(value.type)
    return max(-type_.minimum, type_.maximum) * factor < 2**63


def _smallest_units(value: Typed, scale: int, wide: str) -> Fragment:
    """Returns a Decimal of up to 18 digits as an integer of its smallest units; integers unchanged."""
    if scale == 0:
        return fragment("CAST({} AS {})", value.sql, wide)
    units = bind_value(value.sql, "decimal", lambda v: fragment("pando_units({}, {})", v, 10**scale))
    return units if wide == "BIGINT" else fragment("CAST({} AS {})", units, wide)


def _as_signed(sql: Fragment, own: IntegerType, other: IntegerType) -> Fragment:
    """Reinterprets an unsigned number beside a signed one as signed, as ClickHouse does."""
    if own.signed or not other.signed:
        return sql
    return wrap_integer(sql, own, IntegerType(own.bits, True))


@function("modulo mod", 2)
@with_addresses
def modulo(call: Call) -> Typed:
    """Compiles ``a % b``; zero ends the query with 153. Raises ``UserError`` 43, 48, 153."""
    return _compile_modulo(call, zero="error")


@function("moduloOrZero", 2)
@with_addresses
def modulo_or_zero(call: Call) -> Typed:
    """Compiles ``moduloOrZero(a, b)``: 0 for a divisor of zero. Raises ``UserError`` 43."""
    return _compile_modulo(call, zero="zero")


def _compile_modulo(call: Call, zero: str) -> Typed:
    """Compiles ``modulo`` or ``moduloOrZero``; ``zero`` is ``error`` or ``zero``."""
    left, right = call.args
    if isinstance(left.type, Date32Type | DateTime64Type):
        raise illegal_types_error(call)
    if is_date_or_time(left.type) and is_number(right.type):
        days = IntegerType(16 if left.type.name == "Date" else 32, False)
        left = Typed(cast_to(left, days, call.environment.zone), days)
        call = Call(call.name, (left, right), call.environment)
    kind = arithmetic_kind(call)
    if zero == "zero" and any(isinstance(type_, DecimalType) for type_ in call.types):
        raise illegal_types_error(call)
    if kind == "float":
        return Typed(fragment("pando_float_modulo({}, {})", cast(left.sql, FLOAT64), cast(right.sql, FLOAT64)), FLOAT64)
    if kind != "integer":
        raise (
            illegal_types_error(call)
            if kind == "other"
            else UserError("NOT_IMPLEMENTED", "modulo of decimals is not supported")
        )
    a, b = bool_as_integer(left.type), bool_as_integer(right.type)
    type_ = IntegerType(min(64, 2 * b.bits) if a.signed else b.bits, a.signed)
    if zero == "error":
        _refuse_least(call, (32, 64))
    divisor = _remainder_divisor(left, right, zero)
    wide = (
        "HUGEINT"
        if a.signed != b.signed and (b if a.signed else a).bits == 64
        else ("BIGINT" if a.signed or b.signed else "UBIGINT")
    )
    sql = cast(fragment("(CAST({} AS {wide}) % CAST({} AS {wide}))", left.sql, divisor, wide=wide), type_)
    return Typed(sql if zero == "error" else fragment("coalesce({}, {})", sql, cast("0", type_)), type_)


def _remainder_divisor(left: Typed, right: Typed, zero: str) -> Fragment:
    """Returns the divisor of a remainder, never -1: DuckDB would overflow for the least Int64."""
    a, b = bool_as_integer(left.type), bool_as_integer(right.type)
    if right.is_literal and right.value == -1 and (zero == "zero" or a.bits in (32, 64)) and not left.is_constant:
        return fragment("1")
    if zero == "error":
        return _checked_divisor(left, right)
    divisor = fragment("nullif({}, 0)", right.sql)
    return fragment("nullif({}, -1)", divisor) if a.signed and b.signed else divisor


@function("positiveModulo positive_modulo pmod", 2)
@with_addresses
def positive_modulo(call: Call) -> Typed:
    """Compiles ``positiveModulo(a, b)``, which is never negative. Raises ``UserError`` 43, 153."""
    left, right = call.args
    kind = arithmetic_kind(call)
    if kind == "float":
        return Typed(
            fragment("pando_positive_float_modulo({}, {})", cast(left.sql, FLOAT64), cast(right.sql, FLOAT64)), FLOAT64
        )
    if kind != "integer":
        raise illegal_types_error(call)
    _refuse_least(call, (64,))
    left_bits, right_type = bool_as_integer(left.type).bits, bool_as_integer(right.type)
    type_ = IntegerType(right_type.bits, False)
    wide = "HUGEINT" if left_bits == 64 or right_type == UINT64 else "BIGINT"
    a, b = (fragment("CAST({} AS {})", sql, wide) for sql in (left.sql, _check_nonzero(right)))
    rest = bind_value(fragment("({} % {})", a, b), "rest", lambda r: fragment(_POSITIVE, r, b))
    return Typed(cast(rest, type_), type_)


_POSITIVE = "(CASE WHEN {0} >= 0 THEN {0} WHEN {1} < 0 THEN {0} - {1} ELSE {0} + {1} END)"


@function("gcd", 2)
@with_addresses
def gcd(call: Call) -> Typed:
    """Compiles the greatest common divisor. Raises ``UserError`` 43."""
    return _compile_common_divisor(call, "gcd")


@function("lcm", 2)
@with_addresses
def lcm(call: Call) -> Typed:
    """Compiles the least common multiple. Raises ``UserError`` 43."""
    return _compile_common_divisor(call, "lcm")


def _compile_common_divisor(call: Call, name: str) -> Typed:
    if arithmetic_kind(call) != "integer":
        raise illegal_types_error(call)
    left, right = (bool_as_integer(type_) for type_ in call.types)
    type_ = sum_type(left, right)
    values = [fragment("CAST({} AS HUGEINT)", _check_nonzero(arg)) for arg in call.args]
    return Typed(cast(function_call(name, *values), type_), type_)


MACROS = define_macros(
    # A cast computes in 128 bits, which takes ten times as long.
    "pando_units(x, unit) AS CAST(trunc(x) AS BIGINT) * unit + CAST(x % 1 * unit AS BIGINT)",
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
