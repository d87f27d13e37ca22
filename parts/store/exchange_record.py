"""The record that makes an exchange of parts one step on disk: ``exchange_<id>.json`` in the table's directory.

An exchange gives some directories their names as parts and marks other parts as dropped. The record names them all,
and is durable before the first is touched; it goes when all are done. A start that finds one carries it out, so that
readers see the parts before or the parts after, and never some of each.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from parts.common.part_name import PartName
from parts.format.hashed_file import sync_descriptor, sync_directory

_PREFIX = "exchange_"
_DRAFT = "tmp_exchange_"


@dataclass(frozen=True)
class ExchangeRecord:
    """``arrivals``: (directory below the table's, name of the part). ``notes``: small files below the table's
    directory that are written with the exchange, and their texts (``None``: the file goes)."""

    arrivals: tuple[tuple[str, PartName], ...]
    departures: tuple[PartName, ...]
    notes: tuple[tuple[str, str | None], ...] = ()

    @staticmethod
    def path(table_path: Path, identity: str) -> Path:
        return table_path / f"{_PREFIX}{identity}.json"

    def write(self, path: Path) -> None:
        """Durable when this returns: the exchange is decided. After an error it may be there all the same."""
        document = {
            "version": 1,
            "arrivals": [[directory, str(name)] for directory, name in self.arrivals],
            "departures": [str(name) for name in self.departures],
            "notes": [list(note) for note in self.notes],
        }
        replace_file_durably(path, json.dumps(document), path.with_name(f"tmp_{path.name}"))

    @classmethod
    def read(cls, path: Path) -> ExchangeRecord:
        document = json.loads(path.read_bytes())
        return cls(
            tuple((directory, PartName.parse(name)) for directory, name in document["arrivals"]),
            tuple(map(PartName.parse, document["departures"])),
            tuple((name, text) for name, text in document["notes"]),
        )

    def read_extra_files(self, table_path: Path) -> tuple[tuple[str, str | None], ...]:
        """What stands where the notes go, ``None`` for nothing."""
        paths = [(name, table_path / name) for name, _ in self.notes]
        return tuple((name, path.read_text("utf-8") if path.exists() else None) for name, path in paths)

    def with_extra_files(self, notes: tuple[tuple[str, str | None], ...]) -> ExchangeRecord:
        return replace(self, notes=notes)

    def write_extra_files(self, table_path: Path) -> None:
        for name, text in self.notes:
            path = table_path / name
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file_durably(path, text, path.with_name(f"{path.name}.new"))
            elif path.exists():
                path.unlink()
                sync_directory(path.parent)

    def move_added_parts(self, table_path: Path) -> None:
        """Those that have not moved yet."""
        for directory, name in self.arrivals:
            source, target = table_path / directory, table_path / str(name)
            if source.exists() and not target.exists():
                os.rename(source, target)


def list_pending_records(table_path: Path) -> list[Path]:
    """Records of exchanges that were decided and perhaps not carried out."""
    return sorted(table_path.glob(f"{_PREFIX}*.json"))


def remove_record(path: Path, *, should_sync: bool) -> None:
    path.unlink(missing_ok=True)
    if should_sync:
        sync_directory(path.parent)


def replace_file_durably(path: Path, text: str, draft: Path) -> None:
    """The whole text or, after a crash, what was there before."""
    with open(draft, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        sync_descriptor(stream.fileno())
    os.replace(draft, path)
    sync_directory(path.parent)


def remove_drafts(table_path: Path) -> None:
    for draft in table_path.glob(f"{_DRAFT}*"):
        draft.unlink(missing_ok=True)
