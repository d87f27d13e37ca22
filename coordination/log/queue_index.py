"""The entries of a queue, indexed by name, partition, type, execution and time of insert.

Invariants

- Every index names only entries of ``_items``; ``_insert_times`` may hold finished ones, which are dropped when they
  come up.
- An entry keeps its name, type and partitions while it is queued; only its history changes (:meth:`QueueIndex.put`).
- ``_executing`` has exactly the items with ``is_executing``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from coordination.log.log_entry import EntryType, LogEntry

_SLACK = 16
INSERT_ENTRY_TYPES = (EntryType.GET_PART, EntryType.ATTACH_PART, EntryType.REPLACE_RANGE)


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One entry and its history, as in system.replication_queue.

    Times are seconds since the epoch; 0 means never.
    """

    name: str
    entry: LogEntry
    queued_at: float = 0.0
    """Monotonic time at which this server added it to its queue."""
    is_executing: bool = False
    num_tries: int = 0
    last_exception: str = ""
    last_exception_time: float = 0.0
    last_attempt_time: float = 0.0
    num_postponed: int = 0
    postpone_reason: str = ""
    last_postpone_time: float = 0.0
    must_fetch: bool = False
    """A merge whose result here differed from other replicas': fetch theirs."""


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The queue's columns of system.replicas. Times are seconds since the epoch, 0 for none."""

    queue_size: int
    inserts_in_queue: int
    merges_in_queue: int
    part_mutations_in_queue: int
    queue_oldest_time: float
    inserts_oldest_time: float
    merges_oldest_time: float
    part_mutations_oldest_time: float
    oldest_part_to_get: str
    oldest_part_to_merge_to: str
    oldest_part_to_mutate_to: str
    future_parts: int


class QueueIndex:
    """The queued entries, ordered by name, which is the order of the log. Not thread-safe."""

    def __init__(self) -> None:
        self._items: dict[str, QueueItem] = {}
        self._partitions: dict[str, dict[str, None]] = {}
        self._drops: dict[str, dict[str, None]] = {}
        self._replacements: dict[str, None] = {}
        self._batches: list[str] = []
        """The batches of links, sorted."""
        self._executing: dict[str, None] = {}
        self._types: Counter[EntryType] = Counter()
        self._insert_times: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[QueueItem]:
        return iter(self._items.values())

    def get(self, name: str) -> QueueItem | None:
        """Returns the entry; ``None`` if it is not queued."""
        return self._items.get(name)

    def names(self) -> set[str]:
        return set(self._items)

    def put(self, item: QueueItem) -> None:
        """Adds an entry, or replaces it by its new state."""
        known = self._items.get(item.name)
        assert known is None or known.entry.type is item.entry.type, f"{item.name} has changed its type"
        if known is None:
            self._enter(item)
        self._items[item.name] = item
        if item.is_executing:
            self._executing[item.name] = None
        else:
            self._executing.pop(item.name, None)

    def _enter(self, item: QueueItem) -> None:
        self._types[item.entry.type] += 1
        for partition_id in item.entry.partition_ids:
            self._partitions.setdefault(partition_id, {})[item.name] = None
        for dropped in item.entry.removed_ranges:
            self._drops.setdefault(dropped.partition_id, {})[item.name] = None
        if item.entry.type is EntryType.REPLACE_RANGE:
            self._replacements[item.name] = None
        if item.entry.is_batch:
            insort(self._batches, item.name)
        if item.entry.type in INSERT_ENTRY_TYPES:
            if len(self._insert_times) > 2 * len(self._items) + _SLACK:  # most of the heap is finished entries
                self._insert_times = sorted(pair for pair in self._insert_times if pair[1] in self._items)
            heappush(self._insert_times, (item.entry.create_time, item.name))

    def pop(self, name: str) -> QueueItem | None:
        """Removes and returns an entry; ``None`` if it is not queued."""
        item = self._items.pop(name, None)
        if item is None:
            return None
        self._types[item.entry.type] -= 1
        self._executing.pop(name, None)
        self._replacements.pop(name, None)
        if item.entry.is_batch:
            del self._batches[bisect_left(self._batches, name)]
        for names in (self._partitions, self._drops):
            for partition_id in item.entry.partition_ids:
                of_partition = names.get(partition_id, {})
                of_partition.pop(name, None)
                if not of_partition:
                    names.pop(partition_id, None)
        return item

    def list_in_partition(self, partition_id: str) -> list[QueueItem]:
        """Lists the entries that add or remove parts of the partition."""
        return [self._items[name] for name in self._partitions.get(partition_id, ())]

    def list_drops(self, partition_id: str) -> list[QueueItem]:
        """Lists the entries that remove parts of the partition."""
        return [self._items[name] for name in self._drops.get(partition_id, ())]

    def list_replacements(self) -> list[QueueItem]:
        """Lists the entries of type REPLACE_RANGE."""
        return [self._items[name] for name in self._replacements]

    def find_batch_before(self, name: str) -> QueueItem | None:
        """Returns the last batch of a link that is queued before the entry; ``None`` if there is none."""
        index = bisect_left(self._batches, name)
        return self._items[self._batches[index - 1]] if index else None

    def list_executing(self) -> list[QueueItem]:
        """Lists the entries that are being executed."""
        return [self._items[name] for name in self._executing]

    def count(self, type_: EntryType) -> int:
        """Returns the number of entries of the type."""
        return self._types[type_]

    def find_oldest_insert_time(self) -> float:
        """Returns the creation time of the oldest queued insert; 0 for none."""
        while self._insert_times and self._insert_times[0][1] not in self._items:
            heappop(self._insert_times)
        return self._insert_times[0][0] if self._insert_times else 0.0

    def counts(self) -> QueueCounts:
        """Counts the entries for system.replicas."""
        items = list(self)
        inserts = [i for i in items if i.entry.type in INSERT_ENTRY_TYPES]
        merges = [i for i in items if i.entry.type is EntryType.MERGE_PARTS]
        mutations = [i for i in items if i.entry.type is EntryType.MUTATE_PART]
        insert, merge, mutation = _oldest(inserts), _oldest(merges), _oldest(mutations)
        return QueueCounts(
            queue_size=len(items),
            inserts_in_queue=len(inserts),
            merges_in_queue=len(merges),
            part_mutations_in_queue=len(mutations),
            queue_oldest_time=min((i.entry.create_time for i in items), default=0.0),
            inserts_oldest_time=insert.entry.create_time if insert else 0.0,
            merges_oldest_time=merge.entry.create_time if merge else 0.0,
            part_mutations_oldest_time=mutation.entry.create_time if mutation else 0.0,
            oldest_part_to_get=str(next(iter(insert.entry.created_parts), "")) if insert else "",
            oldest_part_to_merge_to=str(merge.entry.new_part) if merge else "",
            oldest_part_to_mutate_to=str(mutation.entry.new_part) if mutation else "",
            future_parts=sum(len(i.entry.created_parts) for i in items if i.is_executing),
        )


def _oldest(items: Iterable[QueueItem]) -> QueueItem | None:
    return min(items, key=lambda item: item.entry.create_time, default=None)
