"""The tables of one database by name.

They are loaded tables, materialized views, and tables that could not be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from engine.tables.table import Table
from parts.common.errors import UnavailableError
from sql.grammar.tokens import quote_identifier


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


T = TypeVar("T", bound=Table)


class DatabaseTables(dict[str, T]):
    """The tables of a database by name, and its materialized views, which every INSERT asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.materialized: dict[str, T] = {}
        self.not_loaded: dict[str, NotLoaded] = {}

    def __setitem__(self, name: str, table: T) -> None:
        super().__setitem__(name, table)
        self.not_loaded.pop(name, None)
        self.materialized.pop(name, None)
        if (view := table.definition.create.view) is not None and view.is_materialized:
            self.materialized[name] = table

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.materialized.pop(name, None)


def find_dependent_views(databases: Iterable[DatabaseTables[T]], table: Table) -> list[T]:
    """Returns the views of a table in the order of their names, in which they commit.

    Views that are still to replace others are left out.
    """
    place = (table.definition.database, table.definition.name)
    views = [view for tables in databases for view in list(tables.materialized.values())]
    found = [view for view in views if view.definition.view_source == place and not view.definition.create.is_scratch]
    return sorted(found, key=lambda view: view.definition.full_name)
