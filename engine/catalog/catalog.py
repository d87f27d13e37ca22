"""Databases and tables, and the statements that change them, on disk too.

Where definitions lie, and that a crash, a power cut or a failing disk leaves every table with its old or its new one,
is the matter of ``engine.catalog.definition_files`` and ``engine.server.durable_texts``. DDL statements run one at a
time (``_statement``); look-ups never wait for them.

Invariant: what this shows is what a restart would show. The disk is changed first, and memory follows.

Source: ClickHouse's Ordinary database.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from engine.catalog.database_names import SYSTEM_DATABASES, TEMPORARY_DATABASE
from engine.catalog.definition_files import DetachedTable, require_no_data
from engine.catalog.loaded_tables import LoadedTables
from engine.tables.small.view import DatabaseTables
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError, UserError
from parts.common.safe_names import check_file_name
from parts.format.hashed_file import make_directories
from sql.definitions.engines.replica_location import expand_table_macros
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    CreateTable,
)
from sql.grammar.tokens import quote_identifier

logger = logging.getLogger(__name__)

_DDL_WAIT_SECONDS = 0.1


class Catalog(LoadedTables):
    """The databases of one server. ``system`` is not here: it has no disk."""

    def load(self) -> None:
        """Starts every table on disk that can be loaded; the first start of a server makes the database ``default``."""
        super().load()
        if "default" not in self._databases:
            try:
                self.create_database("default", if_not_exists=True)
            except UnavailableError as error:
                logger.error("the database default is not made: %s", error)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """A statement that changes tables: no other one runs, and none is left half done. Raises ``UnavailableError``
        while a former one that failed cannot be undone."""
        with self._ddl:
            for file in self._journal.settle():
                self._load_again(file)
            dropped, self._dropped = self._dropped, []
            for definition in dropped:
                self._remove(definition, self._make(definition).remove_directory)
            yield

    # -- databases ----------------------------------------------------------------------------------------------

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        with self._statement():
            if name in self._databases or name in SYSTEM_DATABASES:
                if if_not_exists:
                    return
                raise UserError("DATABASE_ALREADY_EXISTS", f"Database {name} already exists")
            check_file_name("database", name)
            file = self._places.database(name)
            if file.exists():  # it was detached
                self._load_database(name)
                return
            directory = self._places.definitions(name)
            was_there = directory.exists()
            try:
                make_directories(directory)
                unfinished = self._journal.change({file: f"CREATE DATABASE {quote_identifier(name)}\n"})
            except Exception:
                if not was_there:
                    with suppress(OSError):
                        directory.rmdir()
                raise
            self._enter_database(name)
            if unfinished is not None:
                raise unfinished

    def drop_database(self, name: str, *, if_exists: bool = False, detach: bool = False) -> None:
        """Raises ``UnavailableError`` 695 (ASYNC_LOAD_FAILED) for a DROP while a table could not be loaded."""
        with self._statement():
            if name not in self._databases and if_exists:
                return
            tables = self._database(name)
            if not detach and tables.not_loaded:
                raise min(tables.not_loaded.values(), key=lambda failed: failed.name).error()
            for table in list(tables.values()):
                self.drop_table(name, table.definition.name, if_exists=True, detach=detach)
            with self._journal.changing({} if detach else {self._places.database(name): None}):
                del self._databases[name]
                if self.follower is not None:
                    self.follower.database_gone(name)
            if not detach:
                with report_as_unfinished(f"Database {name} is dropped"):
                    self._places.remove_definitions(name)

    # -- tables -------------------------------------------------------------------------------------------------

    def create_table(self, database: str, create: CreateTable) -> Table | None:
        """``create`` must name an engine. ``None`` when it existed and IF NOT EXISTS was said."""
        with self._statement():
            name = create.table.table
            check_file_name("table", name)
            file = self._places.definition(database, name)
            if create.if_not_exists and (name in self._database(database) or file.exists()):
                return None
            self._require_free(database, name)
            if not create.directory:
                create = self._apart_from_others(create, (database, name))
            definition = self.make_definition(database, create)
            require_no_data(definition.data_path, definition.full_name)
            with self._claimed(definition):
                table, unfinished = self._created(definition, create)
            self._enter(table)
            if unfinished is not None:
                raise unfinished
            return table

    def _created(self, definition: TableDefinition, create: CreateTable) -> tuple[Table, Exception | None]:
        """The table that nobody finds yet, and what :meth:`TextJournal.change` returned."""
        was_there = definition.data_path.exists()
        try:
            table = self._make(definition)
        except OSError:
            if not was_there:  # a table makes its directory as soon as it is made
                shutil.rmtree(definition.data_path, ignore_errors=True)
            raise
        try:
            if not create.attach:
                table.create()
            table.start()
            return table, self._journal.change(self._kept.texts(table.definition))
        except BaseException as error:
            table.stop()
            if isinstance(error, Exception) and not (create.attach or was_there):
                self._undo_create(table)
            raise

    def _undo_create(self, table: Table) -> None:
        try:
            table.undo_create()
        except OSError:
            logger.exception("what is left of table %s, whose CREATE failed", table.definition.full_name)

    def _require_free(self, database: str, name: str) -> None:
        tables = self._database(database)
        if name in tables:
            raise UserError("TABLE_ALREADY_EXISTS", f"Table {database}.{name} already exists")
        if (failed := tables.not_loaded.get(name)) is not None:
            raise failed.error()
        if any((each.database, each.name) == (database, name) for each in self._dropped):
            raise UnavailableError(
                "TABLE_IS_DROPPED", f"Table {database}.{name} was dropped, and its files cannot be removed; see the log"
            )
        self._places.require_free(database, name)

    def definition_file(self, database: str, name: str) -> Path:
        return self._places.definition(database, name)

    def detached_tables(self) -> list[DetachedTable]:
        return [self._places.detached(*name) for name in self.names_on_disk() if not self._is_known(name)]

    def _is_known(self, name: tuple[str, str]) -> bool:
        """Whether the table is here, could not be loaded, or is dropped."""
        tables = self._databases.get(name[0], DatabaseTables())
        is_dropped = any((each.database, each.name) == name for each in self._dropped)
        return name[1] in tables or name[1] in tables.not_loaded or is_dropped

    def attach_table(
        self, database: str, name: str, *, if_not_exists: bool = False, as_replicated: bool | None = None
    ) -> None:
        """Brings back a detached table from its definition on disk, or one that could not be loaded; ``as_replicated``
        changes its definition before."""
        with self._statement():
            if name in self._database(database):
                if if_not_exists and as_replicated is None:
                    return
                raise UserError("TABLE_ALREADY_EXISTS", f"Table {database}.{name} already exists")
            if not self._places.definition(database, name).exists():
                raise UserError("UNKNOWN_TABLE", f"Table {database}.{name} is not known: there is no definition of it")
            definition = self.read_definition(database, name)
            if definition.create.is_scratch:
                self._drop_unloaded(database, name)
                raise UserError("UNKNOWN_TABLE", f"Table {database}.{name} was to be dropped, and is dropped now")
            if as_replicated is not None:
                assert self.conversion is not None, "a server converts tables"
                define = partial(self.define, database)
                definition = self.conversion.convert(definition, define, to_replicated=as_replicated)
                self._write(definition)
            with self._claimed(definition):
                table = self._started(definition)
                try:
                    unfinished = self._journal.change({self._places.detached_mark(database, name): None})
                except BaseException:
                    table.stop()
                    raise
            self._enter(table)
            if unfinished is not None:
                raise unfinished

    def drop_table(
        self, database: str, name: str, *, if_exists: bool = False, detach: bool = False, permanently: bool = False
    ) -> None:
        """``detach``: definition and rows stay, until ATTACH TABLE or, unless ``permanently``, the next start."""
        with self._statement():
            if if_exists and database not in self._databases:
                return
            is_missing = detach and name in self._database(database).not_loaded
            table = None if is_missing else self.find(database, name)
            if table is None and not is_missing:
                if if_exists:
                    return
                raise UserError("UNKNOWN_TABLE", f"Table {database}.{name} does not exist")
            if table is not None and not detach:
                self._drop(table)
                return
            with self._journal.changing({self._places.detached_mark(database, name): ""} if permanently else {}):
                self._detach(database, name)

    def _detach(self, database: str, name: str) -> None:
        table = self._databases[database].get(name)
        if table is None:
            del self._databases[database].not_loaded[name]
            self._tell_not_loaded(database)
            return
        table.stop()
        self._leave(table)
        if not table.definition.engine.is_durable:
            with suppress(OSError):  # a start removes what stays
                table.drop()

    def _drop(self, table: Table) -> None:
        """From when its definition says so a start drops the table: what cannot be removed now goes later."""
        table.check_can_drop()
        inner = self._databases[table.definition.database].get(table.definition.inner_name)
        tables = [table] if inner is None else [table, inner]
        is_kept = table.definition.database != TEMPORARY_DATABASE
        definitions = [each.definition for each in tables]
        unfinished = self._journal.change(self._kept.texts(*definitions, is_scratch=True) if is_kept else {})
        for each in tables:
            each.stop()
            self._leave(each)
        while tables:
            try:
                tables[0].leave_replicas()
            except Exception:
                self._take_back(definitions[-len(tables) :])
                raise
            gone = tables.pop(0)
            self._remove(gone.definition, gone.drop)
        if unfinished is not None:
            raise unfinished

    def _take_back(self, definitions: Sequence[TableDefinition]) -> None:
        """After a DROP that ZooKeeper refused: each table is what a start makes of what is left of it."""
        try:
            self._journal.change(self._kept.texts(*definitions))
        except Exception:
            logger.exception("the DROP of %s cannot be undone", definitions[0].full_name)
        for each in definitions:
            if not self._load_table(each.database, each.name):
                told = UnavailableError("TABLE_IS_DROPPED", "Its DROP has begun, and the next start goes on with it")
                self._note_not_loaded(each.database, each.name, each, told)

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """The data stay where they are. Who reads or writes the table goes on."""
        with self._statement():
            table = self.table(*old)
            check_file_name("table", new[1])
            self._require_free(*new)
            moves = [(table, new)]
            if (inner := table.definition.inner_name) and old[0] != new[0]:
                moves.append((self.table(old[0], inner), (new[0], inner)))
            self._rename_in_place(moves)

    def exchange_tables(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """Each gets the other's name. Whoever looks for a name finds one table or the other."""
        with self._statement():
            first, second = self.table(*one), self.table(*other)
            if first is not second:
                self._rename_in_place([(first, other), (second, one)])

    def create_scratch(self, database: str, create: CreateTable) -> str:
        """A table like this under a name of its own, for :meth:`put_in_place`."""
        with self._statement():
            tables = self._database(database)
            names = (f"_tmp_replace_{number}" for number in count(1))
            name = next(n for n in names if n not in tables and not self._places.definition(database, n).exists())
            wanted = create.table.table
            if wanted not in tables:
                self._require_free(database, wanted)
            create = expand_table_macros(create, database=database, table=wanted)
            data_path = self._places.data(database, wanted, self._apart_from_others(create, (database, wanted)))
            create = replace(create, table=TableRef(database, name), is_scratch=True)
            try:
                self.create_table(database, self._places.with_data_at(data_path, create))
            except UnknownOutcomeError as error:
                self.discard_table(database, name)
                raise UnavailableError("CANNOT_WRITE_TO_FILE_DESCRIPTOR", error.message) from error
            return name

    def put_in_place(self, database: str, scratch: str, name: str) -> None:
        """The scratch table gets the name, and the one that has it, if any, goes."""
        with self._statement():
            new, old = self.table(database, scratch), self.find(database, name)
            if old is None:
                check_file_name("table", name)
                self._rename_in_place([(new, (database, name))])
                return
            old.check_can_drop()
            self._rename_in_place([(new, (database, name)), (old, (database, scratch))])
            with report_as_unfinished(f"Table {database}.{name} is replaced"):
                self.drop_table(database, scratch)

    def discard_table(self, database: str, name: str) -> None:
        """After a statement that failed, whose error is told: drops what it made, if it is there."""
        try:
            self.drop_table(database, name)
        except PandoError as error:
            if error.name != "UNKNOWN_TABLE":
                logger.warning("table %s.%s of a statement that failed stays: %s", database, name, error)
        except OSError as error:
            logger.warning("table %s.%s of a statement that failed stays: %s", database, name, error)

    def _apart_from_others(self, create: CreateTable, name: tuple[str, str]) -> CreateTable:
        return self._kept.apart_from_others(create, name, lambda other: other[1] in self._databases.get(other[0], ()))

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
            texts.update(self._kept.texts(renamed[-1][1]))
        with self._journal.changing(texts):
            if self.follower is not None:
                self.follower.tables_renamed(renamed)
            for table, definition in renamed:
                table.take_name(definition)
                self._kept.rename(definition)
                self._databases[definition.database][definition.name] = table
            for database, name in set(former) - {(each.database, each.name) for _, each in renamed}:
                del self._databases[database][name]

    def alter_table(self, database: str, name: str, change: Callable[[TableDefinition], CreateTable]) -> None:
        """Gives the table the definition that ``change`` makes of its own: on disk, here, and elsewhere.

        Raises what contradicts itself in the new one, or keeps the table from taking it; then nothing has changed.
        """
        with self._statement():
            table = self.table(database, name)
            self._redefine(table, self.make_definition(database, change(table.definition)))

    def redefine(self, table: Table, change: Callable[[TableDefinition], CreateTable | None]) -> bool:
        """For a table that is being started, too. Waits for no other statement: one that drops the table waits for who
        asks."""
        if not self._ddl.acquire(timeout=_DDL_WAIT_SECONDS):
            return False
        try:
            with self._statement():
                create = change(table.definition)
                if create is not None:
                    self._redefine(table, self.make_definition(table.definition.database, create))
        finally:
            self._ddl.release()
        return True

    def _redefine(self, table: Table, new: TableDefinition) -> None:
        is_kept = self._places.definition(new.database, new.name).exists()  # else CREATE writes it
        with table.altering(new):
            unfinished = self._journal.change(self._kept.texts(new) if is_kept else {})
            if self.follower is not None:
                self.follower.table_altered(table, new)
        if unfinished is not None:
            raise unfinished
