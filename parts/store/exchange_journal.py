"""An exchange of parts on disk: a record, moves, marks of what is dropped, notes; whole, or taken back.

Invariant: after an error nothing has changed. Where taking back fails too, nothing else changes on the disk until it
has been done (:meth:`ExchangeOnDisk.settle`), or a start finds the record and carries it out.

Used under the store's lock.
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
    """In the directory of one table."""

    def __init__(self, path: Path, markers: DropMarkers, should_sync: bool) -> None:
        self._path = path
        self._markers = markers
        self._should_sync = should_sync
        self._unsettled: Callable[[], None] | None = None

    def carry_out(self, record: ExchangeRecord, opened: list[Part], identity: str) -> None:
        """``opened``: the parts that arrive, where they are now. ``identity`` names the record's file."""
        file = ExchangeRecord.path(self._path, identity)
        homes, notes = [part.path for part in opened], record.read_extra_files(self._path)
        try:
            record.write(file)
            record.write_extra_files(self._path)
            for part in opened:
                part.move(self._path / str(part.name))
            if self._should_sync:
                sync_directory(self._path)
            self._markers.add(record.departures)
        except BaseException:
            self._unsettled = lambda: self._undo(record.with_extra_files(notes), opened, homes, file)
            with contextlib.suppress(OSError):
                self.settle()
            raise
        self._unsettled = lambda: remove_record(file, should_sync=False)
        with contextlib.suppress(OSError):
            self.settle()

    def _undo(self, former: ExchangeRecord, opened: list[Part], homes: list[Path], file: Path) -> None:
        """``former`` has the notes as they were. The record goes last: until then a start carries it out."""
        for part, home in zip(opened, homes, strict=True):
            if part.path != home:
                part.move(home)
        self._markers.remove(former.departures)
        former.write_extra_files(self._path)
        for directory in {self._path, *(home.parent for home in homes)}:
            sync_directory(directory)
        remove_record(file, should_sync=True)

    def settle(self) -> None:
        """Raises ``OSError`` while what is left to do fails."""
        if self._unsettled is not None:
            self._unsettled()
            self._unsettled = None

    def finish(self) -> None:
        """At a start: what a crash cut short after it had been decided."""
        remove_drafts(self._path)
        for file in list_pending_records(self._path):
            record = ExchangeRecord.read(file)
            record.move_added_parts(self._path)
            self._markers.load()
            self._markers.add(record.departures)
            record.write_extra_files(self._path)
            sync_directory(self._path)
            remove_record(file, should_sync=True)
