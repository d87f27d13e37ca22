"""Expressions too heavy to be written into others: each is a column of one more stage below its SELECT.

``a + a + …`` over hundreds of operands, or an alias made of aliases, would be a text that DuckDB refuses or plans for
minutes. So the arguments of a call that would be too heavy are computed below it, as ``SELECT *, <text> AS "e7" FROM
(…)``, and the call is written with ``"e7"``.

Invariants
- Few queries have a layer: only what would take DuckDB long to plan.
- A text is always the same column, so that equal expressions stay equal texts.
- What must not be computed for every row stays in its place: branches, arguments of lambdas, windows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sql.functions.macro_weight import measure
from sql.functions.macros import shares
from sql.typing.typed import IntervalType, Typed

_SHORT_TEXT = 60
_LONG_TEXT = 2000
_FEW_MACROS = 1
"""A shorter text, or one with fewer macros, is not looked through."""
_MOST_WEIGHT = 2000
_MOST_DEPTH = 40
_LONGEST_SUM = 40_000
_IN_PLACE = " OVER ("
"""A window is computed after WHERE and all layers."""
_COLUMN = re.compile(r'"((?:e|aj)\d+)"')


def is_heavy(value: Typed) -> bool:
    """Whether it should not be written out: some 20 ms of planning, or many levels, which take longer."""
    sql = value.sql
    if (value.summands[1] and len(sql) < _LONGEST_SUM) or _IN_PLACE in sql:
        return False
    if len(sql) < _SHORT_TEXT or (len(sql) < _LONG_TEXT and sql.count("pando_") <= _FEW_MACROS):
        return False
    weight, depth = measure(sql, shares())
    return weight > _MOST_WEIGHT or depth > _MOST_DEPTH


class Layers:
    """Of the rows before WHERE, of those after it, or of the groups of one SELECT; ``below`` are those it stands on.

    ``next_number`` is unique in the statement.
    """

    def __init__(self, next_number: Callable[[], int], below: Layers | None = None) -> None:
        self._next_number = next_number
        self._below: dict[str, str] = below._names if below is not None else {}
        self._names: dict[str, str] = {}
        self._stages: dict[str, int] = {}
        """By column: how many stages below it."""

    @property
    def has_columns(self) -> bool:
        return bool(self._names)

    @property
    def knows_any(self) -> bool:
        return bool(self._names or self._below)

    def add(self, sql: str, prefix: str) -> str:
        """The column that has this text."""
        name = f"{prefix}{self._next_number()}"
        self._names[sql] = f'"{name}"'
        self._stages[name] = max((self._stages.get(used, -1) for used in _COLUMN.findall(sql)), default=-1) + 1
        return self._names[sql]

    def column(self, value: Typed, *, may_add: bool) -> Typed:
        """The column that has the value. Unless ``may_add`` only one that is there already."""
        known = self._names.get(value.sql) or self._below.get(value.sql)
        if known is None and may_add and _is_movable(value):
            known = self.add(value.sql, "e")
        return value if known is None else replace(value, sql=known, is_constant=False)

    def over(self, source: str) -> str:
        """``source``, a table in DuckDB's text or nothing, with the columns."""
        for stage in range(max(self._stages.values(), default=-1) + 1):
            columns = [
                f"{sql} AS {name}" for sql, name in self._names.items() if self._stages[name.strip('"')] == stage
            ]
            source = (
                f"(SELECT {', '.join(['*', *columns] if source else columns)}{f' FROM {source}' if source else ''})"
            )
        return source


def _is_movable(value: Typed) -> bool:
    in_place = value.is_literal or value.apply is not None or value.elements is not None
    return "(" in value.sql and not in_place and not isinstance(value.type, IntervalType) and _IN_PLACE not in value.sql
