"""Definitions of tables on disk: where they lie, written whole, moved whole.

Layout under the server's ``path``::

    metadata/<database>.sql           CREATE DATABASE
    metadata/<database>/<table>.sql   ATTACH TABLE, as SHOW CREATE TABLE would print it
    metadata/<database>/<table>.sql.detached   empty: the table was detached permanently, and a start passes it over
    data/<database>/<table>/          the parts

and under its temporary directory, emptied at a start::

    memory/<database>/<table>/        the parts of tables whose rows are gone with the server
    temporary_tables/<table>.sql      the definitions of sessions' tables

Names are percent-encoded (``parts.common.safe_names``).

They change as ``engine.server.durable_texts`` says, several at once by way of the journal
``metadata/rename_in_progress``.

What ALTER did to a table's columns (``parts.table.schema_history``) stands below its definition, as JSON in a comment,
and so does where its data are, if not in the usual place: RENAME, EXCHANGE and REPLACE TABLE change definitions, and
leave the data in place. ``is_scratch`` there says that the table is to be dropped: it was replaced, or is not finished,
or its DROP has begun. A start drops it.
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
    """``definition`` is its file."""

    database: str
    name: str
    definition: Path
    is_permanently: bool


class DefinitionDirectory:
    """Where databases and tables are."""

    def __init__(self, path: Path, temporary_path: Path) -> None:
        self.metadata = path / "metadata"
        self._data = path / "data"
        self._memory = temporary_path / "memory"
        self._temporary = temporary_path / "temporary_tables"
        self.journal = TextJournal(self.metadata / _JOURNAL)

    def begin(self) -> None:
        """At the start of a server: removes what it must not find, and undoes a change that was not finished. Tables
        that such a change was about to remove stay: a journal that a failing disk brings back must cost no rows."""
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
            for file in self.journal.finish(_kept_for_good):
                logger.warning("%s: a change of this table that was not finished is undone", file)
        except (OSError, PandoError) as error:
            logger.error("%s: what it says cannot be carried out: %s", self.journal.file, error)

    def remove_definitions(self, database: str) -> None:
        """Those of its detached tables, and their directory."""
        directory = self.definitions(database)
        for leftover in directory.glob("*"):
            leftover.unlink()
        directory.rmdir()

    def databases(self) -> list[str]:
        return [unquote(file.stem) for file in _files(self.metadata, "*.sql")]

    def tables(self, database: str) -> list[str]:
        """Those that have definitions."""
        return [self.name_of(file) for file in sorted(self.definitions(database).glob("*.sql"))]

    def named_in_journal(self, database: str) -> list[str]:
        """Those whose definitions a change that is not undone yet has changed, or removed, or made."""
        directory = self.definitions(database)
        return [
            self.name_of(file) for file in self.journal.named() if file.parent == directory and file.suffix == ".sql"
        ]

    def name_of(self, definition: Path) -> str:
        return unquote(definition.stem)

    def attached_tables(self, database: str) -> list[str]:
        """Those that a start loads."""
        return [name for name in self.tables(database) if not self.is_permanently_detached(database, name)]

    def database(self, name: str) -> Path:
        return _file(self.metadata, name)

    def definitions(self, database: str) -> Path:
        return self._temporary if database == TEMPORARY_DATABASE else _directory(self.metadata, database)

    def definition(self, database: str, name: str) -> Path:
        return _file(self.definitions(database), name)

    def detached_mark(self, database: str, name: str) -> Path:
        definition = self.definition(database, name)
        return definition.with_name(f"{definition.name}.detached")

    def is_permanently_detached(self, database: str, name: str) -> bool:
        return self.detached_mark(database, name).exists()

    def detached(self, database: str, name: str) -> DetachedTable:
        is_permanently = self.is_permanently_detached(database, name)
        return DetachedTable(database, name, self.definition(database, name), is_permanently)

    def require_free(self, database: str, name: str) -> None:
        """Raises ``UserError`` 57 (TABLE_ALREADY_EXISTS) when a detached table has the name."""
        if self.definition(database, name).exists():
            how = "detached permanently" if self.is_permanently_detached(database, name) else "detached"
            raise UserError(
                "TABLE_ALREADY_EXISTS", f"Table {database}.{name} already exists ({how}); ATTACH TABLE brings it back"
            )

    def data(self, database: str, name: str, create: CreateTable) -> Path:
        root = self._memory if database == TEMPORARY_DATABASE or not find_engine(create).is_durable else self._data
        if create.directory:
            return root / create.directory
        return _directory(_directory(root, database), name)

    def with_data_at(self, data_path: Path, create: CreateTable) -> CreateTable:
        """The definition, whose data lie there already."""
        assert create.table.database is not None
        usual = replace(create, directory="")
        if self.data(create.table.database, create.table.table, usual) == data_path:
            return usual
        return replace(create, directory="/".join(data_path.parts[-2:]))

    def with_free_data_path(self, is_taken: Callable[[Path], bool], create: CreateTable) -> CreateTable:
        """The definition of a new table, whose data lie where none of another does. No name of a table has a plus."""
        database, name = create.table.database, create.table.table
        assert database is not None
        usual = self.data(database, name, replace(create, directory=""))
        paths = (usual.with_name(f"{usual.name}+{number}") for number in count(1))
        free = next(p for p in paths if not p.exists() and not is_taken(p)) if is_taken(usual) else usual
        return self.with_data_at(free, create)


def _file(parent: Path, name: str) -> Path:
    former = parent / f"{encode_file_name_keeping_dots(name)}.sql"
    return former if "." in name and former.is_file() else parent / f"{encode_file_name(name)}.sql"


def _directory(parent: Path, name: str) -> Path:
    former = parent / encode_file_name_keeping_dots(name)
    return former if "." in name and name.strip(".") and former.is_dir() else parent / encode_file_name(name)


def _files(directory: Path, pattern: str) -> list[Path]:
    return sorted(file for file in directory.glob(pattern) if file.is_file())


def has_data(path: Path) -> bool:
    """False for what a CREATE leaves that failed or was cut short."""
    if not path.exists():
        return False
    empty = {"replica_identity", *(["detached"] if not any(path.glob("detached/*")) else [])}
    return any(entry.name not in empty and not entry.name.startswith("tmp_") for entry in path.iterdir())


def require_no_data(path: Path, full_name: str) -> None:
    """Raises ``UserError`` 57 (TABLE_ALREADY_EXISTS) for a directory with files that no table knows."""
    if has_data(path):
        raise UserError(
            "TABLE_ALREADY_EXISTS",
            f"Directory for table data {path.name} of {full_name} already holds files; "
            "move them away or ATTACH the table",
        )


def format_definition(create: CreateTable) -> str:
    """What is kept of a table, for :func:`parse_definition`."""
    lines = [render_create(replace(create, attach=True, is_temporary=False))]
    if create.history.version:
        lines.append(_HISTORY + json.dumps(create.history.to_json()))
    if create.directory or create.is_scratch:
        lines.append(_PLACE + json.dumps({"directory": create.directory, "is_scratch": create.is_scratch}))
    return "\n".join(lines) + "\n"


def parse_definition(text: str) -> CreateTable:
    """Raises ``UserError`` 62 (SYNTAX_ERROR) and others for a text that is damaged."""
    text, place = _last_comment(text, _PLACE)
    text, history = _last_comment(text, _HISTORY)
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


def _kept_for_good(text: str) -> str:
    """The definition of a table that nobody is to drop."""
    create = parse_definition(text)
    return format_definition(replace(create, is_scratch=False)) if create.is_scratch else text


def _last_comment(text: str, begin: str) -> tuple[str, str]:
    """The text before it, and what it says."""
    before, _, last = text.rstrip("\n").rpartition("\n")
    return (before, last.removeprefix(begin)) if last.startswith(begin) else (text, "")
