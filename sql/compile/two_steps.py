"""GROUP BY in two steps: ``SELECT a, b, count(), uniqExact(u) FROM t GROUP BY a, b`` becomes a count of each
(a, b, u), and then a sum of those counts and a count of the ``u`` for each (a, b).

DuckDB gathers distinct values beside the groups, so it hashes and compares the keys of every row twice, and that is
what such a query costs when the keys are strings. In two steps every row is looked up once. The first step keeps the
other aggregates for every distinct value, which costs more than it saves when the keys are cheap, the values nearly
all distinct or the aggregates many. So it is done only where

- at least two keys are strings, and neither ROLLUP nor a correlated subquery is there;
- every distinct count is of the same single argument, which is not a key itself;
- the others, one to ``_MOST_OTHERS``, are count, sum, min, max or avg of whole numbers, without FILTER, -If or
  DISTINCT: the same from parts as from rows. Sums of floats are not, nor is ``any``, which would come from other rows.

A NULL argument makes a group of the first step like any value, so the others see its rows; the second step does not
count it.
"""

from __future__ import annotations

from parts.types import FixedStringType, FloatType, IntegerType, NothingType, StringType, strip_nullable
from sql.compile.aggregation import AfterAggregation
from sql.compile.compiling import code_of
from sql.functions.combinators import Combined, build_aggregate, find_combined
from sql.functions.registry import find_aggregate
from sql.grammar.syntax_tree import Function, Star
from sql.typing.typed import FLOAT64, Typed, cast

_LEAST_STRING_KEYS = 2
_MOST_OTHERS = 4
_OF_PARTS = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""Which aggregate of the parts is the aggregate of all rows."""


def two_steps(groups: AfterAggregation, rows_sql: str) -> str | None:
    """The grouped subquery of ``rows_sql`` (FROM and WHERE) in two steps, or ``None`` where one step is better."""
    names = {_counted(groups, node) for node, _ in groups.calls}
    counted = next(iter(names - {None}), None)
    others = sum(_counted(groups, node) is None for node, _ in groups.calls)
    if counted is None or len(names) != 2 or others > _MOST_OTHERS or not _worth_it(groups, counted):
        return None
    steps = _Steps(groups, counted)
    if not all(steps.add(node, value) for node, value in groups.calls):
        return None
    return steps.sql(rows_sql)


def _worth_it(groups: AfterAggregation, counted: str) -> bool:
    texts = [key for key in groups.keys.values() if isinstance(strip_nullable(key.type), (StringType, FixedStringType))]
    return len(texts) >= _LEAST_STRING_KEYS and counted not in groups.keys and not groups.scope.correlated


def _counted(groups: AfterAggregation, node: Function) -> str | None:
    """The text of the one argument whose distinct values the call counts, if that is what it does."""
    call = _unconditional(node)
    if call is None or len(node.args) != 1:
        return None
    distinct = call.distinct or node.distinct
    if call.rule.name != "uniqExact" and not (call.rule.name == "count" and distinct):
        return None
    argument = groups.rows.compile(node.args[0]).plain
    if argument.is_constant or isinstance(strip_nullable(argument.type), NothingType):
        return None
    return argument.sql


def _unconditional(node: Function) -> Combined | None:
    call = find_combined(node.name)
    return None if call is None or call.conditional or call.or_null or node.filter is not None else call


class _Steps:
    """Collects the columns of both steps; the first step's are ``u<n>`` (the counted value) and ``p<n>_<i>``."""

    def __init__(self, groups: AfterAggregation, counted: str) -> None:
        self._groups = groups
        self._counted = counted
        self._value = f'"u{groups.number}"'
        self._parts: list[str] = []
        self._totals: list[str] = []

    def add(self, node: Function, value: Typed) -> bool:
        """Whether the call can be computed in two steps; ``value`` is its result over rows."""
        total = self._total(node, value)
        if total is None:
            return False
        self._totals.append(f'{total} AS "a{self._groups.number}_{len(self._totals)}"')
        return True

    def _total(self, node: Function, value: Typed) -> str | None:
        if _counted(self._groups, node) == self._counted:
            return f"CAST(count({self._value}) AS UBIGINT)"
        call = _unconditional(node)
        if call is None or call.distinct or node.distinct:
            return None
        arguments = [self._groups.rows.compile(arg).plain for arg in node.args if not isinstance(arg, Star)]
        bare = [strip_nullable(argument.type) for argument in arguments]
        if any(isinstance(type_, NothingType) for type_ in bare):
            return None
        if call.rule.name == "avg" and isinstance(bare[0], IntegerType):
            return self._average(arguments[0].sql)
        rule = find_aggregate(_OF_PARTS.get(call.rule.name, ""))
        if rule is None or (rule.name == "sum" and bare and isinstance(bare[0], FloatType)):
            return None
        total = build_aggregate(rule, [Typed(self._part(value.number), value.type)], self._groups.environment)
        return total.number if total.type == value.type else None

    def _average(self, argument: str) -> str:
        total, count = self._part(f"sum({argument})"), self._part(f"count({argument})")
        return f"({cast(f'sum({total})', FLOAT64)} / sum({count}))"

    def _part(self, sql: str) -> str:
        name = f'"p{self._groups.number}_{len(self._parts)}"'
        self._parts.append(f"{sql} AS {name}")
        return name

    def sql(self, rows_sql: str) -> str:
        keys = self._groups.key_sql
        counted = code_of(self._groups.rows, self._counted) or self._counted
        first = ", ".join([*keys, f"{counted} AS {self._value}", *self._parts])
        by = ", ".join(text.rsplit(" AS ", 1)[0] for text in keys)
        names = ", ".join(text.rsplit(" AS ", 1)[1] for text in keys)
        inner = f"SELECT {first}{rows_sql} GROUP BY {by}, {self._value}"
        return f"SELECT {names}, {', '.join(self._totals)} FROM ({inner}) GROUP BY {names}"
