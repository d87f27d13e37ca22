"""A replica's queue of work as a state machine without I/O: which entry may run now, and why the others may not.

Invariants:
- *Virtual parts* = active parts + results of queued entries. They only change together with ZooKeeper: by entries
  added after the pull committed, by this replica's own commits, by entries that left the queue.
- Executing entries never make intersecting parts, nor parts whose sources are still being made.
- A DROP_RANGE runs before every entry it covers: those that wait are cancelled (:meth:`covered_entries`), those that
  run are told to stop (:meth:`is_cancelled`) and waited for. It also waits for this replica's own INSERTs between their
  commit and their activation (:meth:`inserting`).
- An entry that may not run (:mod:`coordination.log.queue_rules`) is parked on what it waits for, and examined again
  when that has ended (:mod:`coordination.log.queue_schedule`): a search costs what is new or freed, not what waits.

:meth:`ReplicationQueue.next_action` marks an entry as executing; the caller then calls exactly one of ``finish`` (after
the entry has left ZooKeeper), ``fail`` or ``postpone``. All methods may be called from any thread.
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
    is_small_insert,
    kind_of_gone,
)
from coordination.log.queue_schedule import QueueSchedule, Rank
from parts.common.part_name import PartName

_MAX_BACKOFF_SECONDS = 30.0
_FIRST_BACKOFF_SECONDS = 0.1
_RECHECK_SECONDS = 30.0


def _rank(item: QueueItem) -> Rank:
    return (not item.entry.gone, item.name)


class ReplicationQueue:
    """Entries are kept in the order of their queue nodes, which is the order of the log."""

    def __init__(
        self,
        replica_name: str,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        recheck_seconds: float = _RECHECK_SECONDS,
    ) -> None:
        """``clock``: seconds since the epoch, which are only shown; ``monotonic`` measures every pause.
        ``recheck_seconds``: when a waiting entry is looked at though nothing was heard of what it waits for."""
        self.replica_name = replica_name
        self.on_ready: Callable[[], None] = lambda: None  # what waited may run; not for new entries
        self.on_finish: Callable[[], None] = lambda: None
        self.examined = 0
        """Entries looked at so far, for tests of how much work the queue makes."""
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
        """Starts anew from what ZooKeeper holds: the replica's parts and its queue, in order of their names."""
        with self._lock:
            self._index, self._schedule = QueueIndex(), QueueSchedule()
            self._virtual = PartSet(active)
            for name, entry in entries:
                self.add(name, entry)

    def add(self, name: str, entry: LogEntry) -> None:
        """An entry that is in the queue in ZooKeeper. Adding one that is known changes nothing."""
        with self._lock:
            if name in self._index:
                return
            item = QueueItem(name, entry, self._monotonic())
            self._index.put(item)
            self._schedule.ready(_rank(item))
            self._apply_to_virtual(entry)

    def _apply_to_virtual(self, entry: LogEntry) -> None:
        for dropped in entry.gone:
            self._virtual.remove_covered(dropped)
        for part in entry.made:
            self._virtual.add(part)

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
                self._release(part)

    def parts_to_come(self) -> list[PartName]:
        """What the replica is to have, and what it makes on the way there."""
        with self._lock:
            return [*self._virtual, *(part for item in self._index for part in item.entry.made)]

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

    def virtual_parts_of(self, partition_id: str) -> list[PartName]:
        """In block order."""
        with self._lock:
            return self._virtual.parts(partition_id)

    def virtual_cover(self, part: PartName) -> PartName | None:
        """A part may be fetched in place of another only if it is one of the virtual parts."""
        with self._lock:
            return self._virtual.covering(part)

    def entries(self) -> list[QueueItem]:
        with self._lock:
            return list(self._index)

    def get(self, name: str) -> QueueItem | None:
        with self._lock:
            return self._index.get(name)

    def seconds_queued(self, name: str) -> float:
        """For how long this server has had the entry in its queue; 0 for one that is not there."""
        with self._lock:
            item = self._index.get(name)
            return self._monotonic() - item.queued_at if item is not None else 0.0

    def names(self) -> set[str]:
        with self._lock:
            return self._index.names()

    def count(self, type_: EntryType) -> int:
        """How many entries of the type are queued."""
        with self._lock:
            return self._index.count(type_)

    def count_merging(self) -> int:
        """How many merges and mutations run, or are fetched instead."""
        with self._lock:
            return sum(bool(item.entry.source_parts) for item in self._index.executing())

    def is_drained(self, names: Iterable[str]) -> bool:
        """True when none of these entries is queued any more (SYSTEM SYNC REPLICA)."""
        with self._lock:
            return not any(name in self._index for name in names)

    # --- outcome of an execution -------------------------------------------------------------------------------

    def finish(self, name: str) -> LogEntry | None:
        """The entry has left ZooKeeper's queue and its part is active. What it makes stays among the virtual parts."""
        with self._lock:
            item = self._index.pop(name)
            if item is None:
                return None
            self._schedule.forget(_rank(item))
            self._release(name)
            self.on_finish()
            for dropped in item.entry.gone:
                # An INSERT that was committed before the drop may have become active after the drop was queued.
                self._virtual.remove_covered(dropped)
            if item.entry.type in INSERT_ENTRY_TYPES:
                self._max_processed_insert_time = max(self._max_processed_insert_time, item.entry.create_time)
            return item.entry

    def fail(self, name: str, error: str) -> None:
        """Tried and failed: shown as last_exception, tried again after a growing pause."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                pause = min(_FIRST_BACKOFF_SECONDS * 2 ** min(item.num_tries, 16), _MAX_BACKOFF_SECONDS)
                self._end(replace(item, last_exception=error, last_exception_time=self._clock()), pause)

    def postpone(self, name: str, reason: str, *, pause_seconds: float = 1.0) -> None:
        """Not failed, only not now (e.g. no replica has the part yet). The pause lets the entries behind it run."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                self._end(self._postponed(item, reason), pause_seconds)

    def _end(self, item: QueueItem, pause_seconds: float) -> None:
        """It runs no more, and is still to be done; what waited for it may go on."""
        self._index.put(replace(item, is_executing=False))
        self._schedule.later(_rank(item), self._monotonic() + pause_seconds)
        self._release(item.name)

    def _release(self, key: Hashable) -> None:
        if self._schedule.release(key):
            self.on_ready()

    def _postponed(self, item: QueueItem, reason: str) -> QueueItem:
        return replace(
            item, num_postponed=item.num_postponed + 1, postpone_reason=reason, last_postpone_time=self._clock()
        )

    def fetch_instead(self, name: str) -> None:
        """Our merge gave another content than the other replicas': from now on the entry is a fetch."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                self._end(replace(item, must_fetch=True), 0.0)

    def retry_entries_of_mutations(self, mutations: Collection[str]) -> None:
        """Entries that failed while these mutations were there may do without them now."""
        with self._lock:
            for item in list(self._index):
                if not item.is_executing and not set(mutations).isdisjoint(item.entry.mutations):
                    self._schedule.ready(_rank(item))

    def cancel_fetch_instead(self, name: str) -> None:
        """The other result of the merge is gone."""
        with self._lock:
            item = self._index.get(name)
            if item is not None:
                self._index.put(replace(item, must_fetch=False))

    # --- choice ------------------------------------------------------------------------------------------------

    def next_action(self, local: LocalParts, limits: PoolLimits) -> Action | None:
        """The first entry that may run now, marked as executing; ``None`` if there is none."""
        with self._lock:
            now = self._monotonic()
            self._release_for(limits)
            while True:
                rank = self._schedule.pop(now)
                if rank is None:
                    # Those that were first in line did not take the slots.
                    if limits.free_merge_slots > 0 and self._schedule.release(MERGE_SLOT, limits.free_merge_slots):
                        continue
                    return None
                item = self._index.get(rank[1])
                if item is not None and (action := self._start(item, local, limits)) is not None:
                    return action

    def seconds_until_due(self) -> float:
        """Returns the seconds until an entry may run without a call of :attr:`on_ready`; 0 if one waits for a slot."""
        with self._lock:
            if any(key in (FETCH_SLOT, MERGE_SLOT) or isinstance(key, tuple) for key in self._schedule.parked_on()):
                return 0.0
            return max(0.0, self._schedule.next_due() - self._monotonic())

    def start_small_inserts_with(
        self, first: Action, local: LocalParts, limits: PoolLimits, at_most: int
    ) -> list[Action]:
        """Starts more small INSERTs of the replica that ``first`` fetches from; the caller ends each of them."""
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
                    self._schedule.ready(rank)
                    break
                action = self._start(item, local, limits)
                if action is not None:
                    taken.append(action)
            return taken

    def _release_for(self, limits: PoolLimits) -> None:
        """No more merges than may start: the others need not be looked at."""
        if limits.free_fetch_slots > 0:
            self._schedule.release(FETCH_SLOT)
        if limits.free_merge_slots > 0:
            self._schedule.release(MERGE_SLOT, limits.free_merge_slots)
        for key in filter(limits.allow, self._schedule.parked_on()):
            self._schedule.release(key)

    def _start(self, item: QueueItem, local: LocalParts, limits: PoolLimits) -> Action | None:
        """``None``: it may not run, and is parked."""
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
        return QueueRules(self.replica_name, self._index, self._inserting, now)

    # --- drops -------------------------------------------------------------------------------------------------

    def covered_entries(self, name: str) -> list[str]:
        """Entries whose result the drop ``name`` covers, and that do not run: they go with it."""
        with self._lock:
            item = self._index.get(name)
            assert item is not None
            return [
                other.name
                for dropped in item.entry.gone
                for other in self._index.in_partition(dropped.partition_id)
                if not other.is_executing and other.entry.new_part is not None and dropped.covers(other.entry.new_part)
            ]

    def taken_away_later(self, name: str, part: PartName) -> LogEntry | None:
        """The first entry behind ``name`` that drops the part or moves it to ``detached/``."""
        with self._lock:
            later = [drop for drop in self._index.drops(part.partition_id) if drop.name > name]
        takers = [drop for drop in later if any(gone.covers(part) for gone in drop.entry.gone)]
        return min(takers, key=lambda drop: drop.name).entry if takers else None

    def start_replacements_with(self, names: Collection[str], parts: Collection[PartName]) -> list[Action] | None:
        """The entries that must be one step with the running ones of ``names``, by which ``parts`` come: they are
        marked as executing, and the caller ends each of them too. ``None``: one of them may not run now."""
        with self._lock:
            group, taken = set(names), list[QueueItem]()
            while more := self._rules().beside(group, parts):
                taken += more
                group.update(item.name for item in more)
            rules = self._rules()
            if any(item.is_executing or rules.why_drop_waits(item, group) is not None for item in taken):
                return None
            for item in taken:
                self._schedule.forget(_rank(item))
                self._index.put(replace(item, is_executing=True))
            return [Action(kind_of_gone(item.entry), item.name, item.entry) for item in taken]

    def is_replacing(self, part: PartName) -> bool:
        """Whether something of these blocks comes by a replacement that is still to be done: only that may bring it."""
        with self._lock:
            return bool(self._rules().beside((), (part,)))

    def is_queued(self, transaction: str) -> bool:
        """Whether what the transaction decided is still to be done here."""
        with self._lock:
            return any(item.entry.transaction == transaction for item in self._index.replacements())

    def is_cancelled(self, name: str) -> bool:
        """For a running entry: a drop over it has been queued, so its result would be thrown away."""
        with self._lock:
            item = self._index.get(name)
            if item is None:
                return True
            if item.entry.new_part is None or item.entry.gone:
                return False
            return self._rules().later_drop_over(item) is not None

    # --- what operators see --------------------------------------------------------------------------------------

    def counts(self) -> QueueCounts:
        with self._lock:
            return self._index.counts()

    def insert_times(self) -> tuple[float, float]:
        """(oldest insert not yet here, 0 for none; newest insert processed by this queue)."""
        with self._lock:
            return self._index.oldest_insert_time(), self._max_processed_insert_time

    def note_processed_insert(self, create_time: float) -> None:
        """This replica's own INSERT, or the value kept in ZooKeeper at load."""
        with self._lock:
            self._max_processed_insert_time = max(self._max_processed_insert_time, create_time)

    def absolute_delay(self, now: float) -> int:
        """Seconds by which the oldest insert that is not here lies behind ``now``; 0 when none is missing."""
        oldest = self.insert_times()[0]
        return max(0, int(now - oldest)) if oldest else 0
