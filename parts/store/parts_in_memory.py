"""The parts of one table in memory: their states, holders, and lookups.

:class:`parts.store.part_store.PartStore` adds the disk operations. All methods may be called from any thread.

Invariants, which hold whenever the lock is free

- ``_active`` has exactly the names of the entries in state ACTIVE, and no two of them share a block.
- An entry that is referenced or read, here or in another process, is not deleted.
- No entry is of a later definition than ``description``.
- A listener knows every change of the active parts: it is told before the lock is released, all changes at once.
- The last block number of a partition and the largest commit time never decrease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from parts.common.errors import ConflictError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.store.active_part_names import ActivePartNames
from parts.store.part_list import PartList
from parts.store.part_readers import PartReaders, ReadList
from parts.store.part_states import ActivePartsListener, PartState, Snapshot, StoredPart
from parts.table.table_description import TableDescription


class PartsInMemory:
    """A set of parts, of which the active ones are disjoint."""

    def __init__(
        self, description: TableDescription, clock: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self.description = description
        self._clock = clock
        self._monotonic = monotonic
        self.lock = _Lock(self._tell_follower)
        """A caller holds it to do several steps as one."""
        self._entries: dict[PartName, StoredPart] = {}
        self._active = ActivePartNames()
        self._readers = PartReaders()
        self._last_blocks: dict[str, int] = {}
        """Partition → the largest block number ever seen here."""
        self._largest_commit_time = 0
        self._follower: ActivePartsListener | None = None

    def set_listener(self, make: Callable[[list[PartName]], ActivePartsListener]) -> None:
        """Sets the listener that is told of every change from now on. ``make`` gets the current active parts."""
        with self.lock:
            self._follower = make(list(self._active))
            self._active.changes = []

    def alter(self, description: TableDescription) -> None:
        """Changes the table's definition. Held snapshots keep the parts as they were."""
        with self.lock:
            self.description = description
            self._readers.forget()
            for entry in self._entries.values():
                entry.part = entry.part.adapt_to_schema(description.schema)

    def _refuse_newer(self, parts: Iterable[Part]) -> None:
        """Raises for a part of a later definition than the table's: it would be read wrongly."""
        for part in parts:
            if part.metadata_version > self.description.metadata_version:
                raise UnavailableError(
                    "METADATA_MISMATCH",
                    f"Part {part.name} is of version {part.metadata_version} of the table's definition, this server "
                    f"has version {self.description.metadata_version}",
                )

    def snapshot(self) -> Snapshot:
        """Returns the active parts, held for reading."""
        with self.lock:
            found = self._readers.get_latest(self._active.version)
            if found is None:
                parts = PartList([self._entries[name].part for name in self._active])
                found = ReadList(parts, self._active.version)
            self._readers.take(found)
            return Snapshot(found.parts, lambda _: self._give_back(found))

    def _give_back(self, found: ReadList) -> None:
        with self.lock:
            self._readers.release(found)

    def hold(self, names: Iterable[PartName]) -> Snapshot:
        """Returns the named parts in any state but deleting, held for merges and fetches by others.

        Raises ``UserError`` 232 (NO_SUCH_DATA_PART) when one is not here.
        """
        with self.lock:
            held = {name: self._entry(name) for name in names}
            for entry in held.values():
                entry.references += 1
            return Snapshot([entry.part for entry in held.values()], lambda _: self._unreference(held))

    def hold_active(self, names: Iterable[PartName]) -> Snapshot:
        """Returns those of the named parts that are active, held."""
        with self.lock:
            found = {name: entry for name in names if (entry := self._entries.get(name)) is not None}
            held = {name: entry for name, entry in found.items() if entry.state is PartState.ACTIVE}
            for entry in held.values():
                entry.references += 1
            return Snapshot([entry.part for entry in held.values()], lambda _: self._unreference(held))

    def list_active(self) -> list[Part]:
        """Returns the active parts sorted by name, not held."""
        with self.lock:
            return [self._entries[name].part for name in self._active]

    def count_active(self) -> tuple[int, str, int]:
        """Returns the number of active parts, the partition with the most, and their number there."""
        with self.lock:
            return (len(self._active), *self._active.find_largest_partition())

    def get(self, name: PartName) -> Part | None:
        """Returns the part of exactly this name in any state but deleting."""
        with self.lock:
            entry = self._entries.get(name)
            return entry.part if entry is not None else None

    def get_active(self, name: PartName) -> Part | None:
        """Returns the part of exactly this name if it is active."""
        return self._get_in_state(name, PartState.ACTIVE)

    def get_preactive(self, name: PartName) -> Part | None:
        """Returns the part of exactly this name if it is on disk but not committed yet."""
        return self._get_in_state(name, PartState.PRE_ACTIVE)

    def _get_in_state(self, name: PartName, state: PartState) -> Part | None:
        with self.lock:
            entry = self._entries.get(name)
            return entry.part if entry is not None and entry.state is state else None

    def list_preactive(self) -> list[Part]:
        """Lists the pre-active parts."""
        with self.lock:
            return [entry.part for entry in self._entries.values() if entry.state is PartState.PRE_ACTIVE]

    def compute_next_block_number(self, partition_id: str) -> int:
        """Returns one above every block number that the partition had on this disk; 0 for none.

        Parts detached before the start do not count.
        """
        with self.lock:
            return 1 + self._last_blocks.get(partition_id, -1)

    def get_largest_commit_time(self) -> int:
        """Returns the largest commit time of all parts that were here since the start.

        It is in microseconds since 1970, at or above that of every active part, and 0 if rows have no versions
        (``parts.table.row_version``).
        """
        with self.lock:
            return self._largest_commit_time

    def get_state(self, name: PartName) -> PartState | None:
        """Returns the state of the part; ``None`` if it is not here."""
        with self.lock:
            entry = self._entries.get(name)
            return entry.state if entry is not None else None

    def covering_active(self, name: PartName) -> Part | None:
        """Returns the active part that covers ``name``, or is it."""
        with self.lock:
            cover = self._active.find_covering(name)
            return self._entries[cover].part if cover is not None else None

    def list_parts(self) -> list[tuple[Part, PartState]]:
        """Returns every part with its state, sorted by name."""
        return [(entry.part, entry.state) for entry in self.entries()]

    def entries(self) -> list[StoredPart]:
        """Returns copies of all entries (state, references, time of removal), sorted by name."""
        with self.lock:
            entries = sorted(self._entries.values(), key=lambda entry: entry.part.name.sort_key())
            readers = self._readers.count_all_readers()
            return [
                StoredPart(
                    e.part,
                    e.state,
                    e.references + readers.get(e.part.name, 0),
                    e.remove_time,
                    e.is_dropped,
                    checked_at=e.checked_at,
                    check_error=e.check_error,
                )
                for e in entries
            ]

    def note_check(self, name: PartName, error: str = "") -> None:
        """Notes that every byte of the part was checked, with the ``error`` found. Ignores a removed part."""
        with self.lock:
            entry = self._entries.get(name)
            if entry is not None:
                entry.checked_at, entry.check_error = self._clock(), error

    def mark_all_hidden(self, number: int) -> None:
        """Notes that readers in other processes do not see the table since the change of this number."""
        with self.lock:
            self._active.changes = None
            for entry in self._entries.values():
                entry.hidden_at = number

    def apply_active_changes(self, changed: Iterable[PartName], arrived: Iterable[Part]) -> None:
        """Applies changes of another process's parts: of ``changed`` names only ``arrived`` ones are active."""
        with self.lock:
            for name in changed:
                self._active.discard(name)
                self._entries.pop(name, None)
            for part in arrived:
                self._admit(StoredPart(part, PartState.ACTIVE))

    def has_outdated(self) -> bool:
        """Tells whether any part is outdated."""
        with self.lock:
            return any(entry.state is PartState.OUTDATED for entry in self._entries.values())

    def is_read(self) -> bool:
        """Tells whether any part is being read, here or in another process."""
        with self.lock:
            return self._readers.has_readers() or any(self._is_held(entry) for entry in self._entries.values())

    # Helpers; the lock is held

    def _is_held(self, entry: StoredPart) -> bool:
        """Tells whether the part is being read, here or in another process."""
        return bool(entry.references or self._readers.count_readers(entry.part.name)) or (
            self._follower is not None and self._follower.get_oldest_read_change() < entry.hidden_at
        )

    def _tell_follower(self) -> None:
        """Reports the changes made under the lock as one change, before the lock is released."""
        if self._follower is None or not self._active.changes:
            return
        changes, self._active.changes = self._active.changes, []
        number = self._follower.on_active_parts_changed(changes)
        for name, is_active in changes:
            if not is_active and name in self._entries:
                self._entries[name].hidden_at = number

    def _admit(self, entry: StoredPart) -> None:
        entry.part = entry.part.adapt_to_schema(self.description.schema)  # it may have been opened before an ALTER
        name = entry.part.name
        if self.description.merge_mode.has_row_versions:
            self._largest_commit_time = max(self._largest_commit_time, entry.part.row_version.commit_time)
        self._entries[name] = entry
        self._last_blocks[name.partition_id] = max(name.max_block, self._last_blocks.get(name.partition_id, -1))
        if entry.state is PartState.ACTIVE:
            self._active.add(name)
        elif entry.state is PartState.OUTDATED:
            self._stamp(entry)

    def _entry(self, name: PartName, state: PartState | None = None) -> StoredPart:
        entry = self._entries.get(name)
        if entry is None or (state is not None and entry.state is not state):
            found = "is not here" if entry is None else f"is {entry.state.value}"
            wanted = f", expected {state.value}" if state else ""
            raise UserError("NO_SUCH_DATA_PART", f"Part {name} {found}{wanted}")
        return entry

    def _outdate(self, entry: StoredPart) -> None:
        self._active.discard(entry.part.name)
        entry.state = PartState.OUTDATED
        self._stamp(entry)

    def _covered_by(self, names: Iterable[PartName], is_leaving: Callable[[PartName], bool]) -> Iterator[PartName]:
        """Yields the active parts that disjoint ``names`` cover, except leaving ones.

        Raises ``ConflictError`` 235 for one that shares blocks with them otherwise.
        """
        for name in names:
            for other in self._active.find_overlapping(name):
                if not is_leaving(other):
                    if not name.covers(other):
                        message = f"A part that comes shares blocks with the part {other}"
                        raise ConflictError("DUPLICATE_DATA_PART", message)
                    yield other

    def _note_dropped(self, is_dropped: Callable[[PartName], bool]) -> None:
        """Updates ``is_dropped`` of outdated parts that were not dropped before."""
        for entry in self._entries.values():
            if entry.state is PartState.OUTDATED and not entry.is_dropped:
                entry.is_dropped = is_dropped(entry.part.name)

    def _stamp(self, entry: StoredPart) -> None:
        """Notes the time at which the part became outdated."""
        entry.remove_time, entry.outdated_at = self._clock(), self._monotonic()

    def _unreference(self, held: dict[PartName, StoredPart]) -> None:
        with self.lock:
            for entry in held.values():
                entry.references -= 1
                assert entry.references >= 0, f"{entry.part.name} was released too often"


class _Lock:
    """A reentrant lock that calls ``at_end`` before it is finally released."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._at_end = at_end

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        try:
            if self._depth == 1:
                self._at_end()
        finally:
            self._depth -= 1
            self._lock.release()
