"""Array functions over all elements: sorting, sums, extremes, differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parts.types import ArrayType, DecimalType, FloatType, IntegerType, NullableType, strip_nullable
from sql.functions.arrays.arrays import array_type
from sql.functions.arrays.higher_order import LambdaOverArrays, default_if_empty
from sql.functions.lambda_bodies import is_number, lambda_element
from sql.functions.list_kernels import lambda_results as scans
from sql.functions.list_kernels.array_search import compact_elements, is_discrete, is_plain, scan_array
from sql.functions.registry import Call, define, function
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call, leaf
from sql.typing.integer_conversions import wrap_to_64_bits
from sql.typing.order_keys import element_differs, element_key, has_own_order
from sql.typing.result_types import bool_as_integer, difference_type, is_integer, sum_result
from sql.typing.result_types import is_number as is_numeric
from sql.typing.typed_expressions import FLOAT64, Typed, cast


def _build_sort(name: str, descending: bool) -> Callable[[Call], Typed]:
    direction = "DESC" if descending else "ASC"

    def build(call: Call) -> Typed:
        finish = scans.sort_arrays(descending)
        if call.args[0].apply is None:
            type_ = array_type(call)
            items = call.args[0].sql
            if has_own_order(type_.inner, nulls_least=descending):
                key = element_key(leaf("x"), type_.inner, descending)
                keyed = fragment("list_transform({}, lambda x: struct_pack(k := {}, v := x))", items, key)
                return Typed(fragment("list_transform(list_sort({}, '{}'), lambda p: p.v)", keyed, direction), type_)
            if scans.is_ordered(Typed(items, type_.inner), descending):
                sql = fragment("list_sort({}, '{}', 'NULLS LAST')", items, direction)
                return Typed(
                    scan_array(sql, call.args[0], lambda own: finish(own, own.values), type_.arrow, is_plain), type_
                )
            if descending and isinstance(strip_nullable(type_.inner), FloatType):  # NaN is last in both directions
                known = fragment("list_sort(list_filter({}, lambda q: NOT isnan(q)), 'DESC')", items)
                rest = fragment("list_filter({}, lambda q: q IS NULL OR isnan(q))", items)
                return Typed(fragment("list_concat({}, list_sort({}, 'ASC', 'NULLS LAST'))", known, rest), type_)
            return Typed(fragment("list_sort({}, '{}', 'NULLS LAST')", items, direction), type_)
        mapped = LambdaOverArrays(call)
        item = mapped.variable if mapped.list == mapped.array.sql else fragment("{}[1]", mapped.variable)
        key = element_key(mapped.body.number, mapped.body.type, descending)
        keyed = mapped.transformed(fragment("struct_pack(k := {}, v := {})", key, item))
        # A stable sort: DuckDB's list_sort compares whole structs, so the position comes second.
        numbered = fragment(
            "list_transform({}, lambda p, i: struct_pack(k := p.k, i := {}, v := p.v))",
            keyed,
            "-i" if descending else "i",
        )
        sql = fragment("list_transform(list_sort({}, '{}', 'NULLS LAST'), lambda p: p.v)", numbered, direction)
        type_ = ArrayType(mapped.inner[0])
        differs = element_differs(mapped.body.type, descending)
        applies = scans.is_ordered(mapped.body, descending) and is_plain(type_) and not differs
        return Typed(mapped.scanned(sql, finish, type_.arrow, applies=applies), type_)

    return build


define("arraySort", _build_sort("arraySort", False), (1, None), nulls=False)
define("arrayReverseSort", _build_sort("arrayReverseSort", True), (1, None), nulls=False)


class _AggregatedValues:
    """The values to aggregate: the results of a lambda, or the array's own elements."""

    def __init__(self, call: Call) -> None:
        self._name = call.name
        if call.args[0].apply is None:
            array, own = call.args[0].sql, lambda_element("v")
            self.inner = array_type(call).inner
            self.sql = array
            self._flat = scans.compile_lambda_body([array], [own], Typed(own, self.inner))
        else:
            mapped = LambdaOverArrays(call)
            self.inner = mapped.body.type
            self.sql = mapped.transformed()
            self._flat = None if mapped.body.is_condition else mapped.flat

    def scanned(self, result: Typed, finish: scans.Finish, *, applies: bool = True) -> Typed:
        """Adds a scan kernel to a result over numbers, with ``finish`` as its last step, if ``applies``."""
        flat = self._flat if applies and is_number(self.inner) else None
        return replace(result, sql=scans.scan_lambda(result.sql, flat, self._name, finish, result.type.arrow))


@function("arraySum", (1, None), nulls=False)
def array_sum(call: Call) -> Typed:
    """Compiles ``arraySum``. Integers wrap around at 64 bits."""
    values = _AggregatedValues(call)
    type_ = sum_result(strip_nullable(values.inner))
    total = fragment("coalesce(list_sum({}), 0)", values.sql)
    sql = wrap_to_64_bits(total, type_) if isinstance(type_, IntegerType) else cast(total, type_)
    finish = scans.sum_arrays if isinstance(type_, IntegerType) else scans.sum_floats
    return values.scanned(Typed(sql, type_), finish)


@function("arrayAvg", (1, None), nulls=False)
def array_avg(call: Call) -> Typed:
    """Compiles ``arrayAvg``. Raises ``UserError`` 43."""
    values = _AggregatedValues(call)
    if not is_numeric(values.inner):
        raise call.wrong_type(0, "an array of numbers")
    mean = fragment("coalesce(list_avg({}), 0.0::DOUBLE)", values.sql)
    inner = strip_nullable(values.inner)
    if isinstance(inner, IntegerType) and inner.bits == 64:  # the sum wraps around before it is divided

        def wrapped(array: Fragment) -> Fragment:
            total = cast(wrap_to_64_bits(fragment("list_sum({})", array), inner), FLOAT64)
            return fragment("coalesce({} / list_count({}), 0.0::DOUBLE)", total, array)

        mean = bind_value(values.sql, "averaged", wrapped)
    return values.scanned(Typed(mean, FLOAT64), scans.average)


@function("arrayProduct", (1, None), nulls=False)
def array_product(call: Call) -> Typed:
    """Compiles ``arrayProduct``. Integers wrap around at 64 bits; an empty array gives 0."""
    values = _AggregatedValues(call)
    inner = strip_nullable(values.inner)
    if not is_numeric(inner):
        raise call.wrong_type(0, "an array of numbers")
    if not is_integer(inner):
        # A Decimal has no negative zero.
        product = "list_product({0}) + 0.0::DOUBLE" if isinstance(inner, DecimalType) else "list_product({0})"
        template = f"(CASE WHEN len({{0}}) > 0 THEN {product} ELSE 0.0::DOUBLE END)"
        found = Typed(bind_value(values.sql, "factors", lambda v: fragment(template, v)), FLOAT64)
        return values.scanned(found, scans.reduce_arrays(np.multiply, np.float64, pa.float64()))
    signed = bool_as_integer(inner).signed
    wide, low = ("HUGEINT", "pando_low_signed") if signed else ("UHUGEINT", "pando_low_unsigned_wide")
    narrow = "BIGINT" if signed else "UBIGINT"  # DuckDB rounds 64-bit integers to the nearest float, 128-bit ones not

    def product_of(factors: Fragment) -> Fragment:
        product = fragment(
            "list_reduce(list_transform({}, lambda q: CAST(q AS {wide})), lambda p, q: CAST({} AS {wide}))",
            factors,
            function_call(low, "p * q"),
            wide=wide,
        )
        template = "(CASE WHEN len({}) > 0 THEN CAST(CAST({} AS {}) AS DOUBLE) ELSE 0.0::DOUBLE END)"
        return fragment(template, factors, product, narrow)

    found = Typed(bind_value(values.sql, "factors", product_of), FLOAT64)
    return values.scanned(found, scans.reduce_arrays(np.multiply, np.int64 if signed else np.uint64, pa.float64()))


def _build_extreme(name: str, operator: np.ufunc) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        values = _AggregatedValues(call)
        inner = values.inner
        bare = inner.inner if isinstance(inner, NullableType) else inner
        if isinstance(bare, FloatType):
            known = fragment("list_filter({}, lambda x: NOT isnan(x))", values.sql)
            found = default_if_empty(
                fragment("coalesce({}, {})", function_call(name, known), function_call(name, values.sql)), inner
            )
        else:
            found = default_if_empty(function_call(name, values.sql), inner)
        return values.scanned(found, scans.reduce_arrays(operator, None, inner.arrow))

    return build


define("arrayMin", _build_extreme("list_min", np.fmin), (1, None), nulls=False)
define("arrayMax", _build_extreme("list_max", np.fmax), (1, None), nulls=False)


@function("arrayCumSum", (1, None), nulls=False)
def array_cum_sum(call: Call) -> Typed:
    """Compiles ``arrayCumSum``: the sum of the elements up to each one."""
    values = _AggregatedValues(call)
    inner = sum_result(strip_nullable(values.inner))
    type_ = ArrayType(inner)
    template = "list_transform({0}, lambda x, i: list_sum(list_slice({0}, 1, i)))"
    sums = Typed(cast(bind_value(values.sql, "summands", lambda v: fragment(template, v)), type_), type_)
    return values.scanned(sums, scans.cumulative_sum(inner.arrow), applies=isinstance(inner, IntegerType))


@function("arrayDifference", (1, None), nulls=False)
def array_difference(call: Call) -> Typed:
    """Compiles ``arrayDifference``: each element minus the one before it; 0 for the first."""
    values = _AggregatedValues(call)
    inner = values.inner
    type_ = ArrayType(difference_type(bool_as_integer(inner), bool_as_integer(inner)) if is_integer(inner) else inner)
    bare = strip_nullable(inner)
    decimal = f"DECIMAL(38, {bare.scale})" if isinstance(bare, DecimalType) else "DOUBLE"
    wide = "HUGEINT" if is_integer(inner) else decimal
    template = (
        "list_transform({0}, lambda x, i: CASE WHEN i = 1 THEN 0 ELSE CAST(x AS {1}) - "
        "CAST(list_extract({0}, i - 1) AS {1}) END)"
    )
    found = bind_value(values.sql, "steps", lambda v: fragment(template, v, wide))
    if isinstance(type_.inner, IntegerType) and type_.inner.bits == 64:
        found = fragment("list_transform({}, lambda x: {})", found, wrap_to_64_bits(leaf("x"), type_.inner))
    steps = Typed(cast(found, type_), type_)
    return values.scanned(steps, scans.differences(type_.inner.arrow), applies=isinstance(type_.inner, IntegerType))


@function("arrayCompact", 1)
def array_compact(call: Call) -> Typed:
    """Compiles ``arrayCompact``: drops elements that equal the one before them."""
    template = "list_filter({0}, lambda x, i: i = 1 OR x IS DISTINCT FROM list_extract({0}, i - 1))"
    type_ = array_type(call)
    kept = bind_value(call.args[0].sql, "repeated", lambda v: fragment(template, v))
    return Typed(scan_array(kept, call.args[0], compact_elements, type_.arrow, is_discrete), type_)
