"""The tables of a server, and which of them were there when it started: what a statement that a crash interrupted is
judged by.

The tables at the start are those that the former process left: of a statement that an older one has begun they tell
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalog.catalog import Catalog
from engine.tables.table import Table
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    Statement,
)


class TablesAfterStart:
    """Made when the catalog has been loaded, before anybody can change it; ``former`` is the process before."""

    def __init__(self, catalog: Catalog, former: str) -> None:
        self._catalog = catalog
        self._former = former
        self._at_start = {table.definition.full_name: table for table in catalog.tables()}

    def forget(self) -> None:
        """No statement is left that a former process can have begun."""
        self._at_start = {}

    def is_replicated(self, statement: Statement, database: str) -> bool:
        """Whether the table of the statement, or that in which a view has its rows, has replicas."""
        ref = getattr(statement, "table", None)
        table = self.find(ref, database) if isinstance(ref, TableRef) else None
        if table is not None and (view := table.definition.create.view) is not None and view.is_materialized:
            table = self._catalog.find(*table.definition.target)
        return table is not None and table.replication is not None

    def find(self, ref: TableRef, database: str) -> Table | None:
        return self._catalog.find(ref.database or database, ref.table)

    def after(self, process: str, database: str) -> TablesOfStatement:
        """For a statement that ``process`` has begun, with this current database."""
        return TablesOfStatement(self._catalog, self._at_start if process == self._former else {}, database)


@dataclass(frozen=True)
class TablesOfStatement:
    """Implements ``kinds.KnownTables``. ``at_start``: by full name the tables that were left by the process that began
    the statement."""

    catalog: Catalog
    at_start: dict[str, Table]
    database: str

    def exists(self, table: TableRef) -> bool:
        return self._find(table) is not None

    def has_database(self, database: str) -> bool:
        return database in self.catalog.databases()

    def is_from_start(self, table: TableRef) -> bool:
        found = self._find(table)
        return found is not None and self._was_there(found)

    def all_from_start(self, database: str) -> bool:
        return all(map(self._was_there, self.catalog.tables(database)))

    def _find(self, table: TableRef) -> Table | None:
        return self.catalog.find(table.database or self.database, table.table)

    def _was_there(self, table: Table) -> bool:
        return self.at_start.get(table.definition.full_name) is table
