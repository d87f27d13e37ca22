"""Databases and tables, and their definitions on disk.

Where they lie, and that a crash or a power cut leaves every table with its old or its new definition, is the matter of
``engine.table_files``. DDL statements run one at a time (``_ddl``); look-ups never wait for them.
Source: ClickHouse's Ordinary database.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from engine.catalog_follower import CatalogFollower
from engine.system_names import SYSTEM_NAMES, TEMPORARY
from engine.table_files import (
    DefinitionsChange,
    TableMove,
    TablePlaces,
    definition_text,
    holds_data,
    parse_definition,
    remove_durably,
    write_durably,
)
from engine.tables.definition import TableDefinition
from engine.tables.table import Table
from engine.tables.view import DatabaseTables, views_of
from parts.disk import make_directories
from parts.errors import PandoError, UserError
from parts.safe_names import check_file_name
from sql.definitions.description import build_description, with_column_types
from sql.definitions.engine import pin_location
from sql.grammar.statements import CreateTable, TableRef
from sql.grammar.tokens import quote_identifier
from sql.settings.table_settings import MergeTreeSettings

logger = logging.getLogger(__name__)

_DDL_WAIT_SECONDS = 0.1

TableFactory = Callable[[TableDefinition], Table]
"""Builds (without starting) the table of a definition."""


class Catalog:
    """The databases of one server. ``system`` is not here: it has no disk."""

    def __init__(
        self, path: Path, temporary_path: Path, factory: TableFactory, default_settings: MergeTreeSettings
    ) -> None:
        self._places = TablePlaces(path, temporary_path)
        self._factory = factory
        self.default_settings = default_settings
        self._databases: dict[str, DatabaseTables] = {}
        self._ddl = threading.RLock()
        self.follower: CatalogFollower | None = None
        """Set before :meth:`load`."""

    # -- look-up ------------------------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """But for the one of temporary tables."""
        return sorted(self._databases.keys() - {TEMPORARY})

    def tables(self, database: str | None = None) -> list[Table]:
        names = [database] if database is not None else self.databases()
        return [table for name in names for _, table in sorted(self._database(name).copy().items())]

    def find(self, database: str, name: str) -> Table | None:
        return self._database(database).get(name)

    def table(self, database: str, name: str) -> Table:
        """Raises ``UserError`` 60 (UNKNOWN_TABLE), 81 (UNKNOWN_DATABASE)."""
        table = self.find(database, name)
        if table is None:
            raise UserError("UNKNOWN_TABLE", f"Table {database}.{name} does not exist")
        return table

    def views_of(self, table: Table) -> list[Table]:
        """The materialized views that read its blocks."""
        return views_of(list(self._databases.values()), table)

    def _database(self, name: str) -> DatabaseTables:
        try:
            return self._databases[name]
        except KeyError:
            raise UserError("UNKNOWN_DATABASE", f"Database {name} does not exist") from None

    # -- start and stop -----------------------------------------------------------------------------------------

    def load(self) -> None:
        """Starts every table on disk; the first start of a server makes the database ``default``."""
        self._places.begin()
        self._enter_database(TEMPORARY)
        for database in self._places.databases():
            self._load_database(database)
        if "default" not in self._databases:
            self.create_database("default", if_not_exists=True)

    def stop(self) -> None:
        for table in (*self.tables(), *self.tables(TEMPORARY)):
            table.stop()

    def names_on_disk(self) -> list[tuple[str, str]]:
        """(database, table) of every definition."""
        return [(database, name) for database in self._places.databases() for name in self._places.tables(database)]

    def _load_database(self, database: str) -> None:
        self._enter_database(database)
        for name in self._places.tables(database):
            table = self._start(self.read_definition(database, name))
            if table.definition.create.is_scratch:
                self._drop_scratch(database, name)

    def _drop_scratch(self, database: str, name: str) -> None:
        try:
            self.drop_table(database, name)
        except PandoError:
            logger.exception("table %s.%s, which was replaced or not finished, could not be dropped", database, name)

    def _make(self, definition: TableDefinition) -> Table:
        table = self._factory(definition)
        table.home = self
        return table

    def _start(self, definition: TableDefinition) -> Table:
        table = self._make(definition)
        table.start()
        self._enter(table)
        return table

    def _enter(self, table: Table) -> None:
        self._databases[table.definition.database][table.definition.name] = table
        if self.follower is not None:
            self.follower.table_started(table)

    def _leave(self, table: Table) -> None:
        """Nobody finds it any more: first elsewhere, then here."""
        if self.follower is not None:
            self.follower.table_gone(table)
        del self._databases[table.definition.database][table.definition.name]

    def _enter_database(self, name: str) -> None:
        self._databases[name] = DatabaseTables()
        if self.follower is not None:
            self.follower.database_made(name)

    # -- databases ----------------------------------------------------------------------------------------------

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        with self._ddl:
            if name in self._databases or name in SYSTEM_NAMES:
                if if_not_exists:
                    return
                raise UserError("DATABASE_ALREADY_EXISTS", f"Database {name} already exists")
            check_file_name("database", name)
            file = self._places.database(name)
            if file.exists():  # it was detached
                self._load_database(name)
                return
            make_directories(self._places.definitions(name))
            write_durably(file, f"CREATE DATABASE {quote_identifier(name)}\n")
            self._enter_database(name)

    def drop_database(self, name: str, *, if_exists: bool = False, detach: bool = False) -> None:
        with self._ddl:
            if name not in self._databases and if_exists:
                return
            for table in list(self._database(name).values()):
                self.drop_table(name, table.definition.name, if_exists=True, detach=detach)
            if not detach:
                directory = self._places.definitions(name)
                remove_durably(self._places.database(name))
                for leftover in directory.glob("*"):
                    leftover.unlink()
                directory.rmdir()
            del self._databases[name]
            if self.follower is not None:
                self.follower.database_gone(name)

    # -- tables -------------------------------------------------------------------------------------------------

    def create_table(self, database: str, create: CreateTable) -> Table | None:
        """``create`` must name an engine. ``None`` when it existed and IF NOT EXISTS was said."""
        with self._ddl:
            name = create.table.table
            if name in self._database(database):
                if create.if_not_exists:
                    return None
                raise UserError("TABLE_ALREADY_EXISTS", f"Table {database}.{name} already exists")
            check_file_name("table", name)
            file = self._places.definition(database, name)
            if file.exists():
                raise UserError(
                    "TABLE_ALREADY_EXISTS", f"Table {database}.{name} is detached; ATTACH TABLE or drop it first"
                )
            if not create.directory:
                create = self._apart_from_others(create, (database, name))
            definition = self.make_definition(database, create)
            if holds_data(definition.data_path):
                raise UserError(
                    "TABLE_ALREADY_EXISTS",
                    f"Directory for table data {definition.data_path.name} of {database}.{name} already holds files; "
                    "move them away or ATTACH the table",
                )
            table = self._make(definition)
            if not create.attach:
                table.create()
            try:
                table.start()
                write_durably(file, definition_text(table.definition.create))
            except BaseException:
                table.stop()
                raise
            self._enter(table)
            return table

    def attach_table(self, database: str, name: str, *, if_not_exists: bool = False) -> None:
        """Brings back a detached table from its definition on disk."""
        with self._ddl:
            if name in self._database(database):
                if if_not_exists:
                    return
                raise UserError("TABLE_ALREADY_EXISTS", f"Table {database}.{name} is attached already")
            if not self._places.definition(database, name).exists():
                raise UserError("UNKNOWN_TABLE", f"Table {database}.{name} is not known: there is no definition of it")
            self._start(self.read_definition(database, name))

    def drop_table(self, database: str, name: str, *, if_exists: bool = False, detach: bool = False) -> None:
        with self._ddl:
            table = self.find(database, name) if not (if_exists and database not in self._databases) else None
            if table is None:
                if if_exists:
                    return
                raise UserError("UNKNOWN_TABLE", f"Table {database}.{name} does not exist")
            if not detach:
                table.check_can_drop()
            table.stop()
            self._leave(table)
            if detach and not table.definition.is_durable:
                table.drop()
            if not detach:
                try:
                    table.drop()
                    remove_durably(self._places.definition(database, name))
                except Exception:
                    self._begin_anew(database, name)
                    raise
                if table.definition.inner_name:
                    self.drop_table(database, table.definition.inner_name, if_exists=True)

    def _begin_anew(self, database: str, name: str) -> None:
        """A table whose DROP failed is what a start of the server makes of what is left of it."""
        if self._places.definition(database, name).exists():
            try:
                self._start(self.read_definition(database, name))
            except Exception:
                logger.exception("table %s.%s could not be dropped, and does not start again", database, name)

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Stops the table, moves definition and data, and starts it under its new name."""
        with self._ddl:
            table = self.table(*old)
            check_file_name("table", new[1])
            if new[1] in self._database(new[0]) or self._places.definition(*new).exists():
                raise UserError("TABLE_ALREADY_EXISTS", f"Table {new[0]}.{new[1]} already exists")
            create = self._apart_from_others(table.renamed(TableRef(*new)), new)
            data_path = self._places.data(*new, create)
            if holds_data(data_path):
                raise UserError(
                    "TABLE_ALREADY_EXISTS", f"Directory for table data of {new[0]}.{new[1]} already holds files"
                )
            definition = replace(table.definition, database=new[0], name=new[1], create=create, data_path=data_path)
            table.stop()
            self._leave(table)
            shutil.rmtree(definition.data_path, ignore_errors=True)  # holds no data
            TableMove(
                self._places.definition(*old),
                self._places.definition(*new),
                table.definition.data_path,
                definition.data_path,
                definition_text(create),
            ).carry_out(self._places.metadata)
            self._start(definition)
            if (inner := definition.inner_name) and old[0] != new[0]:
                self.rename_table((old[0], inner), (new[0], inner))

    def exchange_tables(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """Each gets the other's name. Whoever looks for a name finds one table or the other."""
        with self._ddl:
            first, second = self.table(*one), self.table(*other)
            if first is not second:
                self._rename_in_place([(first, other), (second, one)])

    def create_scratch(self, database: str, create: CreateTable) -> str:
        """A table like this under a name of its own, for :meth:`put_in_place`."""
        with self._ddl:
            tables = self._database(database)
            name = next(name for number in count(1) if (name := f"_tmp_replace_{number}") not in tables)
            wanted = create.table.table
            create = pin_location(create, database=database, table=wanted)
            data_path = self._places.data(database, wanted, self._apart_from_others(create, (database, wanted)))
            create = replace(create, table=TableRef(database, name), is_scratch=True)
            self.create_table(database, self._places.with_data_at(data_path, create))
            return name

    def put_in_place(self, database: str, scratch: str, name: str) -> None:
        """The scratch table gets the name, and the one that has it, if any, goes."""
        with self._ddl:
            new, old = self.table(database, scratch), self.find(database, name)
            if old is None:
                check_file_name("table", name)
                self._rename_in_place([(new, (database, name))])
                return
            old.check_can_drop()
            self._rename_in_place([(new, (database, name)), (old, (database, scratch))])
            self.drop_table(database, scratch)

    def _apart_from_others(self, create: CreateTable, name: tuple[str, str]) -> CreateTable:
        taken = [table.definition.data_path for table in self.tables()]
        return self._places.apart_from(taken, replace(create, table=TableRef(*name)))

    def _rename_in_place(self, moves: Sequence[tuple[Table, tuple[str, str]]]) -> None:
        """All at once, on disk too; the data stay where they are."""
        renamed: list[tuple[Table, TableDefinition]] = []
        former = [(table.definition.database, table.definition.name) for table, _ in moves]
        texts: dict[Path, str | None] = {self._places.definition(*name): None for name in former}
        is_replacing = any(table.definition.create.is_scratch for table, _ in moves)
        for table, (database, name) in moves:
            create = table.renamed(TableRef(database, name))
            create = replace(create, is_scratch=is_replacing and not create.is_scratch)
            create = self._places.with_data_at(table.definition.data_path, create)
            renamed.append((table, replace(table.definition, database=database, name=name, create=create)))
            texts[self._places.definition(database, name)] = definition_text(create)
        DefinitionsChange(texts).carry_out(self._places.metadata)
        if self.follower is not None:
            self.follower.tables_renamed(renamed)
        for table, definition in renamed:
            table.take_name(definition)
            self._databases[definition.database][definition.name] = table
        for database, name in former:
            if self._databases[database][name].definition.name != name:
                del self._databases[database][name]

    def alter_table(self, database: str, name: str, change: Callable[[TableDefinition], CreateTable]) -> None:
        """Gives the table the definition that ``change`` makes of its own: on disk, here, and elsewhere.

        Raises what contradicts itself in the new one, or keeps the table from taking it; then nothing has changed.
        """
        with self._ddl:
            table = self.table(database, name)
            self._redefine(table, self.make_definition(database, change(table.definition)))

    def redefine(self, table: Table, change: Callable[[TableDefinition], CreateTable | None]) -> bool:
        """For a table that is being started, too. Waits for no other statement: one that drops the table waits for who
        asks."""
        if not self._ddl.acquire(timeout=_DDL_WAIT_SECONDS):
            return False
        try:
            create = change(table.definition)
            if create is not None:
                self._redefine(table, self.make_definition(table.definition.database, create))
        finally:
            self._ddl.release()
        return True

    def _redefine(self, table: Table, new: TableDefinition) -> None:
        file = self._places.definition(new.database, new.name)
        with table.altering(new):
            if file.exists():  # else CREATE writes it
                write_durably(file, definition_text(new.create))
            if self.follower is not None:
                self.follower.table_altered(table, new)

    # -- definitions --------------------------------------------------------------------------------------------

    def make_definition(self, database: str, create: CreateTable) -> TableDefinition:
        """Compiles what is needed of a CREATE statement to work with its table."""
        name = create.table.table
        create = replace(create, table=TableRef(database, name), if_not_exists=False, attach=False)
        description = build_description(create, default_settings=self.default_settings)
        create = with_column_types(create, description.schema)
        return TableDefinition(database, name, create, description, self._places.data(database, name, create))

    define = make_definition

    def read_definition(self, database: str, name: str) -> TableDefinition:
        file = self._places.definition(database, name)
        try:
            statement = parse_definition(file.read_text())
            return self.make_definition(database, replace(statement, table=TableRef(database, name)))
        except PandoError as error:
            error.message = f"{error.message} (in the table definition {file})"
            raise
