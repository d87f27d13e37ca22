"""Loads the tables of a server from disk, and records those that could not be loaded.

One table that cannot be loaded does not stop the others. It is listed with the reason (``NotLoaded``), statements on it
raise that reason as an error, and ATTACH TABLE tries again.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from engine.catalog.catalog_listener import CatalogListener
from engine.catalog.database_names import TEMPORARY_DATABASE
from engine.catalog.database_tables import DatabaseTables, NotLoaded
from engine.catalog.databases import Databases
from engine.catalog.definition_files import DefinitionDirectory, DetachedTable
from engine.catalog.kept_definitions import KeptDefinitions
from engine.tables.owned_table import OwnedTable
from engine.tables.replica_conversion import Conversion
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UnavailableError, convert_resource_error
from parts.format.durable_files import remove_durably
from parts.merge.modes.graphite import Rollups
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings

logger = logging.getLogger(__name__)

TableFactory = Callable[[TableDefinition], OwnedTable]
"""Builds the table of a definition without starting it."""


class LoadedTables(Databases[OwnedTable]):
    """The loaded tables of a server. DDL holds ``_ddl``; a start may load several tables at once."""

    def __init__(
        self, path: Path, temporary_path: Path, factory: TableFactory, settings: MergeTreeSettings, rollups: Rollups
    ) -> None:
        self._places = DefinitionDirectory(path, temporary_path)
        self._journal = self._places.journal
        super().__init__(KeptDefinitions(self._places, settings, rollups))
        self._factory = factory
        self._ddl = threading.RLock()
        self._dropped: list[TableDefinition] = []
        """Tables that are dropped, but whose files could not all be removed."""
        self.listener: CatalogListener | None = None
        """Set before :meth:`load`."""
        self.conversion: Conversion | None = None
        """Set before :meth:`load`, where tables are loaded."""

    @abstractmethod
    def change_definition(self, table: OwnedTable, change: Callable[[TableDefinition], CreateTable | None]) -> bool:
        """Changes a table's definition; see :meth:`engine.tables.owned_table.TableCatalog.change_definition`."""

    # -- start and stop -----------------------------------------------------------------------------------------

    def load(self) -> None:
        """Starts every table on disk that can be loaded."""
        self._places.prepare()
        self._add_database(TEMPORARY_DATABASE)
        with self._ddl:  # tables that have started take over no other definition meanwhile
            for database in self._places.list_databases():
                self._load_database(database)

    def stop(self) -> None:
        """Stops all tables."""
        for tables in list(self._databases.values()):
            for table in list(tables.values()):
                table.stop()

    def definition_file(self, database: str, name: str) -> Path:
        """Returns the path of a table's definition file."""
        return self._places.get_definition_file(database, name)

    def detached_tables(self) -> list[DetachedTable]:
        """Returns the tables that are on disk but detached."""
        return [
            self._places.describe_detached(*name)
            for name in self._definitions.names_on_disk()
            if not self._is_known(name)
        ]

    def _is_known(self, name: tuple[str, str]) -> bool:
        """Tells whether the table is loaded, failed to load, or is dropped but not fully removed."""
        tables = self._databases.get(name[0], DatabaseTables())
        is_dropped = any((each.database, each.name) == name for each in self._dropped)
        return name[1] in tables or name[1] in tables.not_loaded or is_dropped

    def _load_database(self, database: str) -> None:
        self._add_database(database)
        directory = self._places.get_definition_directory(database)
        if not directory.is_dir():
            logger.error("database %s has no tables: %s is no directory; put a good copy there", database, directory)
        names = {*self._places.list_attached_tables(database), *self._places.list_tables_in_journal(database)}
        for name in [name for name in sorted(names) if not self._load_table(database, name)]:
            self._drop_unloaded(database, name)

    def _load_table(self, database: str, name: str) -> bool:
        """Starts the table, or records why it cannot be loaded.

        Returns ``False`` for a table that is to be dropped once all others are loaded. Several threads may load
        different tables at once.
        """
        definition = None
        try:
            if self._places.get_definition_file(database, name) in self._journal.named():
                self._journal.settle()
            definition = self.read_definition(database, name)
            if definition.create.is_scratch:
                return False
            if self.conversion is not None:
                definition = self.conversion.at_start(definition, partial(self.define, database), self._write)
            with self._claim_directory(definition):
                table = self._start_table(definition)
            self._add_table(table)
        except Exception as error:
            self._record_not_loaded(database, name, definition, error)
        return True

    def _load_again(self, file: Path) -> None:
        """Loads the table of a definition whose unfinished change has been finished or undone now."""
        for database in self.databases():
            tables, name = self._databases[database], self._places.get_table_name(file)
            if (
                file.parent == self._places.get_definition_directory(database)
                and tables.not_loaded.pop(name, None) is not None
            ):
                self._publish_not_loaded(database)
                if file.exists() and not self._load_table(database, name):
                    self._drop_unloaded(database, name)

    def _record_not_loaded(
        self, database: str, name: str, definition: TableDefinition | None, error: Exception
    ) -> None:
        """Records and logs that a table could not be loaded, with the reason."""
        told = convert_resource_error(error) if isinstance(error, OSError) else error
        reason = told.message if isinstance(told, PandoError) else f"{type(told).__name__}: {told}"
        file = str(self._places.get_definition_file(database, name))
        if file not in reason:
            reason = f"{reason} (the table definition is {file})"
        failed = NotLoaded(
            database,
            name,
            reason,
            definition.view_source if definition is not None else None,
            definition is None or definition.is_replicated,
        )
        is_expected = isinstance(told, PandoError | OSError)
        logger.error("%s", failed.error().message, exc_info=None if is_expected else error)
        self._databases[database].not_loaded[name] = failed
        self._publish_not_loaded(database)

    def _publish_not_loaded(self, database: str) -> None:
        if self.listener is not None:
            self.listener.on_tables_not_loaded(database, dict(self._databases[database].not_loaded))

    # -- tables come and go ------------------------------------------------------------------------------------

    def _make(self, definition: TableDefinition) -> OwnedTable:
        table = self._factory(definition)
        table.home = self
        return table

    def _start_table(self, definition: TableDefinition) -> OwnedTable:
        """Starts a table that look-ups do not find yet. Its directory must be claimed."""
        table = self._make(definition)
        try:
            table.start()
        except BaseException:
            table.stop()
            raise
        return table

    @contextmanager
    def _claim_directory(self, definition: TableDefinition) -> Iterator[None]:
        """Claims the table's directory; releases it again if the block fails."""
        self._definitions.claim(definition)
        try:
            yield
        except BaseException:
            self._definitions.release(definition)
            raise

    def _add_table(self, table: OwnedTable) -> None:
        """Makes a started table visible to look-ups and to the listener."""
        tables, name = self._databases[table.definition.database], table.definition.name
        was_missing = name in tables.not_loaded
        tables[name] = table
        if self.listener is not None:
            self.listener.on_table_started(table)
        if was_missing:
            self._publish_not_loaded(table.definition.database)

    def _remove_table(self, table: OwnedTable) -> None:
        """Hides a stopped table from other processes first, then from look-ups here."""
        if self.listener is not None:
            self.listener.on_table_removed(table)
        del self._databases[table.definition.database][table.definition.name]
        self._definitions.release(table.definition)

    def _add_database(self, name: str) -> None:
        self._databases[name] = DatabaseTables()
        if self.listener is not None:
            self.listener.on_database_created(name)

    # -- dropped tables -----------------------------------------------------------------------------------------

    def _drop(self, table: OwnedTable) -> None:
        """Marks the definition as dropped, which is the decision, then removes the table.

        The next start or statement removes files that cannot be removed now.
        """
        table.check_can_drop()
        inner = self._databases[table.definition.database].get(table.definition.inner_name)
        tables = [table] if inner is None else [table, inner]
        is_kept = table.definition.database != TEMPORARY_DATABASE
        definitions = [each.definition for each in tables]
        unfinished = self._journal.change(
            self._definitions.make_texts(*definitions, is_scratch=True) if is_kept else {}
        )
        for each in tables:
            each.stop()
            self._remove_table(each)
        while tables:
            try:
                tables[0].leave_replicas()
            except Exception:
                self._undo_drop(definitions[-len(tables) :])
                raise
            gone = tables.pop(0)
            self._remove(gone.definition, gone.drop)
        if unfinished is not None:
            raise unfinished

    def _undo_drop(self, definitions: Sequence[TableDefinition]) -> None:
        """Undoes a DROP that ZooKeeper refused, by loading again what is left of the tables."""
        try:
            self._journal.change(self._definitions.make_texts(*definitions))
        except Exception:
            logger.exception("the DROP of %s cannot be undone", definitions[0].full_name)
        for each in definitions:
            if not self._load_table(each.database, each.name):
                told = UnavailableError("TABLE_IS_DROPPED", "Its DROP has begun, and the next start goes on with it")
                self._record_not_loaded(each.database, each.name, each, told)

    def _drop_unloaded(self, database: str, name: str) -> None:
        """Drops a table that a former process was dropping or filling.

        Its files may be incomplete, so it is never started.
        """
        try:
            definition = self.read_definition(database, name)
            table = self._make(definition)
            table.check_can_drop()
            table.leave_replicas()
        except Exception as error:
            told = UnavailableError("TABLE_IS_DROPPED", f"It is to be dropped, and this failed: {error}")
            self._record_not_loaded(database, name, None, told)
        else:
            self._remove(definition, table.drop)

    def _remove(self, definition: TableDefinition, remove_data: Callable[[], None]) -> None:
        """Removes the data and then the definition of a dropped table.

        A later statement or the next start removes what cannot be removed now.
        """
        try:
            remove_data()
            remove_durably(self._places.get_definition_file(definition.database, definition.name))
        except OSError as error:
            name = definition.full_name
            logger.error("table %s is dropped; what is left of it is removed later, because of %s", name, error)
            self._dropped.append(definition)

    # -- definitions --------------------------------------------------------------------------------------------

    def read_definition(self, database: str, name: str) -> TableDefinition:
        """Reads and compiles a definition from disk; see :meth:`KeptDefinitions.read`."""
        return self._definitions.read(database, name)

    def _write(self, definition: TableDefinition) -> None:
        with self._journal.changing(self._definitions.make_texts(definition)):
            pass
