"""The set of parts of one table on one disk, and the state of each.

States of a part::

    temporary ──add_preactive──► pre-active ──commit──► active ──(covered, dropped)──► outdated ──delete──► gone
    (tmp_…, not in the set)          └──rollback──► gone            └──────detach──────┴──► detached/

States of a part of a transaction::

    staged/… ──────────────────exchange──────────────────► active

Invariants (asserted at every change of the set)
- Active parts are pairwise disjoint.
- A part is in the set exactly once, and its directory has its name, so a restart finds the same parts.
- An outdated part stays on disk while any snapshot holds it, and ``old_parts_lifetime`` seconds after it became
  outdated.
- Every rename is preceded by an fsync of the directory's files and followed by an fsync of the parent directory.
- A detached part is deleted only when somebody names it.
- Dropped parts, and what they cover, stay dropped after a restart (``parts.store.drop_markers``).
- An exchange of parts is one step, for readers and after a restart (``parts.store.exchange_record``).

Pre-active parts are on disk under their final name but invisible to readers: after a crash they are indistinguishable
from active ones, and the owner of the table decides (ZooKeeper, or for plain tables: they count).

All methods may be called from any thread. Inserts write, sync and rename without the lock; rare operations keep it.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.format.hashed_file import link_files, sync_directory
from parts.read.part_reader import Part, open_part
from parts.store.arriving_parts import ArrivingParts
from parts.store.attaching_parts import AttachingParts
from parts.store.detached_parts import DetachedParts
from parts.store.exchange_record import ExchangeRecord
from parts.store.part_loading import assign_states, get_covering_order, open_parts
from parts.store.part_states import LoadReport, PartState, StoredPart
from parts.store.staged_parts import StagedParts
from parts.table.table_description import TableDescription

_ACTIVE = PartState.ACTIVE


class PartStore(ArrivingParts):
    """The parts of one table in directory ``path``."""

    def __init__(
        self,
        path: Path,
        description: TableDescription,
        clock: Callable[[], float],
        new_uuid: Callable[[], uuid.UUID],
        *,
        monotonic: Callable[[], float] | None = None,
        is_owner: bool = True,
    ) -> None:
        """Creates a store without parts (see :meth:`load`).

        ``clock`` returns seconds since 1970, which are only shown; ``monotonic`` measures ages (default: ``clock``).
        ``new_uuid`` makes the names of temporary directories. A store with ``is_owner`` false creates no directories,
        because the owning process may drop the table meanwhile.
        """
        super().__init__(path, description, clock, new_uuid, monotonic=monotonic)
        should_sync = description.settings.fsync_part_directory
        self.detached_parts = DetachedParts(self.path, should_sync, is_owner=is_owner)
        self.staged = StagedParts(self.path, should_sync)
        """Parts of undecided transactions, which no reader sees."""
        self.attaching = AttachingParts(self.path, should_sync)

    # Loading

    def load(self, misfit: Callable[[Part], str] = lambda part: "") -> LoadReport:
        """Finds the parts on disk.

        Broken ones go to ``detached/broken-on-start_…``, temporary directories are deleted, covered parts become
        outdated. Of intersecting parts (which no correct run leaves) the smaller is detached. ``misfit`` returns why a
        part does not belong to the table: it goes to ``detached/unexpected_…``.
        """
        report = LoadReport()
        with self.lock:
            self._on_disk.finish_pending()
            found: list[Part] = []
            for opened in open_parts(self.path, self.description.schema, report, is_taken=self._is_taken):
                if not isinstance(opened, Part):
                    self._detach_broken(*opened, "broken-on-start", report)
                elif problem := misfit(opened):
                    message = f"The part is not of this table: {problem}"
                    error = CorruptionError(message, part=str(opened.name), name="CORRUPTED_DATA")
                    self._detach_broken(opened.path, error, "unexpected", report)
                else:
                    found.append(opened)
            self._markers.load()
            for part, state in assign_states([p for p in found if not self._markers.is_dropped(p.name)], self._active):
                if state is None:
                    message = f"Part {part.name} intersects an active part"
                    error = CorruptionError(message, part=str(part.name), name="CORRUPTED_DATA")
                    self._detach_broken(part.path, error, "intersecting", report)
                else:
                    self._admit(StoredPart(part, state))
                    (report.parts if state is _ACTIVE else report.outdated).append(part)
            report.parts.sort(key=lambda p: p.name)
            for part in found:
                if self._markers.is_dropped(part.name):
                    self._admit(StoredPart(part, PartState.OUTDATED, is_dropped=True))
                    report.outdated.append(part)
            self._markers.remove_unneeded(self._entries)
        return report

    def _is_taken(self, directory: str) -> bool:
        name = PartName.try_parse(directory)
        return directory in self._temporary or name in self._entries or name in self._reserved

    def _detach_broken(self, directory: Path, error: CorruptionError, reason: str, report: LoadReport) -> None:
        with suppress(OSError):  # an unreadable directory counts as empty
            report.broken_bytes += sum(file.stat().st_size for file in directory.iterdir() if file.is_file())
        report.broken.append((self.move_to_detached(directory, reason), error))

    def exchange(
        self,
        arrivals: Mapping[PartName, Path],
        is_leaving: Callable[[PartName], bool] = lambda name: False,
        notes: Mapping[str, str] | None = None,
    ) -> list[Part]:
        """Adds parts and drops active ones in one step. Returns the added parts.

        ``arrivals``: whole, fsynced directories below the table's, by the names they get. ``notes``: texts of small
        files below the table's directory, written in the same step. After an error nothing has changed, or
        :meth:`settle` undoes it. Raises 235 for a name that is taken.
        """
        opened = [
            open_part(directory, name=name, table_schema=self.description.schema)
            for name, directory in arrivals.items()
        ]
        self._refuse_newer(opened)
        for part in opened:
            part.check_conversions()
        with self.lock:
            self.settle()
            for part in opened:
                self._require_free(part.name)
                self._markers.make_way_for(part.name, self._entries)
            leaving = [self._entries[name] for name in self._active if is_leaving(name)]
            covered = list(self._covered_by(arrivals, is_leaving))
            record = ExchangeRecord(
                tuple((str(part.path.relative_to(self.path)), part.name) for part in opened),
                tuple(entry.part.name for entry in leaving),
                tuple((notes or {}).items()),
            )
            self._on_disk.run_exchange(record, opened, self._new_uuid().hex)
            for entry in (*leaving, *map(self._entries.__getitem__, covered)):
                self._outdate(entry)
            for part in opened:
                self._admit(StoredPart(part, _ACTIVE))
            self._note_dropped(self._markers.is_dropped)
        return opened

    # Leaving the set

    def drop_active(self, names: Iterable[PartName]) -> list[Part]:
        """Drops active parts for good, also after restarts. Returns the dropped parts.

        Ignores names that are not active.
        """
        with self.lock:
            self.settle()
            entries = [self._entries[name] for name in names if name in self._entries]
            entries = [entry for entry in entries if entry.state is PartState.ACTIVE]
            self._markers.add(entry.part.name for entry in entries)
            for entry in entries:
                self._outdate(entry)
            self._note_dropped(self._markers.is_dropped)
            return [entry.part for entry in entries]

    def reactivate_covered(self, names: Iterable[PartName]) -> list[Part]:
        """Activates covered parts again whose cover has left the set (it was broken, or never committed)."""
        revived: list[Part] = []
        with self.lock:
            entries = [self._entries[name] for name in names if name in self._entries]
            for entry in sorted(entries, key=lambda entry: get_covering_order(entry.part)):
                is_free = not self._active.find_overlapping(entry.part.name)
                if entry.state is PartState.OUTDATED and not entry.is_dropped and is_free:
                    entry.state, entry.remove_time = PartState.ACTIVE, None
                    self._active.add(entry.part.name)
                    revived.append(entry.part)
        return revived

    def list_deletable(self, now: float | None = None) -> list[Part]:
        """Lists outdated parts that nobody holds and whose lifetime is over. ``now`` is monotonic."""
        limit = (self._monotonic() if now is None else now) - self.description.settings.old_parts_lifetime
        with self.lock:
            return [
                entry.part
                for entry in self._entries.values()
                if entry.state is PartState.OUTDATED and not self._is_held(entry) and entry.outdated_at <= limit
            ]

    def delete(self, parts: Iterable[Part]) -> list[Part]:
        """Removes outdated parts from disk and returns them. Held parts and those of another state stay.

        Raises ``OSError`` for the first that cannot be removed; those before it are deleted.
        """
        doomed: list[tuple[Part, Path]] = []
        try:
            with self.lock:
                for part in parts:
                    entry = self._entries.get(part.name)
                    if entry is not None and entry.state is PartState.OUTDATED and not self._is_held(entry):
                        doomed.append((entry.part, self._unlink(part.name)))
                self._markers.remove_unneeded(self._entries, [part.name for part, _ in doomed])
        finally:
            for _, directory in doomed:
                shutil.rmtree(directory, ignore_errors=True)
        return [part for part, _ in doomed]

    # Detached parts

    def detach(self, name: PartName, reason: str = "") -> str:
        """Moves an active, outdated or pre-active part to ``detached/``. Returns its new name."""
        with self.lock:
            entry = self._entry(name)
            new_name = self.detached_parts.move_in(entry.part, reason)
            del self._entries[name]
            self._active.discard(name)
            self.detached_parts.sync()
            self._markers.remove_unneeded(self._entries, [name])
            return new_name

    def link_to_detached(self, parts: Iterable[Part]) -> None:
        """Links the parts' files into ``detached/``, durably. Parts that are there already are skipped."""
        for part in parts:
            if self.detached_parts.has_copy_of(part):
                continue
            directory = self.create_temporary("tmp_detach_")
            try:
                link_files(part.path, directory, should_sync=self.description.settings.fsync_part_directory)
                with self.lock:
                    self.detached_parts.move_in(directory, name=str(part.name))
                    self.detached_parts.sync()
            finally:
                self.drop_temporary(directory)

    def replace_with_copy(self, part: Part, tmp_dir: Path, reason: str) -> str:
        """Replaces an active part by the good copy in ``tmp_dir``, and detaches it as ``<reason>_<name>``.

        Returns the name of the detached directory ("": nothing was left of the part). A crash half-way leaves the part
        missing, as if it had been lost; after an ``OSError`` it may be repeated.
        """
        with self.lock:
            entry = self._entry(part.name, PartState.ACTIVE)
            if self.description.settings.fsync_part_directory:
                sync_directory(tmp_dir)
            copy = open_part(tmp_dir, name=part.name, table_schema=self.description.schema)
            place = self.path / str(part.name)
            detached = self.detached_parts.move_in(entry.part, reason) if os.path.lexists(place) else ""
            copy.rename_directory(place)
            self._temporary.discard(tmp_dir.name)
            self._active.discard(part.name)
            del self._entries[part.name]
            self._admit(StoredPart(copy, PartState.ACTIVE))
            self.detached_parts.sync()
            return detached

    def move_to_detached(self, path: Path, reason: str = "") -> str:
        """Moves any directory of this table to ``detached/``. A taken name gets ``_try1``, ``_try2`` …"""
        with self.lock:
            name = self.detached_parts.move_in(path, reason)
            self._temporary.discard(path.name)
            self.detached_parts.sync()
            return name

    def list_detached(self) -> list[str]:
        """Lists the directory names in ``detached/``, sorted."""
        return self.detached_parts.names()
