"""Aggregate functions with combinators, DISTINCT, FILTER and OVER: ``sumIf``, ``sumArray``, ….

An aggregate's ``build`` writes ``call.distinct`` after the opening bracket of DuckDB's aggregate and ``call.filter``
(FILTER and OVER) after the closing one. Without rows the result is the type's default (0, ``''``) or NaN; it is NULL
only if the result is Nullable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan

from parts.common.errors import UserError
from parts.types import ArrayType, DataType, make_nullable, strip_nullable
from sql.aggregates.array_combinator import aggregate_elements
from sql.functions.registry import Call, Environment, Rule, find_aggregate, find_rule
from sql.grammar.syntax_tree import Function, Node
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment, join_fragments
from sql.typing.typed_expressions import FLOAT64, NOTHING, UINT64, Typed, float_literal_text, literal

_SUFFIXES = ("If", "Distinct", "OrNull", "OrDefault")
COMBINATORS = (*_SUFFIXES, "Array")
_UNSUPPORTED = ("State", "Merge", "ForEach", "Map", "Resample", "SimpleState", "ArgMin", "ArgMax")


@dataclass(frozen=True, slots=True)
class CombinedAggregate:
    """An aggregate function's rule and its combinators."""

    rule: Rule
    conditional: bool = False
    distinct: bool = False
    or_null: bool = False
    or_default: bool = False
    condition_inside: bool = False
    """Whether -OrNull or -OrDefault follows -If in the name."""


def resolve_aggregate(name: str) -> CombinedAggregate | None:
    """Splits an aggregate's name into function and combinators; the longest known name wins.

    Returns ``None`` for an unknown name. Raises ``UserError`` 48 for unsupported combinators.
    """
    rule = find_aggregate(name)
    if rule is not None:
        return CombinedAggregate(rule)
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and len(name) > len(suffix):
            inner = resolve_aggregate(name[: -len(suffix)])
            if inner is not None:
                return CombinedAggregate(
                    inner.rule,
                    inner.conditional or suffix == "If",
                    inner.distinct or suffix == "Distinct",
                    inner.or_null or suffix == "OrNull",
                    inner.or_default or suffix == "OrDefault",
                    inner.condition_inside or (inner.conditional and suffix in ("OrNull", "OrDefault")),
                )
    if name.endswith("Array"):
        rule = _rule_without_combinators(name.removesuffix("Array"))
        if rule is not None:
            return CombinedAggregate(aggregate_elements(rule))
    for suffix in _UNSUPPORTED:
        if name.endswith(suffix) and resolve_aggregate(name[: -len(suffix)]) is not None:
            raise UserError("NOT_IMPLEMENTED", f"Aggregate function combinator -{suffix} ({name}) is not supported")
    return None


def _rule_without_combinators(name: str) -> Rule | None:
    """Returns the rule of that name. Raises ``UserError`` 48 if the name has combinators."""
    combined = resolve_aggregate(name) if name else None
    if combined is not None and find_aggregate(name) is None:
        raise UserError(
            "NOT_IMPLEMENTED", f"Aggregate function combinator -Array behind others ({name}Array) is not supported"
        )
    return combined.rule if combined is not None else None


def is_aggregate_call(node: Node) -> bool:
    """Tells whether a node is a call of an aggregate function without OVER."""
    return (
        isinstance(node, Function)
        and node.window is None
        and find_rule(node.name) is None
        and (find_aggregate(node.name) is not None or resolve_aggregate(node.name) is not None)
    )


def build_aggregate(
    rule: Rule,
    args: list[Typed],
    environment: Environment,
    params: tuple[Typed, ...] = (),
    *,
    code_of: Callable[[Fragment], Fragment | None] = lambda sql: None,
    filters: Sequence[Fragment] = (),
    distinct: bool = False,
    or_null: bool = False,
    or_default: bool = False,
    inner_filters: int = 0,
    empty_possible: bool = False,
    over: Fragment = EMPTY,
) -> Typed:
    """Compiles an aggregate of compiled arguments, under the rules for NULL and for no rows.

    The last ``inner_filters`` of ``filters`` belong to an -If before -OrNull or -OrDefault. ``code_of`` returns the SQL
    of a string's integer code, or ``None`` (``sql.compile.short_string_codes``).
    """
    plain = tuple(arg.plain for arg in args)
    if any(strip_nullable(arg.type) == NOTHING for arg in plain):
        if rule.name in ("count", "uniq", "uniqExact"):
            return Typed(fragment("CAST(0 AS UBIGINT)"), UINT64)
        return Typed(fragment("any_value(NULL){}", over), literal(None).type)
    nullable = any(arg.type.is_nullable for arg in plain)
    bare = tuple(replace(arg, type=strip_nullable(arg.type)) for arg in plain)
    if rule.name == "uniqExact":
        bare = tuple(replace(arg, sql=code_of(arg.sql) or arg.sql) for arg in bare)
        if len(bare) > 1:  # ClickHouse does not count rows with a NULL, DuckDB does
            own = (
                fragment("{} IS NOT NULL", arg.sql)
                for arg, given in zip(bare, plain, strict=True)
                if given.type.is_nullable
            )
            filters = [*filters, *own]
    if rule.name == "anyLast" and nullable:
        filters = [*filters, fragment("{} IS NOT NULL", plain[0].sql)]
    behind = fragment(" FILTER (WHERE {}){}", join_fragments(" AND ", filters), over) if filters else over
    call = Call(rule.name, bare, environment, params, distinct="DISTINCT " if distinct else "", filter=behind)
    value = rule.build(call)
    sql = value.sql
    type_ = value.type
    if or_null or (nullable and not rule.never_null):
        type_ = make_nullable(type_)
    if or_null or or_default:
        chosen = list(filters)
        if inner_filters and (or_default or rule.name in ("count", "uniqExact") or isinstance(type_, ArrayType)):
            chosen = chosen[:-inner_filters]
        return _apply_or_combinator(value, type_, _count_rows(plain, chosen, over), empty_nan=rule.empty_nan)
    composite = strip_nullable(type_).is_composite
    if not type_.is_nullable and (empty_possible or filters or over or composite or rule.empty_nan or nullable):
        is_nan = rule.empty_nan and type_ == FLOAT64
        sql = fragment("coalesce({}, {})", sql, float_literal_text(nan) if is_nan else default_value(type_))
    return Typed(sql, type_)


def _count_rows(args: Sequence[Typed], filters: Sequence[Fragment], over: Fragment) -> Fragment:
    """Returns the SQL of the number of aggregated rows; rows with a NULL argument do not count."""
    known = [fragment("{} IS NOT NULL", arg.sql) for arg in args if arg.type.is_nullable]
    chosen = [*filters, *known]
    return fragment(
        "count(*){}{}", fragment(" FILTER (WHERE {})", join_fragments(" AND ", chosen)) if chosen else EMPTY, over
    )


def _apply_or_combinator(value: Typed, type_: DataType, rows: Fragment, *, empty_nan: bool) -> Typed:
    """Applies -OrNull or -OrDefault: their value is returned only if there are no rows."""
    bare = strip_nullable(type_)
    some = float_literal_text(nan) if empty_nan and bare == FLOAT64 else default_value(bare)
    none = fragment("NULL") if type_.is_nullable else default_value(bare)
    return Typed(fragment("CASE WHEN {} > 0 THEN coalesce({}, {}) ELSE {} END", rows, value.sql, some, none), type_)
