"""``View``, and ``MaterializedView`` without its rows: names and columns, and a query that others run.

Who reads a view gets its query (``engine.interpreter.relations``); who writes to the table that a materialized one
reads runs it (``engine.interpreter.dependent_views``).
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.tables.small_table import SmallTable
from engine.tables.table import Table


class ViewTable(SmallTable):
    lacks = frozenset({"partitioning", "mutations", "optimize", "truncate", "check"})


class DatabaseTables(dict[str, Table]):
    """The tables of a database by name, and again those that are materialized views: every INSERT asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.materialized: dict[str, Table] = {}

    def __setitem__(self, name: str, table: Table) -> None:
        super().__setitem__(name, table)
        self.materialized.pop(name, None)
        if (view := table.definition.create.view) is not None and view.is_materialized:
            self.materialized[name] = table

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.materialized.pop(name, None)


def views_of(databases: Iterable[DatabaseTables], table: Table) -> list[Table]:
    """In the order of their names: that of their commits. Without those that are still to replace others."""
    place = (table.definition.database, table.definition.name)
    views = [view for tables in databases for view in list(tables.materialized.values())]
    found = [view for view in views if view.definition.view_source == place and not view.definition.create.is_scratch]
    return sorted(found, key=lambda view: view.definition.full_name)
