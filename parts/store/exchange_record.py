"""``exchange_<id>.json``: the record that makes an exchange of parts atomic on disk.

An exchange gives some directories their names as parts and marks other parts as dropped. The record names them all. It
is durable before the first is touched, and removed when all are done. A start that finds one carries it out, so that
readers see either the old parts or the new ones.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from parts.common.part_name import PartName
from parts.format.durable_files import remove_durably, replace_file_durably

_PREFIX = "exchange_"
_DRAFT = "tmp_exchange_"


@dataclass(frozen=True)
class ExchangeRecord:
    """One exchange.

    ``arrivals``: (directory below the table's, name of the part). ``departures``: the dropped parts. ``notes``: small
    files below the table's directory that are written with the exchange, and their texts (``None``: the file is
    deleted).
    """

    arrivals: tuple[tuple[str, PartName], ...]
    departures: tuple[PartName, ...]
    notes: tuple[tuple[str, str | None], ...] = ()

    @staticmethod
    def path(table_path: Path, identity: str) -> Path:
        """Returns the path of a record."""
        return table_path / f"{_PREFIX}{identity}.json"

    def write(self, path: Path) -> None:
        """Writes the record durably: then the exchange is decided. After an error it may exist all the same."""
        document = {
            "version": 1,
            "arrivals": [[directory, str(name)] for directory, name in self.arrivals],
            "departures": [str(name) for name in self.departures],
            "notes": [list(note) for note in self.notes],
        }
        replace_file_durably(path, json.dumps(document).encode(), path.with_name(f"tmp_{path.name}"))

    @classmethod
    def read(cls, path: Path) -> ExchangeRecord:
        """Parses a record."""
        document = json.loads(path.read_bytes())
        return cls(
            tuple((directory, PartName.parse(name)) for directory, name in document["arrivals"]),
            tuple(map(PartName.parse, document["departures"])),
            tuple((name, text) for name, text in document["notes"]),
        )

    def read_extra_files(self, table_path: Path) -> tuple[tuple[str, str | None], ...]:
        """Returns the current texts of the notes' files, ``None`` for a missing file."""
        paths = [(name, table_path / name) for name, _ in self.notes]
        return tuple((name, path.read_text("utf-8") if path.exists() else None) for name, path in paths)

    def with_extra_files(self, notes: tuple[tuple[str, str | None], ...]) -> ExchangeRecord:
        """Returns the record with other notes."""
        return replace(self, notes=notes)

    def write_extra_files(self, table_path: Path) -> None:
        """Writes or deletes the notes' files."""
        for name, text in self.notes:
            path = table_path / name
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file_durably(path, text.encode())
            elif path.exists():
                remove_durably(path)

    def move_added_parts(self, table_path: Path) -> None:
        """Renames the directories that have not been renamed yet."""
        for directory, name in self.arrivals:
            source, target = table_path / directory, table_path / str(name)
            if source.exists() and not target.exists():
                os.rename(source, target)


def list_pending_records(table_path: Path) -> list[Path]:
    """Lists the records of exchanges that were decided and perhaps not carried out."""
    return sorted(table_path.glob(f"{_PREFIX}*.json"))


def remove_record(path: Path, *, should_sync: bool) -> None:
    """Deletes the record of an exchange."""
    if should_sync:
        remove_durably(path)
    else:
        path.unlink(missing_ok=True)


def remove_drafts(table_path: Path) -> None:
    """Deletes unfinished records."""
    for draft in table_path.glob(f"{_DRAFT}*"):
        draft.unlink(missing_ok=True)
