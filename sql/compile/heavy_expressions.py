"""Moves heavy expressions to columns of subqueries below their SELECT, called stages.

``a + a + …`` over hundreds of operands, or an alias made of aliases, would be a statement that DuckDB refuses or plans
for minutes. So the arguments of a call that would be too heavy are computed below it, as ``SELECT *, <argument> AS "e7"
FROM (…)``, and the call uses ``"e7"``.

Invariants

- Few queries have a stage: only those that DuckDB would take long to plan.
- A value is always the same column, so that equal expressions stay equal.
- Expressions that must not be computed for every row stay in place: branches, arguments of lambdas, windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sql.typing.duckdb.sql_fragments import EMPTY, MACRO, WINDOW, Fragment, IntegerSum, fragment, join_fragments, leaf
from sql.typing.typed_expressions import IntervalType, Typed

_MAX_LIGHT_SIZE = 60
_MAX_LIGHT_SIZE_WITHOUT_MACROS = 2000
"""Sizes in characters: shorter SQL is never heavy; between the two only SQL with macros may be."""
_MAX_WEIGHT = 2000
_MAX_DEPTH = 40
_MAX_SUM_SIZE = 40_000


def is_heavy(value: Typed) -> bool:
    """Tells whether a value is too heavy to be written into another.

    That is some 20 ms of planning, or many nested levels, which take longer.
    """
    sql = value.sql
    if sql.traits & WINDOW or (isinstance(sql, IntegerSum) and sql.size < _MAX_SUM_SIZE):
        return False
    if sql.size < _MAX_LIGHT_SIZE or (sql.size < _MAX_LIGHT_SIZE_WITHOUT_MACROS and not sql.traits & MACRO):
        return False
    return sql.weight > _MAX_WEIGHT or sql.depth > _MAX_DEPTH


class ExpressionStages:
    """The moved expressions of one level: rows before WHERE, rows after it, or groups of one SELECT.

    ``below`` is the level under it. ``next_number`` is unique in the statement.
    """

    def __init__(self, next_number: Callable[[], int], below: ExpressionStages | None = None) -> None:
        self._next_number = next_number
        self._below: dict[Fragment, Fragment] = below._names if below is not None else {}
        self._names: dict[Fragment, Fragment] = {}
        self._stages: dict[Fragment, int] = {}
        """By column: the number of stages below it."""

    @property
    def has_columns(self) -> bool:
        """Whether this level has moved expressions."""
        return bool(self._names)

    @property
    def has_any_columns(self) -> bool:
        """Whether this level or the one below has moved expressions."""
        return bool(self._names or self._below)

    def add(self, sql: Fragment, prefix: str, after: Iterable[Fragment] = ()) -> Fragment:
        """Adds a column for ``sql``, in a stage above those of the columns ``after``; returns its name."""
        name = leaf(f'"{prefix}{self._next_number()}"')
        used = [self._stages.get(node, -1) for node in (*sql.nodes(), *after)] if self._stages else []
        self._names[sql] = name
        self._stages[name] = max(used, default=-1) + 1
        return name

    def column(self, value: Typed, *, may_add: bool) -> Typed:
        """Returns the column that has the value, or the value itself.

        Unless ``may_add`` only an existing column is used.
        """
        known = self._names.get(value.sql) or self._below.get(value.sql)
        if known is None and may_add and _is_movable(value):
            known = self.add(value.sql, "e")
        return value if known is None else replace(value, sql=known, is_constant=False)

    def over(self, source: Fragment) -> Fragment:
        """Returns ``source``, a table or nothing, with the stages around it."""
        for stage in range(max(self._stages.values(), default=-1) + 1):
            columns = [
                fragment("{} AS {}", sql, name) for sql, name in self._names.items() if self._stages[name] == stage
            ]
            from_source = fragment(" FROM {}", source) if source else EMPTY
            source = fragment(
                "(SELECT {}{})", join_fragments(", ", ["*", *columns] if source else columns), from_source
            )
        return source


def _is_movable(value: Typed) -> bool:
    """Tells whether moving a value helps: not for names and literals; windows must stay in place."""
    in_place = value.is_literal or value.apply is not None or value.elements is not None
    is_simple = not value.sql.parts or value.sql.traits & WINDOW
    return not (in_place or is_simple or isinstance(value.type, IntervalType))
