"""Interfaces between the parts of the compiler, so that none of them imports the whole.

A special form, a join or a table function gets an :class:`ExpressionCompiling` or a :class:`FromClauseCompiling`, and
reaches subqueries, scans and numbers through its :class:`StatementContext`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from parts.types import DataType
from sql.compile.compiled_nodes import BoundNames
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.heavy_expressions import ExpressionStages
from sql.compile.names.scope import ExpressionContext, Scope, Source
from sql.compile.short_string_codes import ShortStrings
from sql.functions.registry import Environment
from sql.grammar.query_limits import QueryGuard
from sql.grammar.syntax_tree import Node, Query, Select
from sql.relations import RelationCatalog, StreamedRelation
from sql.settings.supported_settings import (
    Settings,
)
from sql.typing.duckdb.sql_fragments import Fragment
from sql.typing.typed_expressions import Typed


class StatementContext(Protocol):
    """The state shared by all queries of one statement."""

    @property
    def catalog(self) -> RelationCatalog:
        """The tables, views and files that the statement may read."""

    @property
    def environment(self) -> Environment:
        """The time zone, constants and clock of the statement."""

    @property
    def database(self) -> str:
        """The database of names without one."""

    @property
    def settings(self) -> Settings: ...

    @property
    def guard(self) -> QueryGuard:
        """Counts depth and size of the query, and checks the deadline."""

    @property
    def scans(self) -> list[Scan]:
        """All scans of the statement so far."""

    @property
    def short_strings(self) -> ShortStrings:
        """The string columns that have codes."""

    @property
    def outermost(self) -> Select | None:
        """The SELECT that may use codes of short strings."""

    @property
    def grouped_in_scan(self) -> Select | None:
        """The SELECT whose scan may return groups of rows."""

    def next_number(self) -> int:
        """Returns a number that is unique in the statement."""

    def nested(self, query: Query, outer: ExpressionContext | None) -> CompiledQuery:
        """Compiles a subquery of an expression."""

    def compile(
        self, query: Query, outer: ExpressionContext | None = None, scope: Scope | None = None
    ) -> CompiledQuery:
        """Compiles a subquery of FROM."""

    def constant(self, value: Typed) -> object:
        """Returns the Python value of a constant expression."""


class ExpressionCompiling(ExpressionContext, Protocol):
    """The compiler of expressions, as a special form sees it."""

    @property
    def query(self) -> StatementContext | None:
        """The statement; keys, defaults and constraints have none."""

    @property
    def guard(self) -> QueryGuard:
        """Counts depth and size of the query, and checks the deadline."""

    @property
    def names(self) -> BoundNames:
        """The current bindings of names."""

    @property
    def stages(self) -> ExpressionStages | None:
        """Takes expressions that are too heavy, once the names of FROM are known."""

    @property
    def windows(self) -> dict[str, object]:
        """The named windows of the SELECT."""

    @property
    def allow_array_join(self) -> bool:
        """Whether new calls of ``arrayJoin`` are allowed."""

    @property
    def array_joins(self) -> dict[Fragment, tuple[Fragment, DataType]]:
        """The columns of ``arrayJoin`` calls, by the SQL of their arguments."""

    def need_query(self) -> StatementContext:
        """Returns the statement. Raises ``UserError`` 48 in keys, defaults and constraints."""

    def compile(self, node: Node) -> Typed:
        """Compiles an expression."""

    def condition(self, node: Node) -> Fragment:
        """Compiles a filter as a BOOLEAN."""

    def call(self, name: str, args: tuple[Typed, ...]) -> Typed:
        """Compiles a call of the named function."""


class FromClauseCompiling(Protocol):
    """The compiler of FROM, as a join or a table function sees it."""

    @property
    def query(self) -> StatementContext:
        """The statement."""

    @property
    def scope(self) -> Scope:
        """The names of the SELECT."""

    @property
    def rows(self) -> ExpressionCompiling:
        """The compiler of expressions over the rows of FROM."""

    def compile(self, node: Node | None) -> Fragment:
        """Compiles a node of FROM to a DuckDB table expression."""

    def add_source(self, alias: str, columns: Sequence[tuple[str, DataType]], number: int | None = None) -> Source:
        """Adds a source whose DuckDB columns have the standard names."""

    def derived(self, compiled: CompiledQuery, alias: str, names: Sequence[str] = ()) -> Fragment:
        """Adds a subquery as a source, and returns it as a table."""

    def relation(self, relation: StreamedRelation, alias: str) -> Fragment:
        """Adds a scan of a relation that a table function reads."""


def string_code(rows: ExpressionCompiling, sql: Fragment) -> Fragment | None:
    """Returns the integer code of a string column, or ``None`` (``sql.compile.short_string_codes``)."""
    return None if rows.query is None else rows.query.short_strings.code(sql)
