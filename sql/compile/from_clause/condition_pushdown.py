"""Pushes conditions into subqueries and views of FROM, to prune parts, granules and rows.

The surrounding query still computes the conditions, so a condition that has no form inside stays outside. A subquery
whose rows depend on each other (LIMIT, windows, aggregates of all rows) takes no conditions. Conditions on keys pass
through GROUP BY, because all rows of a group share the keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from parts.common.errors import UserError
from parts.types import DataType
from sql.compile.compiled_query import Scan
from sql.compile.compiler_interfaces import StatementContext
from sql.compile.expressions.expressions import ExpressionCompiler, is_window_call
from sql.compile.names.scope import Scope
from sql.compile.shards.shard_expressions import ShardExpressionWriter
from sql.functions.registry import canonical_function_name
from sql.grammar.syntax_tree import Function, Identifier, Lambda, Literal, Node, Select, transform, walk

_MAX_NODES = 1000
"""The largest condition that is pushed: expanded through nested views it may grow without end."""
_BLOCK_FUNCTIONS = frozenset({"rowNumberInBlock", "blockSize"})
"""Functions whose value depends on which rows were read."""
_NEVER = Literal(0, "0")


@dataclass(frozen=True, slots=True)
class SelectPushdownTarget:
    """One SELECT that takes conditions.

    ``outputs`` are its columns over the names of ``scope``; ``scans`` read the tables of ``scope``. Columns with
    another type in ``shown`` are converted for the surrounding query.
    """

    select: Select
    outputs: Sequence[Node]
    types: Sequence[DataType]
    shown: Sequence[DataType]
    scope: Scope
    scans: Sequence[Scan]
    statement: StatementContext
    is_grouped: bool

    def with_types(self, types: Sequence[DataType]) -> SelectPushdownTarget:
        """Returns the target with its columns converted to these types."""
        return replace(self, shown=types)

    def take(self, terms: Sequence[Node], positions: Mapping[str, int]) -> None:
        """Takes conditions over bare names; ``positions`` maps names to output columns."""

        def inside(node: Node) -> Node:
            return self._output(positions[node.parts[0]]) if isinstance(node, Identifier) else node

        if not self._have_dependent_rows():
            push_conditions([transform(term, inside) for term in terms], self.scope, self.scans, self.statement)

    def _output(self, position: int) -> Node:
        output, shown = self.outputs[position], self.shown[position]
        return output if self.types[position] == shown else Function("CAST", (output, Literal(str(shown))))

    def _have_dependent_rows(self) -> bool:
        """Tells whether leaving out a row would change another row."""
        select, scope = self.select, self.scope
        if self.is_grouped and (select.grouping or not select.group_by):
            return True
        if select.limit is not None or select.offset is not None or select.limit_by is not None or select.distinct_on:
            return True
        nodes = [*self.outputs, *scope.aliases.values(), *(item.expression for item in select.order_by)]
        nodes += [node for node in (select.prewhere, select.where, select.having, select.qualify) if node is not None]
        calls = (part for node in nodes for part in walk(node, into_queries=False) if isinstance(part, Function))
        return any(is_window_call(call) or canonical_function_name(call.name) in _BLOCK_FUNCTIONS for call in calls)


def push_conditions(terms: Sequence[Node], scope: Scope, scans: Sequence[Scan], statement: StatementContext) -> None:
    """Pushes conditions over FROM into its subqueries.

    Conditions that come from outside are also added to ``scans``.
    """
    for source in scope.sources:
        scan = next((scan for scan in scans if scan.source is source), None)
        if not source.prunable or not (source.origins or scan is not None):
            continue
        names = ShardExpressionWriter(scope, source, statement.environment)
        given = (_simplify_condition(names.expression(term), statement) for term in terms)
        local = [term for term in given if term is not None]
        if scan is not None:
            around = ExpressionCompiler(Scope([source]), statement.environment, statement)
            scan.conditions.extend((term, around) for term in local)
        for origin in source.origins:
            origin.take(local, source.positions)


def _simplify_condition(term: Node | None, statement: StatementContext) -> Node | None:
    """Returns a condition that is worth pushing, else ``None``.

    Parameters of lambdas might mean something else inside. A constant condition is dropped if true, and ``0`` if false.
    """
    if term is None:
        return None
    nodes = list(islice(walk(term), _MAX_NODES + 1))
    if len(nodes) > _MAX_NODES or any(isinstance(node, Lambda) for node in nodes):
        return None
    if any(isinstance(node, Identifier) for node in nodes):
        return term
    # Constants alone: for example a column of a UNION that tells which of its queries a row comes from.
    try:
        value = statement.constant(ExpressionCompiler(Scope(), statement.environment, statement).compile(term))
    except UserError:
        return None  # computing it for a row will report the error
    return None if value else _NEVER
