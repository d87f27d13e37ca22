"""Aggregate functions with their combinators: ``sumIf``, ``uniqDistinct``, ``avgOrNull``, ``count(DISTINCT x)``,
FILTER, OVER.

An aggregate's ``build`` marks in its text where DISTINCT goes (``DISTINCT_MARK`` behind an opening bracket) and where
FILTER and OVER go (``FILTER_MARK`` behind a closing one); here the marks are replaced. Nothing aggregated gives the
type's default (0, ``''``) or NaN, never NULL, unless the result is Nullable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parts.errors import UserError
from parts.types import ArrayType, MapType, TupleType, make_nullable, strip_nullable
from sql.functions.registry import Call, Rule, check_arity, find_aggregate, unknown_function
from sql.short_strings import code_of
from sql.syntax_tree import Function, Star
from sql.type_defaults import default_sql
from sql.typed import FLOAT64, NOTHING, Typed, literal

if TYPE_CHECKING:
    from sql.expression_compiler import ExpressionCompiler

DISTINCT_MARK = "\x01"
FILTER_MARK = "\x02"
_SUFFIXES = ("If", "Distinct", "OrNull", "OrDefault")
_UNSUPPORTED = ("State", "Merge", "Array", "ForEach", "Map", "Resample", "SimpleState", "ArgMin", "ArgMax")


@dataclass(frozen=True, slots=True)
class Combined:
    rule: Rule
    conditional: bool = False
    distinct: bool = False
    or_null: bool = False
    or_default: bool = False


def find_combined(name: str) -> Combined | None:
    """The function and its combinators: the longest known name wins."""
    rule = find_aggregate(name)
    if rule is not None:
        return Combined(rule)
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and len(name) > len(suffix):
            inner = find_combined(name[: -len(suffix)])
            if inner is not None:
                return Combined(
                    inner.rule,
                    inner.conditional or suffix == "If",
                    inner.distinct or suffix == "Distinct",
                    inner.or_null or suffix == "OrNull",
                    inner.or_default or suffix == "OrDefault",
                )
    for suffix in _UNSUPPORTED:
        if name.endswith(suffix) and find_combined(name[: -len(suffix)]) is not None:
            raise UserError("NOT_IMPLEMENTED", f"Aggregate function combinator -{suffix} ({name}) is not supported")
    return None


def compile_aggregate(rows: ExpressionCompiler, node: Function, *, empty_possible: bool, over: str = "") -> Typed:
    """The call as DuckDB text over rows (not yet replaced by a column)."""
    combined = find_combined(node.name)
    if combined is None:
        raise unknown_function(node.name)
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
        rows,
        rule,
        args,
        params,
        filters=filters,
        distinct=distinct,
        or_null=combined.or_null,
        or_default=combined.or_default,
        empty_possible=empty_possible,
        over=over,
    )


def build_aggregate(
    rows: ExpressionCompiler,
    rule: Rule,
    args: list[Typed],
    params: tuple[Typed, ...] = (),
    *,
    filters: Sequence[str] = (),
    distinct: bool = False,
    or_null: bool = False,
    or_default: bool = False,
    empty_possible: bool = False,
    over: str = "",
) -> Typed:
    """The aggregate of compiled arguments as DuckDB text, under the common rules of NULL and of nothing aggregated."""
    plain = tuple(arg.plain for arg in args)
    if any(strip_nullable(arg.type) == NOTHING for arg in plain):
        if rule.name in ("count", "uniq", "uniqExact"):
            return Typed("CAST(0 AS UBIGINT)", find_aggregate("count").build(Call("count", (), rows.environment)).type)  # type: ignore[union-attr]
        return Typed(f"any_value(NULL){over}", literal(None).type)
    nullable = any(arg.type.is_nullable for arg in plain)
    bare = tuple(replace(arg, type=strip_nullable(arg.type)) for arg in plain)
    if rule.name == "uniqExact":
        bare = tuple(replace(arg, sql=code_of(rows, arg.sql) or arg.sql) for arg in bare)
        if len(bare) > 1:  # DuckDB counts a row of NULLs, ClickHouse none with a NULL in it
            own = (f"{arg.sql} IS NOT NULL" for arg, given in zip(bare, plain, strict=True) if given.type.is_nullable)
            filters = [*filters, *own]
    if rule.name == "anyLast" and nullable:
        filters = [*filters, f"{plain[0].sql} IS NOT NULL"]
    value = rule.build(Call(rule.name, bare, rows.environment, params))
    condition = f" FILTER (WHERE {' AND '.join(filters)})" if filters else ""
    sql = value.sql.replace(DISTINCT_MARK, "DISTINCT " if distinct else "").replace(FILTER_MARK, condition + over)
    type_ = value.type
    if or_null or (nullable and not rule.never_null):
        type_ = make_nullable(type_)
    composite = isinstance(strip_nullable(type_), (ArrayType, MapType, TupleType))
    if not type_.is_nullable and (empty_possible or filters or over or composite or rule.empty_nan or nullable):
        default = (
            "CAST('nan' AS DOUBLE)" if rule.empty_nan and not or_default and type_ == FLOAT64 else default_sql(type_)
        )
        sql = f"coalesce({sql}, {default})"
    return Typed(sql, type_)
