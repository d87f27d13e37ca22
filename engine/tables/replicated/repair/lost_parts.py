"""Gives up queue entries whose part no replica has or can make, so that the queue does not wait.

That happens when the last replica that held a part loses its disk. An entry is given up only after several failed
fetches. No replica, alive or not, may list the part or one that covers it, and nobody may be able to make it. That is,
no queue, and no log entry that a replica has still to pull, merges existing sources into it. (A replica that made it
later would have parts that intersect those of others.)

First, block ids are deleted: of every inserted part that the lost part covers and of which nothing is left. Their rows
can then be inserted again. Then the entry is removed, and the log's version moved. All these writes check that nobody
lists the part and that the log's version is still the one that was read. So no drop or merge was assigned since, and
none that was chosen before is assigned after. After an interruption everything begins again, because the entry is still
there.

Each replica gives up the part for itself, perhaps much later. Until then a merge of remnants with their neighbours
would intersect the part that a replica still waits for. Therefore a lost merged part leaves a marker, like a part whose
quorum failed. ``merge_predicate`` avoids its blocks until ``cleanup`` finds that nobody names it any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coordination.inserts.block_ids import delete_block_ids
from coordination.inserts.quorum import forget_dropped_parts_ops, restored_entry_time
from coordination.keeper.interface import (
    Check,
    Create,
    Delete,
    Keeper,
    MultiFailed,
    Op,
    SetData,
    check_not_exists,
)
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.part_set import PartSet
from coordination.nodes.gate import CommitKind
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.paths import TablePaths, parse_sequence_number
from coordination.nodes.replica_activation import list_registered_replicas
from coordination.reads.dropped_blocks import record_lost_part_ops
from engine.tables.replicated.replica_state import ATTEMPTS_BEFORE_LOSS_CHECK, ReplicaState
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _View:
    """Listed parts of all replicas, parts that queues bring other than by merges, and all merges to come."""

    listed: frozenset[PartName]
    fetched: frozenset[PartName]
    merges: tuple[LogEntry, ...]
    is_in_transaction: bool = False
    """Whether a replica has still to execute a transaction that brings it.

    See ``lost_transactions``.
    """

    def is_lost(self, part: PartName) -> bool:
        """Tells whether nobody has the part or can make it."""
        if self.is_in_transaction or _is_covered(part, self.listed):
            return False
        there = {*self.listed, *self.fetched} - {part}
        makeable = {merge.new_part: merge.source_parts for merge in self.merges if merge.new_part is not None}
        # Merge by merge: one may make what another needs, or cover what it needs itself.
        while made := [
            new for new, sources in makeable.items() if new not in there and all(_is_covered(s, there) for s in sources)
        ]:
            there.update(made)
        return part not in there


class LostParts:
    """The lost parts of one table, as one replica gives them up."""

    def __init__(self, state: ReplicaState, pull: Callable[[Keeper], None]) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull

    def give_up(self, keeper: Keeper, name: str, entry: LogEntry) -> bool:
        """Removes the entry ``name`` if its part is lost. Returns True if it has left the queue for good."""
        state = self._state
        item = state.queue.get(name)
        if item is None or item.num_tries < ATTEMPTS_BEFORE_LOSS_CHECK or entry.new_part is None:
            return False
        keeper.sync(state.paths.root)
        if keeper.exists(state.replica.queue_entry(name)) is None:  # it was given up, and the response was lost
            state.restart()
            return True
        log = keeper.exists(state.paths.log)
        self._pull(keeper)
        view = self._read_view(keeper, entry.new_part)
        if log is None or state.queue.is_cancelled(name) or not view.is_lost(entry.new_part):
            return False
        return self._remove(keeper, name, entry.new_part, view, log.version)

    def _read_view(self, keeper: Keeper, part: PartName) -> _View:
        """Reads the lists, queues and log entries of all replicas."""
        paths = self._state.paths
        replicas = list_registered_replicas(keeper, paths)
        # In the order log, queues, lists: what moves on meanwhile is seen in one of two places, or in both.
        logged = _read_unpulled_entries(keeper, paths, replicas)
        queued = _read_entries(keeper, paths, [paths.replica(name).queue for name in replicas])
        listings = keeper.children_many([paths.replica(name).parts for name in replicas])
        listed = (PartName.try_parse(name) for names in listings for name in names or ())
        fetched = frozenset(part for entry in queued if not entry.source_parts for part in entry.created_parts)
        merges = tuple(entry for entry in (*logged, *queued) if entry.source_parts)
        is_in_transaction = any(part in entry.created_parts for entry in (*logged, *queued) if entry.transaction)
        return _View(frozenset(filter(None, listed)), fetched, merges, is_in_transaction)

    def _remove(self, keeper: Keeper, name: str, part: PartName, view: _View, log_version: int) -> bool:
        """Deletes block ids, queues fetches of the remnants and removes the entry.

        Returns False if others changed the table.
        """
        state = self._state
        remnants = _find_remnants(part, view)
        is_lost: list[Op] = []
        for replica in list_registered_replicas(keeper, state.paths):
            is_lost += check_not_exists(state.paths.replica(replica).part(str(part)))
        is_lost += state.gate.checks(keeper, CommitKind.UPKEEP)
        held = [Check(state.paths.log, log_version), *is_lost]
        try:
            delete_block_ids(
                keeper,
                state.paths,
                part.partition_id,
                lambda inserted: part.covers(inserted) and remnants.find_covering(inserted) is None,
                held,
            )
            # Queued before the entry is removed, so that an interruption loses nothing; a fetch queued twice finds the
            # part here.
            *first, last = list(split_into_multis(self._make_fetch_entries(keeper, remnants), operation_bytes)) or [[]]
            for packet in first:
                keeper.multi([*held, *packet])
            self._remove_entry(keeper, name, part, [SetData(state.paths.log, b"", log_version), *is_lost, *last])
        except MultiFailed as conflict:
            state.gate.has_moved(keeper, conflict)
            logger.info("part %s is not given up: %s", part, conflict)
            return False
        logger.error("part %s of %s is lost: no replica has it", part, state.definition.full_name)
        self._log_forgotten_mutations(keeper, part, remnants)
        # Parts that the entry would have replaced are virtual parts again: only loading the queue anew shows it.
        state.restart()
        return True

    def _log_forgotten_mutations(self, keeper: Keeper, part: PartName, remnants: PartSet) -> None:
        """Logs that mutations of the lost part are not applied to remnants, if ZooKeeper no longer has them.

        Others (``mutations``) are applied again.
        """
        known = self._state.mutations.load(keeper)
        for remnant in remnants:
            if known.is_forgotten_between(remnant, part):
                logger.error(
                    "part %s of %s takes the place of the lost part %s, and mutations that changed it are no longer in "
                    "ZooKeeper: rows that they deleted or changed are as before; repeat the mutations",
                    remnant, self._state.definition.full_name, part,
                )  # fmt: skip

    def _remove_entry(self, keeper: Keeper, name: str, part: PartName, conditions: list[Op]) -> None:
        state = self._state
        count, count_stat = keeper.get(state.paths.lost_part_count)
        marker = state.paths.quorum_failed_part(str(part))
        is_marked = part.min_block == part.max_block or keeper.exists(marker) is not None
        keeper.multi(
            [
                *conditions,
                *([] if is_marked else [Create(marker)]),
                Delete(state.replica.queue_entry(name)),
                SetData(state.paths.lost_part_count, str(int(count or b"0") + 1).encode(), count_stat.version),
                *forget_dropped_parts_ops(keeper, state.paths, part),
                *record_lost_part_ops(keeper, state.paths, part),
            ]
        )

    def _make_fetch_entries(self, keeper: Keeper, remnants: PartSet) -> list[Create]:
        """Returns operations that queue fetches of the remnants missing on this replica."""
        state = self._state
        missing = [name for name in remnants if state.store.covering_active(name) is None]
        since = restored_entry_time(keeper, state.paths)
        entries = [LogEntry(EntryType.GET_PART, name, since, "", is_restored=True) for name in missing]
        return [Create(state.replica.queue_prefix, entry.to_bytes(), sequential=True) for entry in entries]


def _find_remnants(part: PartName, view: _View) -> PartSet:
    """Returns what is left of a lost merged part: those of its sources that some replica has."""
    remnants = PartSet()
    for name in sorted(view.listed, key=lambda n: (n.min_block - n.max_block, -n.level)):
        if part.covers(name) and not any(name.intersects(other) for other in remnants.list_overlapping(name)):
            remnants.add(name)
    return remnants


def _read_entries(keeper: Keeper, table: TablePaths, parents: list[str], first_index: int = 0) -> list[LogEntry]:
    listings = zip(parents, keeper.children_many(parents), strict=True)
    paths = [
        f"{parent}/{name}"
        for parent, names in listings
        for name in names or ()
        if parse_sequence_number(name) >= first_index
    ]
    return parse_entries(keeper, table, (answer[0] for answer in keeper.get_many(paths) if answer is not None))


def _read_unpulled_entries(keeper: Keeper, paths: TablePaths, replicas: list[str]) -> list[LogEntry]:
    """Returns the log entries that some replica, which is not lost, has still to pull."""
    lost = keeper.get_many([paths.replica(name).is_lost for name in replicas])
    pointers = keeper.get_many([paths.replica(name).log_pointer for name in replicas])
    behind = [
        int(pointer[0])
        for is_lost, pointer in zip(lost, pointers, strict=True)
        if is_lost is not None and is_lost[0] != b"1" and pointer is not None and pointer[0]
    ]
    return _read_entries(keeper, paths, [paths.log], min(behind)) if behind else []


def _is_covered(part: PartName, by: Iterable[PartName]) -> bool:
    return any(other.covers(part) for other in by)
