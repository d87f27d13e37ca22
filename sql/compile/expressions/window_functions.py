"""Window functions: aggregates OVER a window, and the functions that exist only there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import DateTimeType, DateType, FloatType, IntegerType, make_nullable, strip_nullable
from sql.aggregates.combinators import resolve_aggregate
from sql.aggregates.window_names import canonical_window_function_name
from sql.compile.compiler_interfaces import ExpressionCompiling
from sql.compile.expressions.aggregate_calls import compile_aggregate
from sql.compile.expressions.order_by import compile_order_terms
from sql.grammar.syntax_tree import Function, Node, WindowSpec
from sql.grammar.tokens import not_implemented
from sql.typing.casts.casts import convert_to_supertype
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import EMPTY, MACRO, WRITE_ONCE, Fragment, Piece, fragment, join_fragments
from sql.typing.result_types import supertype
from sql.typing.typed_expressions import FLOAT64, UINT64, Typed, cast

_RANKS = {
    "row_number": "row_number", "rank": "rank", "dense_rank": "dense_rank", "denseRank": "dense_rank",
}  # fmt: skip
_SHARES = {"percent_rank": "percent_rank", "percentRank": "percent_rank", "cume_dist": "cume_dist"}
_SHIFTS = {"lag": "lag", "lead": "lead", "lagInFrame": "lag", "leadInFrame": "lead"}
_PICKS = frozenset({"first_value", "last_value", "nth_value"})


def compile_window(compiler: ExpressionCompiling, node: Function) -> Typed:
    """Compiles a call of a window function, or of an aggregate OVER a window.

    Raises ``UserError`` 36, 42, 46, 48.
    """
    if node.window is None:
        raise UserError("BAD_ARGUMENTS", f"{node.name} is a window function: it needs OVER")
    spec = _resolve_window(compiler, node.window)
    node = replace(node, name=canonical_window_function_name(node.name))
    over = fragment(" OVER ({})", _compile_window_spec(compiler, spec))
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
        return _compile_shift(compiler, node, args, spec, over)
    if name in _PICKS:
        wanted = 2 if name == "nth_value" else 1
        if len(args) != wanted:
            raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{name} takes {wanted} arguments, not {len(args)}")
        # In ClickHouse first_value and last_value are any and anyLast, which ignore NULL; nth_value counts it.
        beside = fragment(" IGNORE NULLS") if args[0].type.is_nullable else EMPTY
        if name == "nth_value":
            _check_offset(args[1], name, 1)
            beside = fragment(", {}", args[1].sql)
        return _replace_null_by_default(
            Typed(fragment("{}({}{}){}", name, args[0].sql, beside, over), strip_low_cardinality(args[0]))
        )
    if resolve_aggregate(name) is None:
        raise UserError("UNKNOWN_FUNCTION", f"Unknown window function {name}")
    return compile_aggregate(compiler, replace(node, window=None), empty_possible=True, over=over)


def strip_low_cardinality(value: Typed):  # type: ignore[no-untyped-def]
    """Returns the value's type without LowCardinality; Nullable stays."""
    bare = strip_nullable(value.type)
    return make_nullable(bare) if value.type.is_nullable else bare


def _replace_null_by_default(value: Typed) -> Typed:
    if value.type.is_nullable:
        return value
    return replace(value, sql=fragment("coalesce({}, {})", value.sql, default_value(value.type)))


def _check_offset(offset: Typed, name: str, least: int) -> None:
    if offset.is_literal and isinstance(offset.value, int) and offset.value < least:
        raise UserError(
            "BAD_ARGUMENTS", f"The offset for function {name} must be at least {least}, {offset.value} given"
        )


def _compile_shift(
    compiler: ExpressionCompiling, node: Function, args: list[Typed], spec: WindowSpec, over: Fragment
) -> Typed:
    """Compiles lag, lead and their InFrame variants. Raises ``UserError`` 36, 42, 48."""
    if not 1 <= len(args) <= 3:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{node.name} takes one to three arguments")
    whole = spec.frame.endswith("UNBOUNDED FOLLOWING") and "UNBOUNDED PRECEDING" in spec.frame
    if node.name == "leadInFrame" and not whole:
        raise not_implemented("leadInFrame without ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
    if node.name == "lagInFrame" and spec.frame and "UNBOUNDED PRECEDING" not in spec.frame:
        raise not_implemented("lagInFrame in a frame that does not begin at UNBOUNDED PRECEDING")
    if len(args) > 1:
        _check_offset(args[1], node.name, 0)
    offset = fragment(", {}", args[1].sql) if len(args) > 1 else EMPTY
    shifted = Typed(
        fragment("{}({}{}){}", _SHIFTS[node.name], args[0].sql, offset, over), strip_low_cardinality(args[0])
    )
    if len(args) < 3:
        return _replace_null_by_default(shifted)
    type_ = supertype([shifted.type, args[2].type])
    zone = compiler.environment.zone
    sql = fragment(
        "{}({}{}, {}){}",
        _SHIFTS[node.name],
        convert_to_supertype(args[0], type_, zone),
        offset,
        convert_to_supertype(args[2], type_, zone),
        over,
    )
    return Typed(sql, type_)


def _resolve_window(compiler: ExpressionCompiling, window: WindowSpec | str) -> WindowSpec:
    """Returns the definition of a window, with the clauses of the named window it extends.

    Raises ``UserError`` 36.
    """
    name = window if isinstance(window, str) else window.base
    if not name:
        assert isinstance(window, WindowSpec)
        return window
    base = compiler.windows.get(name)
    if not isinstance(base, WindowSpec):
        raise UserError("BAD_ARGUMENTS", f"Window '{name}' is not defined: add WINDOW {name} AS (…)")
    base = _resolve_window(compiler, base)
    if isinstance(window, str):
        return base
    return WindowSpec(
        window.partition_by or base.partition_by, window.order_by or base.order_by, window.frame or base.frame
    )


def _range_key(value: Typed) -> Fragment:
    """Returns the key of a RANGE with an offset, wide enough for the frame's bounds.

    Raises ``UserError`` 48.
    """
    match strip_nullable(value.type):
        case IntegerType():
            return fragment("CAST({} AS HUGEINT)", value.sql)
        case DateTimeType():
            return fragment("CAST(epoch_us({}) // 1000000 AS HUGEINT)", value.sql)
        case DateType():
            return fragment("CAST({} - DATE '1970-01-01' AS HUGEINT)", value.sql)
        case FloatType():
            return value.sql
    raise not_implemented(f"A window frame RANGE with an offset over {value.type}")


def _compile_key(compiler: ExpressionCompiling, node: Node) -> Typed:
    """Compiles a key of a window. DuckDB takes none that may fail, so such a key becomes a column below."""
    value = compiler.compile(node).plain
    if compiler.stages is None or not value.sql.traits & (WRITE_ONCE | MACRO):
        return value
    return compiler.stages.column(value, may_add=not compiler.names.lambdas)


def _compile_window_spec(compiler: ExpressionCompiling, spec: WindowSpec) -> Fragment:
    """Compiles PARTITION BY, ORDER BY and the frame."""
    parts: list[Piece] = []
    if spec.partition_by:
        keys = [_compile_key(compiler, item).sql for item in spec.partition_by]
        parts.append(fragment("PARTITION BY {}", join_fragments(", ", keys)))
    has_offset = spec.frame.startswith("RANGE") and any(word.isdigit() for word in spec.frame.split())
    if has_offset and len(spec.order_by) != 1:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The window frame {spec.frame} needs exactly one ORDER BY column, {len(spec.order_by)} are given",
        )
    frame: Piece = spec.frame
    if spec.order_by:
        terms = []
        for item in spec.order_by:
            value = _compile_key(compiler, item.expression)
            sql = value.sql
            if has_offset:
                sql = _range_key(value)
                runs_into_nulls = value.type.is_nullable and not item.descending and not item.nulls_first
                if runs_into_nulls and not isinstance(strip_nullable(value.type), FloatType):
                    sql, frame = _extend_frame_to_nulls(compiler, sql, parts, spec.frame)
            terms.extend(compile_order_terms(sql, value.type, item))
        parts.append(fragment("ORDER BY {}", join_fragments(", ", terms)))
    if frame:
        parts.append(frame)
    return join_fragments(" ", parts)


def _extend_frame_to_nulls(
    compiler: ExpressionCompiling, key: Fragment, partition: Sequence[Piece], frame: str
) -> tuple[Fragment, Fragment]:
    """Returns the key and the frame of a RANGE whose NULLs come after the values.

    For ClickHouse NULL is less than any bound there. So a frame that reaches the greatest value contains the NULLs too,
    and a frame around NULL has the bounds of the greatest value's. Here the greatest value plus one replaces NULL.
    """
    greatest = fragment("max({}) OVER ({})", key, join_fragments(" ", partition))
    if compiler.stages is not None:
        known = compiler.stages.column(Typed(greatest, FLOAT64), may_add=False).sql
        greatest = compiler.stages.add(greatest, "e") if known is greatest else known
    of_null = fragment("(coalesce({}, 0) + 1)", greatest)
    order = fragment("coalesce({}, {})", key, of_null)
    bounds = []
    for position, bound in enumerate(frame.removeprefix("RANGE BETWEEN ").split(" AND ")):
        count, _, side = bound.partition(" ")
        if not count.isdigit():
            bounds.append(fragment("{}", bound))
        elif side == "PRECEDING":
            bounds.append(fragment("(CASE WHEN {} IS NULL THEN {} ELSE {} END) PRECEDING", key, int(count) + 1, count))
        elif position == 0:
            beyond = fragment("{0} IS NULL OR {0} + {1} > {2}", key, count, greatest)
            bounds.append(
                fragment("(CASE WHEN {} THEN {} + 1 - {} ELSE {} END) FOLLOWING", beyond, of_null, order, count)
            )
        else:
            reached = fragment("{} + {} >= {}", key, count, greatest)
            bounds.append(fragment("(CASE WHEN {} THEN {} - {} ELSE {} END) FOLLOWING", reached, of_null, order, count))
    return order, fragment("RANGE BETWEEN {} AND {}", *bounds)
