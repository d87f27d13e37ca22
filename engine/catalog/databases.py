"""The catalog as every process of a server has it: look-ups, and what CREATE TABLE asks for."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from engine.catalog.database_names import TEMPORARY_DATABASE, make_unknown_table_error, unknown_database
from engine.catalog.database_tables import DatabaseTables, NotLoaded, find_dependent_views
from engine.catalog.kept_definitions import KeptDefinitions
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings

logger = logging.getLogger(__name__)

T_co = TypeVar("T_co", bound=Table, covariant=True)


class Databases(ABC, Generic[T_co]):
    """The tables of a server by database. A look-up never waits for a DDL statement."""

    def __init__(self, definitions: KeptDefinitions) -> None:
        self._definitions = definitions
        self._databases: dict[str, DatabaseTables[T_co]] = {}

    # -- look-ups -----------------------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """Returns the names of all databases except the one of temporary tables."""
        return sorted(self._databases.keys() - {TEMPORARY_DATABASE})

    def tables(self, database: str | None = None) -> list[T_co]:
        """Returns the tables of one database or of all, sorted by name."""
        names = [database] if database is not None else self.databases()
        return [table for name in names for _, table in sorted(self._database(name).copy().items())]

    def not_loaded(self, database: str | None = None) -> list[NotLoaded]:
        """Returns the tables on disk that could not be loaded."""
        names = [database] if database is not None else self.databases()
        return [found for name in names for _, found in sorted(self._database(name).not_loaded.copy().items())]

    def find(self, database: str, name: str) -> T_co | None:
        """Returns the table, or ``None`` if it does not exist.

        Raises ``UserError`` 81 (UNKNOWN_DATABASE), and ``UnavailableError`` 695 (ASYNC_LOAD_FAILED) for a table that
        could not be loaded.
        """
        tables = self._database(database)
        if (failed := tables.not_loaded.get(name)) is not None:
            raise failed.error()
        return tables.get(name)

    def table(self, database: str, name: str) -> T_co:
        """Returns the table. Raises ``UserError`` 60 (UNKNOWN_TABLE) and the errors of :meth:`find`."""
        table = self.find(database, name)
        if table is None:
            raise make_unknown_table_error(database, name, self._database(database))
        return table

    def views_of(self, table: Table) -> list[T_co]:
        """Returns the materialized views that read the table's inserted blocks."""
        return find_dependent_views(list(self._databases.values()), table)

    def require_views(self, table: Table) -> list[T_co]:
        """Returns the materialized views that an INSERT into the table must fill.

        Raises ``UnavailableError`` 695 (ASYNC_LOAD_FAILED) if one of them could not be loaded, because it would lack
        the rows.
        """
        place = (table.definition.database, table.definition.name)
        for tables in list(self._databases.values()):
            for failed in list(tables.not_loaded.values()):
                if failed.view_source == place:
                    raise failed.error()
        return self.views_of(table)

    def _database(self, name: str) -> DatabaseTables[T_co]:
        try:
            return self._databases[name]
        except KeyError:
            raise unknown_database(name, self.databases()) from None

    # -- definitions and changes --------------------------------------------------------------------------------

    @property
    def default_settings(self) -> MergeTreeSettings:
        """The settings of tables that name none."""
        return self._definitions.default_settings

    def define(self, database: str, create: CreateTable) -> TableDefinition:
        """Compiles a CREATE statement into a table definition."""
        return self._definitions.compile(database, create)

    @abstractmethod
    def create_table(self, database: str, create: CreateTable) -> T_co | None:
        """Creates a table; ``create`` must name an engine.

        Returns ``None`` for IF NOT EXISTS of a table that exists.
        """

    @abstractmethod
    def create_unnamed_table(self, database: str, create: CreateTable) -> str:
        """Creates a table under a temporary name, for :meth:`replace_table`, and returns that name."""

    @abstractmethod
    def replace_table(self, database: str, temporary_name: str, name: str) -> None:
        """Gives the table of the temporary name its name, and drops the table that had it before, if any."""

    @abstractmethod
    def drop_table(self, database: str, name: str) -> None:
        """Drops a table."""

    def discard_table(self, database: str, name: str) -> None:
        """Drops what a failed statement created, if it is there; logs errors instead of raising them."""
        try:
            self.drop_table(database, name)
        except (PandoError, OSError) as error:
            if not isinstance(error, PandoError) or error.name != "UNKNOWN_TABLE":
                logger.warning("table %s.%s of a statement that failed stays: %s", database, name, error)
