"""A server's tables, and which of them existed at its start: the evidence after a crash.

It decides whether a statement that the crash interrupted was executed. The tables at the start are those that the
previous process left; they say nothing about statements that an older process began.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalog.catalog import Catalog
from engine.tables.owned_table import OwnedTable
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    Statement,
)


class TablesAfterStart:
    """The tables that existed at the start.

    Made after the catalog is loaded and before anyone can change it; ``former`` is the previous process.
    """

    def __init__(self, catalog: Catalog, former: str) -> None:
        self._catalog = catalog
        self._former = former
        self._at_start = {table.definition.full_name: table for table in catalog.tables()}

    def forget(self) -> None:
        """Drops the tables remembered from the start, once no statement of a former process is left."""
        self._at_start = {}

    def is_replicated(self, statement: Statement, database: str) -> bool:
        """Tells whether the statement's table, or the target table of its materialized view, is replicated."""
        ref = getattr(statement, "table", None)
        table = self.find(ref, database) if isinstance(ref, TableRef) else None
        if table is not None and (view := table.definition.create.view) is not None and view.is_materialized:
            table = self._catalog.find(*table.definition.target)
        return table is not None and table.replication is not None

    def find(self, ref: TableRef, database: str) -> OwnedTable | None:
        """Returns the table, if it exists."""
        return self._catalog.find(ref.database or database, ref.table)

    def for_statement(self, process: str, database: str) -> TablesOfStatement:
        """Returns the tables by which to judge a statement that ``process`` began in this database."""
        return TablesOfStatement(self._catalog, self._at_start if process == self._former else {}, database)


@dataclass(frozen=True)
class TablesOfStatement:
    """Implements ``statement_kinds.KnownTables``.

    ``at_start`` are the tables by full name that the process left which began the statement.
    """

    catalog: Catalog
    at_start: dict[str, OwnedTable]
    database: str

    def exists(self, table: TableRef) -> bool:
        """Returns whether the table exists now."""
        return self._find(table) is not None

    def has_database(self, database: str) -> bool:
        """Returns whether the database exists now."""
        return database in self.catalog.databases()

    def is_from_start(self, table: TableRef) -> bool:
        """Returns whether the table is the same one as at the start."""
        found = self._find(table)
        return found is not None and self._existed_at_start(found)

    def all_from_start(self, database: str) -> bool:
        """Returns whether all tables of the database are the same ones as at the start."""
        return all(map(self._existed_at_start, self.catalog.tables(database)))

    def _find(self, table: TableRef) -> OwnedTable | None:
        return self.catalog.find(table.database or self.database, table.table)

    def _existed_at_start(self, table: OwnedTable) -> bool:
        return self.at_start.get(table.definition.full_name) is table
