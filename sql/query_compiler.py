"""From the tree of a query to one DuckDB statement with typed columns, and the scans that feed it.

A SELECT becomes up to four nested stages, each only if needed: rows (FROM, array joins, WHERE), groups (GROUP BY),
result (SELECT, HAVING, windows, DISTINCT, LIMIT BY) and order (ORDER BY, LIMIT). Columns of the result are ``c0, c1,
…``. The text of a scan is the placeholder ``<scan n>`` until all columns that are read are known."""

from __future__ import annotations

from dataclasses import dataclass, field

from parts.errors import UserError
from parts.schema import Column
from parts.types import DataType
from sql import database
from sql.casts import convert
from sql.expression_compiler import ExpressionCompiler
from sql.functions.registry import Environment
from sql.query_limits import Guard
from sql.recent_texts import LONGEST_TEXT, RecentTexts
from sql.relation import RelationCatalog
from sql.scope import Scope, Source
from sql.settings import DEFAULT_SETTINGS, Settings
from sql.short_strings import ShortStrings
from sql.syntax_tree import Query, Select, Union
from sql.type_inference import supertype
from sql.typed import Typed


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """``sql`` yields columns c0, c1, … of the engine types of ``columns``."""

    sql: str
    columns: tuple[tuple[str, DataType], ...]


@dataclass(slots=True)
class Scan:
    """A table read by the query. ``conditions`` are conjuncts that may prune it, each with the scope to read it in."""

    source: Source
    conditions: list[tuple[object, ExpressionCompiler]] = field(default_factory=list)
    definitions: dict[str, Column] = field(init=False)
    """The table's columns: ``source.columns`` may be shadowed by an ARRAY JOIN later."""
    coded: dict[str, None] = field(default_factory=dict)
    """The columns whose codes the query reads (``sql.short_strings``)."""

    def __post_init__(self) -> None:
        columns = self.source.columns.values()
        self.definitions = {column.name: column.definition for column in columns if column.definition is not None}

    @property
    def placeholder(self) -> str:
        return f"<scan {self.source.number}>"


class QueryCompiler:
    """Compiles one statement. Not thread-safe; made anew for every statement."""

    def __init__(
        self,
        catalog: RelationCatalog,
        environment: Environment,
        default_database: str = "default",
        settings: Settings = DEFAULT_SETTINGS,
        guard: Guard | None = None,
    ) -> None:
        self.catalog = catalog
        self.environment = environment
        self.database = default_database
        self.settings = settings
        self.guard = guard if guard is not None else Guard()
        self.scans: list[Scan] = []
        self.short_strings = ShortStrings()
        self.outermost: Select | None = None
        """The SELECT that may use codes of short strings."""
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def nested(self, query: Query, outer: ExpressionCompiler | None) -> CompiledQuery:
        """A subquery of an expression, which may use names of the query around it."""
        return self.compile(query, outer)

    def compile(
        self, query: Query, outer: ExpressionCompiler | None = None, scope: Scope | None = None
    ) -> CompiledQuery:
        """``scope`` gives the common tables visible to the query, ``outer`` the names it may be correlated with."""
        if isinstance(query, Union):
            return self._union(query, outer, scope)
        assert isinstance(query, Select)
        from sql.select_compiler import SelectCompiler

        return SelectCompiler(self, query, outer, scope).compile()

    def _union(self, union: Union, outer: ExpressionCompiler | None, scope: Scope | None) -> CompiledQuery:
        branches = [self.compile(query, outer, scope) for query in union.queries]
        width = len(branches[0].columns)
        for branch in branches[1:]:
            if len(branch.columns) != width:
                raise UserError(
                    "UNION_ALL_RESULT_STRUCTURES_MISMATCH",
                    f"The queries of a UNION have different numbers of columns: {width} and {len(branch.columns)}",
                )
        types = [supertype(branch.columns[position][1] for branch in branches) for position in range(width)]
        texts = [_as_types(branch, types, self.environment.zone) for branch in branches]
        sql = texts[0]
        for operator, text in zip(union.operators, texts[1:], strict=True):
            sql = f"({sql}) {_SET_OPERATORS[operator]} ({text})"
        names = [name for name, _ in branches[0].columns]
        return CompiledQuery(sql, tuple(zip(names, types, strict=True)))


_SET_OPERATORS = {
    "UNION ALL": "UNION ALL", "UNION DISTINCT": "UNION", "INTERSECT": "INTERSECT ALL",
    "INTERSECT DISTINCT": "INTERSECT",
    "INTERSECT ALL": "INTERSECT ALL", "EXCEPT": "EXCEPT ALL", "EXCEPT DISTINCT": "EXCEPT", "EXCEPT ALL": "EXCEPT ALL",
}  # fmt: skip


def _as_types(branch: CompiledQuery, types: list[DataType], zone: str) -> str:
    if all(have == want for (_, have), want in zip(branch.columns, types, strict=True)):
        return branch.sql
    columns = ", ".join(
        f"{convert(Typed(f'c{position}', have), want, zone)} AS c{position}"
        for position, ((_, have), want) in enumerate(zip(branch.columns, types, strict=True))
    )
    return f"SELECT {columns} FROM ({branch.sql})"


def fold_constant(value: Typed) -> object:
    """The Python value of a constant expression. The clock is a literal in its text: equal texts are equal values."""
    return _constants.get((value.number, None), lambda: _folded(value.number))


def _constant_size(value: object) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    return LONGEST_TEXT + 1 if isinstance(value, (list, tuple, dict)) else 0


_constants: RecentTexts[object] = RecentTexts(2048, _constant_size)


def _folded(sql: str) -> object:
    cursor = database.cursor()
    try:
        return cursor.execute(database.prepared(f"SELECT {sql}")).fetchall()[0][0]
    except Exception as error:
        raise database.translate(error) from None
    finally:
        cursor.close()


def constant_number(node: object, compiler: ExpressionCompiler, clause: str) -> int:
    """The count of LIMIT or OFFSET: a constant expression of literals."""
    value = compiler.compile(node)  # type: ignore[arg-type]
    if value.is_literal and isinstance(value.value, int) and not isinstance(value.value, bool) and value.value >= 0:
        return value.value
    folded = fold_constant(value) if value.is_constant else None
    if isinstance(folded, int) and folded >= 0:
        return folded
    raise UserError("BAD_ARGUMENTS", f"{clause} must be a constant number of rows that is not negative")


__all__ = ["CompiledQuery", "QueryCompiler", "Scan", "constant_number", "fold_constant"]
