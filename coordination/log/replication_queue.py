"""A replica's queue of work as a state machine without I/O: which entry may run now.

Invariants:
- *Virtual parts* = active parts + results of queued entries. They only change together with ZooKeeper: by entries added
  after the pull committed, by this replica's own commits, by entries that left the queue.
- Executing entries never make intersecting parts, nor parts whose sources are still being made.
- A DROP_RANGE runs before every entry it covers: waiting ones are cancelled (:meth:`list_covered_entries`), running
  ones are told to stop (:meth:`is_cancelled`). It waits for those and for own INSERTs (:meth:`mark_insert`).
- An entry that may not run (:mod:`coordination.log.queue_rules`) is parked on what it waits for, and examined again
  when that has ended (:mod:`coordination.log.queue_schedule`): a search costs what is new or freed, not what waits.

:meth:`ReplicationQueue.take_next_action` marks an entry as executing; the caller then calls exactly one of ``finish``
(after the entry has left ZooKeeper), ``fail`` or ``postpone``. All methods may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.part_set import PartSet
from coordination.log.queue_index import INSERT_ENTRY_TYPES, QueueCounts, QueueIndex, QueueItem
from coordination.log.queue_rules import (
    FETCH_SLOT,
    MERGE_SLOT,
    Action,
    ActionKind,
    EntryWait,
    LocalParts,
    PoolLimits,
    QueueRules,
    find_removal_kind,
    is_small_insert,
)
from coordination.log.queue_schedule import QueueSchedule, Rank
from parts.common.part_name import PartName

_MAX_BACKOFF_SECONDS = 30.0
_FIRST_BACKOFF_SECONDS = 0.1
_RECHECK_SECONDS = 30.0


def _rank(item: QueueItem) -> Rank:
    return (not item.entry.removed_ranges, item.name)


class ReplicationQueue:
    """Entries are kept in the order of their queue nodes, which is the order of the log."""

    def __init__(
        self,
        replica_name: str,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        recheck_seconds: float = _RECHECK_SECONDS,  # a waiting entry is examined again after this time without news
    ) -> None:
        """Creates an empty queue. ``clock`` gives the times shown, ``monotonic`` measures every pause."""
        self.replica_name = replica_name
        self.on_ready: Callable[[], None] = lambda: None  # what waited may run; not for new entries
        self.on_finish: Callable[[], None] = lambda: None
        self.examined = 0  # entries looked at so far, for tests of how much work the queue makes
        self.shows_cuts = False  # queries read the parts of a group's cut, and not those that are active
        self._clock = clock
        self._monotonic = monotonic
        self._recheck_seconds = recheck_seconds
        self._lock = threading.RLock()
        self._index = QueueIndex()
        self._schedule = QueueSchedule()
        self._virtual = PartSet()
        self._inserting: set[PartName] = set()
        self._max_processed_insert_time = 0.0

    # --- state -------------------------------------------------------------------------------------------------

    def load(self, active: Iterable[PartName], entries: Sequence[tuple[str, LogEntry]]) -> None:
        """Replaces the state by what ZooKeeper holds: the replica's parts and its queue, ordered by name."""
        with self._lock:
            self._index, self._schedule = QueueIndex(), QueueSchedule()
            self._virtual = PartSet(active)
            for name, entry in entries:
                self.add(name, entry)

    def add(self, name: str, entry: LogEntry) -> None:
        """Adds an entry that is in ZooKeeper's queue. Adding a known one changes nothing."""
        with self._lock:
            if name in self._index:
                return
            item = QueueItem(name, entry, self._monotonic())
            self._index.put(item)
            self._schedule.make_ready(_rank(item))
            self._apply_to_virtual(entry)

    def _apply_to_virtual(self, entry: LogEntry) -> None:
        for dropped in entry.removed_ranges:
            self._virtual.remove_covered(dropped)
        for part in entry.created_parts:
            self._virtual.add(part)

    @contextmanager
    def mark_insert(self, part: PartName) -> Iterator[None]:
        """Marks an own INSERT between its commit and its activation. Its log entry and drops wait meanwhile."""
        with self._lock:
            self._inserting.add(part)
        try:
            yield
        finally:
            with self._lock:
                self._inserting.discard(part)
                self._release(part)

    def list_coming_parts(self) -> list[PartName]:
        """Lists the virtual parts and the parts that queued entries add on the way there."""
        with self._lock:
            return [*self._virtual, *(part for item in self._index for part in item.entry.created_parts)]

    def is_inserting(self) -> bool:
        return bool(self._inserting)

    def add_active(self, part: PartName) -> None:
        """Adds a part that this replica committed without an entry, or fetched instead of an entry's part."""
        with self._lock:
            self._virtual.add(part)

    def remove_virtual(self, part: PartName) -> None:
        """Removes a part that will not come: its quorum failed, or it was lost."""
        with self._lock:
            self._virtual.remove(part)

    def copy_virtual_parts(self) -> PartSet:
        """Returns a copy of the virtual parts."""
        with self._lock:
            return self._virtual.copy()

    def list_virtual_parts(self, partition_id: str) -> list[PartName]:
        """Lists the partition's virtual parts in block order."""
        with self._lock:
            return self._virtual.parts(partition_id)

    def find_virtual_cover(self, part: PartName) -> PartName | None:
        """Returns the virtual part that covers ``part``. Only that one may be fetched in its place."""
        with self._lock:
            return self._virtual.find_covering(part)

    def list_entries(self) -> list[QueueItem]:
        with self._lock:
            return list(self._index)

    def get(self, name: str) -> QueueItem | None:
        with self._lock:
            return self._index.get(name)

    def compute_seconds_queued(self, name: str) -> float:
        """Returns how long this server has had the entry queued; 0 if it is not queued."""
        with self._lock:
            item = self._index.get(name)
            return self._monotonic() - item.queued_at if item is not None else 0.0

    def names(self) -> set[str]:
        with self._lock:
            return self._index.names()

    def count(self, type_: EntryType) -> int:
        """Returns the number of queued entries of the type."""
        with self._lock:
            return self._index.count(type_)

    def count_merging(self) -> int:
        """Returns how many merges and mutations are running, or being fetched instead."""
        with self._lock:
            return sum(bool(item.entry.source_parts) for item in self._index.list_executing())

    def is_drained(self, names: Iterable[str]) -> bool:
        """Tells whether none of these entries is queued any more (SYSTEM SYNC REPLICA)."""
        with self._lock:
            return not any(name in self._index for name in names)

    # --- outcome of an execution -------------------------------------------------------------------------------

    def finish(self, name: str) -> LogEntry | None:
        """Removes an entry that has left ZooKeeper's queue. The parts it adds stay virtual parts."""
        with self._lock:
            item = self._index.pop(name)
            if item is None:
                return None
            self._schedule.forget(_rank(item))
            self._release(name)
            self.on_finish()
            for dropped in item.entry.removed_ranges:
                # An INSERT committed before the drop may have become active after the drop was queued.
                self._virtual.remove_covered(dropped)
            if item.entry.type in INSERT_ENTRY_TYPES:
                self._max_processed_insert_time = max(self._max_processed_insert_time, item.entry.create_time)
            return item.entry

    def fail(self, name: str, error: str) -> None:
        """Notes that an entry failed. It is tried again after a growing pause."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                pause = min(_FIRST_BACKOFF_SECONDS * 2 ** min(item.num_tries, 16), _MAX_BACKOFF_SECONDS)
                self._end(replace(item, last_exception=error, last_exception_time=self._clock()), pause)

    def postpone(self, name: str, reason: str, *, pause_seconds: float = 1.0) -> None:
        """Notes that an entry could not run yet. Later entries run during the pause."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                self._end(self._postponed(item, reason), pause_seconds)

    def _end(self, item: QueueItem, pause_seconds: float) -> None:
        """Ends the execution of an entry that is still to be done, and releases what waited for it."""
        self._index.put(replace(item, is_executing=False))
        self._schedule.delay_until(_rank(item), self._monotonic() + pause_seconds)
        self._release(item.name)

    def _release(self, key: Hashable) -> None:
        if self._schedule.release_parked(key):
            self.on_ready()

    def _postponed(self, item: QueueItem, reason: str) -> QueueItem:
        return replace(
            item, num_postponed=item.num_postponed + 1, postpone_reason=reason, last_postpone_time=self._clock()
        )

    def fetch_instead(self, name: str) -> None:
        """Turns a merge into a fetch: our result differed from the other replicas'."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                self._end(replace(item, must_fetch=True), 0.0)

    def retry_entries_of_mutations(self, mutations: Collection[str]) -> None:
        """Makes entries ready that failed while these mutations existed."""
        with self._lock:
            for item in list(self._index):
                if not item.is_executing and not set(mutations).isdisjoint(item.entry.mutations):
                    self._schedule.make_ready(_rank(item))

    def cancel_fetch_instead(self, name: str) -> None:
        """Turns the fetch of a merge's result back into a merge: nobody has the differing result any more."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                self._index.put(replace(item, must_fetch=False))

    # --- choice ------------------------------------------------------------------------------------------------

    def take_next_action(self, local: LocalParts, limits: PoolLimits) -> Action | None:
        """Returns the first entry that may run now, marked as executing; ``None`` if there is none."""
        with self._lock:
            now = self._monotonic()
            self._release_for(limits)
            while True:
                rank = self._schedule.pop(now)
                if rank is None:
                    # The entries that were released first did not use the slots.
                    slots = limits.free_merge_slots
                    if slots > 0 and self._schedule.release_parked(MERGE_SLOT, slots):
                        continue
                    return None
                item = self._index.get(rank[1])
                if item is not None and (action := self._start(item, local, limits)) is not None:
                    return action

    def compute_seconds_until_due(self) -> float:
        """Returns the seconds until an entry may run without :attr:`on_ready`; 0 if one waits for a slot."""
        with self._lock:
            keys = self._schedule.list_parked_keys()
            if any(key in (FETCH_SLOT, MERGE_SLOT) or isinstance(key, tuple) for key in keys):
                return 0.0
            return max(0.0, self._schedule.find_next_due() - self._monotonic())

    def start_small_inserts_with(
        self, first: Action, local: LocalParts, limits: PoolLimits, at_most: int
    ) -> list[Action]:
        """Starts more small INSERTs from the replica that ``first`` fetches from. The caller ends each."""
        with self._lock:
            taken: list[Action] = []
            leader = self._index.get(first.name)
            if first.kind is not ActionKind.FETCH or leader is None or leader.num_tries > 1:
                return taken
            if not is_small_insert(leader.entry):
                return taken
            while len(taken) < at_most and (rank := self._schedule.pop(self._monotonic())) is not None:
                item = self._index.get(rank[1])
                if item is None:
                    continue
                is_alike = is_small_insert(item.entry) and item.entry.source_replica == leader.entry.source_replica
                if item.num_tries or not is_alike:
                    self._schedule.make_ready(rank)
                    break
                action = self._start(item, local, limits)
                if action is not None:
                    taken.append(action)
            return taken

    def _release_for(self, limits: PoolLimits) -> None:
        """Releases entries waiting for a slot, but no more merges than may start."""
        if limits.free_fetch_slots > 0:
            self._schedule.release_parked(FETCH_SLOT)
        if limits.free_merge_slots > 0:
            self._schedule.release_parked(MERGE_SLOT, limits.free_merge_slots)
        for key in filter(limits.allow, self._schedule.list_parked_keys()):
            self._schedule.release_parked(key)

    def _start(self, item: QueueItem, local: LocalParts, limits: PoolLimits) -> Action | None:
        """Marks the entry as executing and returns its action, or parks it and returns ``None``."""
        self.examined += 1
        now = self._monotonic()
        verdict = self._rules(now).decide(item, local, limits)
        if isinstance(verdict, EntryWait):
            self._index.put(self._postponed(item, verdict.reason))
            self._schedule.park(_rank(item), verdict.key, min(verdict.until, now + self._recheck_seconds))
            return None
        self._index.put(replace(item, is_executing=True, num_tries=item.num_tries + 1, last_attempt_time=self._clock()))
        return verdict

    def _rules(self, now: float = 0.0) -> QueueRules:
        return QueueRules(self.replica_name, self._index, self._inserting, now, self.shows_cuts)

    # --- drops -------------------------------------------------------------------------------------------------

    def list_covered_entries(self, name: str) -> list[str]:
        """Lists the waiting entries whose result the drop ``name`` covers. They are removed with it."""
        with self._lock:
            item = self._index.get(name)
            assert item is not None
            return [
                other.name
                for dropped in item.entry.removed_ranges
                for other in self._index.list_in_partition(dropped.partition_id)
                if not other.is_executing and other.entry.new_part is not None and dropped.covers(other.entry.new_part)
            ]

    def find_later_removal(self, name: str, part: PartName) -> LogEntry | None:
        """Returns the first entry after ``name`` that drops the part or moves it to ``detached/``."""
        with self._lock:
            later = [drop for drop in self._index.list_drops(part.partition_id) if drop.name > name]
        takers = [drop for drop in later if any(gone.covers(part) for gone in drop.entry.removed_ranges)]
        return min(takers, key=lambda drop: drop.name).entry if takers else None

    def start_replacements_with(self, names: Collection[str], parts: Collection[PartName]) -> list[Action] | None:
        """Starts the entries that must be one step with ``names``. ``None``: one of them may not run now."""
        with self._lock:
            group, taken = set(names), list[QueueItem]()
            while more := self._rules().list_entries_to_join(group, parts):
                taken += more
                group.update(item.name for item in more)
            rules = self._rules()
            if any(item.is_executing or rules.why_drop_waits(item, group) is not None for item in taken):
                return None
            for item in taken:
                self._schedule.forget(_rank(item))
                self._index.put(replace(item, is_executing=True))
            return [Action(find_removal_kind(item.entry), item.name, item.entry) for item in taken]

    def is_replacing(self, part: PartName) -> bool:
        """Tells whether a queued replacement adds parts of these blocks. Nothing else may add them then."""
        with self._lock:
            return bool(self._rules().list_entries_to_join((), (part,)))

    def is_queued(self, transaction: str) -> bool:
        """Tells whether the transaction's entry is still queued here."""
        with self._lock:
            return any(item.entry.transaction == transaction for item in self._index.list_replacements())

    def is_cancelled(self, name: str) -> bool:
        """Tells whether a drop over a running entry has been queued, so that its result would be discarded."""
        with self._lock:
            item = self._index.get(name)
            if item is None:
                return True
            if item.entry.new_part is None or item.entry.removed_ranges:
                return False
            return self._rules().find_later_drop(item) is not None

    # --- what operators see --------------------------------------------------------------------------------------

    def counts(self) -> QueueCounts:
        with self._lock:
            return self._index.counts()

    def insert_times(self) -> tuple[float, float]:
        """Returns the time of the oldest queued insert (0 for none) and of the newest processed one."""
        with self._lock:
            return self._index.find_oldest_insert_time(), self._max_processed_insert_time

    def note_processed_insert(self, create_time: float) -> None:
        """Notes this replica's own INSERT, or at load the time stored in ZooKeeper."""
        with self._lock:
            self._max_processed_insert_time = max(self._max_processed_insert_time, create_time)

    def compute_delay_seconds(self, now: float) -> int:
        """Returns by how many seconds the oldest missing insert is older than ``now``; 0 for none."""
        oldest = self.insert_times()[0]
        return max(0, int(now - oldest)) if oldest else 0
