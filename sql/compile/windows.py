"""Window functions: aggregates OVER a window, and the functions that exist only there."""

from __future__ import annotations

from dataclasses import replace

from parts.errors import UserError
from parts.types import IntegerType, make_nullable, strip_nullable
from sql.compile.aggregate_calls import compile_aggregate
from sql.compile.compiling import Compiling
from sql.compile.ordering import order_terms
from sql.functions.combinators import find_combined
from sql.functions.windows import window_function_name
from sql.grammar.syntax_tree import Function, WindowSpec
from sql.grammar.tokens import not_implemented
from sql.typing.casts import convert
from sql.typing.defaults import default_sql
from sql.typing.fragments import EMPTY, Fragment, Piece, fragment, joined
from sql.typing.inference import supertype
from sql.typing.typed import FLOAT64, UINT64, Typed, cast

_RANKS = {
    "row_number": "row_number", "rank": "rank", "dense_rank": "dense_rank", "denseRank": "dense_rank",
}  # fmt: skip
_SHARES = {"percent_rank": "percent_rank", "percentRank": "percent_rank", "cume_dist": "cume_dist"}
_SHIFTS = {"lag": "lag", "lead": "lead", "lagInFrame": "lag", "leadInFrame": "lead"}
_PICKS = frozenset({"first_value", "last_value", "nth_value"})


def compile_window(compiler: Compiling, node: Function) -> Typed:
    if node.window is None:
        raise UserError("BAD_ARGUMENTS", f"{node.name} is a window function: it needs OVER")
    spec = _spec(compiler, node.window)
    node = replace(node, name=window_function_name(node.name))
    over = fragment(" OVER ({})", _over(compiler, spec))
    if node.nulls == "IGNORE":
        raise not_implemented(f"{node.name} … IGNORE NULLS")
    name = node.name
    args = [] if name not in {*_SHIFTS, *_PICKS, "ntile"} else [compiler.compile(arg).plain for arg in node.args]
    if name in _RANKS:
        return Typed(cast(fragment("{}(){}", _RANKS[name], over), UINT64), UINT64)
    if name in _SHARES:
        return Typed(fragment("{}(){}", _SHARES[name], over), FLOAT64)
    if name == "ntile":
        if len(args) != 1:
            raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"ntile takes 1 argument, not {len(args)}")
        return Typed(cast(fragment("ntile({}){}", args[0].sql, over), UINT64), UINT64)
    if name in _SHIFTS:
        return _shift(compiler, node, args, spec, over)
    if name in _PICKS:
        wanted = 2 if name == "nth_value" else 1
        if len(args) != wanted:
            raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{name} takes {wanted} arguments, not {len(args)}")
        # ClickHouse's are any and anyLast, which pass over NULL; nth_value counts it.
        beside = fragment(" IGNORE NULLS") if args[0].type.is_nullable else EMPTY
        if name == "nth_value":
            beside = fragment(", {}", args[1].sql)
        return _with_default(Typed(fragment("{}({}{}){}", name, args[0].sql, beside, over), strip_low(args[0])))
    if find_combined(name) is None:
        raise UserError("UNKNOWN_FUNCTION", f"Unknown window function {name}")
    return compile_aggregate(compiler, replace(node, window=None), empty_possible=True, over=over)


def strip_low(value: Typed):  # type: ignore[no-untyped-def]
    bare = strip_nullable(value.type)
    return make_nullable(bare) if value.type.is_nullable else bare


def _with_default(value: Typed) -> Typed:
    if value.type.is_nullable:
        return value
    return replace(value, sql=fragment("coalesce({}, {})", value.sql, default_sql(value.type)))


def _shift(compiler: Compiling, node: Function, args: list[Typed], spec: WindowSpec, over: Fragment) -> Typed:
    if not 1 <= len(args) <= 3:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{node.name} takes one to three arguments")
    whole = spec.frame.endswith("UNBOUNDED FOLLOWING") and "UNBOUNDED PRECEDING" in spec.frame
    if node.name == "leadInFrame" and not whole:
        raise not_implemented("leadInFrame without ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
    if node.name == "lagInFrame" and spec.frame and "UNBOUNDED PRECEDING" not in spec.frame:
        raise not_implemented("lagInFrame in a frame that does not begin at UNBOUNDED PRECEDING")
    offset = fragment(", {}", args[1].sql) if len(args) > 1 else EMPTY
    shifted = Typed(fragment("{}({}{}){}", _SHIFTS[node.name], args[0].sql, offset, over), strip_low(args[0]))
    if len(args) < 3:
        return _with_default(shifted)
    type_ = supertype([shifted.type, args[2].type])
    zone = compiler.environment.zone
    sql = fragment(
        "{}({}{}, {}){}", _SHIFTS[node.name], convert(args[0], type_, zone), offset, convert(args[2], type_, zone), over
    )
    return Typed(sql, type_)


def _spec(compiler: Compiling, window: WindowSpec | str) -> WindowSpec:
    name = window if isinstance(window, str) else window.base
    if not name:
        assert isinstance(window, WindowSpec)
        return window
    base = compiler.windows.get(name)
    if not isinstance(base, WindowSpec):
        raise UserError("BAD_ARGUMENTS", f"Window '{name}' is not defined: add WINDOW {name} AS (…)")
    base = _spec(compiler, base)
    if isinstance(window, str):
        return base
    return WindowSpec(
        window.partition_by or base.partition_by, window.order_by or base.order_by, window.frame or base.frame
    )


def _over(compiler: Compiling, spec: WindowSpec) -> Fragment:
    parts: list[Piece] = []
    if spec.partition_by:
        keys = [compiler.compile(item).number for item in spec.partition_by]
        parts.append(fragment("PARTITION BY {}", joined(", ", keys)))
    if spec.order_by:
        terms = []
        for item in spec.order_by:
            value = compiler.compile(item.expression).plain
            sql = value.sql
            if spec.frame.startswith("RANGE") and isinstance(strip_nullable(value.type), IntegerType):
                sql = fragment("CAST({} AS HUGEINT)", sql)  # the bounds of the frame may lie outside the column's type
            terms.extend(order_terms(sql, value.type, item))
        parts.append(fragment("ORDER BY {}", joined(", ", terms)))
    if spec.frame:
        parts.append(spec.frame)
    return joined(" ", parts)
