"""The statements that change databases and tables, in memory and on disk.

``engine.catalog.definition_files`` and ``engine.server.durable_texts`` write the definitions. After a crash, a power
cut or a disk error, every table has either its old definition or its new one. DDL statements run one at a time
(``_statement``); look-ups never wait for them.

Invariant: memory shows what a restart would show. The disk is changed first, and memory follows.

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

from engine.catalog.database_names import SYSTEM_DATABASES
from engine.catalog.definition_files import require_no_data
from engine.catalog.loaded_tables import LoadedTables
from engine.tables.owned_table import OwnedTable
from engine.tables.table_definition import TableDefinition
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import UnavailableError, UnknownOutcomeError, UserError
from parts.common.safe_names import check_file_name
from parts.format.hashed_file import make_directories
from sql.definitions.engines.replica_location import expand_table_macros
from sql.grammar.clause_types import TableRef
from sql.grammar.statements.statement import CreateTable
from sql.grammar.tokens import quote_identifier

logger = logging.getLogger(__name__)

_DDL_WAIT_SECONDS = 0.1


class Catalog(LoadedTables):
    """The databases of one server, without ``system``, which is not on disk."""

    def load(self) -> None:
        """Starts every table on disk that can be loaded; a server's first start creates ``default``."""
        super().load()
        if "default" not in self._databases:
            try:
                self.create_database("default", if_not_exists=True)
            except UnavailableError as error:
                logger.error("the database default is not made: %s", error)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Runs the block as the only DDL statement, after finishing any former one.

        Raises ``UnavailableError`` while a former statement that failed cannot be undone.
        """
        with self._ddl:
            for file in self._journal.settle():
                self._load_again(file)
            dropped, self._dropped = self._dropped, []
            for definition in dropped:
                self._remove(definition, self._make(definition).remove_directory)
            yield

    # -- databases ----------------------------------------------------------------------------------------------

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Creates a database, or attaches one that was detached. Raises 82 (DATABASE_ALREADY_EXISTS)."""
        with self._statement():
            if name in self._databases or name in SYSTEM_DATABASES:
                if if_not_exists:
                    return
                raise UserError("DATABASE_ALREADY_EXISTS", f"Database {name} already exists")
            check_file_name("database", name)
            file = self._places.get_database_file(name)
            if file.exists():  # it was detached
                self._load_database(name)
                return
            directory = self._places.get_definition_directory(name)
            was_there = directory.exists()
            try:
                make_directories(directory)
                unfinished = self._journal.change({file: f"CREATE DATABASE {quote_identifier(name)}\n"})
            except Exception:
                if not was_there:
                    with suppress(OSError):
                        directory.rmdir()
                raise
            self._add_database(name)
            if unfinished is not None:
                raise unfinished

    def drop_database(self, name: str, *, if_exists: bool = False, detach: bool = False) -> None:
        """Drops or detaches a database and its tables.

        DROP raises ``UnavailableError`` 695 (ASYNC_LOAD_FAILED) if a table of it could not be loaded.
        """
        with self._statement():
            if name not in self._databases and if_exists:
                return
            tables = self._database(name)
            if not detach and tables.not_loaded:
                raise min(tables.not_loaded.values(), key=lambda failed: failed.name).error()
            for table in list(tables.values()):
                self.drop_table(name, table.definition.name, if_exists=True, detach=detach)
            with self._journal.changing({} if detach else {self._places.get_database_file(name): None}):
                del self._databases[name]
                if self.listener is not None:
                    self.listener.on_database_dropped(name)
            if not detach:
                with report_as_unfinished(f"Database {name} is dropped"):
                    self._places.remove_definitions(name)

    # -- tables -------------------------------------------------------------------------------------------------

    def create_table(self, database: str, create: CreateTable) -> OwnedTable | None:
        """Creates a table; ``create`` must name an engine.

        Returns ``None`` for IF NOT EXISTS of a table that exists.
        """
        with self._statement():
            name = create.table.table
            check_file_name("table", name)
            file = self._places.get_definition_file(database, name)
            if create.if_not_exists and (name in self._database(database) or file.exists()):
                return None
            self._require_free(database, name)
            if not create.directory:
                create = self._with_own_directory(create, (database, name))
            definition = self.define(database, create)
            require_no_data(definition.data_path, definition.full_name)
            with self._claim_directory(definition):
                table, unfinished = self._start_new_table(definition, create)
            self._add_table(table)
            if unfinished is not None:
                raise unfinished
            return table

    def _start_new_table(self, definition: TableDefinition, create: CreateTable) -> tuple[OwnedTable, Exception | None]:
        """Starts a new table that look-ups do not find yet.

        Returns it with the result of :meth:`TextJournal.change`.
        """
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
            return table, self._journal.change(self._definitions.make_texts(table.definition))
        except BaseException as error:
            table.stop()
            if isinstance(error, Exception) and not (create.attach or was_there):
                self._undo_create(table)
            raise

    def _undo_create(self, table: OwnedTable) -> None:
        """Removes what a failed CREATE left; logs what cannot be removed."""
        try:
            table.undo_create()
        except OSError:
            logger.exception("what is left of table %s, whose CREATE failed", table.definition.full_name)

    def _require_free(self, database: str, name: str) -> None:
        """Raises an error if a table that is loaded, not loaded, detached or not fully dropped has the name."""
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

    def attach_table(
        self, database: str, name: str, *, if_not_exists: bool = False, as_replicated: bool | None = None
    ) -> None:
        """Loads a table that is detached or could not be loaded before, from its definition on disk.

        ``as_replicated`` first converts the definition to or from a replicated engine.
        """
        with self._statement():
            if name in self._database(database):
                if if_not_exists and as_replicated is None:
                    return
                raise UserError("TABLE_ALREADY_EXISTS", f"Table {database}.{name} already exists")
            if not self._places.get_definition_file(database, name).exists():
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
            with self._claim_directory(definition):
                table = self._start_table(definition)
                try:
                    unfinished = self._journal.change({self._places.get_detached_mark(database, name): None})
                except BaseException:
                    table.stop()
                    raise
            self._add_table(table)
            if unfinished is not None:
                raise unfinished

    def drop_table(
        self, database: str, name: str, *, if_exists: bool = False, detach: bool = False, permanently: bool = False
    ) -> None:
        """Drops or detaches a table.

        ``detach`` keeps definition and rows until ATTACH TABLE or, unless ``permanently``, the next start.
        """
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
            with self._journal.changing({self._places.get_detached_mark(database, name): ""} if permanently else {}):
                self._detach(database, name)

    def _detach(self, database: str, name: str) -> None:
        """Stops a table and forgets it; its files stay."""
        table = self._databases[database].get(name)
        if table is None:
            del self._databases[database].not_loaded[name]
            self._publish_not_loaded(database)
            return
        table.stop()
        self._remove_table(table)
        if not table.definition.engine.is_durable:
            with suppress(OSError):  # a start removes what stays
                table.drop()

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Renames a table. Its data stay where they are, and running reads and writes go on."""
        with self._statement():
            table = self.table(*old)
            check_file_name("table", new[1])
            self._require_free(*new)
            moves = [(table, new)]
            if (inner := table.definition.inner_name) and old[0] != new[0]:
                moves.append((self.table(old[0], inner), (new[0], inner)))
            self._rename_in_place(moves)

    def exchange_tables(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """Swaps the names of two tables. At every moment each name finds one of them."""
        with self._statement():
            first, second = self.table(*one), self.table(*other)
            if first is not second:
                self._rename_in_place([(first, other), (second, one)])

    def create_unnamed_table(self, database: str, create: CreateTable) -> str:
        """Creates a table under a temporary name, for :meth:`replace_table`, and returns that name."""
        with self._statement():
            tables = self._database(database)
            names = (f"_tmp_replace_{number}" for number in count(1))
            name = next(
                n for n in names if n not in tables and not self._places.get_definition_file(database, n).exists()
            )
            wanted = create.table.table
            if wanted not in tables:
                self._require_free(database, wanted)
            create = expand_table_macros(create, database=database, table=wanted)
            data_path = self._places.get_data_path(
                database, wanted, self._with_own_directory(create, (database, wanted))
            )
            create = replace(create, table=TableRef(database, name), is_scratch=True)
            try:
                self.create_table(database, self._places.with_data_at(data_path, create))
            except UnknownOutcomeError as error:
                self.discard_table(database, name)
                raise UnavailableError("CANNOT_WRITE_TO_FILE_DESCRIPTOR", error.message) from error
            return name

    def replace_table(self, database: str, temporary_name: str, name: str) -> None:
        """Gives the table of the temporary name its name, and drops the table that had it before, if any."""
        with self._statement():
            new, old = self.table(database, temporary_name), self.find(database, name)
            if old is None:
                check_file_name("table", name)
                self._rename_in_place([(new, (database, name))])
                return
            old.check_can_drop()
            self._rename_in_place([(new, (database, name)), (old, (database, temporary_name))])
            with report_as_unfinished(f"Table {database}.{name} is replaced"):
                self.drop_table(database, temporary_name)

    def _with_own_directory(self, create: CreateTable, name: tuple[str, str]) -> CreateTable:
        return self._definitions.with_own_directory(
            create, name, lambda other: other[1] in self._databases.get(other[0], ())
        )

    def _rename_in_place(self, moves: Sequence[tuple[OwnedTable, tuple[str, str]]]) -> None:
        """Renames all the tables at once, in memory and on disk; the data stay where they are."""
        renamed: list[tuple[OwnedTable, TableDefinition]] = []
        former = [(table.definition.database, table.definition.name) for table, _ in moves]
        texts: dict[Path, str | None] = {self._places.get_definition_file(*name): None for name in former}
        is_replacing = any(table.definition.create.is_scratch for table, _ in moves)
        for table, (database, name) in moves:
            create = table.renamed(TableRef(database, name))
            create = replace(create, is_scratch=is_replacing and not create.is_scratch)
            create = self._places.with_data_at(table.definition.data_path, create)
            renamed.append((table, replace(table.definition, database=database, name=name, create=create)))
            texts.update(self._definitions.make_texts(renamed[-1][1]))
        with self._journal.changing(texts):
            if self.listener is not None:
                self.listener.on_tables_renamed(renamed)
            for table, definition in renamed:
                table.take_name(definition)
                self._definitions.rename(definition)
                self._databases[definition.database][definition.name] = table
            for database, name in set(former) - {(each.database, each.name) for _, each in renamed}:
                del self._databases[database][name]

    def alter_table(self, database: str, name: str, change: Callable[[TableDefinition], CreateTable]) -> None:
        """Gives the table the definition that ``change`` makes:

        on disk, in memory and in other processes. If the new definition is invalid or the table cannot adopt it, an
        error is raised and nothing changes.
        """
        with self._statement():
            table = self.table(database, name)
            self._change_definition(table, self.define(database, change(table.definition)))

    def change_definition(self, table: OwnedTable, change: Callable[[TableDefinition], CreateTable | None]) -> bool:
        """Changes a table's definition unless another DDL statement runs; then returns False.

        It does not wait, because a statement that drops the table may be waiting for the caller. Also for a table that
        is being started.
        """
        if not self._ddl.acquire(timeout=_DDL_WAIT_SECONDS):
            return False
        try:
            with self._statement():
                create = change(table.definition)
                if create is not None:
                    self._change_definition(table, self.define(table.definition.database, create))
        finally:
            self._ddl.release()
        return True

    def _change_definition(self, table: OwnedTable, new: TableDefinition) -> None:
        is_kept = self._places.get_definition_file(new.database, new.name).exists()  # otherwise CREATE writes it
        with table.altering(new):
            unfinished = self._journal.change(self._definitions.make_texts(new) if is_kept else {})
            if self.listener is not None:
                self.listener.on_table_altered(table, new)
        if unfinished is not None:
            raise unfinished
