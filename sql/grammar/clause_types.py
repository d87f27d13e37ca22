"""Clauses that several statements share, as plain data: tables, columns, indexes, constraints."""

from __future__ import annotations

from dataclasses import dataclass

SettingLiteral = str | int | float | bool | None
"""``None`` is DEFAULT."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table's name; ``database`` is ``None`` when the text named none."""

    database: str | None
    table: str


@dataclass(frozen=True, slots=True)
class ColumnMatcher:
    """Columns by name, by a regular expression (``COLUMNS('…')``), or all of them (``*``)."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnClause:
    """A column of CREATE TABLE.

    ``type`` is ``""`` when left to the default expression; ``is_not_null`` is set by NOT NULL. ``ttl`` is as
    ``sql.grammar.table_elements.ttl`` writes it.
    """

    name: str
    type: str
    default_kind: str = ""
    default_expression: str = ""
    codec: str = ""
    comment: str = ""
    is_not_null: bool = False
    ttl: str = ""


@dataclass(frozen=True, slots=True)
class IndexClause:
    """The clause ``INDEX name expression TYPE type(arguments) GRANULARITY granularity``.

    The type is kept as it was written.
    """

    name: str
    expression: str
    type: str
    arguments: tuple[str, ...] = ()
    granularity: int = 1


@dataclass(frozen=True, slots=True)
class ConstraintClause:
    """The clause ``CONSTRAINT name CHECK expression``, or ASSUME, which is never checked."""

    name: str
    expression: str
    is_assumed: bool = False
