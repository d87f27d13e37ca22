"""Lets a scan return groups of rows instead of rows: ``SELECT a, count(), sum(x) FROM t GROUP BY a``.

A scan decodes many thousand rows at once. Where the keys are few, or come in runs, as in a table's order, these rows
are a few groups (``sql.run.scans.scan_grouping``), and DuckDB sees only those. A group has the values of the columns
that the statement uses directly (in keys, conditions, distinct counts). For each aggregate it has a *partial aggregate*
of its rows, from which the statement makes the whole. Equal rows may come in any number of groups, down to one group
for each row.

It is done where the outermost SELECT groups the rows of the one table that it reads. Each of its aggregates must be

- count, or sum, avg, min or max of a column of integers; sum or avg of floats; min or max of dates;
- a distinct count: for it equal rows may come once.

The first rows show whether the groups are fewer than the rows; if not, the query is started again over rows
(``sql.run.query_engine``).

Invariant: the partial aggregate ``k`` of scan ``n`` has the name ``"<n>+<k>"``, which nothing else in a statement has.
"""

from __future__ import annotations

from collections.abc import Sequence

from parts.types import DataType, DateType, FloatType, IntegerType, NothingType, strip_nullable
from sql.aggregates.combinators import build_aggregate, resolve_aggregate
from sql.compile.compiled_query import PartialAggregate, Scan
from sql.compile.expressions.expressions import is_random
from sql.compile.grouping.group_by import GroupExpressionCompiler
from sql.compile.names.scope import EXPRESSIONS, VIRTUAL_COLUMNS, column_sql
from sql.functions.registry import Rule
from sql.grammar.syntax_tree import Function, NamedTable, Select, walk
from sql.relations import is_parts_relation
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, leaf
from sql.typing.typed_expressions import FLOAT64, INT64, Typed, cast, float_literal_text, quote_identifier

_AVERAGED_BITS = 32
"""Widest integers that are averaged: ClickHouse's sum of wider ones wraps around before it is divided."""


def group_in_scan(select: Select, groups: GroupExpressionCompiler, scans: Sequence[Scan]) -> list[Fragment] | None:
    """Makes the scan return groups, and returns the aggregates over them.

    Returns ``None`` where the scan must return rows.
    """
    source = select.source
    if len(scans) != 1 or not isinstance(source, NamedTable) or source.sample is not None:
        return None
    (scan,) = scans
    if [id(known) for known in groups.scope.sources] != [id(scan.source)]:
        return None
    if select.grouping in ("ROLLUP", "CUBE") or groups.scope.correlated or not groups.calls:
        return None
    if any(isinstance(node, Function) and is_random(node.name) for node in walk(select)):
        return None  # a group would have one value for all its rows
    if not is_parts_relation(scan.source.relation) or not scan.source.prunable:
        return None
    parts = _PartialAggregates(scan, groups)
    wholes = [parts.merge(node, value) for node, value in groups.calls]
    if not all(wholes):
        return None
    scan.parts.update(parts.found)
    return [fragment("{} AS {}", whole, groups.aggregate_column(i)) for i, whole in enumerate(wholes) if whole]


def drop_unused_columns(scan: Scan, sql: Fragment) -> None:
    """Stops a scan from returning columns that the statement reads only as partial aggregates."""
    read = {node for node in sql.nodes() if not node.parts} if scan.parts else set()
    for part in scan.parts.values():
        if part.column in scan.source.used and scan.source.columns[part.column].sql not in read:
            scan.source.used.pop(part.column)


class _PartialAggregates:
    """The partial aggregates that the aggregates of a SELECT need."""

    def __init__(self, scan: Scan, groups: GroupExpressionCompiler) -> None:
        self.found: dict[str, PartialAggregate] = {}
        self._scan = scan
        self._groups = groups
        self._columns = {
            column_sql(scan.source.number, name): name
            for name, definition in scan.definitions.items()
            if definition.default_kind not in EXPRESSIONS and name not in VIRTUAL_COLUMNS
        }

    def merge(self, node: Function, value: Typed) -> Fragment | None:
        """Returns an aggregate over groups, or ``None``; ``value`` is the aggregate over rows."""
        call = resolve_aggregate(node.name)
        if call is None or call.conditional or call.or_null or call.or_default or node.filter is not None:
            return None
        arguments = self._groups.arguments(node)
        if any(isinstance(strip_nullable(argument.type), NothingType) for argument in arguments):
            return None
        if call.rule.name == "uniqExact" or (call.rule.name == "count" and (call.distinct or node.distinct)):
            return value.number
        if call.distinct or node.distinct:
            return None
        if call.rule.name == "count" and not any(argument.type.is_nullable for argument in arguments):
            return self._merge_count("", value)
        if len(arguments) != 1 or arguments[0].sql not in self._columns:
            return None
        return self._merge_column(call.rule, self._columns[arguments[0].sql], arguments[0].type, value)

    def _merge_column(self, rule: Rule, column: str, given: DataType, value: Typed) -> Fragment | None:
        """Returns an aggregate of one column over groups, or ``None``."""
        bare = strip_nullable(given)
        bits = bare.bits if isinstance(bare, IntegerType) else 0
        is_number = 0 < bits <= 64
        if rule.name == "count":
            return self._merge_count(column, value)
        if rule.name == "sum" and (is_number or isinstance(bare, FloatType)):
            return self._merge_same(rule, column, value)
        if rule.name in ("min", "max") and (is_number or isinstance(bare, DateType)):
            return self._merge_same(rule, column, value)
        if rule.name == "avg" and (isinstance(bare, FloatType) or 0 < bits <= _AVERAGED_BITS):
            total = fragment("sum({})", self._add_part("sum", column, self._sum_type(bare)))
            count = fragment("sum({})", self._add_part("count", column, INT64))
            mean = fragment("({} / {})", cast(total, FLOAT64), cast(count, FLOAT64))
            return (
                mean if value.type.is_nullable else fragment("coalesce({}, {})", mean, float_literal_text(float("nan")))
            )
        return None

    def _merge_count(self, column: str, value: Typed) -> Fragment:
        total = fragment("sum({})", self._add_part("count", column, INT64))
        return cast(fragment("coalesce({}, {})", total, default_value(value.type)), value.type)

    def _merge_same(self, rule: Rule, column: str, value: Typed) -> Fragment | None:
        """Returns an aggregate whose partial aggregates are merged by the same function."""
        part = Typed(self._add_part(rule.name, column, value.type), value.type)
        whole = build_aggregate(rule, [part], self._groups.environment, empty_possible=not self._groups.is_grouped)
        return whole.number if whole.type == value.type else None

    def _sum_type(self, given: DataType) -> DataType:
        return IntegerType(64, given.signed) if isinstance(given, IntegerType) else FLOAT64

    def _add_part(self, function: str, column: str, type_: DataType) -> Fragment:
        part = PartialAggregate(function, column, strip_nullable(type_).arrow)
        for name, known in self.found.items():
            if known == part:
                return leaf(quote_identifier(name))
        name = f"{self._scan.source.number}+{len(self.found)}"
        self.found[name] = part
        return leaf(quote_identifier(name))
