"""``staged/``: whole, durable parts of undecided transactions, which no reader sees.

::

    <table>/staged/<transaction>/<place>/<files of a part>

``transaction`` and ``place`` are plain names. Nothing here is loaded with the table. Deciding the transaction makes the
parts active (:meth:`parts.store.part_store.PartStore.exchange`) or removes them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from parts.format.hashed_file import sync_directory

STAGED = "staged"


class StagedParts:
    """The staged parts of the table in ``table_path``. Thread-safe, except that a place is one thread's."""

    def __init__(self, table_path: Path, should_sync: bool) -> None:
        self._table_path = table_path
        self._path = table_path / STAGED
        self._should_sync = should_sync

    def path(self, transaction: str, place: str) -> Path:
        """Returns the directory of a staged part."""
        return self._path / transaction / place

    def move_in(self, transaction: str, directories: Sequence[tuple[Path, str]]) -> None:
        """Moves whole, fsynced parts to their places, durably. Replaces what was there."""
        home = self._path / transaction
        is_new = not home.exists()
        home.mkdir(parents=True, exist_ok=True)
        for directory, place in directories:
            shutil.rmtree(home / place, ignore_errors=True)
            os.rename(directory, home / place)
        if self._should_sync:
            for changed in sorted({home, *(directory.parent for directory, _ in directories)} - {self._table_path}):
                sync_directory(changed)
            if is_new:
                sync_directory(self._path)
                sync_directory(self._table_path)

    def list_transactions(self) -> list[str]:
        """Lists the transactions that have staged parts, sorted."""
        return sorted(entry.name for entry in self._path.iterdir()) if self._path.exists() else []

    def list_places(self, transaction: str) -> list[str]:
        """Lists the places of a transaction, sorted."""
        home = self._path / transaction
        return sorted(entry.name for entry in home.iterdir()) if home.exists() else []

    def remove(self, transaction: str, places: Sequence[str] | None = None) -> None:
        """Removes some places, or everything of the transaction, if it exists."""
        home = self._path / transaction
        for place in () if places is None else places:
            shutil.rmtree(home / place, ignore_errors=True)
        if places is None:
            shutil.rmtree(home, ignore_errors=True)
