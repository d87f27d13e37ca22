"""Sorting arrays and what is computed from all their elements: sums, extremes, differences."""

from __future__ import annotations

from collections.abc import Callable

from parts.types import ArrayType, DecimalType, FloatType, IntegerType, NullableType, strip_nullable
from sql.functions.arrays import Mapped, array_type, or_default
from sql.functions.registry import Call, define, function
from sql.typing.bound import bound
from sql.typing.fragments import Fragment, called, fragment
from sql.typing.inference import as_integer, difference_type, is_integer, is_number, sum_result
from sql.typing.integers import wrap_64
from sql.typing.typed import FLOAT64, Typed, cast


def _sorted(name: str, descending: bool) -> Callable[[Call], Typed]:
    direction = "DESC" if descending else "ASC"

    def build(call: Call) -> Typed:
        if call.args[0].apply is None:
            type_ = array_type(call)
            items = call.args[0].sql
            if descending and isinstance(strip_nullable(type_.inner), FloatType):  # NaN is last both ways
                known = fragment("list_sort(list_filter({}, lambda q: NOT isnan(q)), 'DESC')", items)
                rest = fragment("list_filter({}, lambda q: q IS NULL OR isnan(q))", items)
                return Typed(fragment("list_concat({}, list_sort({}, 'ASC', 'NULLS LAST'))", known, rest), type_)
            return Typed(fragment("list_sort({}, '{}', 'NULLS LAST')", items, direction), type_)
        mapped = Mapped(call)
        item = mapped.variable if mapped.list == mapped.array.sql else fragment("{}[1]", mapped.variable)
        keyed = mapped.transformed(fragment("struct_pack(k := {}, v := {})", mapped.body.number, item))
        # A stable sort: DuckDB's list_sort compares whole structs, so the position comes second.
        numbered = fragment(
            "list_transform({}, lambda p, i: struct_pack(k := p.k, i := {}, v := p.v))",
            keyed,
            "-i" if descending else "i",
        )
        return Typed(
            fragment("list_transform(list_sort({}, '{}', 'NULLS LAST'), lambda p: p.v)", numbered, direction),
            ArrayType(mapped.inner[0]),
        )

    return build


define("arraySort", _sorted("arraySort", False), (1, None), nulls=False)
define("arrayReverseSort", _sorted("arrayReverseSort", True), (1, None), nulls=False)


def _values(call: Call) -> Typed:
    """The array to aggregate: the lambda's values, or the array itself."""
    if call.args[0].apply is None:
        return Typed(call.args[0].sql, array_type(call))
    mapped = Mapped(call)
    return Typed(mapped.transformed(), ArrayType(mapped.body.type))


@function("arraySum", (1, None), nulls=False)
def array_sum(call: Call) -> Typed:
    values = _values(call)
    type_ = sum_result(strip_nullable(values.type.inner))  # type: ignore[attr-defined]
    total = fragment("coalesce(list_sum({}), 0)", values.sql)
    return Typed(wrap_64(total, type_) if isinstance(type_, IntegerType) else cast(total, type_), type_)


@function("arrayAvg", (1, None), nulls=False)
def array_avg(call: Call) -> Typed:
    values = _values(call)
    if not is_number(values.type.inner):  # type: ignore[attr-defined]
        raise call.wrong_type(0, "an array of numbers")
    return Typed(fragment("coalesce(list_avg({}), 0.0::DOUBLE)", values.sql), FLOAT64)


@function("arrayProduct", (1, None), nulls=False)
def array_product(call: Call) -> Typed:
    """Of integers with the wrap-around of 64 bits; 0 of nothing."""
    values = _values(call)
    inner = strip_nullable(values.type.inner)  # type: ignore[attr-defined]
    if not is_number(inner):
        raise call.wrong_type(0, "an array of numbers")
    if not is_integer(inner):
        # A Decimal has no zero below zero.
        product = "list_product({0}) + 0.0::DOUBLE" if isinstance(inner, DecimalType) else "list_product({0})"
        template = f"(CASE WHEN len({{0}}) > 0 THEN {product} ELSE 0.0::DOUBLE END)"
        return Typed(bound(values.sql, "factors", lambda v: fragment(template, v)), FLOAT64)
    signed = as_integer(inner).signed
    wide, low = ("HUGEINT", "pando_low_signed") if signed else ("UHUGEINT", "pando_low_unsigned_wide")
    narrow = "BIGINT" if signed else "UBIGINT"  # of which DuckDB makes the nearest float, but not of 128 bits

    def product_of(factors: Fragment) -> Fragment:
        product = fragment(
            "list_reduce(list_transform({}, lambda q: CAST(q AS {wide})), lambda p, q: CAST({} AS {wide}))",
            factors,
            called(low, "p * q"),
            wide=wide,
        )
        template = "(CASE WHEN len({}) > 0 THEN CAST(CAST({} AS {}) AS DOUBLE) ELSE 0.0::DOUBLE END)"
        return fragment(template, factors, product, narrow)

    return Typed(bound(values.sql, "factors", product_of), FLOAT64)


def _list_extreme(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        values = _values(call)
        inner = values.type.inner  # type: ignore[attr-defined]
        bare = inner.inner if isinstance(inner, NullableType) else inner
        if isinstance(bare, FloatType):
            known = fragment("list_filter({}, lambda x: NOT isnan(x))", values.sql)
            return or_default(fragment("coalesce({}, {})", called(name, known), called(name, values.sql)), inner)
        return or_default(called(name, values.sql), inner)

    return build


define("arrayMin", _list_extreme("list_min"), (1, None), nulls=False)
define("arrayMax", _list_extreme("list_max"), (1, None), nulls=False)


@function("arrayCumSum", (1, None), nulls=False)
def array_cum_sum(call: Call) -> Typed:
    values = _values(call)
    type_ = ArrayType(sum_result(strip_nullable(values.type.inner)))  # type: ignore[attr-defined]
    template = "list_transform({0}, lambda x, i: list_sum(list_slice({0}, 1, i)))"
    return Typed(cast(bound(values.sql, "summands", lambda v: fragment(template, v)), type_), type_)


@function("arrayDifference", (1, None), nulls=False)
def array_difference(call: Call) -> Typed:
    values = _values(call)
    inner = values.type.inner  # type: ignore[attr-defined]
    type_ = ArrayType(difference_type(as_integer(inner), as_integer(inner)) if is_integer(inner) else inner)
    bare = strip_nullable(inner)
    decimal = f"DECIMAL(38, {bare.scale})" if isinstance(bare, DecimalType) else "DOUBLE"
    wide = "HUGEINT" if is_integer(inner) else decimal
    template = (
        "list_transform({0}, lambda x, i: CASE WHEN i = 1 THEN 0 ELSE CAST(x AS {1}) - "
        "CAST(list_extract({0}, i - 1) AS {1}) END)"
    )
    return Typed(cast(bound(values.sql, "steps", lambda v: fragment(template, v, wide)), type_), type_)


@function("arrayCompact", 1)
def array_compact(call: Call) -> Typed:
    template = "list_filter({0}, lambda x, i: i = 1 OR x IS DISTINCT FROM list_extract({0}, i - 1))"
    return Typed(bound(call.args[0].sql, "repeated", lambda v: fragment(template, v)), array_type(call))
