"""The set of parts of one table on one disk, and the state of each.

States::

    temporary ──add_preactive──► pre-active ──commit──► active ──(covered, dropped)──► outdated ──delete──► gone
    (tmp_…, not in the set)          └──rollback──► gone            └──────detach──────┴──► detached/

Invariants (asserted at every change of the set)
- Active parts are pairwise disjoint.
- A part is in the set exactly once; its directory has its name, so a restart finds the same parts.
- An outdated part stays on disk while any snapshot holds it, and ``old_parts_lifetime`` seconds after it became
  outdated.
- Every rename is preceded by an fsync of the directory's files and followed by an fsync of the parent directory.
- What is in ``detached/`` is never deleted here.
- Dropped parts, and what they cover, stay dropped over a restart (``parts.drop_markers``).

Pre-active parts are on disk under their final name but invisible to readers: after a crash they are
indistinguishable from active ones, and the owner of the table decides (ZooKeeper, or for plain tables: they count).

All methods may be called from any thread. Inserts write, sync and rename without the lock; rare operations keep it.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from parts.active_names import ActiveNames
from parts.disk import make_directories, sync_directory
from parts.drop_markers import DropMarkers
from parts.errors import ConflictError, CorruptionError, UserError
from parts.part_name import PartName
from parts.part_states import LoadReport, PartState, Snapshot, StoredPart
from parts.reader import Part, open_part
from parts.schema import TableDescription

__all__ = ["DETACHED", "LoadReport", "PartState", "PartStore", "Snapshot", "StoredPart"]

DETACHED = "detached"
TEMPORARY_PREFIXES = ("tmp_", "delete_tmp_")
_DELETING = "delete_tmp_"


class PartStore:
    """The parts of one table in directory ``path``."""

    def __init__(self, path: Path, description: TableDescription, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self.description = description
        self._clock = clock
        self.lock = threading.RLock()
        """Held by a caller that must do several steps at once."""
        self._entries: dict[PartName, StoredPart] = {}
        self._temporary: set[str] = set()
        self._reserved: set[PartName] = set()
        self._active = ActiveNames()
        self._last_blocks: dict[str, int] = {}
        """Partition → the largest block number that was ever seen here."""
        self._markers = DropMarkers(self.path, description.settings.fsync_part_directory)
        if description.settings.fsync_part_directory:
            make_directories(self.path / DETACHED)
        (self.path / DETACHED).mkdir(parents=True, exist_ok=True)

    # Loading

    def load(self) -> LoadReport:
        """Finds the parts on disk. Broken ones go to ``detached/broken-on-start_…``, temporary directories are dropped,
        covered parts become outdated. Of intersecting parts (which no correct run leaves) the smaller is detached."""
        report = LoadReport()
        found: list[Part] = []
        with self.lock:
            for directory in sorted(self.path.iterdir()):
                if not directory.is_dir() or directory.name == DETACHED or directory.name in self._temporary:
                    continue
                if directory.name.startswith(TEMPORARY_PREFIXES):
                    shutil.rmtree(directory, ignore_errors=True)
                    report.dropped_temporary.append(directory.name)
                elif PartName.try_parse(directory.name) is None:
                    report.unknown.append(directory.name)
                elif PartName.parse(directory.name) not in self._entries.keys() | self._reserved:
                    part = self._open_or_detach(directory, report)
                    if part is not None:
                        found.append(part)
            self._markers.load()
            self._adopt([part for part in found if not self._markers.is_dropped(part.name)], report)
            for part in found:
                if self._markers.is_dropped(part.name):
                    self._admit(StoredPart(part, PartState.OUTDATED, 0, self._clock(), is_dropped=True))
                    report.outdated.append(part)
            self._markers.prune(self._entries)
        return report

    def _open_or_detach(self, directory: Path, report: LoadReport) -> Part | None:
        try:
            return open_part(directory, table_schema=self.description.schema)
        except CorruptionError as error:
            size = sum(file.stat().st_size for file in directory.iterdir() if file.is_file())
            report.broken.append((self.move_to_detached(directory, "broken-on-start"), error))
            report.broken_bytes += size
            return None

    def _adopt(self, found: list[Part], report: LoadReport) -> None:
        """Larger ranges and higher levels first, so that a cover is met before what it covers."""
        now = self._clock()
        for part in sorted(found, key=_largest_first):
            rivals = self._active.overlapping(part.name)
            if not rivals:
                self._admit(StoredPart(part, PartState.ACTIVE))
                report.parts.append(part)
            elif any(rival.covers(part.name) for rival in rivals):
                self._admit(StoredPart(part, PartState.OUTDATED, remove_time=now))
                report.outdated.append(part)
            else:
                message = f"Part {part.name} intersects {rivals[0]}"
                error = CorruptionError(message, part=str(part.name), name="CORRUPTED_DATA")
                report.broken.append((self.move_to_detached(part.path, "intersecting"), error))
                report.broken_bytes += part.bytes_on_disk
        report.parts.sort(key=lambda p: p.name)

    # Temporary and pre-active parts

    def create_temporary(self, prefix: str) -> Path:
        """A new directory ``<prefix><random>``; the prefix starts with ``tmp_``."""
        assert prefix.startswith("tmp_"), prefix
        directory = self.path / f"{prefix}{'' if prefix.endswith('_') else '_'}{uuid.uuid4().hex}"
        with self.lock:
            self._temporary.add(directory.name)
        directory.mkdir()
        return directory

    def drop_temporary(self, directory: Path) -> None:
        """Removes a temporary directory (fine when it is gone)."""
        shutil.rmtree(directory, ignore_errors=True)
        with self.lock:
            self._temporary.discard(directory.name)

    def add_preactive(self, tmp_dir: Path, name: PartName, *, is_synced: bool = False) -> Part:
        """Gives the part in ``tmp_dir`` its name. Raises ``ConflictError`` 235 (DUPLICATE_DATA_PART) if it is taken.

        ``is_synced``: the directory is fsynced already, as ``write_part`` leaves it.
        """
        should_sync = self.description.settings.fsync_part_directory
        if should_sync and not is_synced:
            sync_directory(tmp_dir)
        with self.lock:
            self._require_free(name)
            self._markers.admit(name, self._entries)
            self._reserved.add(name)
        try:  # without the lock: others must not wait for the disk
            part = open_part(tmp_dir, name=name, table_schema=self.description.schema)
            part.move(self.path / str(name))
            try:
                if should_sync:
                    sync_directory(self.path)
            except BaseException:  # a restart would take it for a part of the table
                part.move(tmp_dir)
                raise
            with self.lock:
                self._admit(StoredPart(part, PartState.PRE_ACTIVE))
                self._temporary.discard(tmp_dir.name)
            return part
        finally:
            with self.lock:
                self._reserved.discard(name)

    def rename_preactive(self, part: Part, new_name: PartName) -> Part:
        """A pre-active part under another name (its number was taken or its commit must be retried)."""
        with self.lock:
            entry = self._entry(part.name, PartState.PRE_ACTIVE)
            self._require_free(new_name)
            self._markers.admit(new_name, self._entries)
            os.rename(entry.part.path, self.path / str(new_name))
            if self.description.settings.fsync_part_directory:
                sync_directory(self.path)
            del self._entries[part.name]
            renamed = open_part(self.path / str(new_name), table_schema=self.description.schema)
            self._admit(StoredPart(renamed, PartState.PRE_ACTIVE))
            return renamed

    def take_back(self, part: Part) -> Path:
        """Makes a pre-active part that was certainly not committed temporary again; returns its directory."""
        with self.lock:
            self._entry(part.name, PartState.PRE_ACTIVE)
            directory = self.path / f"tmp_insert_{uuid.uuid4().hex}"
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

    def rollback(self, part: Part) -> None:
        """Deletes a pre-active part that was certainly not committed."""
        with self.lock:
            self._entry(part.name, PartState.PRE_ACTIVE)
            doomed = self._unlink(part.name)
        shutil.rmtree(doomed, ignore_errors=True)

    # Reading the set

    def snapshot(self) -> Snapshot:
        """The active parts, held for reading."""
        with self.lock:
            entries = [self._entries[name] for name in self._active]
            for entry in entries:
                entry.references += 1
            held = {entry.part.name: entry for entry in entries}
            return Snapshot([entry.part for entry in entries], lambda _: self._unreference(held))

    def hold(self, names: Iterable[PartName]) -> Snapshot:
        """The named parts in any state but deleting, held (merges and fetches of others read them).

        Raises ``UserError`` 232 (NO_SUCH_DATA_PART) when one is not here.
        """
        with self.lock:
            held = {name: self._entry(name) for name in names}
            for entry in held.values():
                entry.references += 1
            return Snapshot([entry.part for entry in held.values()], lambda _: self._unreference(held))

    def active(self) -> list[Part]:
        """The active parts sorted by name, not held."""
        with self.lock:
            return [self._entries[name].part for name in self._active]

    def active_counts(self) -> tuple[int, str, int]:
        """How many parts are active, in which partition the most, and how many there."""
        with self.lock:
            return (len(self._active), *self._active.largest_partition())

    def get(self, name: PartName) -> Part | None:
        """The part of exactly this name in any state but deleting."""
        with self.lock:
            entry = self._entries.get(name)
            return entry.part if entry is not None else None

    def get_active(self, name: PartName) -> Part | None:
        """The part of exactly this name if it is active."""
        return self._get_in_state(name, PartState.ACTIVE)

    def get_preactive(self, name: PartName) -> Part | None:
        """The part of exactly this name if it is on disk but not committed yet."""
        return self._get_in_state(name, PartState.PRE_ACTIVE)

    def _get_in_state(self, name: PartName, state: PartState) -> Part | None:
        with self.lock:
            entry = self._entries.get(name)
            return entry.part if entry is not None and entry.state is state else None

    def preactive(self) -> list[Part]:
        with self.lock:
            return [entry.part for entry in self._entries.values() if entry.state is PartState.PRE_ACTIVE]

    def next_block_number(self, partition_id: str) -> int:
        """One above every block number that the partition had on this disk; 0 for none. Parts detached before the start
        do not count."""
        with self.lock:
            return 1 + self._last_blocks.get(partition_id, -1)

    def state(self, name: PartName) -> PartState | None:
        with self.lock:
            entry = self._entries.get(name)
            return entry.state if entry is not None else None

    def covering_active(self, name: PartName) -> Part | None:
        """The active part that covers ``name`` (or is it)."""
        with self.lock:
            cover = self._active.covering(name)
            return self._entries[cover].part if cover is not None else None

    def all_parts(self) -> list[tuple[Part, PartState]]:
        """Every part with its state, sorted by name."""
        return [(entry.part, entry.state) for entry in self.entries()]

    def entries(self) -> list[StoredPart]:
        """Copies of all entries (state, references, time of removal), sorted by name."""
        with self.lock:
            entries = sorted(self._entries.values(), key=lambda entry: entry.part.name)
            return [StoredPart(e.part, e.state, e.references, e.remove_time, e.is_dropped) for e in entries]

    # Leaving the set

    def drop_active(self, names: Iterable[PartName]) -> list[Part]:
        """Drops active parts for good, restarts included; names that are not active are left out of the result."""
        with self.lock:
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
            for entry in sorted(entries, key=lambda entry: _largest_first(entry.part)):
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
                if entry.state is PartState.OUTDATED and not entry.references and (entry.remove_time or 0.0) <= limit
            ]

    def delete(self, parts: Iterable[Part]) -> list[Part]:
        """Removes outdated parts from disk; held parts and those of another state stay. Returns what was deleted."""
        doomed: list[tuple[Part, Path]] = []
        with self.lock:
            for part in parts:
                entry = self._entries.get(part.name)
                if entry is not None and entry.state is PartState.OUTDATED and not entry.references:
                    doomed.append((entry.part, self._unlink(part.name)))
            if doomed:
                self._markers.prune(self._entries)
        for _, directory in doomed:
            shutil.rmtree(directory, ignore_errors=True)
        return [part for part, _ in doomed]

    # Detached parts

    def detach(self, name: PartName, reason: str = "") -> str:
        """Moves an active, outdated or pre-active part to ``detached/[<reason>_]<name>``; returns the directory's
        name."""
        with self.lock:
            entry = self._entry(name)
            new_name = self._free_detached_name(entry.part.path.name, reason)
            entry.part.move(self.path / DETACHED / new_name)
            del self._entries[name]
            self._active.discard(name)
            self._sync_detached()
            self._markers.prune(self._entries)
            return new_name

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
            detached = self._free_detached_name(place.name, reason)
            entry.part.move(self.path / DETACHED / detached)
            os.rename(tmp_dir, place)
            self._temporary.discard(tmp_dir.name)
            self._sync_detached()
            copy = open_part(place, table_schema=self.description.schema)
            self._entries[part.name] = StoredPart(copy, PartState.ACTIVE)
            return detached

    def move_to_detached(self, path: Path, reason: str = "") -> str:
        """Moves any directory of this table to ``detached/``; a taken name gets ``_try1``, ``_try2`` …"""
        with self.lock:
            name = self._free_detached_name(path.name, reason)
            os.rename(path, self.path / DETACHED / name)
            self._temporary.discard(path.name)
            self._sync_detached()
            return name

    def detached(self) -> list[str]:
        """The directory names in ``detached/``, sorted."""
        return sorted(entry.name for entry in (self.path / DETACHED).iterdir() if entry.is_dir())

    # Helpers; the lock is held

    def _admit(self, entry: StoredPart) -> None:
        name = entry.part.name
        self._entries[name] = entry
        self._last_blocks[name.partition_id] = max(name.max_block, self._last_blocks.get(name.partition_id, -1))
        if entry.state is PartState.ACTIVE:
            self._active.add(name)

    def _entry(self, name: PartName, state: PartState | None = None) -> StoredPart:
        entry = self._entries.get(name)
        if entry is None or (state is not None and entry.state is not state):
            found = "is not here" if entry is None else f"is {entry.state.value}"
            wanted = f", expected {state.value}" if state else ""
            raise UserError("NO_SUCH_DATA_PART", f"Part {name} {found}{wanted}")
        return entry

    def _require_free(self, name: PartName) -> None:
        if name in self._entries or name in self._reserved or (self.path / str(name)).exists():
            raise ConflictError("DUPLICATE_DATA_PART", f"Part {name} already exists in {self.path.name}")

    def _free_detached_name(self, name: str, reason: str) -> str:
        base = f"{reason}_{name}" if reason else name
        candidate, attempt = base, 0
        while (self.path / DETACHED / candidate).exists():
            attempt += 1
            candidate = f"{base}_try{attempt}"
        return candidate

    def _sync_detached(self) -> None:
        if self.description.settings.fsync_part_directory:
            sync_directory(self.path / DETACHED)
            sync_directory(self.path)

    def _outdate(self, entry: StoredPart) -> None:
        self._active.discard(entry.part.name)
        entry.state = PartState.OUTDATED
        entry.remove_time = self._clock()

    def _unlink(self, name: PartName) -> Path:
        """Takes the part out of the set under a name that a restart drops; the caller removes the directory."""
        entry = self._entries.pop(name)
        entry.state = PartState.DELETING
        doomed = self.path / f"{_DELETING}{name}_{uuid.uuid4().hex[:8]}"
        os.rename(entry.part.path, doomed)
        return doomed

    def _unreference(self, held: dict[PartName, StoredPart]) -> None:
        with self.lock:
            for entry in held.values():
                entry.references -= 1
                assert entry.references >= 0, f"{entry.part.name} was released too often"


def _largest_first(part: Part) -> tuple[int, int, int]:
    """Orders covers before what they cover."""
    name = part.name
    return (name.min_block - name.max_block, -name.level, -name.mutation)
