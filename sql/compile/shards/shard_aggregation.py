"""Splits an aggregation over shards: partial aggregates from each shard, merged on this server.

Merging partial aggregates gives the same as aggregating all rows: ``count`` is a sum of counts, ``avg`` a sum and a
count. If an aggregate has no partial form, all rows are sent and aggregated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sql.aggregates.combinators import is_aggregate_call
from sql.compile.names.column_names import result_column_name
from sql.compile.shards.shard_expressions import NotShardableError, ShardExpressionWriter
from sql.functions.registry import canonical_function_name
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Lambda,
    Literal,
    LiteralList,
    Node,
    Select,
    Star,
    walk,
)

_MERGED_BY_THEMSELVES = frozenset({"sum", "min", "max", "any", "groupBitAnd", "groupBitOr", "groupBitXor"})
_SUMMED = frozenset({"count", "countIf", "sumIf"})
_ZERO = Literal(0, "0")


@dataclass(slots=True)
class _SplitAggregation:
    """The ``keys`` and ``parts`` that a shard computes, under names that no column has."""

    names: ShardExpressionWriter
    prefix: str
    keys: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)

    def key(self, node: Node) -> Identifier | None:
        """Returns the name of a known key, or ``None``."""
        return Identifier((f"{self.prefix}key{self.keys.index(node)}",)) if node in self.keys else None

    def add_key(self, node: Node) -> Identifier:
        """Adds a key and returns its name. Raises :class:`NotShardableError`."""
        local = self.names.rewrite(node)
        if isinstance(local, Literal):
            raise NotShardableError  # in GROUP BY a number would be a position
        if local not in self.keys:
            self.keys.append(local)
        found = self.key(local)
        assert found is not None
        return found

    def part(self, node: Function) -> Identifier:
        """Adds a partial aggregate and returns its name."""
        if node not in self.parts:
            self.parts.append(node)
        return Identifier((f"{self.prefix}part{self.parts.index(node)}",))

    def merge(self, node: Node) -> Node:
        """Returns the expression over the shards' answers. Raises :class:`NotShardableError`."""
        if isinstance(node, Function) and is_aggregate_call(node):
            return self._split_aggregate(node)
        local = self.names.expression(node)
        found = self.key(local) if local is not None else None
        if found is not None:
            return found
        match node:
            case Literal() | LiteralList():
                return node
            case Alias(expression):
                return self.merge(expression)
            case Identifier(parts):
                return self._merge_identifier(parts)
            case Function(window=None, filter=None):
                return replace(node, args=tuple(self.merge(arg) for arg in node.args))
            case Lambda(parameters, body):
                self.names.parameters.append(parameters)
                try:
                    return Lambda(parameters, self.merge(body))
                finally:
                    self.names.parameters.pop()
        raise NotShardableError

    def _merge_identifier(self, parts: tuple[str, ...]) -> Node:
        if self.names.is_parameter(parts[0]):
            return Identifier(parts)
        target = self.names.alias(parts)
        if target is None or len(parts) > 1:
            raise NotShardableError
        self.names.enter(parts[0])
        try:
            return self.merge(target)
        finally:
            self.names.leave()

    def _split_aggregate(self, node: Function) -> Node:
        """Returns an aggregate over partial ones. Raises :class:`NotShardableError`."""
        name = canonical_function_name(node.name)
        if node.distinct or node.filter is not None or node.params is not None or node.nulls:
            raise NotShardableError
        args = () if name == "count" and node.args[:1] and isinstance(node.args[0], Star) else node.args
        own = Function(name, tuple(self.names.rewrite(arg) for arg in args))
        if name in _MERGED_BY_THEMSELVES:
            return Function(name, (self.part(own),))
        if name in _SUMMED:
            return Function("sum", (self.part(own),))
        if name == "avg" and len(own.args) == 1:
            total = Function("toFloat64", (Function("sum", (self.part(replace(own, name="sum")),)),))
            return Function("divide", (total, Function("sum", (self.part(replace(own, name="count")),))))
        raise NotShardableError


def find_aggregates(select: Select) -> bool:
    """Tells whether a SELECT has aggregates outside WHERE."""
    nodes = [*select.expressions, *select.with_aliases, *(item.expression for item in select.order_by)]
    nodes += [select.having] if select.having is not None else []
    return any(is_aggregate_call(part) for node in nodes for part in walk(node, into_queries=False))


def split_aggregation(
    select: Select, names: ShardExpressionWriter, columns: Sequence[str]
) -> tuple[Select, Select] | None:
    """Returns the query for each shard and the query over their answers, both without FROM.

    The first has no WHERE either. Returns ``None`` if the rows must be sent.
    """
    is_grouped = bool(select.group_by) or find_aggregates(select)
    is_other = select.grouping or select.totals or select.windows or select.qualify is not None or select.distinct_on
    if is_other or not (is_grouped or select.distinct):
        return None
    named = [part.name for node in select.expressions for part in walk(node) if isinstance(part, Alias)]
    prefix = "_"
    while any(name.startswith(prefix) for name in (*columns, *named)):
        prefix += "_"
    split = _SplitAggregation(names, prefix)
    try:
        return _shard_query(select, split, is_grouped), _merge_query(select, split, is_grouped)
    except NotShardableError:
        return None


def _merge_query(select: Select, split: _SplitAggregation, is_grouped: bool) -> Select:
    def merge(node: Node | None) -> Node | None:
        return split.merge(node) if node is not None else None

    by = select.limit_by
    return replace(
        select,
        expressions=tuple(Alias(split.merge(node), result_column_name(node)) for node in select.expressions),
        with_aliases=(),
        prewhere=None,
        where=None,
        group_by=tuple(split.add_key(_resolve_position(node, select)) for node in select.group_by)
        if is_grouped
        else (),
        having=merge(select.having),
        order_by=tuple(
            replace(item, expression=item.expression if _is_position(item.expression) else split.merge(item.expression))
            for item in select.order_by
        ),
        limit_by=replace(by, expressions=tuple(map(split.merge, by.expressions))) if by is not None else None,
    )


def _shard_query(select: Select, split: _SplitAggregation, is_grouped: bool) -> Select:
    """Returns the query for each shard. Raises :class:`NotShardableError` if anything cannot be merged."""
    for node in select.group_by if is_grouped else select.expressions:
        if isinstance(node, Star):
            raise NotShardableError
        split.add_key(_resolve_position(node, select) if is_grouped else node)
    _merge_query(select, split, is_grouped)
    keys = tuple(Alias(node, f"{split.prefix}key{number}") for number, node in enumerate(split.keys))
    parts = tuple(Alias(node, f"{split.prefix}part{number}") for number, node in enumerate(split.parts))
    # A shard without rows returns no group, even without keys: its minimum would be a false 0.
    having = None if keys else Function("greater", (Function("count"), _ZERO))
    return Select((*keys, *parts) or (Literal(1, "1"),), group_by=tuple(split.keys), having=having)


def _is_position(node: Node) -> bool:
    return isinstance(node, Literal) and type(node.value) is int


def _resolve_position(node: Node, select: Select) -> Node:
    if isinstance(node, Literal) and type(node.value) is int:
        if not 1 <= node.value <= len(select.expressions):
            raise NotShardableError
        return select.expressions[node.value - 1]
    return node
