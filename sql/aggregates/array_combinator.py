"""The combinator -Array, which aggregates the elements of arrays (``sumArray``).

Each array is first reduced to one value, so that DuckDB's aggregate over these values equals the one over all elements.
Where there is no such value, all arrays are concatenated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import ArrayType, BoolType, DataType, DecimalType, FloatType, IntegerType
from sql.functions.registry import Call, Rule, find_aggregate
from sql.typing.column_kernels.float_bits import bits_to_floats, floats_to_bits
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.integer_conversions import wrap_to_64_bits
from sql.typing.result_types import sum_result
from sql.typing.typed_expressions import FLOAT64, UINT64, Typed, cast


def aggregate_elements(rule: Rule) -> Rule:
    """Returns the rule of the aggregate over arrays' elements.

    Raises ``UserError`` 48 for aggregates that do not support it.
    """
    make = _BUILDERS.get(rule.name)
    if make is None:
        raise UserError("NOT_IMPLEMENTED", f"Aggregate function combinator -Array ({rule.name}Array) is not supported")
    return replace(rule, name=f"{rule.name}Array", build=lambda call: make(rule, call))


def _array_argument(call: Call) -> tuple[Fragment, DataType]:
    """Returns the array and its element type. Raises ``UserError`` 43, 48."""
    (value, *_) = call.args
    if call.distinct:
        raise UserError("NOT_IMPLEMENTED", f"{call.name} of different elements is not supported: use arrayDistinct")
    if not isinstance(value.type, ArrayType):
        raise call.wrong_type(0, "an array, for the combinator -Array")
    inner = value.type.inner
    if inner.is_nullable:
        raise UserError("NOT_IMPLEMENTED", f"{call.name} of {value.type} is not supported")
    return value.sql, inner


def _apply_rule(name: str, call: Call, value: Typed) -> Typed:
    rule = find_aggregate(name)
    assert rule is not None, name
    return rule.build(replace(call, args=(value,)))


def _sum_each_array(call: Call) -> Typed:
    """Returns the sum of each array. Raises ``UserError`` 43."""
    array, inner = _array_argument(call)
    if isinstance(inner, BoolType):
        array, inner = fragment("CAST({} AS UTINYINT[])", array), IntegerType(8, False)
    type_ = sum_result(inner)
    if isinstance(inner, IntegerType) and isinstance(type_, IntegerType):
        whole = fragment("coalesce(list_sum({}), 0)", array)
        return Typed(wrap_to_64_bits(whole, type_) if inner.bits == 64 else cast(whole, type_), type_)
    if isinstance(inner, FloatType):
        return Typed(fragment("coalesce(list_sum(CAST({} AS DOUBLE[])), 0)", array), FLOAT64)
    if isinstance(inner, DecimalType):
        return Typed(cast(fragment("coalesce(list_sum({}), 0)", array), type_), type_)
    raise call.wrong_type(0, "an array of numbers")


def _sum(rule: Rule, call: Call) -> Typed:
    return rule.build(replace(call, args=(_sum_each_array(call),)))


def _count(rule: Rule, call: Call) -> Typed:
    array, _ = _array_argument(call)
    return _apply_rule("sum", call, Typed(fragment("CAST(len({}) AS UBIGINT)", array), UINT64))


def _avg(rule: Rule, call: Call) -> Typed:
    array, _ = _array_argument(call)
    total = cast(_apply_rule("sum", call, _sum_each_array(call)).sql, FLOAT64)
    return Typed(fragment("({} / sum(len({})){})", total, array, call.filter), FLOAT64)


def _build_extreme(function: str) -> Callable[[Rule, Call], Typed]:
    def build(rule: Rule, call: Call) -> Typed:
        array, inner = _array_argument(call)
        if isinstance(inner, FloatType):  # NaN is ignored unless there is nothing else
            numbers = fragment("list_filter({}, lambda x: NOT isnan(x))", array)
            array = fragment("coalesce({0}({1}), {0}({2}))", function, numbers, array)
            return rule.build(replace(call, args=(Typed(array, inner),)))
        return rule.build(replace(call, args=(Typed(fragment("{}({})", function, array), inner),)))

    return build


def _any(rule: Rule, call: Call) -> Typed:
    array, inner = _array_argument(call)
    return rule.build(replace(call, args=(Typed(fragment("{}[1]", array), inner),)))


def _concatenate_arrays(call: Call) -> tuple[Fragment, DataType]:
    """Returns the elements of all arrays as one array, and their type."""
    array, inner = _array_argument(call)
    return fragment("flatten(list({}){})", array, call.filter), inner


def _uniq(rule: Rule, call: Call) -> Typed:
    values, inner = _concatenate_arrays(call)
    return Typed(fragment("CAST(len(list_distinct({})) AS UBIGINT)", floats_to_bits(values, ArrayType(inner))), UINT64)


def _build_collection(*, distinct: bool) -> Callable[[Rule, Call], Typed]:
    def build(rule: Rule, call: Call) -> Typed:
        if call.params:
            raise UserError("NOT_IMPLEMENTED", f"{call.name} with a size is not supported")
        values, inner = _concatenate_arrays(call)
        type_ = ArrayType(inner)
        if distinct:
            values = bits_to_floats(fragment("list_distinct({})", floats_to_bits(values, type_)), type_)
        return Typed(values, type_)

    return build


_BUILDERS: dict[str, Callable[[Rule, Call], Typed]] = {
    "sum": _sum,
    "count": _count,
    "avg": _avg,
    "min": _build_extreme("list_min"),
    "max": _build_extreme("list_max"),
    "any": _any,
    "uniqExact": _uniq,
    "groupArray": _build_collection(distinct=False),
    "groupUniqArray": _build_collection(distinct=True),
}
