"""Rounding, powers, logarithms, trigonometry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from parts.common.errors import UserError
from parts.types import BoolType, DecimalType, FloatType, IntegerType
from sql.functions.registry import Call, define, function
from sql.typing.column_kernels.kernels import Kernel, fixed_width_column, fixed_width_values
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.integer_conversions import wrap_integer, wrap_to_64_bits
from sql.typing.result_types import bool_as_integer, is_number
from sql.typing.typed_expressions import FLOAT64, INT8, UINT8, Typed, cast


def _build_float_function(template: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        values = []
        for position, arg in enumerate(call.args):
            if not is_number(arg.type):
                raise call.wrong_type(position, "a number")
            values.append(arg.sql if arg.type == FLOAT64 else cast(arg.sql, FLOAT64))
        return Typed(fragment(template, *values), FLOAT64)

    return build


for _names, _template in (
    ("sqrt", "(CASE WHEN {0} < 0 THEN CAST('nan' AS DOUBLE) ELSE sqrt(abs({0})) END)"), ("cbrt", "cbrt({0})"),
    ("exp", "pando_exp({0})"), ("exp2", "pow(2, {0})"),
    ("log ln", "pando_log({0}, ln({0}))"), ("log2", "pando_log({0}, log2({0}))"),
    ("log10", "pando_log({0}, log10({0}))"),
    ("sin", "sin({0})"), ("cos", "cos({0})"), ("tan", "tan({0})"),
    ("asin", "asin({0})"), ("acos", "acos({0})"), ("atan", "atan({0})"), ("sinh", "sinh({0})"), ("cosh", "cosh({0})"),
    ("tanh", "tanh({0})"), ("asinh", "asinh({0})"), ("acosh", "acosh({0})"), ("atanh", "atanh({0})"),
    ("degrees", "degrees({0})"), ("radians", "radians({0})"), ("lgamma", "pando_lgamma({0})"), ("tgamma", "gamma({0})"),
):  # fmt: skip
    define(_names, _build_float_function(_template), 1)
define("pow power", _build_float_function("pow({0}, {1})"), 2)
define("atan2", _build_float_function("atan2({0}, {1})"), 2)
define("hypot", _build_float_function("pando_hypot({0}, {1})"), 2)
define("pi", lambda call: Typed(fragment("pi()"), FLOAT64, is_constant=True), 0)
define("e", lambda call: Typed(fragment("exp(1)"), FLOAT64, is_constant=True), 0)


@function("sign", 1)
def sign(call: Call) -> Typed:
    """Compiles ``sign(x)``; NaN gives 1. Raises ``UserError`` 43."""
    if not is_number(call.args[0].type):
        raise call.wrong_type(0, "a number")
    value = call.args[0]
    if isinstance(value.type, FloatType):
        return Typed(
            cast(fragment("CASE WHEN isnan({value}) THEN 1 ELSE sign({value}) END", value=value.sql), INT8), INT8
        )
    return Typed(
        cast(fragment("sign({})", cast(value.sql, UINT8) if isinstance(value.type, BoolType) else value.sql), INT8),
        INT8,
    )


# Rounding -------------------------------------------------------------------------------------------------------------


def _digits_argument(call: Call) -> int:
    digits = call.constant_int(1, 0)
    if not -32768 <= digits <= 32767:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"{call.name}: the scale {digits} must be from -32768 to 32767")
    return digits


def _build_rounding(function: str, integer: str, decimal: str, digits_of: str) -> Callable[[Call], Typed]:
    """Builds a rounding function from four SQL templates.

    ``function``: the DuckDB function that rounds a float to an integer. ``integer``: rounds the integer ``{x}`` to the
    unit ``{unit}`` as ClickHouse does. ``decimal``: rounds the HUGEINT ``{0}`` to ``{1}``. ``digits_of``: rounds the
    Decimal ``{x}`` to ``{digits}`` digits, whose last has the value ``{step}``.
    """

    def build(call: Call) -> Typed:
        value, digits = call.args[0], _digits_argument(call)
        if isinstance(value.type, (IntegerType, BoolType)):
            return value if digits >= 0 else _round_integer(integer, value, 10**-digits)
        if isinstance(value.type, DecimalType):
            if digits >= value.type.scale:
                return value
            if digits < value.type.scale - 38:
                return Typed(cast(fragment("({} * 0)", value.sql), value.type), value.type)
            if digits >= 0:
                step = fragment("CAST('{}' AS DECIMAL({}, {}))", f"{10.0**-digits:.{digits}f}", digits + 1, digits)
                rounded = bind_value(value.sql, "exact", lambda v: fragment(digits_of, x=v, digits=digits, step=step))
                return Typed(cast(rounded, value.type), value.type)
            return Typed(cast(_round_decimal(decimal, value, digits), value.type), value.type)
        if not isinstance(value.type, FloatType):
            raise call.wrong_type(0, "a number")
        return Typed(cast(_round_float(function, value.sql, digits), value.type), value.type)

    return build


def _round_integer(template: str, value: Typed, unit: int) -> Typed:
    """Rounds in the value's own type, which wraps around at its limits.

    C++ computes narrow numbers as Int32.
    """
    type_ = bool_as_integer(value.type)
    if unit > type_.maximum:
        return Typed(
            fragment("({value} <> {value})" if isinstance(value.type, BoolType) else "({value} * 0)", value=value.sql),
            value.type,
        )
    wide = IntegerType(64, True)

    def wrap(sql: Fragment, goal: IntegerType) -> Fragment:
        if goal.bits == 64:
            return fragment("CAST({} AS HUGEINT)", wrap_to_64_bits(sql, goal))
        return cast(wrap_integer(sql, wide, goal), wide)

    own = fragment("CAST({} AS {})", value.sql, "HUGEINT" if type_.bits == 64 else "BIGINT")
    shifted = wrap(fragment("({} - {})", own, unit), type_) if type_.signed else own
    half_up = wrap(
        fragment("(CASE WHEN {own} < 0 THEN {} ELSE {own} END + {})", shifted, unit // 2, own=own),
        type_ if type_.bits >= 32 else IntegerType(32, True),
    )
    less, more = (wrap(fragment(way, own, unit - 1), type_) for way in ("({} - {})", "({} + {})"))
    down = fragment("CASE WHEN {own} < 0 THEN {} ELSE {own} END", less, own=own) if type_.signed else own
    up = fragment("CASE WHEN {own} > 0 THEN {} ELSE {own} END", more, own=own)
    rounded = fragment(template, x=own, unit=unit, half_up=half_up, down=down, up=up)
    if type_.bits == 64:
        sql = wrap_to_64_bits(rounded, type_)
    else:
        sql = wrap_integer(rounded, wide, type_)
    return Typed(fragment("({} <> 0)", sql) if isinstance(value.type, BoolType) else sql, value.type)


def _round_decimal(template: str, value: Typed, digits: int) -> Fragment:
    assert isinstance(value.type, DecimalType)
    scale = value.type.scale
    whole = fragment("CAST(CAST({} AS DECIMAL(38, {})) * {} AS HUGEINT)", value.sql, scale, 10**scale)
    rounded = fragment(template, whole, 10 ** min(scale - digits, 38))
    unit = fragment("CAST('{}' AS DECIMAL({}, {}))", f"{10.0**-scale:.{scale}f}", scale + 1, scale)
    return fragment("(CAST({} AS DECIMAL({}, 0)) * {})", rounded, 37 - scale, unit)


def _round_float(function: str, sql: Fragment, digits: int) -> Fragment:
    """Rounds a float to digits. ClickHouse's powers of ten end at the greatest UInt64."""
    unit = float(min(10 ** abs(digits), 2**64 - 1))
    if digits == 0:
        return function_call(function, sql)
    scaled = fragment("{} * {}" if digits > 0 else "{} / {}", sql, repr(unit))
    return fragment("({} / {})" if digits > 0 else "({} * {})", function_call(function, scaled), repr(unit))


_TRUNC_INTEGER = "(({x}) // {unit} * {unit})"
_FLOOR_INTEGER = "(({down}) // {unit} * {unit})"
_CEIL_INTEGER = "(({up}) // {unit} * {unit})"
_HALF_AWAY_INTEGER = "({half_up} // {unit} * {unit})"
_HALF_EVEN_INTEGER = (
    "(CASE WHEN {half_up} % {unit} = 0 "
    "THEN (({half_up} // {unit} + CASE WHEN {x} < 0 THEN 1 ELSE 0 END) & -2) * {unit} "
    "ELSE {half_up} // {unit} * {unit} END)"
)

_HALF_AWAY = "(CASE WHEN {0} < 0 THEN -((-{0} + {1} // 2) // {1}) ELSE ({0} + {1} // 2) // {1} END * {1})"
_HALF_EVEN = (
    "(CASE WHEN abs({0}) % {1} * 2 > {1} OR (abs({0}) % {1} * 2 = {1} AND abs({0}) // {1} % 2 = 1) "
    "THEN sign({0}) * (abs({0}) // {1} + 1) ELSE sign({0}) * (abs({0}) // {1}) END * {1})"
)
_FLOOR = "(CASE WHEN {0} < 0 AND {0} % {1} <> 0 THEN {0} // {1} - 1 ELSE {0} // {1} END * {1})"
_CEIL = "(CASE WHEN {0} > 0 AND {0} % {1} <> 0 THEN {0} // {1} + 1 ELSE {0} // {1} END * {1})"
_TRUNC = "({0} // {1} * {1})"

_FLOOR_DIGITS = (
    "(CASE WHEN trunc({x}, {digits}) > {x} THEN trunc({x}, {digits}) - {step} ELSE trunc({x}, {digits}) END)"
)
_CEIL_DIGITS = "(CASE WHEN trunc({x}, {digits}) < {x} THEN trunc({x}, {digits}) + {step} ELSE trunc({x}, {digits}) END)"
_HALF_EVEN_DIGITS = (
    "(CASE WHEN abs({x} - trunc({x}, {digits})) * 2 = {step} AND trunc({x}, {digits}) % ({step} * 2) = 0 "
    "THEN trunc({x}, {digits}) ELSE round({x}, {digits}) END)"
)

define("round", _build_rounding("pando_rint", _HALF_AWAY_INTEGER, _HALF_AWAY, "round({x}, {digits})"), (1, 2))
define("roundBankers", _build_rounding("pando_rint", _HALF_EVEN_INTEGER, _HALF_EVEN, _HALF_EVEN_DIGITS), (1, 2))
define("floor", _build_rounding("floor", _FLOOR_INTEGER, _FLOOR, _FLOOR_DIGITS), (1, 2))
define("ceil ceiling", _build_rounding("ceil", _CEIL_INTEGER, _CEIL, _CEIL_DIGITS), (1, 2))
define("trunc truncate", _build_rounding("trunc", _TRUNC_INTEGER, _TRUNC, "trunc({x}, {digits})"), (1, 2))


@function("roundToExp2", 1)
def round_to_exp2(call: Call) -> Typed:
    """Compiles ``roundToExp2`` of an unsigned integer: the power of two at or below it.

    Raises ``UserError`` 48 for other types.
    """
    value = call.args[0]
    if not isinstance(value.type, IntegerType) or value.type.signed:
        raise UserError("NOT_IMPLEMENTED", f"roundToExp2 of {value.type} is not supported")
    power = fragment("pow(2, floor(log2({})))", value.sql)
    return Typed(cast(fragment("CASE WHEN {} = 0 THEN 0 ELSE {} END", value.sql, power), value.type), value.type)


MACROS = define_macros(
    r"""pando_lgamma(x) AS CASE WHEN x < 0 AND x = trunc(x) AND NOT isinf(x) THEN CAST('nan' AS DOUBLE)
        ELSE lgamma(x) END""",
    r"""pando_hypot(a, b) AS CASE WHEN isinf(a) OR isinf(b) THEN CAST('inf' AS DOUBLE)
        WHEN greatest(abs(a), abs(b)) > 1e150 OR greatest(abs(a), abs(b)) < 1e-150
        THEN CASE WHEN a = 0 AND b = 0 THEN 0.0::DOUBLE ELSE greatest(abs(a), abs(b))
            * sqrt(1 + pow(least(abs(a), abs(b)) / greatest(abs(a), abs(b)), 2)) END
        ELSE sqrt(a * a + b * b) END""",
    r"pando_rint(x) AS CASE WHEN abs(x - trunc(x)) = 0.5 THEN 2 * round(x / 2) ELSE round(x) END",
    r"pando_log(x, r) AS CASE WHEN x > 0 THEN r WHEN x = 0 THEN CAST('-inf' AS DOUBLE) ELSE CAST('nan' AS DOUBLE) END",
    r"pando_exp(x) AS CASE WHEN x > 709.782712893384 THEN CAST('inf' AS DOUBLE) ELSE exp(x) END",
)


_LEAST_POWER, _MOST_POWER, _NO_POWER = -323, 308, 400
_POWERS = np.array([float(f"1e{power}") for power in range(_LEAST_POWER, _MOST_POWER + 1)])


def _exp10(values: np.ndarray) -> np.ndarray:
    """Computes powers of ten; integral powers are exact."""
    is_whole = (values == np.trunc(values)) & (values >= _LEAST_POWER) & (values <= _MOST_POWER)
    exact = _POWERS[np.where(is_whole, values, 0).astype(np.int64) - _LEAST_POWER]
    if is_whole.all():
        return exact
    # NumPy is very slow for exponents out of range, so these are answered here.
    powers = np.power(10.0, np.where(is_whole | (np.abs(values) > _NO_POWER), 0, values))
    powers = np.where(values > _NO_POWER, np.inf, np.where(values < -_NO_POWER, 0, powers))
    return np.where(is_whole, exact, powers)


def _apply_function(function: Callable[[np.ndarray], np.ndarray], given: pa.Array) -> pa.Array:
    """Applies a function to numbers; values outside its domain give NaN or infinity."""
    floats = given.cast(pa.float64())
    with np.errstate(all="ignore"):
        return fixed_width_column(function(fixed_width_values(floats, np.float64)), pa.float64(), floats)


_NUMPY_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"exp10": _exp10, "log1p": np.log1p}
"""Functions that DuckDB lacks."""
_EXACT_BITS = 32
"""Integers of at most this many bits are exact as floats."""


def _build_numpy_function(name: str) -> Callable[[Call], Typed]:
    build, compute = _build_float_function(f"pando_{name}({{0}})"), partial(_apply_function, _NUMPY_FUNCTIONS[name])

    def scanned(call: Call) -> Typed:
        made, given = build(call), call.args[0].type
        if not isinstance(given, FloatType) and not (isinstance(given, IntegerType) and given.bits <= _EXACT_BITS):
            return made
        return Typed(Scannable(made.sql, call.args[0].sql, compute, pa.float64()), FLOAT64)

    return scanned


for _name in _NUMPY_FUNCTIONS:
    define(_name, _build_numpy_function(_name), 1)

KERNELS = tuple(
    Kernel(f"pando_{name}", ("DOUBLE",), "DOUBLE", partial(_apply_function, function))
    for name, function in _NUMPY_FUNCTIONS.items()
)
