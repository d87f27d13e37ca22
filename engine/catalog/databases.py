"""Look-ups of a server's tables by database and name."""

from __future__ import annotations

from engine.catalog.database_names import TEMPORARY_DATABASE, make_unknown_database_error, make_unknown_table_error
from engine.tables.small.view import DatabaseTables, NotLoaded, find_dependent_views
from engine.tables.table import Table


class Databases:
    """The tables of a server by database. A look-up never waits for a DDL statement."""

    def __init__(self) -> None:
        self._databases: dict[str, DatabaseTables] = {}

    def databases(self) -> list[str]:
        """Returns the names of all databases except the one of temporary tables."""
        return sorted(self._databases.keys() - {TEMPORARY_DATABASE})

    def tables(self, database: str | None = None) -> list[Table]:
        """Returns the tables of one database or of all, sorted by name."""
        names = [database] if database is not None else self.databases()
        return [table for name in names for _, table in sorted(self._database(name).copy().items())]

    def list_not_loaded(self, database: str | None = None) -> list[NotLoaded]:
        """Returns the tables on disk that could not be loaded."""
        names = [database] if database is not None else self.databases()
        return [found for name in names for _, found in sorted(self._database(name).not_loaded.copy().items())]

    def find(self, database: str, name: str) -> Table | None:
        """Returns the table, or ``None`` if it does not exist.

        Raises ``UserError`` 81 (UNKNOWN_DATABASE), and ``UnavailableError`` 695 (ASYNC_LOAD_FAILED) for a table that
        could not be loaded.
        """
        tables = self._database(database)
        if (failed := tables.not_loaded.get(name)) is not None:
            raise failed.error()
        return tables.get(name)

    def table(self, database: str, name: str) -> Table:
        """Returns the table. Raises ``UserError`` 60 (UNKNOWN_TABLE) and the errors of :meth:`find`."""
        table = self.find(database, name)
        if table is None:
            raise make_unknown_table_error(database, name, self._database(database))
        return table

    def list_views_of(self, table: Table) -> list[Table]:
        """Returns the materialized views that read the table's inserted blocks."""
        return find_dependent_views(list(self._databases.values()), table)

    def require_views(self, table: Table) -> list[Table]:
        """Returns the materialized views that an INSERT into the table must fill.

        Raises ``UnavailableError`` 695 (ASYNC_LOAD_FAILED) if one of them could not be loaded, because it would lack
        the rows.
        """
        place = (table.definition.database, table.definition.name)
        for tables in list(self._databases.values()):
            for failed in list(tables.not_loaded.values()):
                if failed.view_source == place:
                    raise failed.error()
        return self.list_views_of(table)

    def _database(self, name: str) -> DatabaseTables:
        try:
            return self._databases[name]
        except KeyError:
            raise make_unknown_database_error(name, self.databases()) from None
