"""Splits a SELECT over one table of shards into the shards' part and the part of this server.

Conditions, groups with partial aggregates, and ORDER BY with LIMIT are sent to the shards. The set of an ``IN (SELECT
…)`` is computed by each shard, as in ClickHouse, if it reads tables that every server has. With GLOBAL, or if it reads
tables of shards (``distributed_product_mode``), it is computed here, once. Joins are computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from parts.common.errors import UserError
from parts.table.table_description import Column
from sql.compile.compiler_interfaces import StatementContext
from sql.compile.names.scope import Scope
from sql.compile.shards.merge_tables import MergedTables, with_pushed_conditions
from sql.compile.shards.remote_table_functions import parse_remote_function
from sql.compile.shards.shard_aggregation import find_aggregates, split_aggregation
from sql.compile.shards.shard_expressions import NotShardableError, ShardExpressionWriter
from sql.compile.shards.sharded_relation import ResolvedTable, ShardedRelation
from sql.grammar.syntax_tree import (
    ArrayJoin,
    CommonTable,
    Function,
    Identifier,
    Join,
    Literal,
    NamedTable,
    Node,
    OrderItem,
    Query,
    Select,
    Star,
    Subquery,
    TableFunction,
    conjuncts,
    transform,
    walk,
)
from sql.relations import StreamedRelation

_SETS = {"in": "in", "notIn": "notIn", "globalIn": "in", "globalNotIn": "notIn"}
_GLOBAL = ("globalIn", "globalNotIn")

Describe = Callable[[Query], Sequence[Column]]
"""Returns the columns of a query's result. Raises ``UserError`` for whatever is wrong with it."""


def rewrite_over_shards(select: Select, scope: Scope, statement: StatementContext, describe: Describe) -> Select:
    """Rewrites a SELECT over a table of shards; other SELECTs are returned unchanged.

    Raises ``UserError`` 288 (DISTRIBUTED_IN_JOIN_SUBQUERY_DENIED).
    """
    known = {table.name for table in select.common_tables}
    main = select.source
    while isinstance(main, Join | ArrayJoin):
        main = main.left if isinstance(main, Join) else main.source
    named = _resolve_table(main, known, scope, statement)
    if named is None:
        return select
    relation = named.relation
    if isinstance(relation, MergedTables):
        if main is select.source:
            named = replace(named, relation=with_pushed_conditions(relation, select, named, statement))
        return _replace_main_table(select, named)
    if relation.shard_count > 1:
        _check_joins(select.source, known, scope, statement)
        _check_sets(select, known, scope, statement)
    if isinstance(select.source, Join | ArrayJoin):
        return _replace_main_table(select, named)
    return _ShardedSelect(select, relation, named, scope, statement, describe).rewrite()


def _resolve_table(
    source: Node | None, known: set[str], scope: Scope, statement: StatementContext
) -> ResolvedTable | None:
    """Resolves a table of shards or a merge of tables; ``None`` for any other source."""
    relation: object = None
    if isinstance(source, NamedTable):
        is_common = source.database is None and (
            source.table in known or scope.find_common_table(source.table) is not None
        )
        if not is_common and (source.database or "").lower() != "system":
            relation = statement.catalog.relation(source.database, source.table)
        if isinstance(relation, ShardedRelation | MergedTables):
            database = source.database or statement.database
            return ResolvedTable(relation.read_as(source), source.alias, database, source.table)
    elif isinstance(source, TableFunction):
        relation = parse_remote_function(source, statement)
        return ResolvedTable(relation, source.alias) if relation is not None else None
    return None


def _find_sharded_relation(
    source: Node | None, known: set[str], scope: Scope, statement: StatementContext
) -> ShardedRelation | None:
    found = _resolve_table(source, known, scope, statement)
    return found.relation if found is not None and isinstance(found.relation, ShardedRelation) else None


def _replace_main_table(select: Select, named: ResolvedTable) -> Select:
    """Puts the resolved main table into FROM, so that it is looked up only once.

    What the table is may be known to another server alone.
    """

    def put(source: Node | None) -> Node:
        if isinstance(source, Join):
            return replace(source, left=put(source.left))
        return replace(source, source=put(source.source)) if isinstance(source, ArrayJoin) else named

    return replace(select, source=put(select.source))


def _check_joins(source: Node | None, known: set[str], scope: Scope, statement: StatementContext) -> None:
    while isinstance(source, Join | ArrayJoin):
        if isinstance(source, Join):
            tables = [node for node in walk(source.right) if isinstance(node, NamedTable | TableFunction)]
            if not source.is_global and any(_is_sharded(table, known, scope, statement) for table in tables):
                _check_product_mode(statement)
            source = source.left
        else:
            source = source.source


def _check_sets(select: Select, known: set[str], scope: Scope, statement: StatementContext) -> None:
    for clause in (select.prewhere, select.where, select.having, *select.expressions):
        for call in walk(clause, into_queries=False) if clause is not None else ():
            if isinstance(call, Function) and call.name in ("in", "notIn") and isinstance(call.args[-1], Subquery):
                tables = [node for node in walk(call.args[-1]) if isinstance(node, NamedTable | TableFunction)]
                if any(_is_sharded(table, known, scope, statement) for table in tables):
                    _check_product_mode(statement)


def _is_sharded(table: Node, known: set[str], scope: Scope, statement: StatementContext) -> bool:
    """Tells whether a table lies in shards; unknown names (a common table of the subquery) do not."""
    try:
        return _find_sharded_relation(table, known, scope, statement) is not None
    except UserError:
        return False


def _check_product_mode(statement: StatementContext) -> None:
    if statement.settings.distributed_product_mode == "deny":
        raise UserError(
            "DISTRIBUTED_IN_JOIN_SUBQUERY_DENIED",
            "Double-distributed IN/JOIN subqueries is denied (distributed_product_mode = 'deny'). You may rewrite "
            "query to use local tables in subqueries, or use GLOBAL keyword, or set distributed_product_mode to "
            "suitable value.",
        )


@dataclass
class _ShardedSelect:
    """One SELECT over a table of shards, being rewritten."""

    select: Select
    relation: ShardedRelation
    named: ResolvedTable
    scope: Scope
    statement: StatementContext
    describe: Describe

    def rewrite(self) -> Select:
        """Returns the SELECT for this server over a relation that asks the shards."""
        select = self.select
        names = self._expression_writer()
        terms = [term for node in (select.prewhere, select.where) for term in conjuncts(node)]
        pushed: list[Node] = []
        left: list[Node] = []
        is_whole = True
        for term in terms:
            of_shards, has_set = self._push_condition(term, names)
            if of_shards is not None:
                pushed.append(of_shards)
            if of_shards is None or not has_set:
                left.append(term)  # checked on both sides: rows that a shard leaves out cost nothing here
            is_whole &= of_shards is not None
        relation = self.relation.narrowed(pushed)
        columns = [*relation.schema.names, *(column.name for column in relation.hidden)]
        split = split_aggregation(select, names, columns) if is_whole else None
        if split is not None:
            asked, whole = split
            source = ResolvedTable(relation, self.named.alias, self.named.database, self.named.table)
            answer: StreamedRelation = relation.answering(asked, self.describe(replace(asked, source=source)))
            return replace(whole, source=ResolvedTable(answer, "", self.named.database, self.named.table))
        if is_whole:
            relation = self._limit_shards(relation, names)
        where = left[0] if len(left) == 1 else Function("and", tuple(left)) if left else None
        return replace(select, source=replace(self.named, relation=relation), prewhere=None, where=where)

    def _expression_writer(self) -> ShardExpressionWriter:
        """Returns the writer of conditions and keys over the table's columns."""
        columns = [*self.relation.schema.columns, *self.relation.hidden]
        return ShardExpressionWriter.of_table(
            columns, self.named, self.select, self.statement.environment, self.scope.inherited
        )

    # WHERE ------------------------------------------------------------------------------------------------------------

    def _push_condition(self, term: Node, names: ShardExpressionWriter) -> tuple[Node | None, bool]:
        """Returns the condition as the shards compute it, or ``None``, and whether its set is theirs."""
        if isinstance(term, Function) and term.name in _SETS and len(term.args) == 2:
            query = self._find_set_query(term.args[1], names)
            if query is not None:
                return self._push_set(term, query, names), True
        return names.expression(term), False

    def _find_set_query(self, node: Node, names: ShardExpressionWriter) -> Query | None:
        if isinstance(node, Subquery):
            return node.query
        if not isinstance(node, Identifier) or len(node.parts) > 2 or names.expression(node) is not None:
            return None
        *database, table = node.parts
        return Select((Star(),), source=NamedTable(database[0] if database else None, table))

    def _push_set(self, term: Function, query: Query, names: ShardExpressionWriter) -> Node | None:
        """Returns an IN whose set each shard computes, or ``None``."""
        known = {node.name for node in walk(query) if isinstance(node, CommonTable)}
        tables = [node for node in walk(query) if isinstance(node, NamedTable | TableFunction)]
        sharded = [table for table in tables if _is_sharded(table, known, self.scope, self.statement)]
        if term.name in _GLOBAL:
            return None
        is_product = bool(sharded) and self.relation.shard_count > 1
        if is_product and self.statement.settings.distributed_product_mode != "local":
            return None
        value = names.expression(term.args[0])
        if value is None:
            return None
        try:
            self.describe(query)
            own = transform(query, lambda node: self._rename_table(node, known))
        except (UserError, NotShardableError):
            return None  # it needs the surrounding query, or tables of this session
        return Function(_SETS[term.name], (value, Subquery(own)))  # type: ignore[arg-type]

    def _rename_table(self, node: Node, known: set[str]) -> Node:
        """Returns a table of a set under the name that the shards use.

        Raises :class:`NotShardableError`.
        """
        if isinstance(node, TableFunction) and parse_remote_function(node, self.statement) is None:
            return node
        if not isinstance(node, NamedTable) or (node.database is None and node.table in known):
            return node
        relation = _find_sharded_relation(node, known, self.scope, self.statement)
        if relation is not None:
            remote = relation.remote_table
            if not isinstance(remote, NamedTable):
                raise NotShardableError
            return replace(node, database=remote.database, table=remote.table, alias=node.alias or node.table)
        if not self.relation.knows(node):
            raise NotShardableError
        alias = node.alias or node.table
        return replace(node, database=node.database or self.statement.database, alias=alias)

    # ORDER BY and LIMIT -----------------------------------------------------------------------------------------------

    def _limit_shards(self, relation: ShardedRelation, names: ShardExpressionWriter) -> ShardedRelation:
        """Limits each shard to as many rows as could be the first ones of all.

        That is possible only if the rows are returned as they are.
        """
        select = self.select
        counts = (select.limit, select.offset or Literal(0))
        if not all(isinstance(count, Literal) and type(count.value) is int and count.value >= 0 for count in counts):
            return relation
        is_other = (
            select.group_by or select.grouping or select.distinct or select.distinct_on or select.limit_by
            or select.with_ties or select.qualify is not None or select.windows or select.order_by_all
            or find_aggregates(select)
        )  # fmt: skip
        nodes = [*select.expressions, *select.with_aliases]
        calls = [part for node in nodes for part in walk(node, into_queries=False) if isinstance(part, Function)]
        if is_other or any(call.window is not None or call.name in ("arrayJoin", "unnest") for call in calls):
            return relation
        try:
            order: Sequence[OrderItem] = [names.order(self._resolve_position(item)) for item in select.order_by]
        except NotShardableError:
            return relation
        return relation.narrowed((), order, sum(count.value for count in counts if isinstance(count, Literal)))

    def _resolve_position(self, item: OrderItem) -> OrderItem:
        node = item.expression
        if isinstance(node, Literal) and type(node.value) is int:
            if not 1 <= node.value <= len(self.select.expressions):
                raise NotShardableError
            return replace(item, expression=self.select.expressions[node.value - 1])
        return item
