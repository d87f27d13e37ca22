"""Databases and tables, and their definitions on disk.

Layout under the server's ``path``::

    metadata/<database>.sql           CREATE DATABASE
    metadata/<database>/<table>.sql   ATTACH TABLE, as SHOW CREATE TABLE would print it
    data/<database>/<table>/          the parts

Names are percent-encoded (``parts.safe_names``). A crash or a power cut leaves every table with its old or its new
definition (``engine.table_files``). DDL statements run one at a time (``_ddl``); look-ups never wait for them.
Source: ClickHouse's Ordinary database.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from engine.system_names import SYSTEM_NAMES
from engine.table_files import (
    TableMove,
    definition_text,
    finish_move,
    parse_definition,
    remove_durably,
    write_durably,
)
from engine.tables.definition import TableDefinition
from engine.tables.table import Table
from parts.disk import make_directories
from parts.errors import PandoError, UserError
from parts.safe_names import check_file_name, file_stem, former_file_stem
from sql.definitions.description import build_description, merge_tree_settings, with_column_types
from sql.definitions.engine import modernize
from sql.grammar.statements import CreateTable, TableRef
from sql.grammar.tokens import quote_identifier
from sql.settings.table_settings import MergeTreeSettings

if TYPE_CHECKING:
    from engine.config import Config

logger = logging.getLogger(__name__)

_DDL_WAIT_SECONDS = 0.1

TableFactory = Callable[[TableDefinition], Table]
"""Builds (without starting) the table of a definition."""


class CatalogFollower(Protocol):
    """Somebody who tells other processes what there is. Must be quick."""

    def database_made(self, name: str) -> None: ...

    def database_gone(self, name: str) -> None: ...

    def table_started(self, table: Table) -> None: ...

    def table_altered(self, table: Table, definition: TableDefinition) -> None:
        """The definition that the table is about to take; no part of it is there yet. Nothing before its start."""

    def table_gone(self, table: Table) -> None:
        """Before its files go. Nothing when it was not started."""


class Catalog:
    """The databases of one server. ``system`` is not here: it has no disk."""

    def __init__(self, path: Path, factory: TableFactory, default_settings: MergeTreeSettings) -> None:
        self._metadata = path / "metadata"
        self._data = path / "data"
        self._factory = factory
        self.default_settings = default_settings
        self._databases: dict[str, dict[str, Table]] = {}
        self._ddl = threading.RLock()
        self.follower: CatalogFollower | None = None
        """Set before :meth:`load`."""

    # -- look-up ------------------------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        return sorted(self._databases)

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

    def _database(self, name: str) -> dict[str, Table]:
        try:
            return self._databases[name]
        except KeyError:
            raise UserError("UNKNOWN_DATABASE", f"Database {name} does not exist") from None

    # -- start and stop -----------------------------------------------------------------------------------------

    def load(self) -> None:
        """Starts every table on disk; the first start of a server makes the database ``default``."""
        make_directories(self._metadata)
        finish_move(self._metadata)
        for leftover in _files(self._metadata, "**/*.tmp"):
            leftover.unlink()
        for file in _files(self._metadata, "*.sql"):
            self._load_database(unquote(file.stem))
        if "default" not in self._databases:
            self.create_database("default", if_not_exists=True)

    def stop(self) -> None:
        for table in self.tables():
            table.stop()

    def names_on_disk(self) -> list[tuple[str, str]]:
        """(database, table) of every definition."""
        databases = [unquote(file.stem) for file in _files(self._metadata, "*.sql")]
        return [(database, name) for database in databases for name in self._names_in(database)]

    def _names_in(self, database: str) -> list[str]:
        return [unquote(file.stem) for file in _files(self._database_metadata(database), "*.sql")]

    def _load_database(self, database: str) -> None:
        self._enter_database(database)
        for name in self._names_in(database):
            self._start(self.read_definition(database, name))

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
        self._databases[name] = {}
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
            file = _file(self._metadata, name)
            if file.exists():  # it was detached
                self._load_database(name)
                return
            make_directories(self._database_metadata(name))
            write_durably(file, f"CREATE DATABASE {quote_identifier(name)}\n")
            self._enter_database(name)

    def drop_database(self, name: str, *, if_exists: bool = False, detach: bool = False) -> None:
        with self._ddl:
            if name not in self._databases and if_exists:
                return
            for table in list(self._database(name).values()):
                self.drop_table(name, table.definition.name, detach=detach)
            if not detach:
                directory = self._database_metadata(name)
                remove_durably(_file(self._metadata, name))
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
            file = self._table_metadata(database, name)
            if file.exists():
                raise UserError(
                    "TABLE_ALREADY_EXISTS", f"Table {database}.{name} is detached; ATTACH TABLE or drop it first"
                )
            definition = self.make_definition(database, create)
            if _holds_data(definition.data_path):
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
            if not self._table_metadata(database, name).exists():
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
            if not detach:
                try:
                    table.drop()
                    remove_durably(self._table_metadata(database, name))
                except Exception:
                    self._begin_anew(database, name)
                    raise

    def _begin_anew(self, database: str, name: str) -> None:
        """A table whose DROP failed is what a start of the server makes of what is left of it."""
        if self._table_metadata(database, name).exists():
            try:
                self._start(self.read_definition(database, name))
            except Exception:
                logger.exception("table %s.%s could not be dropped, and does not start again", database, name)

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Stops the table, moves definition and data, and starts it under its new name."""
        with self._ddl:
            table = self.table(*old)
            check_file_name("table", new[1])
            if new[1] in self._database(new[0]) or self._table_metadata(*new).exists():
                raise UserError("TABLE_ALREADY_EXISTS", f"Table {new[0]}.{new[1]} already exists")
            if _holds_data(self._data_path(*new)):
                raise UserError(
                    "TABLE_ALREADY_EXISTS", f"Directory for table data of {new[0]}.{new[1]} already holds files"
                )
            create = table.renamed(TableRef(new[0], new[1]))
            definition = replace(
                table.definition, database=new[0], name=new[1], create=create, data_path=self._data_path(*new)
            )
            table.stop()
            self._leave(table)
            shutil.rmtree(definition.data_path, ignore_errors=True)  # holds no data
            TableMove(
                self._table_metadata(*old),
                self._table_metadata(*new),
                table.definition.data_path,
                definition.data_path,
                definition_text(create),
            ).carry_out(self._metadata)
            self._start(definition)

    def alter_table(self, database: str, name: str, change: Callable[[TableDefinition], CreateTable]) -> None:
        """Gives the table the definition that ``change`` makes of its own: on disk, here, and elsewhere.

        Raises what contradicts itself in the new one, or keeps the table from taking it; then nothing has changed.
        """
        with self._ddl:
            table = self.table(database, name)
            self._redefine(table, self.make_definition(database, change(table.definition)))

    def define(self, database: str, create: CreateTable) -> TableDefinition:
        return self.make_definition(database, create)

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
        file = self._table_metadata(new.database, new.name)
        with table.altering(new):
            if file.exists():  # else CREATE writes it
                write_durably(file, definition_text(new.create))
            if self.follower is not None:
                self.follower.table_altered(table, new)

    # -- definitions --------------------------------------------------------------------------------------------

    def make_definition(self, database: str, create: CreateTable) -> TableDefinition:
        """Compiles what is needed of a CREATE statement to work with its table."""
        name = create.table.table
        create = modernize(replace(create, table=TableRef(database, name), if_not_exists=False, attach=False))
        description = build_description(create, default_settings=self.default_settings)
        create = with_column_types(create, description.schema)
        return TableDefinition(database, name, create, description, self._data_path(database, name))

    def read_definition(self, database: str, name: str) -> TableDefinition:
        file = self._table_metadata(database, name)
        try:
            statement = parse_definition(file.read_text())
            return self.make_definition(database, replace(statement, table=TableRef(database, name)))
        except PandoError as error:
            error.message = f"{error.message} (in the table definition {file})"
            raise

    def _database_metadata(self, database: str) -> Path:
        return _directory(self._metadata, database)

    def _table_metadata(self, database: str, name: str) -> Path:
        return _file(self._database_metadata(database), name)

    def _data_path(self, database: str, name: str) -> Path:
        return _directory(_directory(self._data, database), name)


def _file(parent: Path, name: str) -> Path:
    former = parent / f"{former_file_stem(name)}.sql"
    return former if "." in name and former.is_file() else parent / f"{file_stem(name)}.sql"


def _directory(parent: Path, name: str) -> Path:
    former = parent / former_file_stem(name)
    return former if "." in name and name.strip(".") and former.is_dir() else parent / file_stem(name)


def _files(directory: Path, pattern: str) -> list[Path]:
    return sorted(file for file in directory.glob(pattern) if file.is_file())


def _holds_data(path: Path) -> bool:
    """False for what a CREATE leaves that failed or was cut short."""
    if not path.exists():
        return False
    empty = {"replica_identity", *(["detached"] if not any(path.glob("detached/*")) else [])}
    return any(entry.name not in empty and not entry.name.startswith("tmp_") for entry in path.iterdir())


def read_definitions(config: Config) -> Iterator[TableDefinition]:
    """The tables on a server's disk, without starting them. Raises 62 and others for a definition that is damaged."""
    catalog = Catalog(config.path, _no_tables, merge_tree_settings(config.merge_tree, MergeTreeSettings()))
    for database, name in catalog.names_on_disk():
        yield catalog.read_definition(database, name)


def _no_tables(_: TableDefinition) -> Table:
    raise AssertionError("definitions are read, tables are not made")
