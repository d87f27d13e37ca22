"""Aggregates that return one of the values: min, max, any, anyLast, argMin, argMax."""

from __future__ import annotations

from collections.abc import Callable

from parts.types import FloatType, UUIDType
from sql.functions.registry import Call, define
from sql.typing.column_kernels.float_bits import has_floats_inside, keep_zero_signs
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.order_keys import has_own_order, order_key
from sql.typing.typed_expressions import Typed
from sql.typing.uuid_order import swap_uuid_halves


def _compile_arg(name: str, value: Typed, key: Fragment, call: Call) -> Fragment:
    return keep_zero_signs(value.sql, value.type, lambda sql: fragment("{}({}, {}){}", name, sql, key, call.filter))


def _build_extreme(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        if isinstance(value.type, UUIDType):
            return Typed(
                swap_uuid_halves(fragment("{}({}){}", name, swap_uuid_halves(value.sql), call.filter)), value.type
            )
        nulls_least = name == "max"
        if has_own_order(value.type, nulls_least=nulls_least) or has_floats_inside(value.type):
            key = order_key(value.sql, value.type, nulls_least=nulls_least)
            return Typed(_compile_arg(f"arg_{name}", value, key, call), value.type)
        if isinstance(value.type, FloatType):
            # ClickHouse ignores NaN unless there is nothing else; DuckDB takes it for the greatest number.
            known = fragment("CASE WHEN isnan({value}) THEN NULL ELSE {value} END", value=value.sql)
            return Typed(
                fragment("coalesce({0}({1}{2}){3}, {0}({4}){3})", name, call.distinct, known, call.filter, value.sql),
                value.type,
            )
        return Typed(fragment("{}({}{}){}", name, call.distinct, value.sql, call.filter), value.type)

    return build


define("min", _build_extreme("min"), 1, aggregate=True)
define("max", _build_extreme("max"), 1, aggregate=True)


def _build_any(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        chosen = keep_zero_signs(value.sql, value.type, lambda sql: fragment("{}({}){}", name, sql, call.filter))
        return Typed(chosen, value.type)

    return build


define("any any_value first_value", _build_any("any_value"), 1, aggregate=True)
define("anyLast last_value", _build_any("last"), 1, aggregate=True)


def _build_arg_extreme(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value, by = call.args
        key = order_key(by.sql, by.type, nulls_least=name == "arg_max")
        found = _compile_arg(name, value, key, call)
        if name == "arg_max" and isinstance(by.type, FloatType):  # NaN is ignored unless there is nothing else
            known = fragment("CASE WHEN isnan({0}) THEN NULL ELSE {0} END", key)
            found = fragment("coalesce({}, {})", _compile_arg(name, value, known, call), found)
        return Typed(found, value.type)

    return build


define("argMin", _build_arg_extreme("arg_min"), 2, aggregate=True)
define("argMax", _build_arg_extreme("arg_max"), 2, aggregate=True)
