"""Names inside one SELECT: the columns of its FROM, its aliases, and the surrounding query.

Every source of rows (a table, a subquery, an array join) has a number that is unique in the statement. Its column ``c``
is called ``"<number>.c"`` in DuckDB (``column_label``). So a reference needs no qualifier, is never ambiguous, and
survives being wrapped into further subqueries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from parts.common.errors import UserError
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.part_name_columns import NAME_COLUMNS
from parts.table.row_exists_column import PART_OFFSET, ROW_EXISTS
from parts.table.row_version import ROW_VERSION_NAMES
from parts.table.table_description import Column as TableColumn
from parts.table.table_description import TableSchema
from parts.types import DataType, make_nullable
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Alias, CommonTable, Node, walk
from sql.relations import ArrowRelation, PartsRelation
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, leaf
from sql.typing.typed_expressions import Typed, column_label, quote_identifier

VIRTUAL = "VIRTUAL"
EXPRESSIONS = ("ALIAS", VIRTUAL)
"""The kinds of columns that are expressions and are not stored."""
VIRTUAL_COLUMNS = (*NAME_COLUMNS, BLOCK_NUMBER, PART_OFFSET, ROW_EXISTS, *ROW_VERSION_NAMES)
"""Virtual columns that are read with the parts. Only some tables have those of versions."""


@dataclass(slots=True)
class SourceColumn:
    """One column of a source.

    ``filled``: a join may lack the row, and then the column has its type's default.
    """

    name: str
    type: DataType
    sql: Fragment
    definition: TableColumn | None = None
    """The definition of a table's column; an ALIAS has an expression instead of data."""
    filled: bool = False
    hidden: bool = False
    """Not part of ``*``: MATERIALIZED, ALIAS and virtual columns, and the right side's copy of a USING column."""
    copied: bool = False
    """The right side's copy of a USING column: part of its table's own ``t.*``."""
    merged: SourceColumn | None = None
    """For the left side's USING column: what the bare name means, if that is not the column itself."""

    def lose_row(self, *, use_nulls: bool) -> None:
        """Marks that the row may be missing from now on.

        NULL (``use_nulls``) or the type's default then stands for the value.
        """
        if use_nulls:
            self.type = make_nullable(self.type)
        self.filled = True
        if self.merged is not None:
            self.merged.lose_row(use_nulls=use_nulls)

    @property
    def typed(self) -> Typed:
        """The column's value, with the default for a missing row."""
        if self.filled and not self.type.is_nullable:
            return Typed(fragment("coalesce({}, {})", self.sql, default_value(self.type)), self.type)
        return Typed(self.sql, self.type)


@dataclass(slots=True)
class Source:
    """One entry of FROM. ``used`` collects the columns that the query reads."""

    number: int
    alias: str
    columns: dict[str, SourceColumn]
    database: str | None = None
    table: str = ""
    relation: PartsRelation | ArrowRelation | None = None
    used: dict[str, None] = field(default_factory=dict)
    prunable: bool = True
    """Whether WHERE may drop rows of this source before the joins."""
    sample: tuple[str, str] = ("", "")
    origins: Sequence[PushdownTarget] = ()
    """For a subquery: the SELECTs that its rows come from."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """For a subquery: the positions of its columns, by name."""

    def is_called(self, qualifier: Sequence[str]) -> bool:
        """Tells whether ``qualifier`` is the alias or, without one, ``table`` or ``database.table``."""
        if len(qualifier) == 1:
            return qualifier[0] == (self.alias or self.table)
        return not self.alias and self.is_table(qualifier)

    def is_table(self, qualifier: Sequence[str]) -> bool:
        """Tells whether ``qualifier`` is ``table`` or ``database.table``, whatever the alias."""
        return tuple(qualifier) in ((self.table,), (self.database, self.table))


@lru_cache(4096)
def column_sql(number: int, name: str) -> Fragment:
    """Returns a source's column. It is cached, because numbers begin anew with every statement."""
    return leaf(quote_identifier(column_label(number, name)))


def table_source(schema: TableSchema) -> Source:
    """Returns a table with its columns as source 0."""
    columns = {
        column.name: SourceColumn(column.name, column.type, column_sql(0, column.name), column)
        for column in schema.columns
    }
    return Source(0, "", columns)


class PushdownTarget(Protocol):
    """A SELECT in FROM that takes conditions (``sql.compile.from_clause.condition_pushdown``)."""

    def with_types(self, types: Sequence[DataType]) -> PushdownTarget:
        """Returns the target with its columns converted to these types."""

    def take(self, terms: Sequence[Node], positions: Mapping[str, int]) -> None:
        """Takes conditions over bare names; ``positions`` maps names to output columns."""


class ExpressionContext(Protocol):
    """The names and functions known where an expression stands."""

    @property
    def scope(self) -> Scope:
        """The names of the SELECT."""

    @property
    def environment(self) -> Environment:
        """The time zone, constants and clock of the statement."""

    def resolve(self, parts: tuple[str, ...]) -> Typed | None:
        """Returns what a name means, or ``None``."""

    def compile(self, node: Node) -> Typed:
        """Compiles an expression."""


@dataclass(slots=True)
class Scope:
    """The names of one SELECT.

    ``outer`` is the surrounding query; ``correlated`` is set once a name came from there.
    """

    sources: list[Source] = field(default_factory=list)
    aliases: dict[str, Node] = field(default_factory=dict)
    common_tables: dict[str, tuple[CommonTable, Scope]] = field(default_factory=dict)
    outer: ExpressionContext | None = None
    correlated: bool = False
    inherited: dict[str, Node] = field(default_factory=dict)
    """The ``WITH expression AS name`` of the surrounding queries, visible in subqueries of FROM too."""
    using: list[tuple[str, ...]] = field(default_factory=list)
    """The columns of each USING, those of the outer joins last."""

    def named(self, qualifier: tuple[str, ...]) -> list[Source]:
        """Returns the sources that a qualifier means, all for an empty one.

        An alias hides no table, but wins over one.
        """
        if not qualifier:
            return self.sources
        called = [source for source in self.sources if source.is_called(qualifier)]
        return called or [source for source in self.sources if source.is_table(qualifier)]

    def find_column(self, parts: tuple[str, ...]) -> tuple[Source, SourceColumn, tuple[str, ...]] | None:
        """Finds the column of a name; the first of several sources wins.

        Returns its source, the column and the rest of the name, a path into a tuple; or ``None``.
        """
        for split in range(len(parts) - 1, -1, -1):
            qualifier, name, rest = parts[:split], parts[split], parts[split + 1 :]
            if split > 2:
                continue
            found = [(source, source.columns[name]) for source in self.named(qualifier) if name in source.columns]
            visible = [pair for pair in found if not pair[1].hidden or qualifier] or found
            if visible:
                source, column = visible[0]
                return source, column if qualifier else column.merged or column, rest
        for split in range(len(parts) - 1):
            qualifier, dotted = parts[:split], ".".join(parts[split:])
            for source in self.named(qualifier):
                if dotted in source.columns:
                    return source, source.columns[dotted], ()
        return None

    def find_common_table(self, name: str) -> tuple[CommonTable, Scope] | None:
        """Finds a WITH table by name, here and in the surrounding queries."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.common_tables:
                return scope.common_tables[name]
            scope = scope.outer.scope if scope.outer is not None else None
        return None


def open_inner_scope(outer: ExpressionContext | None, scope: Scope | None) -> Scope:
    """Returns the scope of a SELECT inside an expression (``outer``) or inside FROM (``scope``)."""
    inner = Scope(outer=outer)
    if scope is not None:
        inner.common_tables.update(scope.common_tables)
        inner.inherited.update(scope.inherited)
    return inner


def collect_aliases(nodes: Sequence[Node]) -> dict[str, Node]:
    """Returns all ``expression AS name`` of these trees, without subqueries. Raises ``UserError`` 179."""
    aliases: dict[str, Node] = {}
    for root in nodes:
        for node in walk(root, into_queries=False):
            if isinstance(node, Alias):
                known = aliases.setdefault(node.name, node.expression)
                if known != node.expression:
                    raise UserError(
                        "MULTIPLE_EXPRESSIONS_FOR_ALIAS", f"Different expressions with the same alias {node.name}"
                    )
    return aliases
