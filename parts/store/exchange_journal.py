"""Journal of exchanges: added and dropped parts take effect together, or not at all.

Invariant: after an error nothing has changed. If undoing fails too, nothing else changes on the disk until it has been
done (:meth:`ExchangeJournal.finish_or_undo`), or a start finds the record and carries it out. Used under the store's
lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from parts.format.hashed_file import sync_directory
from parts.read.part_reader import Part
from parts.store.drop_markers import DropMarkers
from parts.store.exchange_record import ExchangeRecord, list_pending_records, remove_drafts, remove_record


class ExchangeJournal:
    """The journal in one table's directory."""

    def __init__(self, path: Path, markers: DropMarkers, should_sync: bool) -> None:
        self._path = path
        self._markers = markers
        self._should_sync = should_sync
        self._unsettled: Callable[[], None] | None = None

    def run_exchange(self, record: ExchangeRecord, opened: list[Part], identity: str) -> None:
        """Carries out an exchange: writes the record, moves the parts, adds the drop marks, writes the notes.

        ``opened``: the parts that arrive, at their current places. ``identity`` names the record's file.
        """
        file = ExchangeRecord.path(self._path, identity)
        homes, notes = [part.path for part in opened], record.read_extra_files(self._path)
        try:
            record.write(file)
            record.write_extra_files(self._path)
            for part in opened:
                part.rename_directory(self._path / str(part.name))
            if self._should_sync:
                sync_directory(self._path)
            self._markers.add(record.departures)
        except BaseException:
            self._unsettled = lambda: self._undo(record.with_extra_files(notes), opened, homes, file)
            with contextlib.suppress(OSError):
                self.finish_or_undo()
            raise
        self._unsettled = lambda: remove_record(file, should_sync=False)
        with contextlib.suppress(OSError):
            self.finish_or_undo()

    def _undo(self, former: ExchangeRecord, opened: list[Part], homes: list[Path], file: Path) -> None:
        """Undoes an exchange. ``former`` has the old notes.

        The record is removed last: until then a start carries it out.
        """
        for part, home in zip(opened, homes, strict=True):
            if part.path != home:
                part.rename_directory(home)
        self._markers.remove(former.departures)
        former.write_extra_files(self._path)
        for directory in {self._path, *(home.parent for home in homes)}:
            sync_directory(directory)
        remove_record(file, should_sync=True)

    def finish_or_undo(self) -> None:
        """Finishes what failed before. Raises ``OSError`` while it still fails."""
        if self._unsettled is not None:
            self._unsettled()
            self._unsettled = None

    def finish_pending(self) -> None:
        """Carries out, at a start, the exchanges that were decided before a crash."""
        remove_drafts(self._path)
        for file in list_pending_records(self._path):
            record = ExchangeRecord.read(file)
            record.move_added_parts(self._path)
            self._markers.load()
            self._markers.add(record.departures)
            record.write_extra_files(self._path)
            sync_directory(self._path)
            remove_record(file, should_sync=True)
