"""The files that hold the definitions of tables: their paths, their texts, their atomic changes.

Layout under the server's ``path``::

    metadata/<database>.sql           CREATE DATABASE
    metadata/<database>/<table>.sql   ATTACH TABLE, as SHOW CREATE TABLE would print it
    metadata/<database>/<table>.sql.detached   empty: the table is detached permanently, and a start skips it
    data/<database>/<table>/          the parts

and under its temporary directory, which is emptied at a start::

    memory/<database>/<table>/        the parts of tables whose rows end with the server
    temporary_tables/<table>.sql      the definitions of sessions' temporary tables

Names are percent-encoded (``parts.common.safe_names``).

``engine.server.durable_texts`` changes the files. The journal ``metadata/rename_in_progress`` makes a change of several
files atomic.

JSON comments below a definition hold two more facts. One is the history of ALTERs of columns
(``parts.table.schema_history``). The other is the data directory, if it is not the usual one: RENAME, EXCHANGE and
REPLACE TABLE change definitions and leave the data in place. ``is_scratch`` there marks a table to be dropped: it was
replaced, is not finished, or its DROP has begun. The next start drops it.
"""

from __future__ import annotations

import errno
import json
import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from urllib.parse import unquote

from engine.catalog.database_names import TEMPORARY_DATABASE
from engine.server.durable_texts import TextJournal
from parts.common.errors import PandoError, UserError
from parts.common.safe_names import encode_file_name, encode_file_name_keeping_dots
from parts.format.hashed_file import make_directories
from parts.table.schema_history import SchemaHistory
from sql.definitions.definition_text import render_create
from sql.definitions.engines.registry import find_engine
from sql.grammar.statement_parser import parse_statements
from sql.grammar.statements.statement import CreateTable

logger = logging.getLogger(__name__)

_JOURNAL = "rename_in_progress"
_HISTORY = "-- schema_history "
_PLACE = "-- place "


@dataclass(frozen=True)
class DetachedTable:
    """A table on disk that is detached. ``definition`` is the path of its definition file."""

    database: str
    name: str
    definition: Path
    is_permanently: bool


class DefinitionDirectory:
    """The paths of the definitions and data of databases and tables."""

    def __init__(self, path: Path, temporary_path: Path) -> None:
        self.metadata = path / "metadata"
        self._data = path / "data"
        self._memory = temporary_path / "memory"
        self._temporary = temporary_path / "temporary_tables"
        self.journal = TextJournal(self.metadata / _JOURNAL)

    def prepare(self) -> None:
        """Prepares the directories at the start of a server:

        removes leftovers, undoes unfinished changes. Tables that an unfinished change was about to remove stay, so a
        journal that a failing disk brings back costs no rows.
        """
        make_directories(self.metadata)
        if not self.metadata.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Something else is where this folder should be", str(self.metadata))
        for directory in (self._memory, self._temporary):
            shutil.rmtree(directory, ignore_errors=True)
        make_directories(self._temporary)
        for leftover in _files(self.metadata, "**/*.tmp"):
            with suppress(OSError):
                leftover.unlink()
        try:
            for file in self.journal.finish(_without_drop_mark):
                logger.warning("%s: a change of this table that was not finished is undone", file)
        except (OSError, PandoError) as error:
            logger.error("%s: what it says cannot be carried out: %s", self.journal.file, error)

    def remove_definitions(self, database: str) -> None:
        """Removes the definitions of a database's detached tables, and their directory."""
        directory = self.get_definition_directory(database)
        for leftover in directory.glob("*"):
            leftover.unlink()
        directory.rmdir()

    def list_databases(self) -> list[str]:
        """Returns the names of the databases that have a definition file."""
        return [unquote(file.stem) for file in _files(self.metadata, "*.sql")]

    def list_tables(self, database: str) -> list[str]:
        """Returns the names of the database's tables that have a definition file."""
        return [self.get_table_name(file) for file in sorted(self.get_definition_directory(database).glob("*.sql"))]

    def list_tables_in_journal(self, database: str) -> list[str]:
        """Returns the tables whose definitions an unfinished change creates, changes or removes."""
        directory = self.get_definition_directory(database)
        return [
            self.get_table_name(file)
            for file in self.journal.read_named_files()
            if file.parent == directory and file.suffix == ".sql"
        ]

    def get_table_name(self, definition: Path) -> str:
        """Returns the name of the table that a definition file belongs to."""
        return unquote(definition.stem)

    def list_attached_tables(self, database: str) -> list[str]:
        """Returns the tables that a start loads."""
        return [name for name in self.list_tables(database) if not self.is_permanently_detached(database, name)]

    def get_database_file(self, name: str) -> Path:
        """Returns the path of a database's definition file."""
        return _file(self.metadata, name)

    def get_definition_directory(self, database: str) -> Path:
        """Returns the directory of a database's table definitions."""
        return self._temporary if database == TEMPORARY_DATABASE else _directory(self.metadata, database)

    def get_definition_file(self, database: str, name: str) -> Path:
        """Returns the path of a table's definition file."""
        return _file(self.get_definition_directory(database), name)

    def get_detached_mark(self, database: str, name: str) -> Path:
        """Returns the path of the file that marks a table as permanently detached."""
        definition = self.get_definition_file(database, name)
        return definition.with_name(f"{definition.name}.detached")

    def is_permanently_detached(self, database: str, name: str) -> bool:
        """Tells whether the mark of a permanent DETACH exists."""
        return self.get_detached_mark(database, name).exists()

    def describe_detached(self, database: str, name: str) -> DetachedTable:
        """Describes a table that is detached."""
        is_permanently = self.is_permanently_detached(database, name)
        return DetachedTable(database, name, self.get_definition_file(database, name), is_permanently)

    def require_free(self, database: str, name: str) -> None:
        """Raises ``UserError`` 57 (TABLE_ALREADY_EXISTS) if a detached table has the name."""
        if self.get_definition_file(database, name).exists():
            how = "detached permanently" if self.is_permanently_detached(database, name) else "detached"
            raise UserError(
                "TABLE_ALREADY_EXISTS", f"Table {database}.{name} already exists ({how}); ATTACH TABLE brings it back"
            )

    def get_data_path(self, database: str, name: str, create: CreateTable) -> Path:
        """Returns the directory of a table's parts."""
        root = self._memory if database == TEMPORARY_DATABASE or not find_engine(create).is_durable else self._data
        if create.directory:
            return root / create.directory
        return _directory(_directory(root, database), name)

    def with_data_at(self, data_path: Path, create: CreateTable) -> CreateTable:
        """Returns the definition of a table whose data already lie at ``data_path``."""
        assert create.table.database is not None
        usual = replace(create, directory="")
        if self.get_data_path(create.table.database, create.table.table, usual) == data_path:
            return usual
        return replace(create, directory="/".join(data_path.parts[-2:]))

    def with_free_data_path(self, is_taken: Callable[[Path], bool], create: CreateTable) -> CreateTable:
        """Returns the definition of a new table with a data directory that no other table uses.

        A number after a plus sign keeps the directory apart; encoded names contain no plus sign.
        """
        database, name = create.table.database, create.table.table
        assert database is not None
        usual = self.get_data_path(database, name, replace(create, directory=""))
        paths = (usual.with_name(f"{usual.name}+{number}") for number in count(1))
        free = next(p for p in paths if not p.exists() and not is_taken(p)) if is_taken(usual) else usual
        return self.with_data_at(free, create)


def _file(parent: Path, name: str) -> Path:
    """Returns the path of the definition ``name``, under the encoding of older versions if it exists so."""
    former = parent / f"{encode_file_name_keeping_dots(name)}.sql"
    return former if "." in name and former.is_file() else parent / f"{encode_file_name(name)}.sql"


def _directory(parent: Path, name: str) -> Path:
    """Returns the directory ``name``, under the encoding of older versions if it exists so."""
    former = parent / encode_file_name_keeping_dots(name)
    return former if "." in name and name.strip(".") and former.is_dir() else parent / encode_file_name(name)


def _files(directory: Path, pattern: str) -> list[Path]:
    return sorted(file for file in directory.glob(pattern) if file.is_file())


def has_data(path: Path) -> bool:
    """Tells whether the directory holds more than a CREATE leaves that failed or was cut short."""
    if not path.exists():
        return False
    empty = {"replica_identity", *(["detached"] if not any(path.glob("detached/*")) else [])}
    return any(entry.name not in empty and not entry.name.startswith("tmp_") for entry in path.iterdir())


def require_no_data(path: Path, full_name: str) -> None:
    """Raises ``UserError`` 57 (TABLE_ALREADY_EXISTS) for a directory with files of no known table."""
    if has_data(path):
        raise UserError(
            "TABLE_ALREADY_EXISTS",
            f"Directory for table data {path.name} of {full_name} already holds files; "
            "move them away or ATTACH the table",
        )


def format_definition(create: CreateTable) -> str:
    """Returns the text of a table's definition file, for :func:`parse_definition`."""
    lines = [render_create(replace(create, attach=True, is_temporary=False))]
    if create.history.version:
        lines.append(_HISTORY + json.dumps(create.history.to_json()))
    if create.directory or create.is_scratch:
        lines.append(_PLACE + json.dumps({"directory": create.directory, "is_scratch": create.is_scratch}))
    return "\n".join(lines) + "\n"


def parse_definition(text: str) -> CreateTable:
    """Parses the text of a definition file.

    Raises ``UserError`` 62 (SYNTAX_ERROR) and others for a damaged text.
    """
    text, place = _split_last_comment(text, _PLACE)
    text, history = _split_last_comment(text, _HISTORY)
    parsed = parse_statements(text)
    create = parsed[0].statement if len(parsed) == 1 else None
    if not isinstance(create, CreateTable):
        found = f"It begins with {text[:40]!r}" if text.strip("\0 \n") else "It is empty"
        raise UserError("SYNTAX_ERROR", f"{found} where ATTACH TABLE is expected: put a good copy in its place")
    try:
        if place:
            create = replace(create, **json.loads(place))
        return replace(create, history=SchemaHistory.from_json(json.loads(history))) if history else create
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("SYNTAX_ERROR", f"{(place or history).strip()!r} cannot be read ({error})") from error


def _without_drop_mark(text: str) -> str:
    """Returns the definition's text without the mark that the table is to be dropped."""
    create = parse_definition(text)
    return format_definition(replace(create, is_scratch=False)) if create.is_scratch else text


def _split_last_comment(text: str, begin: str) -> tuple[str, str]:
    """Splits off the last line if it begins with ``begin``: returns the text before and its content."""
    before, _, last = text.rstrip("\n").rpartition("\n")
    return (before, last.removeprefix(begin)) if last.startswith(begin) else (text, "")
