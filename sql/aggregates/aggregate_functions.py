"""Aggregate functions. Results are exact also where ClickHouse approximates (uniq, quantile)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    NullableType,
    UUIDType,
    strip_nullable,
)
from sql.aggregates.list_kernels import find_most_frequent, values_at_levels
from sql.functions.registry import Call, define, function
from sql.typing.casts.text_casts import to_text
from sql.typing.column_kernels.float_bits import bits_to_floats, floats_to_bits, has_floats
from sql.typing.default_values import default_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments, leaf
from sql.typing.integer_conversions import wrap_integer, wrap_to_64_bits
from sql.typing.result_types import is_date_or_time, is_number, sum_result
from sql.typing.typed_expressions import FLOAT64, STRING, UINT64, Typed, cast, string_literal
from sql.typing.uuid_order import swap_uuid_halves


@function("count", (0, 1), aggregate=True, never_null=True)
def _count(call: Call) -> Typed:
    counted = call.args[0].sql if call.args else "*"
    return Typed(fragment("CAST(count({}){} AS UBIGINT)", counted, call.filter), UINT64)


def _number_argument(
    call: Call, position: int = 0, *, is_decimal_fine: bool = True, is_enum_fine: bool = False
) -> Typed:
    """Returns a numeric argument. Raises ``UserError`` 43.

    With ``is_enum_fine`` an Enum counts as its number.
    """
    value = call.args[position]
    if is_enum_fine and isinstance(enum := strip_nullable(value.type), EnumType):
        return replace(value, type=IntegerType(enum.bits, True))
    if not is_number(value.type) or (isinstance(strip_nullable(value.type), DecimalType) and not is_decimal_fine):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal type {value.type} of argument for aggregate function {call.name}"
        )
    return value


@function("sum", 1, aggregate=True)
def _sum(call: Call) -> Typed:
    value = _number_argument(call, is_enum_fine=True)
    type_ = sum_result(value.type)
    if isinstance(type_, IntegerType):
        number = fragment("CAST({} AS UTINYINT)", value.sql) if isinstance(value.type, BoolType) else value.sql
        total = fragment("sum({}{}){}", call.distinct, number, call.filter)
        wide = isinstance(value.type, IntegerType) and value.type.bits == 64
        return Typed(wrap_to_64_bits(total, type_) if wide else cast(total, type_), type_)
    inner = cast(value.sql, FLOAT64) if isinstance(value.type, FloatType) and value.type.bits == 32 else value.sql
    return Typed(fragment("sum({}{}){}", call.distinct, inner, call.filter), type_)


define("sumWithOverflow", lambda call: _same_width_sum(call), 1, aggregate=True)


@function("sumKahan", 1, aggregate=True)
def _sum_kahan(call: Call) -> Typed:
    value = cast(_number_argument(call, is_enum_fine=True).sql, FLOAT64)
    return Typed(fragment("fsum({}{}){}", call.distinct, value, call.filter), FLOAT64)


def _same_width_sum(call: Call) -> Typed:
    value = _number_argument(call, is_enum_fine=True)
    if not isinstance(value.type, IntegerType):
        return _sum(call)
    wide = IntegerType(64, value.type.signed)
    return Typed(
        wrap_integer(
            wrap_to_64_bits(fragment("sum({}{}){}", call.distinct, value.sql, call.filter), wide), wide, value.type
        ),
        value.type,
    )


@function("avg", 1, aggregate=True, empty_nan=True)
def _avg(call: Call) -> Typed:
    value = _number_argument(call)
    inner = fragment("CAST({} AS UTINYINT)", value.sql) if isinstance(value.type, BoolType) else value.sql
    if call.distinct and has_floats(value.type):
        count = fragment("count(DISTINCT {}){}", floats_to_bits(value.sql, value.type), call.filter)
        return Typed(fragment("(sum(DISTINCT {}){} / {})", inner, call.filter, count), FLOAT64)
    if isinstance(value.type, IntegerType) and value.type.bits == 64:
        count = fragment("count({}{}){}", call.distinct, inner, call.filter)
        return Typed(fragment("({} / {})", cast(_sum(call).sql, FLOAT64), count), FLOAT64)
    return Typed(fragment("avg({}{}){}", call.distinct, inner, call.filter), FLOAT64)


@function("avgWeighted", 2, aggregate=True, empty_nan=True)
def _avg_weighted(call: Call) -> Typed:
    value, weight = (cast(_number_argument(call, position, is_decimal_fine=False).sql, FLOAT64) for position in (0, 1))
    known = fragment("CASE WHEN {} IS NULL THEN NULL ELSE {} END", value, weight)
    mean = fragment("(sum({} * {}){filter} / sum({}){filter})", value, weight, known, filter=call.filter)
    return Typed(mean, FLOAT64)


# Counting distinct values ---------------------------------------------------------------------------------------------


@function("uniqExact uniq uniqCombined uniqCombined64", (1, None), aggregate=True, never_null=True)
def _uniq(call: Call) -> Typed:
    values = [floats_to_bits(arg.sql, arg.type) for arg in call.args]
    if len(values) == 1:
        return Typed(fragment("CAST(count(DISTINCT {}){} AS UBIGINT)", values[0], call.filter), UINT64)
    row = join_fragments(", ", values)
    return Typed(fragment("CAST(count(DISTINCT row({})){} AS UBIGINT)", row, call.filter), UINT64)


# Arrays ---------------------------------------------------------------------------------------------------------------


def _without_nullable(type_: DataType) -> DataType:
    return type_.inner if isinstance(type_, NullableType) else type_


def _size_parameter(call: Call) -> int | None:
    if not call.params:
        return None
    value = call.params[0].value
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise UserError("BAD_ARGUMENTS", f"The parameter of {call.name} must be a positive number")
    return value


def _list_collector(call: Call) -> Callable[[Fragment], Fragment]:
    return lambda value: fragment("list({}{}){}", call.distinct, value, call.filter)


@function("groupArray array_agg", 1, aggregate=True, never_null=True)
def _group_array(call: Call) -> Typed:
    if call.distinct:
        return _group_uniq_array(call)
    value, size = call.args[0], _size_parameter(call)
    items = fragment("list_filter(list({}){}, lambda x: x IS NOT NULL)", value.sql, call.filter)
    return Typed(fragment("{}[1:{}]", items, size) if size else items, ArrayType(_without_nullable(value.type)))


@function("groupUniqArray", 1, aggregate=True, never_null=True)
def _group_uniq_array(call: Call) -> Typed:
    value, size = call.args[0], _size_parameter(call)
    type_, bits = ArrayType(_without_nullable(value.type)), floats_to_bits(value.sql, value.type)
    items = fragment("list_filter(list(DISTINCT {}){}, lambda x: x IS NOT NULL)", bits, call.filter)
    return Typed(bits_to_floats(fragment("{}[1:{}]", items, size) if size else items, type_), type_)


_MAX_KEPT_BY_MIN = 1_000_000
"""DuckDB's ``min(x, n)`` keeps fewer than this many values."""


@function("groupArraySorted", 1, aggregate=True, never_null=True)
def _group_array_sorted(call: Call) -> Typed:
    """Compiles ``groupArraySorted(n)(x)``. Raises ``UserError`` 42."""
    size = _size_parameter(call)
    if size is None:
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "groupArraySorted needs a parameter: groupArraySorted(n)(x)"
        )
    value, type_ = call.args[0].sql, ArrayType(_without_nullable(call.args[0].type))
    if isinstance(call.args[0].type, UUIDType):
        items = fragment("list_filter(list({}{}){}, lambda x: x IS NOT NULL)", call.distinct, value, call.filter)
        swap = swap_uuid_halves(leaf("x"))
        ordered = fragment("list_sort(list_transform({}, lambda x: {}))", items, swap)
        return Typed(fragment("list_transform({}[1:{}], lambda x: {})", ordered, size, swap), type_)
    if size < _MAX_KEPT_BY_MIN:
        return Typed(fragment("min({}{}, {}){}", call.distinct, value, size, call.filter), type_)
    items = fragment("list_sort(list_filter(list({}{}){}, lambda x: x IS NOT NULL))", call.distinct, value, call.filter)
    return Typed(fragment("{}[1:{}]", items, size), type_)


@function("topK", 1, aggregate=True, never_null=True)
def _top_k(call: Call) -> Typed:
    """Compiles ``topK(n)(x)``; it is exact."""
    value, size = call.args[0], _size_parameter(call) or 10
    frequent = find_most_frequent(value, _list_collector(call), size)
    if frequent is not None:
        return Typed(frequent, ArrayType(value.type))
    pair = "{'n': -CAST(e.value AS BIGINT), 'v': e.key}"
    counted = fragment(
        "list_transform(map_entries(histogram({}{}){}), lambda e: {})",
        call.distinct,
        floats_to_bits(value.sql, value.type),
        call.filter,
        pair,
    )
    top, type_ = fragment("list_transform(list_sort({})[1:{}], lambda e: e.v)", counted, size), ArrayType(value.type)
    return Typed(bits_to_floats(top, type_), type_)


@function("groupConcat string_agg group_concat", (1, 2), aggregate=True)
def _group_concat(call: Call) -> Typed:
    separator = call.params[0].value if call.params else ""
    if len(call.args) == 2:
        separator = call.constant_text(1)
    if not isinstance(separator, str):
        raise UserError("BAD_ARGUMENTS", "The separator of groupConcat must be a string")
    words = to_text(call.args[0], call.environment.zone)
    return Typed(
        fragment("string_agg({}{}, {}){}", call.distinct, words, string_literal(separator), call.filter), STRING
    )


# Bits -----------------------------------------------------------------------------------------------------------------


def _build_bitwise(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        if not isinstance(value.type, IntegerType):
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"{call.name} takes an integer, not {value.type}")
        bits = fragment("{}({}{}){}", name, call.distinct, value.sql, call.filter)
        if name == "bit_and":  # without rows ClickHouse returns all bits set
            bits = fragment("coalesce({}, {})", bits, -1 if value.type.signed else value.type.maximum)
        return Typed(cast(bits, value.type), value.type)

    return build


for _name, _engine in (("groupBitAnd", "bit_and"), ("groupBitOr", "bit_or"), ("groupBitXor", "bit_xor")):
    define(_name, _build_bitwise(_engine), 1, aggregate=True)


# Statistics -----------------------------------------------------------------------------------------------------------


def _build_moment(name: str, arity: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        values = join_fragments(
            ", ",
            [cast(_number_argument(call, position, is_enum_fine=arity == 1).sql, FLOAT64) for position in range(arity)],
        )
        return Typed(fragment("{}({}{}){}", name, call.distinct, values, call.filter), FLOAT64)

    return build


def _build_spread(name: str) -> Callable[[Call], Typed]:
    """Builds a variance or deviation; with NaN or infinite values it is 0."""

    def build(call: Call) -> Typed:
        value = _build_moment(name, 1)(call)
        if not isinstance(call.args[0].type, FloatType):
            return value
        return replace(value, sql=fragment("CASE WHEN isnan({0}) THEN 0.0::DOUBLE ELSE {0} END", value.sql))

    return build


for _name, _engine in (
    ("stddevPop STDDEV_POP", "stddev_pop"), ("stddevSamp STDDEV_SAMP", "stddev_samp"),
    ("varPop VAR_POP", "var_pop"), ("varSamp VAR_SAMP", "var_samp"),
):  # fmt: skip
    define(_name, _build_spread(_engine), 1, aggregate=True, empty_nan=True)
for _name, _engine, _arity in (
    ("covarPop COVAR_POP", "covar_pop", 2), ("covarSamp COVAR_SAMP", "covar_samp", 2),
    ("corr", "corr", 2),
):  # fmt: skip
    define(_name, _build_moment(_engine, _arity), _arity, aggregate=True, empty_nan=True)


@function("entropy", (1, None), aggregate=True, empty_nan=True)
def _entropy(call: Call) -> Typed:
    if len(call.args) > 1:
        row = join_fragments(", ", [floats_to_bits(arg.sql, arg.type) for arg in call.args])
        missing = join_fragments(" OR ", [fragment("{} IS NULL", arg.sql) for arg in call.args])
        known = fragment("CASE WHEN NOT ({}) THEN row({}) END", missing, row)
        return Typed(fragment("entropy({}{}){}", call.distinct, known, call.filter), FLOAT64)
    value = call.args[0]
    bits = floats_to_bits(value.sql, value.type)
    if isinstance(value.type, FloatType):  # ClickHouse ignores NaN
        bits = fragment("CASE WHEN NOT isnan({}) THEN {} END", value.sql, bits)
    return Typed(fragment("entropy({}{}){}", call.distinct, bits, call.filter), FLOAT64)


# Quantiles ------------------------------------------------------------------------------------------------------------


def _level_parameter(call: Call, position: int = 0) -> float:
    if not call.params:
        return 0.5
    value = call.params[position].value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UserError("BAD_ARGUMENTS", f"The level of {call.name} must be a number from 0 to 1")
    return float(value)


def _interpolate(call: Call, levels: Sequence[float]) -> list[Typed]:
    """Interpolates linearly between the two nearest values; dates and times in their own units."""
    value = call.args[0]
    if isinstance(value.type, DateType):
        number, back = fragment("CAST({} - DATE '1970-01-01' AS DOUBLE)", value.sql), _DATE_FROM_DAYS
    elif is_date_or_time(value.type):
        number, back = fragment("CAST(epoch_us({}) AS DOUBLE)", value.sql), _TIME_FROM_MICROS
    elif isinstance(value.type, DecimalType):
        number, back = value.sql, f"CAST({{}} AS {duckdb_type(value.type)})"
    elif isinstance(value.type, FloatType):  # ClickHouse ignores NaN
        number, back = fragment("CASE WHEN NOT isnan({0}) THEN CAST({0} AS DOUBLE) END", value.sql), "{}"
    elif is_number(value.type):
        number, back = cast(value.sql, FLOAT64), "{}"
    else:
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal type {value.type} of argument for a quantile")
    # One call for all levels: DuckDB collects the values for each call anew.
    wanted = repr(levels[0]) if len(levels) == 1 else f"[{', '.join(map(repr, levels))}]"
    found = fragment("quantile_cont({}{}, {}){}", call.distinct, number, wanted, call.filter)
    places = [found] if len(levels) == 1 else [fragment("{}[{}]", found, n) for n in range(1, len(levels) + 1)]
    type_ = FLOAT64 if back == "{}" else value.type
    return [Typed(fragment(back, place), type_) for place in places]


_DATE_FROM_DAYS = "(DATE '1970-01-01' + CAST(trunc({}) AS INTEGER))"
_TIME_FROM_MICROS = "make_timestamp(CAST(trunc({} / 1000000) AS BIGINT) * 1000000)"


def _pick_exact(call: Call, levels: Sequence[float]) -> list[Typed]:
    """Returns the sorted values at the positions ``level * n``."""
    value = call.args[0]
    found = values_at_levels(value, _list_collector(call), levels)
    if found is None:
        items = fragment("list_sort({})", _list_collector(call)(value.sql))
        template = "list_extract({items}, least(CAST(floor({} * len({items})) AS BIGINT), len({items}) - 1) + 1)"
        found = [fragment(template, repr(level), items=items) for level in levels]
    return [Typed(sql, value.type) for sql in found]


def _build_one_level(build: Callable[[Call, Sequence[float]], list[Typed]]) -> Callable[[Call], Typed]:
    return lambda call: build(call, [_level_parameter(call)])[0]


def _build_many_levels(build: Callable[[Call, Sequence[float]], list[Typed]]) -> Callable[[Call], Typed]:
    def several(call: Call) -> Typed:
        if not call.params:
            raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{call.name} needs levels: {call.name}(0.5, 0.9)(x)")
        values = build(call, [_level_parameter(call, position) for position in range(len(call.params))])
        empty = "CAST('nan' AS DOUBLE)" if values[0].type == FLOAT64 else default_value(values[0].type)
        items = (fragment("coalesce({}, {})", value.sql, empty) for value in values)
        return Typed(fragment("[{}]", join_fragments(", ", items)), ArrayType(values[0].type))

    return several


define("quantile median", _build_one_level(_interpolate), 1, aggregate=True, empty_nan=True)
define("quantileDeterministic medianDeterministic", _build_one_level(_interpolate), 2, aggregate=True, empty_nan=True)
define("quantiles", _build_many_levels(_interpolate), 1, aggregate=True)
define("quantileExact medianExact", _build_one_level(_pick_exact), 1, aggregate=True, empty_nan=True)
define("quantilesExact", _build_many_levels(_pick_exact), 1, aggregate=True)
define("quantileExactInclusive", _build_one_level(_interpolate), 1, aggregate=True, empty_nan=True)
