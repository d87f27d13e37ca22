"""Compiles calls of aggregate functions with combinators, DISTINCT and FILTER."""

from __future__ import annotations

from functools import partial

from parts.common.errors import UserError
from sql.aggregates.combinators import build_aggregate, resolve_aggregate
from sql.compile.compiler_interfaces import ExpressionCompiling, string_code
from sql.functions.registry import check_arity, find_aggregate, unknown_function_error
from sql.grammar.syntax_tree import Function, Star
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment
from sql.typing.typed_expressions import Typed


def compile_aggregate(
    rows: ExpressionCompiling, node: Function, *, empty_possible: bool, over: Fragment = EMPTY
) -> Typed:
    """Compiles the call as DuckDB SQL over rows, not yet replaced by a column.

    Raises ``UserError`` 42, 46.
    """
    combined = resolve_aggregate(node.name)
    if combined is None:
        raise unknown_function_error(node.name)
    rule, distinct = combined.rule, combined.distinct or node.distinct
    if rule.name == "count" and distinct:
        rule = find_aggregate("uniqExact") or rule
        distinct = False
    args = [rows.compile(arg) for arg in node.args if not isinstance(arg, Star)]
    filters = [] if node.filter is None else [rows.condition(node.filter)]
    if combined.conditional:
        if not args:
            raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{node.name} needs a condition as its last argument")
        filters.append(args.pop().condition)
    check_arity(rule, len(args))
    params = tuple(rows.compile(param) for param in node.params or ())
    return build_aggregate(
        rule,
        args,
        rows.environment,
        params,
        code_of=partial(string_code, rows),
        filters=filters,
        distinct=distinct,
        or_null=combined.or_null,
        or_default=combined.or_default,
        inner_filters=int(combined.condition_inside),
        empty_possible=empty_possible,
        over=over,
    )
