"""The tables that materialized views fill."""

from __future__ import annotations

from typing import TypeVar

from engine.catalog.databases import Databases
from engine.tables.table import Table
from parts.common.errors import UserError

T = TypeVar("T", bound=Table)

MOST_VIEW_LEVELS = 32
"""The longest chain of views that read the targets of views."""


def make_too_deep_error(table: str) -> UserError:
    """Returns the error for a circle of views over a table, or for a very long chain."""
    return UserError(
        "TOO_DEEP_RECURSION", f"Materialized views over {table} lead to more than {MOST_VIEW_LEVELS} others"
    )


def resolve_stored_table(table: T, catalog: Databases[T]) -> T:
    """Returns the table itself, or the target of a materialized view. Raises 60 if the target is gone."""
    for _ in range(MOST_VIEW_LEVELS):
        view = table.definition.create.view
        if view is None or not view.is_materialized:
            break
        table = catalog.table(*table.definition.target)
    return table
