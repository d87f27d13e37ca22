"""Compiles the tree of a query to one DuckDB statement with typed columns, and the scans that feed it.

A SELECT becomes up to four nested stages, each only if needed: rows (FROM, array joins, WHERE), groups (GROUP BY),
result (SELECT, HAVING, windows, DISTINCT, LIMIT BY) and order (ORDER BY, LIMIT). Columns of the result are ``c0, c1,
…``. A scan is a ``ScanReference`` in it, whose text is known when all columns are known that are read.
"""

from __future__ import annotations

from collections.abc import Callable

from parts.common.errors import UserError
from parts.table.table_description import Column
from sql.compile.compiled_query import CompiledQuery, Scan, cast_columns
from sql.compile.names.scope import ExpressionContext, Scope, open_inner_scope
from sql.compile.select_compiler import SelectCompiler
from sql.compile.shards.sharded_select import rewrite_over_shards
from sql.compile.short_string_codes import ShortStrings
from sql.functions.registry import Environment
from sql.grammar.query_limits import QueryGuard
from sql.grammar.syntax_tree import Query, Select, Union
from sql.relations import RelationCatalog
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)
from sql.typing.column_kernels.float_bits import has_floats, select_float_bits, select_floats_from_bits
from sql.typing.duckdb.sql_fragments import fragment
from sql.typing.result_types import supertype
from sql.typing.typed_expressions import Typed


class QueryCompiler:
    """The compiler of one statement. It is not thread-safe, and made anew for every statement."""

    def __init__(
        self,
        catalog: RelationCatalog,
        environment: Environment,
        default_database: str = "default",
        settings: Settings = DEFAULT_SETTINGS,
        guard: QueryGuard | None = None,
        *,
        constant: Callable[[Typed], object],
    ) -> None:
        """Starts a statement; ``constant`` computes the Python value of a constant expression."""
        self.catalog = catalog
        self.environment = environment
        self.database = default_database
        self.settings = settings
        self.guard = guard if guard is not None else QueryGuard()
        self.constant = constant
        self.scans: list[Scan] = []
        self.short_strings = ShortStrings()
        self.outermost: Select | None = None
        """The SELECT that may use codes of short strings."""
        self.grouped_in_scan: Select | None = None
        """The SELECT whose scan may return groups of rows."""
        self.tree: Query | None = None
        """The statement's tree; after compiling, the rewritten one."""
        self._number = 0

    def next_number(self) -> int:
        """Returns a number that is unique in the statement."""
        self._number += 1
        return self._number

    def nested(self, query: Query, outer: ExpressionContext | None) -> CompiledQuery:
        """Compiles a subquery of an expression, which may use names of the surrounding query."""
        return self.compile(query, outer)

    def compile(
        self, query: Query, outer: ExpressionContext | None = None, scope: Scope | None = None
    ) -> CompiledQuery:
        """Compiles a query. Raises ``UserError`` for whatever is wrong with it.

        ``scope`` gives the common tables visible to the query, ``outer`` the names it may be correlated with.
        """
        if isinstance(query, Union):
            return self._union(query, outer, scope)
        assert isinstance(query, Select)
        around = open_inner_scope(outer, scope)
        select = rewrite_over_shards(query, around, self, self._described) if query.source is not None else query
        if query is self.tree:
            self.tree = select
        return SelectCompiler(self, select, outer, scope).compile()

    def _described(self, query: Query) -> list[Column]:
        """Returns the columns of a query's result."""
        other = QueryCompiler(
            self.catalog, self.environment, self.database, self.settings, self.guard, constant=self.constant
        )
        return [Column(name, type_) for name, type_ in other.compile(query).columns]

    def _union(self, union: Union, outer: ExpressionContext | None, scope: Scope | None) -> CompiledQuery:
        """Compiles UNION, INTERSECT and EXCEPT. Raises ``UserError`` 258, 386."""
        branches = [self.compile(query, outer, scope) for query in union.queries]
        width = len(branches[0].columns)
        for branch in branches[1:]:
            if len(branch.columns) != width:
                raise UserError(
                    "UNION_ALL_RESULT_STRUCTURES_MISMATCH",
                    f"The queries of a UNION have different numbers of columns: {width} and {len(branch.columns)}",
                )
        types = [supertype(branch.columns[position][1] for branch in branches) for position in range(width)]
        statements = [cast_columns(branch, types, self.environment.zone) for branch in branches]
        is_by_bits = any(operator != "UNION ALL" for operator in union.operators) and any(map(has_floats, types))
        if is_by_bits:
            statements = [select_float_bits(statement, types) for statement in statements]
        sql, *others = statements
        for operator, other in zip(union.operators, others, strict=True):
            sql = fragment("({}) {} ({})", sql, _SET_OPERATORS[operator], other)
        if is_by_bits:
            sql = select_floats_from_bits(sql, types)
        names = [name for name, _ in branches[0].columns]
        origins = [origin for branch in branches for origin in branch.origins_with_types(types)]
        adds = all(operator.startswith("UNION") for operator in union.operators)
        return CompiledQuery(sql, tuple(zip(names, types, strict=True)), origins=tuple(origins) if adds else ())


_SET_OPERATORS = {
    "UNION ALL": "UNION ALL", "UNION DISTINCT": "UNION", "INTERSECT": "INTERSECT ALL",
    "INTERSECT DISTINCT": "INTERSECT",
    "INTERSECT ALL": "INTERSECT ALL", "EXCEPT": "EXCEPT ALL", "EXCEPT DISTINCT": "EXCEPT", "EXCEPT ALL": "EXCEPT ALL",
}  # fmt: skip
