"""A place in a table's log, and which replicas have carried out what is before it.

A replica is past the mark if it has pulled the log up to there, and none of the entries that its queue had at that
moment is left. Merges and mutations are left aside: they bring no rows. The cost of a look does not depend on how many
entries lie between two marks.

Invariant: a replica's pointer is read before the end of its queue, so the queue had every entry before the mark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordination.keeper.interface import Keeper, Stat
from coordination.log.log_entry import LogEntry
from coordination.nodes.paths import ReplicaPaths, TablePaths, parse_sequence_number

_MOST_ENTRIES = 200
"""The most entries of a queue that are read in one look. If more are left, the replica is not past the mark."""


class LogMark:
    """The end of the log when the mark is made. Not thread-safe."""

    def __init__(self, keeper: Keeper, table: TablePaths) -> None:
        keeper.sync(table.root)
        self._table = table
        self._log_end = _count_created(keeper.exists(table.log))
        self._queue_ends: dict[str, int] = {}
        """By replica that has pulled so far: the number of the next entry of its queue then."""
        self._past: set[str] = set()
        self._skipped: dict[str, set[str]] = {}
        """By replica: queued entries that bring no rows."""

    def find_past(self, keeper: Keeper, names: Collection[str]) -> set[str]:
        """Returns those of the replicas that are past the mark now."""
        waiting = [self._table.replica(name) for name in sorted(names) if name not in self._past]
        pointers = keeper.get_many([replica.log_pointer for replica in waiting])
        stats = keeper.exists_many([replica.queue for replica in waiting])
        for replica, pointer, stat in zip(waiting, pointers, stats, strict=True):
            has_pulled = pointer is not None and pointer[0].isdigit() and int(pointer[0]) >= self._log_end
            if has_pulled and replica.name not in self._queue_ends:
                self._queue_ends[replica.name] = _count_created(stat)
        pulled = [replica for replica in waiting if replica.name in self._queue_ends]
        queues = keeper.children_many([replica.queue for replica in pulled])
        for replica, queue in zip(pulled, queues, strict=True):
            if queue is not None and self._is_past(keeper, replica, queue):
                self._past.add(replica.name)
        return self._past.intersection(names)

    def _is_past(self, keeper: Keeper, replica: ReplicaPaths, queue: Sequence[str]) -> bool:
        end, skipped = self._queue_ends[replica.name], self._skipped.setdefault(replica.name, set())
        left = [name for name in queue if parse_sequence_number(name) < end and name not in skipped]
        if len(left) > _MOST_ENTRIES:
            return False
        is_past = True
        for name, answer in zip(left, keeper.get_many([replica.queue_entry(name) for name in left]), strict=True):
            if answer is None:
                continue
            if LogEntry.parse(answer[0]).source_parts:
                skipped.add(name)
            else:
                is_past = False
        return is_past


def _count_created(stat: Stat | None) -> int:
    """Returns how many children were ever created below a node whose children are only created and deleted."""
    return (stat.children_version + stat.children_count) // 2 if stat is not None else 0
