"""Definitions of tables on disk: where they lie, written whole, moved whole.

Layout under the server's ``path``::

    metadata/<database>.sql           CREATE DATABASE
    metadata/<database>/<table>.sql   ATTACH TABLE, as SHOW CREATE TABLE would print it
    data/<database>/<table>/          the parts

and under its temporary directory, emptied at a start::

    memory/<database>/<table>/        the parts of tables whose rows are gone with the server
    temporary_tables/<table>.sql      the definitions of sessions' tables

Names are percent-encoded (``parts.safe_names``).

Every function here is durable when it returns. A rename touches two definitions and a directory, which no file system
does at once: it is first written down in ``metadata/rename_in_progress``, and a start that finds this file finishes
what it says.

What ALTER did to a table's columns (``parts.schema_history``) stands below its definition, as JSON in a comment, and so
does what EXCHANGE and REPLACE TABLE made of its directory: they change definitions, and leave the data in place.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from urllib.parse import unquote

from engine.system_names import TEMPORARY
from parts.disk import make_directories, sync, sync_directory
from parts.errors import UserError
from parts.safe_names import file_stem, former_file_stem
from parts.schema_history import SchemaHistory
from sql.definitions.render import render_create
from sql.definitions.small_engines import is_passing
from sql.grammar.parser import parse_statements
from sql.grammar.statements import CreateTable

_JOURNAL = "rename_in_progress"
_HISTORY = "-- schema_history "
_PLACE = "-- place "


class TablePlaces:
    """Where databases and tables are."""

    def __init__(self, path: Path, temporary_path: Path) -> None:
        self.metadata = path / "metadata"
        self._data = path / "data"
        self._memory = temporary_path / "memory"
        self._temporary = temporary_path / "temporary_tables"

    def begin(self) -> None:
        """At the start of a server: removes what it must not find, and finishes what was begun."""
        make_directories(self.metadata)
        for directory in (self._memory, self._temporary):
            shutil.rmtree(directory, ignore_errors=True)
        make_directories(self._temporary)
        _finish_change(self.metadata)
        for leftover in _files(self.metadata, "**/*.tmp"):
            leftover.unlink()

    def databases(self) -> list[str]:
        return [unquote(file.stem) for file in _files(self.metadata, "*.sql")]

    def tables(self, database: str) -> list[str]:
        """Those that have definitions."""
        return [unquote(file.stem) for file in _files(self.definitions(database), "*.sql")]

    def database(self, name: str) -> Path:
        return _file(self.metadata, name)

    def definitions(self, database: str) -> Path:
        return self._temporary if database == TEMPORARY else _directory(self.metadata, database)

    def definition(self, database: str, name: str) -> Path:
        return _file(self.definitions(database), name)

    def data(self, database: str, name: str, create: CreateTable) -> Path:
        root = self._memory if database == TEMPORARY or is_passing(create) else self._data
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

    def apart_from(self, taken: Collection[Path], create: CreateTable) -> CreateTable:
        """The definition of a new table, whose data lie where none of another does. No name of a table has a plus."""
        database, name = create.table.database, create.table.table
        assert database is not None
        usual = self.data(database, name, replace(create, directory=""))
        paths = (usual.with_name(f"{usual.name}+{number}") for number in count(1))
        return self.with_data_at(usual if usual not in taken else next(p for p in paths if not p.exists()), create)


def _file(parent: Path, name: str) -> Path:
    former = parent / f"{former_file_stem(name)}.sql"
    return former if "." in name and former.is_file() else parent / f"{file_stem(name)}.sql"


def _directory(parent: Path, name: str) -> Path:
    former = parent / former_file_stem(name)
    return former if "." in name and name.strip(".") and former.is_dir() else parent / file_stem(name)


def _files(directory: Path, pattern: str) -> list[Path]:
    return sorted(file for file in directory.glob(pattern) if file.is_file())


def holds_data(path: Path) -> bool:
    """False for what a CREATE leaves that failed or was cut short."""
    if not path.exists():
        return False
    empty = {"replica_identity", *(["detached"] if not any(path.glob("detached/*")) else [])}
    return any(entry.name not in empty and not entry.name.startswith("tmp_") for entry in path.iterdir())


def definition_text(create: CreateTable) -> str:
    """What is kept of a table, for :func:`parse_definition`."""
    lines = [render_create(replace(create, attach=True, is_temporary=False))]
    if create.history.version:
        lines.append(_HISTORY + json.dumps(create.history.to_json()))
    if create.directory or create.is_scratch:
        lines.append(_PLACE + json.dumps({"directory": create.directory, "is_scratch": create.is_scratch}))
    return "\n".join(lines) + "\n"


def parse_definition(text: str) -> CreateTable:
    """Raises ``UserError`` 62 and others for a text that is damaged."""
    text, place = _last_comment(text, _PLACE)
    text, history = _last_comment(text, _HISTORY)
    create = parse_statements(text)[0].statement
    assert isinstance(create, CreateTable)
    try:
        if place:
            create = replace(create, **json.loads(place))
        return replace(create, history=SchemaHistory.from_json(json.loads(history))) if history else create
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("SYNTAX_ERROR", f"{(place or history).strip()!r} cannot be read ({error})") from error


def _last_comment(text: str, begin: str) -> tuple[str, str]:
    """The text before it, and what it says."""
    before, _, last = text.rstrip("\n").rpartition("\n")
    return (before, last.removeprefix(begin)) if last.startswith(begin) else (text, "")


def write_durably(file: Path, text: str) -> None:
    """After a crash the file has the old text or the new one."""
    temporary = file.with_suffix(".sql.tmp")
    with open(temporary, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        sync(stream.fileno())
    temporary.rename(file)
    sync_directory(file.parent)


def remove_durably(file: Path) -> None:
    """A file that is gone already is fine."""
    file.unlink(missing_ok=True)
    sync_directory(file.parent)


@dataclass(frozen=True)
class DefinitionsChange:
    """Definitions that change together; ``None`` goes."""

    texts: Mapping[Path, str | None]

    def carry_out(self, metadata: Path) -> None:
        content = {os.path.relpath(path, metadata.parent): text for path, text in self.texts.items()}
        write_durably(metadata / _JOURNAL, json.dumps({"definitions": content}))
        self._finish(metadata)

    def _finish(self, metadata: Path) -> None:
        """Repeatable from any point."""
        for path, text in self.texts.items():
            if text is None:
                remove_durably(path)
            else:
                write_durably(path, text)
        remove_durably(metadata / _JOURNAL)


@dataclass(frozen=True)
class TableMove:
    """A table gets another name: its definition and its data move."""

    old_definition: Path
    new_definition: Path
    old_data: Path
    new_data: Path
    text: str
    """The new definition."""

    def carry_out(self, metadata: Path) -> None:
        paths = (self.old_definition, self.new_definition, self.old_data, self.new_data)
        content = {"paths": [os.path.relpath(path, metadata.parent) for path in paths], "text": self.text}
        write_durably(metadata / _JOURNAL, json.dumps(content))
        self._finish(metadata)

    def _finish(self, metadata: Path) -> None:
        """Repeatable from any point: the old definition goes last."""
        if self.old_definition.exists():
            make_directories(self.new_data.parent)
            if self.old_data.exists():
                self.old_data.rename(self.new_data)
            sync_directory(self.new_data.parent)
            sync_directory(self.old_data.parent)
            write_durably(self.new_definition, self.text)
            remove_durably(self.old_definition)
        remove_durably(metadata / _JOURNAL)


def _finish_change(metadata: Path) -> None:
    """Carries out what was cut short, if there is something."""
    try:
        content = json.loads((metadata / _JOURNAL).read_text())
    except FileNotFoundError:
        return
    if "definitions" in content:
        texts = {metadata.parent / path: text for path, text in content["definitions"].items()}
        DefinitionsChange(texts)._finish(metadata)
        return
    paths = [metadata.parent / path for path in content["paths"]]
    TableMove(paths[0], paths[1], paths[2], paths[3], content["text"])._finish(metadata)
