"""Parts that nobody has any more: the last replica that held them lost its disk. The queue must not wait for ever.

An entry is given up only after several vain fetches, and only if no replica, alive or not, lists the part or one that
covers it, and (for a merge) nobody can make it either. One multi removes the entry and frees the block id, so that the
rows can be inserted again, and moves the log's version: no drop or merge was assigned since it was read, and none
that was chosen before is assigned after.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordination.keeper import Create, Delete, Keeper, MultiFailed, Op, SetData, check_not_exists
from coordination.log_entry import EntryType, LogEntry
from coordination.part_set import PartSet
from coordination.quorum import forget_confirmed_ops
from coordination.replica_activity import registered_replicas
from parts.part_name import PartName

if TYPE_CHECKING:
    from engine.tables.replicated.table import ReplicatedTable

logger = logging.getLogger(__name__)

TRIES_BEFORE_LOST = 10


@dataclass(frozen=True)
class _View:
    """Parts on the lists of all replicas, and the other products of all queues."""

    listed: frozenset[PartName]
    queued: frozenset[PartName]

    def is_lost(self, entry: LogEntry) -> bool:
        assert entry.new_part is not None
        if _is_covered(entry.new_part, self.listed):
            return False
        sources = entry.source_parts
        return not sources or any(not _is_covered(source, self.listed | self.queued) for source in sources)


class LostParts:
    def __init__(self, table: ReplicatedTable) -> None:
        self._table = table

    def give_up(self, keeper: Keeper, name: str, entry: LogEntry) -> bool:
        """``True``: the entry ``name`` has left the queue for good; its part does not exist."""
        table = self._table
        item = next((item for item in table.queue.entries() if item.name == name), None)
        if item is None or item.num_tries < TRIES_BEFORE_LOST or entry.new_part is None:
            return False
        keeper.sync(table.paths.root)
        log = keeper.exists(table.paths.log)
        table.queue_steps.pull(keeper)
        view = self._look(keeper, entry.new_part)
        if log is None or table.queue.is_cancelled(name) or not view.is_lost(entry):
            return False
        return self._remove(keeper, name, entry.new_part, view, log.version)

    def _look(self, keeper: Keeper, part: PartName) -> _View:
        paths = self._table.paths
        replicas = registered_replicas(keeper, paths)
        # Queues before lists: a part that is committed in between has left a queue and is on a list.
        queued = _queued_products(keeper, [paths.replica(name).queue for name in replicas])
        listings = keeper.children_many([paths.replica(name).parts for name in replicas])
        listed = (PartName.try_parse(name) for names in listings for name in names or ())
        return _View(frozenset(filter(None, listed)), queued - {part})

    def _remove(self, keeper: Keeper, name: str, part: PartName, view: _View, log_version: int) -> bool:
        table = self._table
        count, count_stat = keeper.get(table.paths.lost_part_count)
        ops: list[Op] = [
            SetData(table.paths.log, b"", log_version),
            Delete(table.replica.queue_entry(name)),
            SetData(table.paths.lost_part_count, str(int(count or b"0") + 1).encode(), count_stat.version),
        ]
        for replica in registered_replicas(keeper, table.paths):
            ops += check_not_exists(table.paths.replica(replica).part(str(part)))
        ops += [Delete(path) for path in self._block_ids(keeper, str(part))]
        ops += forget_confirmed_ops(keeper, table.paths, part)
        for remnant in self._missing_remnants(part, view):
            fetch = LogEntry(EntryType.GET_PART, remnant, table.services.clock(), "", is_restored=True)
            ops.append(Create(table.replica.queue_prefix, fetch.to_bytes(), sequential=True))
        try:
            keeper.multi(ops)
        except MultiFailed as conflict:
            logger.info("part %s is not given up: %s", part, conflict)
            return False
        logger.error("part %s of %s is lost: no replica has it", part, table.definition.full_name)
        # What the entry would have replaced is a virtual part again: only loading the queue anew tells.
        table.restart()
        return True

    def _missing_remnants(self, part: PartName, view: _View) -> list[PartName]:
        """What is left of a lost merged part: those of its sources that other replicas have and this one has not."""
        remnants = PartSet()
        for name in sorted(view.listed, key=lambda n: (n.min_block - n.max_block, -n.level)):
            if part.covers(name) and not any(name.intersects(other) for other in remnants.overlapping(name)):
                remnants.add(name)
        return [name for name in remnants if self._table.store.covering_active(name) is None]

    def _block_ids(self, keeper: Keeper, part: str) -> Iterable[str]:
        paths = [self._table.paths.block(name) for name in keeper.children(self._table.paths.blocks)]
        answers = keeper.get_many(paths)
        return [path for path, a in zip(paths, answers, strict=True) if a is not None and a[0].decode() == part]


def _queued_products(keeper: Keeper, queues: list[str]) -> frozenset[PartName]:
    paths = [f"{queue}/{name}" for queue in queues for name in keeper.children(queue)]
    entries = [LogEntry.parse(answer[0]) for answer in keeper.get_many(paths) if answer is not None]
    return frozenset(entry.new_part for entry in entries if entry.new_part is not None and entry.is_producing)


def _is_covered(part: PartName, by: Iterable[PartName]) -> bool:
    return any(other.covers(part) for other in by)
