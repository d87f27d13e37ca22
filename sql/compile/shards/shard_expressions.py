"""Rewrites expressions for another server: over the bare columns of one table, with aliases expanded.

Expressions that would mean something else there (random values, the server itself, the surrounding query) have no such
form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from parts.table.table_description import Column
from sql.aggregates.combinators import is_aggregate_call
from sql.compile.names.scope import Scope, Source, SourceColumn, collect_aliases, column_sql
from sql.compile.shards.sharded_relation import ResolvedTable
from sql.functions.registry import Environment, canonical_function_name, find_rule
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Lambda,
    Literal,
    LiteralList,
    Node,
    OrderItem,
    Select,
    StarColumn,
)

_SERVER_FUNCTIONS = frozenset(
    {
        "rand", "rand32", "rand64", "randCanonical", "randConstant", "generateUUIDv4", "randomString",
        "randomFixedString", "randomPrintableASCII", "hostName", "currentDatabase", "currentUser", "version", "uptime",
        "queryID", "serverUUID", "serverTimezone", "timezone", "now64", "nowInBlock", "rowNumberInBlock", "blockNumber",
        "rowNumberInAllBlocks", "runningDifference", "runningAccumulate", "neighbor", "sleep", "sleepEachRow",
        "throwIf", "arrayJoin", "unnest", "file", "getSetting", "getMacro", "shardNum", "shardCount", "profiles",
        "exists", "_any", "_all", "currentPosition", "inSyncClusters",
    }
)  # fmt: skip
"""Functions that depend on the server or on chance, do not give one value a row, or have side effects."""

_NO_ALIASES: Mapping[str, Node] = {}
_MAX_NODES = 100_000
"""Nodes that may be rewritten for one SELECT."""


class NotShardableError(Exception):
    """The expression has no form that another server can compute."""


class ShardExpressionWriter:
    """A rewriter of one SELECT's expressions over the columns of one of its sources."""

    def __init__(self, scope: Scope, source: Source, environment: Environment) -> None:
        self._scope = scope
        self._source = source
        self._environment = environment
        self._expanding: list[str] = []
        self._left = _MAX_NODES
        self.parameters: list[Sequence[str]] = []
        """The parameters of the surrounding lambdas."""

    @classmethod
    def of_table(
        cls,
        columns: Sequence[Column],
        named: ResolvedTable,
        select: Select,
        environment: Environment,
        inherited: Mapping[str, Node] = _NO_ALIASES,
    ) -> ShardExpressionWriter:
        """Makes the writer of conditions and keys of a SELECT over one table's columns.

        ``inherited`` are the aliases of the surrounding query.
        """
        of_source = {
            column.name: SourceColumn(column.name, column.type, column_sql(0, column.name), column)
            for column in columns
        }
        source = Source(0, named.alias, of_source, named.database, named.table)
        roots: list[Node] = [*select.with_aliases, *select.expressions]
        roots += [node for node in (select.prewhere, select.where, select.having) if node is not None]
        roots += [*select.group_by, *(item.expression for item in select.order_by)]
        return cls(Scope([source], aliases={**inherited, **collect_aliases(roots)}), source, environment)

    def expression(self, node: Node) -> Node | None:
        """Returns the rewritten expression, or ``None`` if there is no such form."""
        try:
            return self.rewrite(node)
        except NotShardableError:
            return None

    def rewrite(self, node: Node) -> Node:
        """Returns the rewritten expression.

        Raises :class:`NotShardableError`, also where aliases made of each other grow too large.
        """
        self._left -= 1
        if self._left < 0:
            raise NotShardableError
        match node:
            case Literal() | LiteralList():
                return node
            case Alias(expression, name):
                self.enter(name)
                try:
                    return self.rewrite(expression)
                finally:
                    self.leave()
            case Identifier(parts):
                return self._identifier(parts)
            case StarColumn(number, name, _, False) if number == self._source.number:
                return self._column(self._source.columns[name], ())
            case Lambda(parameters, body):
                self.parameters.append(parameters)
                try:
                    return Lambda(parameters, self.rewrite(body))
                finally:
                    self.parameters.pop()
            case Function():
                return self._function(node)
        raise NotShardableError

    def order(self, item: OrderItem) -> OrderItem:
        """Rewrites an ORDER BY item. Raises :class:`NotShardableError`."""
        return replace(item, expression=self.rewrite(item.expression))

    def alias(self, parts: tuple[str, ...]) -> Node | None:
        """Returns the expression of an alias, or ``None``; it must be used between enter and leave."""
        name = parts[0]
        is_qualified = len(parts) > 1 and bool(self._scope.named(parts[:1]))
        if name not in self._scope.aliases or name in self._expanding or is_qualified:
            return None
        return self._scope.aliases[name]

    def is_parameter(self, name: str) -> bool:
        """Tells whether a surrounding lambda has a parameter of this name."""
        return any(name in parameters for parameters in self.parameters)

    def enter(self, name: str) -> None:
        """Marks an alias as being expanded: inside its expression the name means something else."""
        self._expanding.append(name)

    def leave(self) -> None:
        """Ends the expansion of the last alias."""
        self._expanding.pop()

    def _identifier(self, parts: tuple[str, ...]) -> Node:
        if self.is_parameter(parts[0]):
            return Identifier(parts)
        target = self.alias(parts)
        if target is not None:
            self.enter(parts[0])
            try:
                return _follow_path(self.rewrite(target), parts[1:])
            finally:
                self.leave()
        found = self._scope.find_column(parts)
        if found is None or found[0] is not self._source:
            raise NotShardableError
        return self._column(found[1], found[2])

    def _column(self, column: SourceColumn, rest: Sequence[str]) -> Node:
        definition = column.definition
        if definition is not None and definition.default_kind == "ALIAS":
            own = ShardExpressionWriter(Scope([self._source]), self._source, self._environment)
            value = own.rewrite(parse_expression(definition.default_expression))
            return _follow_path(Function("CAST", (value, Literal(str(definition.type)))), rest)
        return _follow_path(Identifier((column.name,)), rest)

    def _function(self, node: Function) -> Node:
        """Rewrites a call. Raises :class:`NotShardableError`."""
        name = canonical_function_name(node.name)
        if name in ("now", "today", "yesterday") and not node.args:
            return self._moment(name)
        is_set = name in ("in", "notIn", "globalIn", "globalNotIn")
        if node.window is not None or name in _SERVER_FUNCTIONS or is_aggregate_call(node):
            raise NotShardableError
        if find_rule(name) is None and not is_set and name != "tuple":
            raise NotShardableError  # special forms may need this server's context
        if is_set:
            name = {"globalIn": "in", "globalNotIn": "notIn"}.get(name, name)
        return replace(node, name=name, args=tuple(self.rewrite(arg) for arg in node.args))

    def _moment(self, name: str) -> Node:
        """Returns the time of this query as a constant, the same for all shards."""
        now = self._environment.now
        if name == "now":
            return Function("toDateTime", (Literal(int(now)),))
        day = datetime.fromtimestamp(now, UTC).astimezone(ZoneInfo(self._environment.zone)).date()
        day -= timedelta(days=int(name == "yesterday"))
        return Function("toDate", (Literal(day.isoformat()),))


def _follow_path(value: Node, names: Sequence[str]) -> Node:
    for name in names:
        value = Function("tupleElement", (value, Literal(name)))
    return value
