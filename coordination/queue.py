"""A replica's queue of work as a state machine without I/O: which entry may run now, and why the others may not.

Invariants:
- *Virtual parts* = active parts + results of queued entries. They only change together with ZooKeeper: by entries
  added after the pull committed, by this replica's own commits, by entries that left the queue.
- Executing entries never make intersecting parts, nor parts whose sources are still being made.
- A DROP_RANGE runs before every entry it covers: those that were queued before it are cancelled
  (:meth:`covered_entries`), those that run are told to stop (:meth:`is_cancelled`) and waited for. It also waits for
  this replica's own INSERTs between their commit and their activation (:meth:`inserting`).

:meth:`ReplicationQueue.next_action` marks an entry as executing; the caller then calls exactly one of ``finish`` (after
the entry has left ZooKeeper), ``fail`` or ``postpone``. All methods may be called from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from coordination.log_entry import EntryType, LogEntry
from coordination.part_set import PartSet
from parts.part_name import PartName

_MAX_BACKOFF_SECONDS = 30.0
_FIRST_BACKOFF_SECONDS = 0.1


class ActionKind(Enum):
    FETCH = "fetch the part from a replica that has it"
    MERGE = "merge the sources"
    DROP_RANGE = "drop the parts of the range"
    SKIP = "nothing to do: remove the entry"


@dataclass(frozen=True, slots=True)
class Action:
    kind: ActionKind
    name: str
    """The entry's node in the queue."""
    entry: LogEntry
    reason: str = ""


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One entry and its history, as system.replication_queue shows it. Times in seconds since the epoch, 0: never."""

    name: str
    entry: LogEntry
    is_executing: bool = False
    num_tries: int = 0
    last_exception: str = ""
    last_exception_time: float = 0.0
    last_attempt_time: float = 0.0
    next_attempt_time: float = 0.0
    num_postponed: int = 0
    postpone_reason: str = ""
    last_postpone_time: float = 0.0
    must_fetch: bool = False
    """A merge whose own result differed from the others': take theirs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the pools can take now."""

    free_merge_slots: int
    free_fetch_slots: int
    max_merge_bytes: int
    """Merges of more source bytes wait until more slots are free."""
    always_fetch_merged_part: bool = False
    prefer_fetch_seconds: float = 3600.0
    prefer_fetch_bytes: int = 10 * 1024**3


class LocalParts(Protocol):
    """What the queue asks about the replica's disk. Must not block."""

    def covering_active(self, part: PartName) -> PartName | None:
        """The active part that covers ``part``, itself included."""

    def size_bytes(self, part: PartName) -> int: ...


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The columns of system.replicas; times are seconds since the epoch, 0 for none."""

    queue_size: int
    inserts_in_queue: int
    merges_in_queue: int
    part_mutations_in_queue: int
    queue_oldest_time: float
    inserts_oldest_time: float
    merges_oldest_time: float
    oldest_part_to_get: str
    oldest_part_to_merge_to: str
    future_parts: int


class ReplicationQueue:
    """Entries are kept in the order of their queue nodes, which is the order of the log."""

    def __init__(self, replica_name: str, clock: Callable[[], float] = time.time) -> None:
        self.replica_name = replica_name
        self._clock = clock
        self._lock = threading.RLock()
        self._items: dict[str, QueueItem] = {}
        self._virtual = PartSet()
        self._inserting: set[PartName] = set()
        self._max_processed_insert_time = 0.0

    # --- state -------------------------------------------------------------------------------------------------

    def load(self, active: Iterable[PartName], entries: Sequence[tuple[str, LogEntry]]) -> None:
        """Starts anew from what ZooKeeper holds: the replica's parts and its queue, in order of their names."""
        with self._lock:
            self._items = {}
            self._virtual = PartSet(active)
            for name, entry in entries:
                self.add(name, entry)

    def add(self, name: str, entry: LogEntry) -> None:
        """An entry that is in the queue in ZooKeeper. Adding one that is known changes nothing."""
        with self._lock:
            if name in self._items:
                return
            self._items[name] = QueueItem(name, entry)
            self._apply_to_virtual(entry)

    def _apply_to_virtual(self, entry: LogEntry) -> None:
        if entry.new_part is None:
            return
        if entry.is_dropping:
            self._virtual.remove_covered(entry.new_part)
        elif entry.is_producing:
            self._virtual.add(entry.new_part)

    @contextmanager
    def inserting(self, part: PartName) -> Iterator[None]:
        """Around the commit and the activation of this replica's own INSERT: its log entry waits, and so do drops."""
        with self._lock:
            self._inserting.add(part)
        try:
            yield
        finally:
            with self._lock:
                self._inserting.discard(part)

    def is_inserting(self) -> bool:
        return bool(self._inserting)

    def add_active(self, part: PartName) -> None:
        """A part that this replica committed by itself (INSERT, or one fetched instead of what an entry names)."""
        with self._lock:
            self._virtual.add(part)

    def remove_virtual(self, part: PartName) -> None:
        """A part that will not come: its quorum failed, or it was lost."""
        with self._lock:
            self._virtual.remove(part)

    def virtual_parts(self) -> PartSet:
        with self._lock:
            return self._virtual.copy()

    def has_virtual_cover(self, part: PartName) -> PartName | None:
        """A part may be fetched in place of another only if it is one of the virtual parts."""
        with self._lock:
            return self._virtual.covering(part)

    def entries(self) -> list[QueueItem]:
        with self._lock:
            return list(self._items.values())

    def names(self) -> set[str]:
        with self._lock:
            return set(self._items)

    def is_drained(self, names: Iterable[str]) -> bool:
        """True when none of these entries is queued any more (SYSTEM SYNC REPLICA)."""
        with self._lock:
            return not any(name in self._items for name in names)

    # --- outcome of an execution -------------------------------------------------------------------------------

    def finish(self, name: str) -> LogEntry | None:
        """The entry has left ZooKeeper's queue and its part is active. What it makes stays among the virtual parts."""
        with self._lock:
            item = self._items.pop(name, None)
            if item is None:
                return None
            if item.entry.is_dropping and item.entry.new_part is not None:
                # An INSERT that was committed before the drop may have become active after the drop was queued.
                self._virtual.remove_covered(item.entry.new_part)
            if item.entry.type in (EntryType.GET_PART, EntryType.ATTACH_PART):
                self._max_processed_insert_time = max(self._max_processed_insert_time, item.entry.create_time)
            return item.entry

    def fail(self, name: str, error: str) -> None:
        """Tried and failed: shown as last_exception, tried again after a growing pause."""
        with self._lock:
            item = self._items.get(name)
            if item is None:
                return
            now = self._clock()
            pause = min(_FIRST_BACKOFF_SECONDS * 2 ** min(item.num_tries, 16), _MAX_BACKOFF_SECONDS)
            self._items[name] = replace(
                item,
                is_executing=False,
                last_exception=error,
                last_exception_time=now,
                next_attempt_time=now + pause,
            )

    def postpone(self, name: str, reason: str, *, pause_seconds: float = 1.0) -> None:
        """Not failed, only not now (e.g. no replica has the part yet). The pause lets the entries behind it run."""
        with self._lock:
            item = self._items.get(name)
            if item is not None:
                paused = replace(item, is_executing=False, next_attempt_time=self._clock() + pause_seconds)
                self._items[name] = self._postponed(paused, reason)

    def _postponed(self, item: QueueItem, reason: str) -> QueueItem:
        return replace(
            item, num_postponed=item.num_postponed + 1, postpone_reason=reason, last_postpone_time=self._clock()
        )

    def fetch_instead(self, name: str) -> None:
        """Our merge gave another content than the other replicas': from now on the entry is a fetch."""
        with self._lock:
            item = self._items.get(name)
            if item is not None:
                self._items[name] = replace(item, is_executing=False, must_fetch=True, next_attempt_time=0.0)

    def merge_after_all(self, name: str) -> None:
        """The other result of the merge is gone."""
        with self._lock:
            item = self._items.get(name)
            if item is not None:
                self._items[name] = replace(item, must_fetch=False)

    # --- choice ------------------------------------------------------------------------------------------------

    def next_action(self, local: LocalParts, limits: Limits) -> Action | None:
        """The first entry that may run now, marked as executing; ``None`` if there is none."""
        with self._lock:
            drops = [item for item in self._items.values() if item.entry.is_dropping]
            for item in [*drops, *self._items.values()]:
                if item.is_executing or item.next_attempt_time > self._clock():
                    continue
                action, reason = self._judge(item, drops, local, limits)
                if action is None:
                    self._items[item.name] = self._postponed(item, reason)
                    continue
                self._items[item.name] = replace(
                    item, is_executing=True, num_tries=item.num_tries + 1, last_attempt_time=self._clock()
                )
                return action
            return None

    def _judge(
        self, item: QueueItem, drops: list[QueueItem], local: LocalParts, limits: Limits
    ) -> tuple[Action | None, str]:
        entry = item.entry
        if entry.new_part is None:
            return None, f"Not executing log entry {item.name} of type {entry.type.value}: it is not supported"
        if entry.is_dropping:
            return self._judge_drop(item, drops)
        if self._drop_over(item, drops) is not None:
            return None, self._because(item, "a drop range over it is queued")
        if local.covering_active(entry.new_part) is not None:
            return Action(ActionKind.SKIP, item.name, entry, "the part, or one that covers it, is here"), ""
        reason = self._made_elsewhere(item) or self._being_committed(item)
        if reason:
            return None, reason
        if entry.type is EntryType.MERGE_PARTS and not item.must_fetch:
            return self._judge_merge(item, local, limits)
        if entry.type is EntryType.MUTATE_PART and not item.must_fetch:
            return None, self._because(item, "mutations are not supported")
        return self._judge_fetch(item, limits, "")

    def _because(self, item: QueueItem, reason: str) -> str:
        return f"Not executing log entry {item.name} for part {item.entry.new_part} because {reason}."

    def _judge_drop(self, item: QueueItem, drops: list[QueueItem]) -> tuple[Action | None, str]:
        entry = item.entry
        assert entry.new_part is not None
        if entry.type is EntryType.REPLACE_RANGE:
            return None, f"Not executing log entry {item.name} of type REPLACE_RANGE: it is not supported"
        for other in self._items.values():
            part = other.entry.new_part
            if other.name != item.name and other.is_executing and part is not None:
                touches = [part, *other.entry.source_parts]
                if any(not entry.new_part.is_disjoint(p) for p in touches):
                    return None, (
                        f"Not executing log entry {item.name} of type {entry.type.value} for part {entry.new_part} "
                        f"because another log entry for part {part} is executing."
                    )
        for part in self._inserting:
            if not entry.new_part.is_disjoint(part):
                return None, self._because(item, f"an INSERT of part {part} is being committed")
        return Action(ActionKind.DROP_RANGE, item.name, entry), ""

    @staticmethod
    def _drop_over(item: QueueItem, drops: list[QueueItem]) -> QueueItem | None:
        """A queued drop, newer than the entry, over any block the entry makes or reads."""
        part = item.entry.new_part
        assert part is not None
        for drop in drops:
            gone = drop.entry.new_part
            if drop.name > item.name and gone is not None and not gone.is_disjoint(part):
                return drop
        return None

    def _made_elsewhere(self, item: QueueItem) -> str:
        """Why the entry must wait for another that runs: same blocks, or a source that is being made."""
        part = item.entry.new_part
        assert part is not None
        for other in self._items.values():
            made = other.entry.new_part
            if not other.is_executing or other.name == item.name or made is None or made.is_disjoint(part):
                continue
            if other.entry.is_dropping:
                return self._because(item, f"the range {made} is being dropped")
            if made.covers(part):
                return self._because(item, f"it is covered by part {made} that is currently executing")
            if part.covers(made):
                return self._because(item, f"part {made} is not ready yet (log entry for that part is being processed)")
            return self._because(item, f"it intersects part {made} that is currently executing")
        return ""

    def _being_committed(self, item: QueueItem) -> str:
        """This replica's own INSERT may be in the log some moments before its part is active here."""
        if item.entry.new_part in self._inserting:
            return self._because(item, "this replica is committing it")
        return ""

    def _judge_merge(self, item: QueueItem, local: LocalParts, limits: Limits) -> tuple[Action | None, str]:
        entry = item.entry
        missing = [part for part in entry.source_parts if local.covering_active(part) != part]
        if missing:
            return self._judge_fetch(item, limits, f"source part {missing[0]} is not here")
        size = sum(local.size_bytes(part) for part in entry.source_parts)
        age = self._clock() - entry.create_time
        if limits.always_fetch_merged_part and entry.source_replica != self.replica_name:
            return self._judge_fetch(item, limits, "always_fetch_merged_part is set")
        if (
            entry.source_replica != self.replica_name
            and age > limits.prefer_fetch_seconds
            and size > limits.prefer_fetch_bytes
            and not item.last_exception
        ):
            return self._judge_fetch(item, limits, "the entry is old and large")
        if limits.free_merge_slots <= 0:
            return None, self._because(item, "no merge slot is free")
        if size > limits.max_merge_bytes:
            return None, self._because(
                item, f"source parts size ({size} bytes) is greater than the current maximum ({limits.max_merge_bytes})"
            )
        return Action(ActionKind.MERGE, item.name, entry), ""

    def _judge_fetch(self, item: QueueItem, limits: Limits, reason: str) -> tuple[Action | None, str]:
        if limits.free_fetch_slots <= 0:
            return None, self._because(item, "no fetch slot is free")
        return Action(ActionKind.FETCH, item.name, item.entry, reason), ""

    # --- drops -------------------------------------------------------------------------------------------------

    def covered_entries(self, name: str) -> list[str]:
        """Entries queued before the drop ``name`` whose result it covers, and that do not run: they go with it."""
        with self._lock:
            drop = self._items[name].entry.new_part
            assert drop is not None
            return [
                item.name
                for item in self._items.values()
                if item.name < name
                and not item.is_executing
                and item.entry.new_part is not None
                and drop.covers(item.entry.new_part)
            ]

    def is_cancelled(self, name: str) -> bool:
        """For a running entry: a drop over it has been queued, so its result would be thrown away."""
        with self._lock:
            item = self._items.get(name)
            if item is None:
                return True
            if item.entry.new_part is None or item.entry.is_dropping:
                return False
            drops = [other for other in self._items.values() if other.entry.is_dropping]
            return self._drop_over(item, drops) is not None

    # --- what operators see --------------------------------------------------------------------------------------

    def counts(self) -> QueueCounts:
        with self._lock:
            items = list(self._items.values())
        inserts = [i for i in items if i.entry.type in (EntryType.GET_PART, EntryType.ATTACH_PART)]
        merges = [i for i in items if i.entry.type is EntryType.MERGE_PARTS]
        oldest_insert = min(inserts, key=lambda i: i.entry.create_time, default=None)
        oldest_merge = min(merges, key=lambda i: i.entry.create_time, default=None)
        return QueueCounts(
            queue_size=len(items),
            inserts_in_queue=len(inserts),
            merges_in_queue=len(merges),
            part_mutations_in_queue=sum(i.entry.type is EntryType.MUTATE_PART for i in items),
            queue_oldest_time=min((i.entry.create_time for i in items), default=0.0),
            inserts_oldest_time=oldest_insert.entry.create_time if oldest_insert else 0.0,
            merges_oldest_time=oldest_merge.entry.create_time if oldest_merge else 0.0,
            oldest_part_to_get=str(oldest_insert.entry.new_part) if oldest_insert else "",
            oldest_part_to_merge_to=str(oldest_merge.entry.new_part) if oldest_merge else "",
            future_parts=sum(i.is_executing and i.entry.is_producing for i in items),
        )

    def insert_times(self) -> tuple[float, float]:
        """(oldest insert not yet here, 0 for none; newest insert processed by this queue)."""
        with self._lock:
            return self.counts().inserts_oldest_time, self._max_processed_insert_time

    def note_processed_insert(self, create_time: float) -> None:
        """This replica's own INSERT, or the value kept in ZooKeeper at load."""
        with self._lock:
            self._max_processed_insert_time = max(self._max_processed_insert_time, create_time)

    def absolute_delay(self, now: float) -> int:
        """Seconds by which the oldest insert that is not here lies behind ``now``; 0 when none is missing."""
        oldest = self.insert_times()[0]
        return max(0, int(now - oldest)) if oldest else 0
