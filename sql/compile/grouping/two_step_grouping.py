"""GROUP BY in two steps, for distinct counts beside other aggregates.

The query is of the form ``SELECT a, b, count(), uniqExact(u) FROM t GROUP BY a, b``. The first step counts the rows of
each (a, b, u). The second sums those counts and counts the ``u`` for each (a, b).

DuckDB collects distinct values beside the groups, so it hashes and compares the keys of every row twice. That dominates
the query's cost when the keys are strings. In two steps every row is looked up once. The first step keeps the other
aggregates for every distinct value. That costs more than it saves when the keys are cheap, the values nearly all
distinct or the aggregates many. So it is done only where

- at least two keys are strings, and there is neither ROLLUP nor a correlated subquery;
- every distinct count is of the same single argument, which is not a key itself;
- the others, one to ``_MAX_OTHERS``, are count, sum, min, max or avg of integers, without FILTER, -If or DISTINCT.

Partial results of those give the same as all rows. Sums of floats do not, nor does ``any``, which would come from other
rows. A NULL argument makes a group of the first step like any value, so the others see its rows; the second step does
not count it.
"""

from __future__ import annotations

from parts.types import FixedStringType, FloatType, IntegerType, NothingType, StringType, strip_nullable
from sql.aggregates.combinators import CombinedAggregate, build_aggregate, resolve_aggregate
from sql.compile.compiler_interfaces import string_code
from sql.compile.grouping.group_by import GroupExpressionCompiler
from sql.functions.registry import find_aggregate
from sql.grammar.syntax_tree import Function
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments, leaf
from sql.typing.integer_conversions import wrap_to_64_bits
from sql.typing.typed_expressions import FLOAT64, Typed, cast

_MIN_STRING_KEYS = 2
_MAX_OTHERS = 4
_WRAPPED_BITS = 64
"""ClickHouse's sum of integers of this width wraps around before it is divided."""
_MERGES = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""The aggregate that merges the partial results of each aggregate."""


def group_in_two_steps(groups: GroupExpressionCompiler, rows_sql: Fragment) -> Fragment | None:
    """Returns the grouped subquery of ``rows_sql`` (FROM and WHERE) in two steps.

    Returns ``None`` where one step is better.
    """
    names = {_distinct_argument(groups, node) for node, _ in groups.calls}
    counted = next(iter(names - {None}), None)
    others = sum(_distinct_argument(groups, node) is None for node, _ in groups.calls)
    if counted is None or len(names) != 2 or others > _MAX_OTHERS or not _is_worth_it(groups, counted):
        return None
    steps = _TwoSteps(groups, counted)
    if not all(steps.add(node, value) for node, value in groups.calls):
        return None
    return steps.sql(rows_sql)


def _is_worth_it(groups: GroupExpressionCompiler, counted: Fragment) -> bool:
    texts = [key for key in groups.keys.values() if isinstance(strip_nullable(key.type), (StringType, FixedStringType))]
    return len(texts) >= _MIN_STRING_KEYS and counted not in groups.keys and not groups.scope.correlated


def _distinct_argument(groups: GroupExpressionCompiler, node: Function) -> Fragment | None:
    """Returns the single argument of a call that counts distinct values, else ``None``."""
    call = _resolve_unconditional(node)
    if call is None or len(node.args) != 1:
        return None
    distinct = call.distinct or node.distinct
    if call.rule.name != "uniqExact" and not (call.rule.name == "count" and distinct):
        return None
    (argument,) = groups.arguments(node)
    if argument.is_constant or isinstance(strip_nullable(argument.type), NothingType):
        return None
    return argument.sql


def _resolve_unconditional(node: Function) -> CombinedAggregate | None:
    call = resolve_aggregate(node.name)
    return None if call is None or call.conditional or call.or_null or node.filter is not None else call


class _TwoSteps:
    """The columns of both steps.

    The first step's are ``u<n>`` (the counted value) and ``p<n>_<i>`` (partial results).
    """

    def __init__(self, groups: GroupExpressionCompiler, counted: Fragment) -> None:
        self._groups = groups
        self._distinct_argument = counted
        self._value = leaf(f'"u{groups.number}"')
        self._parts: list[Fragment] = []
        self._totals: list[Fragment] = []

    def add(self, node: Function, value: Typed) -> bool:
        """Adds a call, whose result over rows is ``value``. Returns whether two steps can compute it."""
        total = self._total(node, value)
        if total is None:
            return False
        self._totals.append(fragment('{} AS "a{}_{}"', total, self._groups.number, len(self._totals)))
        return True

    def _total(self, node: Function, value: Typed) -> Fragment | None:
        """Returns an aggregate's SQL in the second step, or ``None``."""
        if _distinct_argument(self._groups, node) == self._distinct_argument:
            return fragment("CAST(count({}) AS UBIGINT)", self._value)
        call = _resolve_unconditional(node)
        if call is None or call.distinct or node.distinct:
            return None
        arguments = self._groups.arguments(node)
        bare = [strip_nullable(argument.type) for argument in arguments]
        if any(isinstance(type_, NothingType) for type_ in bare):
            return None
        if call.rule.name == "avg" and isinstance(bare[0], IntegerType):
            return self._average(arguments[0].sql, bare[0])
        rule = find_aggregate(_MERGES.get(call.rule.name, ""))
        if rule is None or (rule.name == "sum" and bare and isinstance(bare[0], FloatType)):
            return None
        total = build_aggregate(rule, [Typed(self._part(value.number), value.type)], self._groups.environment)
        return total.number if total.type == value.type else None

    def _average(self, argument: Fragment, type_: IntegerType) -> Fragment:
        total, count = self._part(fragment("sum({})", argument)), self._part(fragment("count({})", argument))
        whole = fragment("sum({})", total)
        if type_.bits == _WRAPPED_BITS:
            whole = wrap_to_64_bits(whole, type_)
        return fragment("({} / sum({}))", cast(whole, FLOAT64), count)

    def _part(self, sql: Fragment) -> Fragment:
        name = leaf(f'"p{self._groups.number}_{len(self._parts)}"')
        self._parts.append(fragment("{} AS {}", sql, name))
        return name

    def sql(self, rows_sql: Fragment) -> Fragment:
        """Returns the grouped subquery."""
        keys = self._groups.key_columns
        counted = string_code(self._groups.rows, self._distinct_argument) or self._distinct_argument
        named = [fragment("{} AS {}", key, name) for key, name in [*keys, (counted, self._value)]]
        first = join_fragments(", ", [*named, *self._parts])
        by = join_fragments(", ", [key for key, _ in keys])
        names = join_fragments(", ", [name for _, name in keys])
        inner = fragment("SELECT {}{} GROUP BY {}, {}", first, rows_sql, by, self._value)
        return fragment(
            "SELECT {names}, {} FROM ({}) GROUP BY {names}", join_fragments(", ", self._totals), inner, names=names
        )
