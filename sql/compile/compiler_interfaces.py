"""What the parts of the compiler see of each other, so that none of them imports the whole.

A special form, a join or a table function is handed a :class:`ExpressionCompiling` or a :class:`FromClauseCompiling`,
and reaches subqueries, scans and numbers through its :class:`StatementContext`.
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
    """What all queries of one statement share."""

    @property
    def catalog(self) -> RelationCatalog: ...

    @property
    def environment(self) -> Environment: ...

    @property
    def database(self) -> str: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def guard(self) -> QueryGuard: ...

    @property
    def scans(self) -> list[Scan]: ...

    @property
    def short_strings(self) -> ShortStrings: ...

    @property
    def outermost(self) -> Select | None: ...

    @property
    def grouped_in_scan(self) -> Select | None: ...

    def next_number(self) -> int:
        """Unique in the statement."""

    def nested(self, query: Query, outer: ExpressionContext | None) -> CompiledQuery:
        """A subquery of an expression."""

    def compile(
        self, query: Query, outer: ExpressionContext | None = None, scope: Scope | None = None
    ) -> CompiledQuery:
        """A subquery of FROM."""

    def constant(self, value: Typed) -> object:
        """The Python value of a constant expression."""


class ExpressionCompiling(ExpressionContext, Protocol):
    """The compiler of expressions, as a special form sees it."""

    @property
    def query(self) -> StatementContext | None: ...

    @property
    def guard(self) -> QueryGuard: ...

    @property
    def names(self) -> BoundNames: ...

    @property
    def layers(self) -> ExpressionStages | None: ...

    @property
    def windows(self) -> dict[str, object]: ...

    @property
    def allow_array_join(self) -> bool: ...

    @property
    def array_joins(self) -> dict[Fragment, tuple[Fragment, DataType]]: ...

    def need_query(self) -> StatementContext:
        """Raises ``UserError`` 48 where there are no subqueries: in keys, defaults and constraints."""

    def compile(self, node: Node) -> Typed: ...

    def condition(self, node: Node) -> Fragment:
        """A filter as a BOOLEAN."""

    def call(self, name: str, args: tuple[Typed, ...]) -> Typed:
        """A call of the function of that name."""


class FromClauseCompiling(Protocol):
    """The compiler of FROM, as a join or a table function sees it."""

    @property
    def query(self) -> StatementContext: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def rows(self) -> ExpressionCompiling: ...

    def compile(self, node: Node | None) -> Fragment: ...

    def add_source(self, alias: str, columns: Sequence[tuple[str, DataType]], number: int | None = None) -> Source: ...

    def derived(self, compiled: CompiledQuery, alias: str, names: Sequence[str] = ()) -> Fragment: ...

    def relation(self, relation: StreamedRelation, alias: str) -> Fragment: ...


def string_code(rows: ExpressionCompiling, sql: Fragment) -> Fragment | None:
    """The code of what ``sql`` is over the rows, if it has one (``sql.compile.short_string_codes``)."""
    return None if rows.query is None else rows.query.short_strings.code(sql)
