"""The set of parts of one table on one disk, and the state of each.

States::

    temporary ──add_preactive──► pre-active ──commit──► active ──(covered, dropped)──► outdated ──delete──► gone
    (tmp_…, not in the set)          └──rollback──► gone            └──────detach──────┴──► detached/
    staged/… ──────────────────exchange──────────────────► active

Invariants (asserted at every change of the set)
- Active parts are pairwise disjoint.
- A part is in the set exactly once; its directory has its name, so a restart finds the same parts.
- An outdated part stays on disk while any snapshot holds it, and ``old_parts_lifetime`` seconds after it became
  outdated.
- Every rename is preceded by an fsync of the directory's files and followed by an fsync of the parent directory.
- What is in ``detached/`` is deleted only where somebody names it.
- Dropped parts, and what they cover, stay dropped over a restart (``parts.drop_markers``).
- An exchange of parts is one step, for readers and over a restart (``parts.exchange_record``).

Pre-active parts are on disk under their final name but invisible to readers: after a crash they are
indistinguishable from active ones, and the owner of the table decides (ZooKeeper, or for plain tables: they count).

All methods may be called from any thread. Inserts write, sync and rename without the lock; rare operations keep it.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from parts.attaching import AttachingParts
from parts.detached import DETACHED, DetachedParts
from parts.disk import SharedSync, link_files, sync_directory
from parts.drop_markers import DropMarkers
from parts.errors import ConflictError, CorruptionError
from parts.exchange_on_disk import ExchangeOnDisk
from parts.exchange_record import ExchangeRecord
from parts.part_loading import largest_first, open_parts, sort_out
from parts.part_name import PartName
from parts.part_states import LoadReport, PartState, Snapshot, StoredPart
from parts.reader import Part, open_part
from parts.schema import TableDescription
from parts.staged import StagedParts
from parts.stored_parts import StoredParts

__all__ = ["DETACHED", "LoadReport", "PartState", "PartStore", "Snapshot", "StoredPart"]

_ACTIVE = PartState.ACTIVE
_DELETING = "delete_tmp_"


class PartStore(StoredParts):
    """The parts of one table in directory ``path``."""

    def __init__(
        self,
        path: Path,
        description: TableDescription,
        clock: Callable[[], float],
        new_uuid: Callable[[], uuid.UUID],
        *,
        is_owner: bool = True,
    ) -> None:
        """``clock`` tells seconds since 1970; ``new_uuid`` makes the names of temporary directories. Who is no owner
        makes no directory: the process that is may drop the table meanwhile."""
        super().__init__(description, clock)
        self.path = Path(path)
        self._new_uuid = new_uuid
        self.owner = ""
        """Stands in the names of temporary directories, where several processes make them."""
        self._temporary: set[str] = set()
        self._reserved: set[PartName] = set()
        self._sync = SharedSync(self.path)
        self._markers = DropMarkers(self.path, description.settings.fsync_part_directory)
        self._on_disk = ExchangeOnDisk(self.path, self._markers, description.settings.fsync_part_directory)
        self.detached_parts = DetachedParts(self.path, description.settings.fsync_part_directory, is_owner=is_owner)
        self.staged = StagedParts(self.path, description.settings.fsync_part_directory)
        """Parts of transactions, which no reader sees."""
        self.attaching = AttachingParts(self.path, description.settings.fsync_part_directory)

    # Loading

    def load(self) -> LoadReport:
        """Finds the parts on disk. Broken ones go to ``detached/broken-on-start_…``, temporary directories are dropped,
        covered parts become outdated. Of intersecting parts (which no correct run leaves) the smaller is detached."""
        report = LoadReport()
        with self.lock:
            self._on_disk.finish()
            found: list[Part] = []
            for opened in open_parts(self.path, self.description.schema, report, is_taken=self._is_taken):
                if isinstance(opened, Part):
                    found.append(opened)
                else:
                    self._detach_broken(*opened, "broken-on-start", report)
            self._markers.load()
            for part, state in sort_out([p for p in found if not self._markers.is_dropped(p.name)], self._active):
                if state is None:
                    error = CorruptionError(
                        f"Part {part.name} intersects an active part", part=str(part.name), name="CORRUPTED_DATA"
                    )
                    self._detach_broken(part.path, error, "intersecting", report)
                else:
                    self._admit(StoredPart(part, state, remove_time=None if state is _ACTIVE else self._clock()))
                    (report.parts if state is _ACTIVE else report.outdated).append(part)
            report.parts.sort(key=lambda p: p.name)
            for part in found:
                if self._markers.is_dropped(part.name):
                    self._admit(StoredPart(part, PartState.OUTDATED, 0, self._clock(), is_dropped=True))
                    report.outdated.append(part)
            self._markers.prune(self._entries)
        return report

    def _is_taken(self, directory: str) -> bool:
        name = PartName.try_parse(directory)
        return directory in self._temporary or name in self._entries or name in self._reserved

    def _detach_broken(self, directory: Path, error: CorruptionError, reason: str, report: LoadReport) -> None:
        size = sum(file.stat().st_size for file in directory.iterdir() if file.is_file())
        report.broken.append((self.move_to_detached(directory, reason), error))
        report.broken_bytes += size

    # Temporary and pre-active parts

    def create_temporary(self, prefix: str) -> Path:
        """A new directory ``<prefix><random>``; the prefix starts with ``tmp_``."""
        assert prefix.startswith("tmp_"), prefix
        owner = f"{self.owner}_" if self.owner else ""
        directory = self.path / f"{prefix}{'' if prefix.endswith('_') else '_'}{owner}{self._new_uuid().hex}"
        with self.lock:
            self._temporary.add(directory.name)
        directory.mkdir()
        return directory

    def drop_temporary(self, directory: Path) -> None:
        """Removes a temporary directory (fine when it is gone)."""
        shutil.rmtree(directory, ignore_errors=True)
        with self.lock:
            self._temporary.discard(directory.name)

    def add_preactive(self, tmp_dir: Path, name: PartName, *, is_synced: bool = False, written: bytes = b"") -> Part:
        """Gives the part in ``tmp_dir`` its name. Raises ``ConflictError`` 235 (DUPLICATE_DATA_PART) if it is taken.

        ``is_synced``: the directory is fsynced already, as ``write_part`` leaves it. ``written``: ``WrittenPart.meta``
        of the part, if this is who wrote it; it is not read again then.
        """
        return self.add_preactive_all({name: tmp_dir}, is_synced=is_synced, written=written)[0]

    def add_preactive_all(
        self, directories: Mapping[PartName, Path], *, is_synced: bool = False, written: bytes = b""
    ) -> list[Part]:
        """As :meth:`add_preactive`, for all or for none, with one fsync of the parent directory."""
        should_sync = self.description.settings.fsync_part_directory
        if should_sync and not is_synced:
            for directory in directories.values():
                sync_directory(directory)
        with self.lock:
            self.settle()
            for name in directories:
                self._require_free(name)
            for name in directories:
                self._markers.admit(name, self._entries)
            self._reserved.update(directories)
        try:  # without the lock: others must not wait for the disk
            schema = self.description.schema
            opened = [open_part(d, name=name, table_schema=schema, written=written) for name, d in directories.items()]
            self._refuse_newer(opened)
            moved: list[Part] = []
            try:
                for part in opened:
                    part.move(self.path / str(part.name))
                    moved.append(part)
                if should_sync:
                    self._sync()
            except BaseException:  # a restart would take them for parts of the table
                for part in moved:
                    part.move(directories[part.name])
                raise
            with self.lock:
                for part in opened:
                    self._admit(StoredPart(part, PartState.PRE_ACTIVE))
                    self._temporary.discard(directories[part.name].name)
                return [self._entries[name].part for name in directories]
        finally:
            with self.lock:
                self._reserved.difference_update(directories)

    def take_back(self, part: Part) -> Path:
        """Makes a pre-active part that was certainly not committed temporary again; returns its directory."""
        with self.lock:
            self._entry(part.name, PartState.PRE_ACTIVE)
            directory = self.path / f"tmp_insert_{self._new_uuid().hex}"
            self._temporary.add(directory.name)
            part.move(directory)
            del self._entries[part.name]
            return directory

    def commit(self, part: Part) -> list[Part]:
        """Makes a pre-active part active; returns the active parts it covered, which are outdated now.

        When an active part covers it already (a merge or fetch overtook it), it becomes outdated at once.
        """
        with self.lock:
            entry = self._entry(part.name, PartState.PRE_ACTIVE)
            rivals = [self._entries[name] for name in self._active.overlapping(part.name)]
            if any(other.part.name.covers(part.name) for other in rivals):
                self._outdate(entry)
                return []
            for other in rivals:
                if not part.name.covers(other.part.name):
                    message = f"Part {part.name} intersects the active part {other.part.name}"
                    raise ConflictError("DUPLICATE_DATA_PART", message)
            for other in rivals:
                self._outdate(other)
            entry.state = PartState.ACTIVE
            self._active.add(part.name)
            return [other.part for other in rivals]

    def exchange(
        self,
        arrivals: Mapping[PartName, Path],
        is_leaving: Callable[[PartName], bool] = lambda name: False,
        notes: Mapping[str, str] | None = None,
    ) -> list[Part]:
        """Gives whole, fsynced directories below the table's their names, as active parts, and drops the active parts
        that leave: all in one step. ``notes``: texts of small files below the table's directory, written with it.
        Returns the parts that came. After an error nothing has changed, or :meth:`settle` sees to it. Raises 235 for a
        name that is taken."""
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
                self._markers.admit(part.name, self._entries)
            leaving = [self._entries[name] for name in self._active if is_leaving(name)]
            covered = [other for name in arrivals for other in self._active.overlapping(name) if not is_leaving(other)]
            for other in covered:
                if not any(name.covers(other) for name in arrivals):
                    raise ConflictError("DUPLICATE_DATA_PART", f"A part that comes shares blocks with the part {other}")
            record = ExchangeRecord(
                tuple((str(part.path.relative_to(self.path)), part.name) for part in opened),
                tuple(entry.part.name for entry in leaving),
                tuple((notes or {}).items()),
            )
            self._on_disk.carry_out(record, opened, self._new_uuid().hex)
            for entry in (*leaving, *map(self._entries.__getitem__, covered)):
                self._outdate(entry)
            for part in opened:
                self._admit(StoredPart(part, _ACTIVE))
            for stored in self._entries.values():
                stored.is_dropped = stored.state is PartState.OUTDATED and self._markers.is_dropped(stored.part.name)
        return opened

    def settle(self) -> None:
        """Before anything else changes: what is left to do of an exchange whose last steps failed. Raises ``OSError``
        while they fail still; a restart does better then."""
        with self.lock:
            self._on_disk.settle()

    def rollback(self, part: Part) -> None:
        """Deletes a pre-active part that was certainly not committed."""
        with self.lock:
            self._entry(part.name, PartState.PRE_ACTIVE)
            doomed = self._unlink(part.name)
        shutil.rmtree(doomed, ignore_errors=True)

    # Leaving the set

    def drop_active(self, names: Iterable[PartName]) -> list[Part]:
        """Drops active parts for good, restarts included; names that are not active are left out of the result."""
        with self.lock:
            self.settle()
            entries = [self._entries[name] for name in names if name in self._entries]
            entries = [entry for entry in entries if entry.state is PartState.ACTIVE]
            self._markers.add(entry.part.name for entry in entries)
            for entry in entries:
                self._outdate(entry)
            for other in self._entries.values():
                other.is_dropped = other.state is PartState.OUTDATED and self._markers.is_dropped(other.part.name)
            return [entry.part for entry in entries]

    def revive(self, names: Iterable[PartName]) -> list[Part]:
        """Makes covered parts active again whose cover has left the set (it was broken, or never committed)."""
        revived: list[Part] = []
        with self.lock:
            entries = [self._entries[name] for name in names if name in self._entries]
            for entry in sorted(entries, key=lambda entry: largest_first(entry.part)):
                is_free = not self._active.overlapping(entry.part.name)
                if entry.state is PartState.OUTDATED and not entry.is_dropped and is_free:
                    entry.state, entry.remove_time = PartState.ACTIVE, None
                    self._active.add(entry.part.name)
                    revived.append(entry.part)
        return revived

    def outdated_expired(self, now: float | None = None) -> list[Part]:
        """Outdated parts that nobody holds and whose lifetime is over."""
        limit = (self._clock() if now is None else now) - self.description.settings.old_parts_lifetime
        with self.lock:
            return [
                entry.part
                for entry in self._entries.values()
                if entry.state is PartState.OUTDATED
                and not self._is_held(entry)
                and (entry.remove_time or 0.0) <= limit
            ]

    def delete(self, parts: Iterable[Part]) -> list[Part]:
        """Removes outdated parts from disk; held parts and those of another state stay. Returns what was deleted."""
        doomed: list[tuple[Part, Path]] = []
        with self.lock:
            for part in parts:
                entry = self._entries.get(part.name)
                if entry is not None and entry.state is PartState.OUTDATED and not self._is_held(entry):
                    doomed.append((entry.part, self._unlink(part.name)))
            if doomed:
                self._markers.prune(self._entries)
        for _, directory in doomed:
            shutil.rmtree(directory, ignore_errors=True)
        return [part for part, _ in doomed]

    # Detached parts

    def detach(self, name: PartName, reason: str = "") -> str:
        """Moves an active, outdated or pre-active part to ``detached/[<reason>_]<name>``; returns its new name."""
        with self.lock:
            entry = self._entry(name)
            new_name = self.detached_parts.take(entry.part, reason)
            del self._entries[name]
            self._active.discard(name)
            self.detached_parts.sync()
            self._markers.prune(self._entries)
            return new_name

    def keep_detached(self, parts: Iterable[Part]) -> None:
        """Links to the files of the parts in ``detached/``, durable when this returns; the same copy is made once."""
        for part in parts:
            if self.detached_parts.holds(part):
                continue
            directory = self.create_temporary("tmp_detach_")
            try:
                link_files(part.path, directory, should_sync=self.description.settings.fsync_part_directory)
                with self.lock:
                    self.detached_parts.take(directory, name=str(part.name))
                    self.detached_parts.sync()
            finally:
                self.drop_temporary(directory)

    def replace(self, part: Part, tmp_dir: Path, reason: str) -> str:
        """Puts the good copy in ``tmp_dir`` in the place of an active part, which moves to
        ``detached/<reason>_<name>``.

        Returns the name of the detached directory. A crash half-way leaves the part missing, as if it had been lost.
        """
        with self.lock:
            entry = self._entry(part.name, PartState.ACTIVE)
            if self.description.settings.fsync_part_directory:
                sync_directory(tmp_dir)
            place = entry.part.path
            detached = self.detached_parts.take(entry.part, reason)
            os.rename(tmp_dir, place)
            self._temporary.discard(tmp_dir.name)
            copy = open_part(place, table_schema=self.description.schema)
            self._active.discard(part.name)
            del self._entries[part.name]
            self._admit(StoredPart(copy, PartState.ACTIVE))
            self.detached_parts.sync()
            return detached

    def move_to_detached(self, path: Path, reason: str = "") -> str:
        """Moves any directory of this table to ``detached/``; a taken name gets ``_try1``, ``_try2`` …"""
        with self.lock:
            name = self.detached_parts.take(path, reason)
            self._temporary.discard(path.name)
            self.detached_parts.sync()
            return name

    def detached(self) -> list[str]:
        """The directory names in ``detached/``, sorted."""
        return self.detached_parts.names()

    # Helpers; the lock is held

    def _require_free(self, name: PartName) -> None:
        if name in self._entries or name in self._reserved or (self.path / str(name)).exists():
            raise ConflictError("DUPLICATE_DATA_PART", f"Part {name} already exists in {self.path.name}")

    def _unlink(self, name: PartName) -> Path:
        """Takes the part out of the set under a name that a restart drops; the caller removes the directory."""
        entry = self._entries.pop(name)
        entry.state = PartState.DELETING
        doomed = self.path / f"{_DELETING}{name}_{self._new_uuid().hex[:8]}"
        os.rename(entry.part.path, doomed)
        return doomed
