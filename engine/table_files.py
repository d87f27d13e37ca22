"""Definitions of tables on disk: written whole, moved whole.

Every function here is durable when it returns. A rename touches two definitions and a directory, which no file system
does at once: it is first written down in ``metadata/rename_in_progress``, and a start that finds this file finishes
what it says.

What ALTER did to a table's columns (``parts.schema_history``) stands below its definition, as JSON in a comment.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from parts.disk import make_directories, sync, sync_directory
from parts.errors import UserError
from parts.schema_history import SchemaHistory
from sql.definitions.render import render_create
from sql.grammar.parser import parse_statements
from sql.grammar.statements import CreateTable

_JOURNAL = "rename_in_progress"
_HISTORY = "-- schema_history "


def definition_text(create: CreateTable) -> str:
    """What is kept of a table, for :func:`parse_definition`."""
    text = render_create(replace(create, attach=True)) + "\n"
    return f"{text}{_HISTORY}{json.dumps(create.history.to_json())}\n" if create.history.version else text


def parse_definition(text: str) -> CreateTable:
    """Raises ``UserError`` 62 and others for a text that is damaged."""
    statement, _, history = text.partition("\n" + _HISTORY)
    create = parse_statements(statement)[0].statement
    assert isinstance(create, CreateTable)
    if not history:
        return create
    try:
        return replace(create, history=SchemaHistory.from_json(json.loads(history)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("SYNTAX_ERROR", f"The schema history {history.strip()!r} cannot be read ({error})") from error


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


def finish_move(metadata: Path) -> None:
    """At the start of a server: carries out the rename that was cut short, if there is one."""
    try:
        content = json.loads((metadata / _JOURNAL).read_text())
    except FileNotFoundError:
        return
    paths = [metadata.parent / path for path in content["paths"]]
    TableMove(paths[0], paths[1], paths[2], paths[3], content["text"])._finish(metadata)
