"""Compiles FROM: tables, subqueries, table functions and ARRAY JOIN, and fills the scope's sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import ArrayType, DataType, IntegerType, MapType, strip_nullable
from sql.compile.compiled_query import CompiledQuery, Scan, cast_columns
from sql.compile.compiler_interfaces import StatementContext
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.final_reading import FinalReading, plan_final_reading
from sql.compile.from_clause.joins import compile_join
from sql.compile.from_clause.table_functions import compile_table_function
from sql.compile.names.column_names import result_column_name
from sql.compile.names.scope import Scope, Source, SourceColumn, column_sql
from sql.compile.names.virtual_columns import virtual_columns
from sql.compile.passes.view_expansion import expand_views
from sql.compile.shards.merge_tables import MergedTables, compile_union
from sql.compile.shards.remote_table_functions import parse_remote_function
from sql.compile.shards.sharded_relation import ResolvedTable, ShardedRelation
from sql.functions.maps_and_tuples.maps_and_tuples import map_entries
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import (
    Alias,
    ArrayJoin,
    Function,
    Identifier,
    Join,
    Literal,
    NamedTable,
    Node,
    SubqueryTable,
    TableFunction,
)
from sql.relations import PartsRelation, StreamedRelation, ViewRelation
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment, join_fragments, leaf
from sql.typing.typed_expressions import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence


_HIDDEN_KINDS = ("MATERIALIZED", "ALIAS")


class FromClause:
    """The compiler of one FROM; it fills ``scope.sources``.

    ``filters`` are conditions that FROM itself demands (SAMPLE).
    """

    def __init__(self, query: StatementContext, scope: Scope, rows: ExpressionCompiler) -> None:
        self.query = query
        self.scope = scope
        self.rows = rows
        self.filters: list[Fragment] = []

    def compile(self, node: Node | None) -> Fragment:
        """Compiles a node of FROM to a DuckDB table expression. Raises ``UserError``."""
        match node:
            case None:
                return EMPTY
            case NamedTable():
                return self._compile_named(node)
            case SubqueryTable() if node.table:
                return self._compile_view(node)
            case SubqueryTable(query, alias):
                return self.derived(self.query.compile(query, self.scope.outer, self._inner_scope()), alias)
            case ResolvedTable():
                return self._compile_resolved(node)
            case TableFunction():
                other = parse_remote_function(node, self.query)
                if other is not None:
                    return self._compile_resolved(ResolvedTable(other, node.alias))
                return compile_table_function(self, node)
            case Join():
                return compile_join(self, node)
            case ArrayJoin():
                return self._compile_array_join(node)
        raise UserError("NOT_IMPLEMENTED", f"{type(node).__name__} in FROM is not supported")

    def _inner_scope(self) -> Scope:
        return Scope(common_tables=dict(self.scope.common_tables), inherited=dict(self.scope.inherited))

    def add_source(self, alias: str, columns: Sequence[tuple[str, DataType]], number: int | None = None) -> Source:
        """Adds a source whose DuckDB columns have the standard names."""
        number = self.query.next_number() if number is None else number
        entries = {name: SourceColumn(name, type_, column_sql(number, name)) for name, type_ in columns}
        source = Source(number, alias, entries)
        self.scope.sources.append(source)
        return source

    def derived(self, compiled: CompiledQuery, alias: str, names: Sequence[str] = ()) -> Fragment:
        """Adds a subquery as a source, and returns it as a table."""
        number = self.query.next_number()
        columns: dict[str, SourceColumn] = {}
        positions: dict[str, int] = {}
        labels = []
        for position, (own, type_) in enumerate(compiled.columns):
            name = names[position] if position < len(names) else own
            label = column_sql(number, name) if name not in columns else leaf(quote_identifier(f"{number}^{position}"))
            labels.append(label)
            columns.setdefault(name, SourceColumn(name, type_, label))
            positions.setdefault(name, position)
        self.scope.sources.append(Source(number, alias, columns, origins=compiled.origins, positions=positions))
        return fragment("({}) AS t{}({})", compiled.sql, number, join_fragments(", ", labels))

    def relation(self, relation: StreamedRelation, alias: str) -> Fragment:
        """Adds a scan of a relation that a table function reads."""
        number = self.query.next_number()
        known = [(column, column.default_kind in _HIDDEN_KINDS) for column in relation.schema.columns] + [
            (c, True) for c in relation.hidden
        ]
        columns = {
            item.name: SourceColumn(item.name, item.type, column_sql(number, item.name), item, hidden=is_hidden)
            for item, is_hidden in known
        }
        source = Source(number, alias, columns, relation=relation)
        self.scope.sources.append(source)
        scan = Scan(source)
        self.query.scans.append(scan)
        return scan.table

    def _compile_resolved(self, node: ResolvedTable) -> Fragment:
        """Compiles a table that is looked up already: shards, or a merge of tables."""
        relation = node.relation
        if isinstance(relation, MergedTables):
            union = expand_views(compile_union(relation, self.query), self.query.catalog, self.query.guard)
            sql = self.derived(self.query.compile(union), node.alias)
            hidden = {column.name for column in relation.hidden}
            for column in self.scope.sources[-1].columns.values():
                column.hidden = column.name in hidden
        else:
            sql = self.relation(relation, node.alias)
        source = self.scope.sources[-1]
        source.database, source.table = node.database, node.table
        return sql

    # Tables -----------------------------------------------------------------------------------------------------------

    def _compile_named(self, node: NamedTable) -> Fragment:
        """Compiles a name in FROM: a WITH table, a table of ``system`` or of the catalog."""
        if node.database is None:
            common = self.scope.find_common_table(node.table)
            if common is not None:
                table, scope = common
                compiled = self.query.compile(table.query, scope.outer, scope)
                return self.derived(compiled, node.alias or node.table, table.columns)
        if (node.database or "").lower() == "system" and node.table in ("numbers", "numbers_mt", "zeros", "zeros_mt"):
            name = node.table.removesuffix("_mt")
            return compile_table_function(self, TableFunction(name, (), node.alias or node.table))
        relation = self.query.catalog.relation(node.database, node.table)
        if isinstance(relation, ViewRelation):
            raise UserError("NOT_IMPLEMENTED", f"View {relation.database}.{relation.name} cannot be read here")
        if isinstance(relation, ShardedRelation | MergedTables):
            database = node.database or self.query.database
            return self._compile_resolved(ResolvedTable(relation.read_as(node), node.alias, database, node.table))
        number = self.query.next_number()
        virtual: Iterable[Column] = ()
        final: FinalReading | None = None
        if isinstance(relation, PartsRelation):
            schema = relation.description.schema
            virtual = virtual_columns(
                relation, node.database or self.query.database, node.table, self._sample_share(relation, node)
            )
            final = plan_final_reading(relation.description, node.table, node.final, self.query.settings)
        else:
            schema = relation.schema
        columns = {
            column.name: SourceColumn(
                column.name, column.type, column_sql(number, column.name), column,
                hidden=column.default_kind in _HIDDEN_KINDS,
            )
            for column in schema.columns
        }  # fmt: skip
        for column in virtual:
            label = column_sql(number, column.name)
            columns.setdefault(column.name, SourceColumn(column.name, column.type, label, column, hidden=True))
        source = Source(number, node.alias, columns, node.database or self.query.database, node.table, relation)
        self.scope.sources.append(source)
        scan = Scan(source, final=final)
        self.query.scans.append(scan)
        if node.sample is not None:
            self._add_sample(node, scan, node.sample_offset or Fraction(0))
        return scan.table

    def _compile_view(self, node: SubqueryTable) -> Fragment:
        """Compiles a view, which sees no names of the surrounding query."""
        compiled = self.query.compile(node.query)
        if node.columns:
            types = [type_ for _, type_ in node.columns]
            given = cast_columns(compiled, types, self.query.environment.zone)
            compiled = CompiledQuery(given, node.columns, origins=compiled.origins_with_types(types))
        sql = self.derived(compiled, node.alias)
        source = self.scope.sources[-1]
        source.database, source.table = node.database, node.table
        return sql

    def check_prewhere(self) -> None:
        """Raises ``UserError`` 182 if a source does not support PREWHERE."""
        for source in self.scope.sources:
            if source.table and source.relation is None:
                raise UserError("ILLEGAL_PREWHERE", f"Storage View (table {source.table}) does not support PREWHERE")
            relation = source.relation
            if isinstance(relation, PartsRelation) and not relation.description.has_parts:
                raise UserError("ILLEGAL_PREWHERE", f"Table {source.table} does not support PREWHERE")

    @staticmethod
    def _sample_share(relation: PartsRelation, node: NamedTable) -> Fraction | None:
        """Returns SAMPLE as a share of the rows, or ``None``."""
        if node.sample is None or node.sample <= 1:
            return node.sample
        return min(node.sample / _count_rows(relation), Fraction(1))

    def _add_sample(self, node: NamedTable, scan: Scan, offset: Fraction) -> None:
        """Compiles ``SAMPLE k OFFSET m``: the sampling key in [m, m + k) of its type's range.

        All rows are read if k is 0 or 1. Raises ``UserError`` 43, 69, 141.
        """
        relation = scan.source.relation
        if not isinstance(relation, PartsRelation) or not relation.description.sampling_key:
            raise UserError(
                "SAMPLING_NOT_SUPPORTED", f"Table {node.table} doesn't support sampling: it has no SAMPLE BY"
            )
        key = relation.description.sampling_key
        type_ = strip_nullable(key.types[0])
        if not isinstance(type_, IntegerType) or type_.signed:
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"The sampling key has type {type_}, but must be unsigned")
        share = self._sample_share(relation, node) or Fraction(0)
        if offset > 1:
            offset = offset / _count_rows(relation)
        if share == 0 or share >= 1:
            if offset:
                raise UserError("ARGUMENT_OUT_OF_BOUND", "The OFFSET of SAMPLE needs a sample smaller than the table")
            return
        universe = type_.maximum + 1
        low, high = int(offset * universe), int((offset + share) * universe)
        if low >= universe:
            self.filters.append(fragment("false"))
            return
        expression = parse_expression(key.expressions[0])
        own = ExpressionCompiler(Scope([scan.source]), self.query.environment)
        bounds: list[Node] = []
        if low > 0:
            bounds.append(Function("greaterOrEquals", (expression, Literal(low, str(low)))))
        if high < universe:
            bounds.append(Function("less", (expression, Literal(high, str(high)))))
        for bound in bounds:
            self.filters.append(own.condition(bound))
            scan.conditions.append((bound, own))

    # ARRAY JOIN -------------------------------------------------------------------------------------------------------

    def _compile_array_join(self, node: ArrayJoin) -> Fragment:
        """Compiles ARRAY JOIN. Raises ``UserError`` 53."""
        inner = self.compile(node.source)
        number = self.query.next_number()
        columns: list[tuple[str, DataType]] = []
        elements: list[Fragment] = []
        first = EMPTY
        for item in chain.from_iterable(map(self._expand_nested, node.expressions)):
            expression = item.expression if isinstance(item, Alias) else item
            name = result_column_name(item)
            value = self.rows.compile(expression).plain
            type_ = strip_nullable(value.type)
            sql = value.sql
            if isinstance(type_, MapType):
                pairs = map_entries(value, type_)
                sql, type_ = pairs.sql, pairs.type
            if not isinstance(type_, ArrayType):
                raise UserError("TYPE_MISMATCH", f"ARRAY JOIN requires an array argument, {name} is {value.type}")
            if first:
                failure = fragment("error('pando:190:Sizes of ARRAY-JOIN-ed arrays do not match')")
                sql = fragment("(CASE WHEN len({0}) = len({1}) THEN {0} ELSE {2} END)", sql, first, failure)
            first = first or sql
            if node.left:
                sql = fragment(
                    "(CASE WHEN len({sql}) = 0 THEN [{}] ELSE {sql} END)", default_value(type_.inner), sql=sql
                )
            elements.append(fragment("unnest({}) AS {}", sql, column_sql(number, name)))
            self._shadow_array(item, expression, number, name, type_.inner)
            if isinstance(item, Alias) or not isinstance(expression, Identifier):
                columns.append((name, type_.inner))
        if columns:
            source = self.add_source("", columns, number)
            for column in source.columns.values():
                column.hidden = True
        self.rows.compiled.clear()
        return fragment("(SELECT *, {} FROM {})", join_fragments(", ", elements), inner)

    def _expand_nested(self, item: Node) -> Iterator[Node]:
        """Yields the columns of a Nested structure in ARRAY JOIN; other items unchanged."""
        expression = item.expression if isinstance(item, Alias) else item
        columns: list[str] = []
        if isinstance(expression, Identifier) and self.scope.find_column(expression.parts) is None:
            *qualifier, structure = expression.parts
            for source in self.scope.named(tuple(qualifier)):
                if not columns:
                    columns = [name for name in source.columns if name.startswith(f"{structure}.")]
        if not columns:
            yield item
        for name in columns:
            column = Identifier((name,))
            alias = f"{item.name}.{name.partition('.')[2]}" if isinstance(item, Alias) else name
            yield Alias(column, alias) if alias != name else column

    def _shadow_array(self, item: Node, expression: Node, number: int, name: str, inner: DataType) -> None:
        """Makes ``arr`` the element after ``ARRAY JOIN arr`` without an alias."""
        if isinstance(item, Alias):
            return
        if isinstance(expression, Identifier):
            found = self.scope.find_column(expression.parts)
            if found is not None:
                source, column, _ = found
                source.columns[column.name] = SourceColumn(
                    column.name,
                    inner,
                    column_sql(number, name),
                )


def _count_rows(relation: PartsRelation) -> int:
    """Returns the number of rows of a table, at least one."""
    snapshot = relation.snapshot()
    try:
        return max(1, sum(part.rows for part in snapshot.parts))
    finally:
        snapshot.release()
