"""Several tables read as one (``ENGINE = Merge``, ``merge(…)``): a union of SELECTs.

Each SELECT gets the conditions of WHERE. A column that one table lacks has its type's default there; a column of
another type is converted. ``_table`` and ``_database`` are constants of each SELECT, so a condition on them leaves
tables out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from parts.table.table_description import Column, TableSchema
from parts.types import LowCardinalityType
from sql.compile.compiler_interfaces import StatementContext
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.scope import Scope
from sql.compile.shards.shard_expressions import ShardExpressionWriter
from sql.compile.shards.sharded_relation import ResolvedTable
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Lambda,
    Literal,
    NamedTable,
    Node,
    Query,
    Select,
    Star,
    TableFunction,
    Union,
    conjuncts,
    transform,
    walk,
)
from sql.typing.typed_expressions import STRING

_NAME = LowCardinalityType(STRING)
_PLAIN = NamedTable(None, "")
TABLE, DATABASE = "_table", "_database"


@dataclass(frozen=True, slots=True)
class MergedTable:
    """One of the tables. ``is_merged``: it reads other tables itself, and ``_table`` names those."""

    database: str
    table: str
    schema: TableSchema
    is_merged: bool = False


@dataclass(frozen=True)
class MergedTables:
    """The tables, their common ``schema``, and the columns to read; ``columns`` ``None`` means all."""

    schema: TableSchema
    tables: tuple[MergedTable, ...]
    columns: frozenset[str] | None = None
    where: tuple[Node, ...] = ()
    source: NamedTable = _PLAIN
    """Carries FINAL and SAMPLE."""

    def read_as(self, table: NamedTable) -> MergedTables:
        """Returns the tables with the FINAL and SAMPLE of ``table``, as written in FROM."""
        return replace(self, source=table)

    @property
    def hidden(self) -> Sequence[Column]:
        """The virtual columns ``_table`` and ``_database``, unless the schema has them."""
        return [Column(name, _NAME) for name in (TABLE, DATABASE) if name not in self.schema]

    @property
    def read_columns(self) -> list[Column]:
        """The columns that the query reads, at least one."""
        every = [*self.schema.columns, *self.hidden]
        chosen = [column for column in every if self.columns is None or column.name in self.columns]
        return chosen or every[:1]


def with_pushed_conditions(
    tables: MergedTables, select: Select, named: ResolvedTable, statement: StatementContext
) -> MergedTables:
    """Returns the tables with the columns and conditions of a SELECT that reads only them.

    Conditions that a table cannot check by itself are left out.
    """
    columns = [*tables.schema.columns, *tables.hidden]
    names = ShardExpressionWriter.of_table(columns, named, select, statement.environment)
    terms = [term for node in (select.prewhere, select.where) for term in conjuncts(node)]
    found = [names.expression(term) for term in terms]
    where = tuple(term for term in found if term is not None and not any(isinstance(p, Lambda) for p in walk(term)))
    return replace(tables, where=where, columns=_find_mentioned_columns(select, tables))


def _find_mentioned_columns(select: Select, tables: MergedTables) -> frozenset[str] | None:
    words: set[str] = set()
    for node in walk(select):
        if isinstance(node, Star):
            return None
        if isinstance(node, Identifier):
            words.update(node.parts)
            words.add(".".join(node.parts))
    names = (column.name for column in tables.schema.columns)
    return frozenset(words | {name for name in names if name.partition(".")[0] in words})


def compile_union(tables: MergedTables, statement: StatementContext) -> Query:
    """Returns a query of the rows of all tables, with the columns that are read."""
    found = (_compile_table(tables, table, statement) for table in tables.tables)
    selects = [select for select in found if select is not None]
    if not selects:
        items = tuple(Alias(_default(column), column.name) for column in tables.read_columns)
        return Select(items, source=TableFunction("zeros", (Literal(0, "0"),)))
    return selects[0] if len(selects) == 1 else Union(tuple(selects), ("UNION ALL",) * (len(selects) - 1))


def _compile_table(tables: MergedTables, table: MergedTable, statement: StatementContext) -> Select | None:
    """Returns the SELECT of one table; ``None`` if a condition without its columns is false."""
    own = _column_replacer(tables, table)
    terms = []
    for term in tables.where:
        mine = transform(term, own)
        if any(isinstance(node, Identifier) for node in walk(mine)):
            terms.append(mine)
            continue
        rows = ExpressionCompiler(Scope(), statement.environment, statement)
        if not statement.constant(rows.compile(mine)):
            return None
    items = tuple(Alias(own(Identifier((column.name,))), column.name) for column in tables.read_columns)
    where = terms[0] if len(terms) == 1 else Function("and", tuple(terms)) if terms else None
    return Select(
        items, source=replace(tables.source, database=table.database, table=table.table, alias=""), where=where
    )


def _column_replacer(tables: MergedTables, table: MergedTable) -> Callable[[Node], Node]:
    constants = {} if table.is_merged else {TABLE: table.table, DATABASE: table.database}

    def own(node: Node) -> Node:
        if not isinstance(node, Identifier) or len(node.parts) != 1:
            return node
        (name,) = node.parts
        if name not in tables.schema:
            return Function("CAST", (Literal(constants[name]), Literal(str(_NAME)))) if name in constants else node
        wanted = tables.schema.column(name)
        if name not in table.schema:
            return _default(wanted)
        return node if table.schema.column(name).type == wanted.type else _cast(node, wanted)

    return own


def _cast(node: Node, column: Column) -> Node:
    return Function("CAST", (node, Literal(str(column.type))))


def _default(column: Column) -> Node:
    return _cast(Function("defaultValueOfTypeName", (Literal(str(column.type)),)), column)
