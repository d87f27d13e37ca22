"""``View``, and ``MaterializedView`` without its rows: names and columns, and a query that others run.

Who reads a view gets its query (``engine.interpreter.session_relations``); who writes to the table that a materialized
one reads runs it (``engine.interpreter.materialized_view_insert``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.tables.small.small_table import SmallTable
from engine.tables.table import Table
from parts.common.errors import UnavailableError
from sql.grammar.tokens import quote_identifier


class ViewTable(SmallTable):
    lacks = frozenset({"partitioning", "mutations", "optimize", "truncate", "check"})


@dataclass(frozen=True)
class NotLoaded:
    """A table on disk that the server could not load; ``reason`` says why and names the file."""

    database: str
    name: str
    reason: str
    view_source: tuple[str, str] | None = None
    """As :attr:`TableDefinition.view_source`, where the definition could be read."""
    may_be_replicated: bool = True

    def error(self) -> UnavailableError:
        """695 (ASYNC_LOAD_FAILED), as ClickHouse answers for such a table."""
        name = f"{quote_identifier(self.database)}.{quote_identifier(self.name)}"
        return UnavailableError(
            "ASYNC_LOAD_FAILED",
            f"Table {self.database}.{self.name} is not loaded: {self.reason}. Mend this, then run ATTACH TABLE {name}; "
            f"to go on without it, DETACH TABLE {name} PERMANENTLY",
        )


class DatabaseTables(dict[str, Table]):
    """The tables of a database by name, and its materialized views, which every INSERT asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.materialized: dict[str, Table] = {}
        self.not_loaded: dict[str, NotLoaded] = {}

    def __setitem__(self, name: str, table: Table) -> None:
        super().__setitem__(name, table)
        self.not_loaded.pop(name, None)
        self.materialized.pop(name, None)
        if (view := table.definition.create.view) is not None and view.is_materialized:
            self.materialized[name] = table

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.materialized.pop(name, None)


def find_dependent_views(databases: Iterable[DatabaseTables], table: Table) -> list[Table]:
    """Returns the views of a table in the order of their names, in which they commit.

    Views that are still to replace others are left out.
    """
    place = (table.definition.database, table.definition.name)
    views = [view for tables in databases for view in list(tables.materialized.values())]
    found = [view for view in views if view.definition.view_source == place and not view.definition.create.is_scratch]
    return sorted(found, key=lambda view: view.definition.full_name)
