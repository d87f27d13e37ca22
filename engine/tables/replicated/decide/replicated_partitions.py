"""Partition commands of a replicated table: logs them and waits until they are done here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from coordination.drops.drop_part import log_drop_part
from coordination.drops.drop_partition import drop_all_partitions, drop_partition
from coordination.drops.forget_partition import forget_partition
from coordination.merges_mutations.merge_predicate import MergePredicate, read_merge_predicate
from coordination.nodes.gate import CommitKind
from engine.tables.capabilities.attach_parts import PartAttacher
from engine.tables.capabilities.table_partitions import AttachParts, PrepareParts, prepare_nothing
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.replicated.decide.move_partition import LogReader, PartitionMover
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.replicated.write.fetch_partition import PartitionFetcher
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from sql.definitions.engines.replica_location import split_zookeeper

_ATTEMPTS = 20
_SOON_SECONDS = 0.1


class SyncingLogReader(LogReader, Protocol):
    """Reads the log and waits for the queue."""

    def sync(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Waits until everything that is in the log now has been executed here."""


class ReplicatedPartitions:
    """The partition commands of one replica, which return when they are done here.

    Implements ``engine.tables.capabilities.table_partitions.TablePartitions``.
    """

    def __init__(
        self,
        state: ReplicaState,
        log: SyncingLogReader,
        transactions: TableTransactions,
        foreign: PartitionFetcher,
        drop_by_places: Callable[[str | None, QueryStatus], bool],
    ) -> None:
        """``drop_by_places`` drops rows where that is a mutation, and tells whether it is."""
        self._state = state
        self._log = log
        self._departures = PartitionMover(state, log)
        self._foreign = foreign
        self._drop_by_places = drop_by_places
        self.attaching = PartAttacher(state, transactions)
        self.store = state.store

    def drop(self, partition_id: str | None, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Logs the drop of a partition or of all, and waits for it."""
        status = status or QueryStatus()
        if not detach and self._drop_by_places(partition_id, status):
            return
        self._state.pass_gate(CommitKind.OTHER, lambda: self._log_drop(partition_id, detach), status)
        self._wait(status)

    def _log_drop(self, partition_id: str | None, detach: bool) -> None:
        state = self._state
        with state.hold_write_access() as (keeper, _), state.restart_on_leaked_number():
            keeper.sync(state.paths.root)  # a ZooKeeper server that lags would not show the newest partitions
            last_blocks, clock = self._log.last_blocks(keeper), state.services.clock
            where, gate = (keeper, state.paths, state.replica.name), state.gate
            if partition_id is None:
                drop_all_partitions(*where, gate=gate, detach=detach, clock=clock, last_blocks=last_blocks)
            else:
                drop_partition(*where, partition_id, gate=gate, detach=detach, clock=clock, last_blocks=last_blocks)

    def drop_part(self, name: PartName, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Logs the drop of one part, and waits for it. Raises 232 and 384."""
        status = status or QueryStatus()
        self._state.pass_gate(CommitKind.OTHER, partial(self._log_part_drop, name, detach, status), status)
        self._wait(status)

    def fetch(self, path: str, wanted: PartName | str, status: QueryStatus) -> None:
        """Fetches parts of another table's replica into ``detached/``."""
        zookeeper, path = split_zookeeper(path)
        with self._state.hold_write_access():
            self._foreign.fetch(self._state.replication.connect_to(zookeeper).require_keeper(), path, wanted, status)

    def move(
        self, partition_id: str, attach: AttachParts, status: QueryStatus, prepare: PrepareParts = prepare_nothing
    ) -> None:
        """Moves a partition to another table."""
        move = partial(self._departures.move, partition_id, attach, status, prepare)
        if self._state.pass_gate(CommitKind.OTHER, move, status):
            self._wait(status)

    def forget(self, partition_id: str, status: QueryStatus) -> None:
        """Removes the znodes of an empty partition. Raises 716 if that is not possible."""
        state = self._state
        for _ in range(_ATTEMPTS):
            status.check()
            with state.hold_write_access() as (keeper, _), state.restart_on_leaked_number():
                keeper.sync(state.paths.root)
                self._log.pull(keeper)
                if state.queue.list_virtual_parts(partition_id):
                    raise UserError("CANNOT_FORGET_PARTITION", f"Partition {partition_id} is not empty.")
                reason = forget_partition(
                    keeper,
                    state.replica,
                    partition_id,
                    is_streamed=state.definition.settings.enable_block_number_column,
                    known=state.partition_nodes,
                    gate=state.gate,
                )
            if reason is None:
                return
            state.sleep(_SOON_SECONDS)
        raise ConflictError(
            "CANNOT_FORGET_PARTITION", f"Partition {partition_id} cannot be forgotten yet: {reason}; try again"
        )

    def _wait(self, status: QueryStatus) -> None:
        with report_as_unfinished("It is in the log"):
            self._log.sync(self._state.services.queue_wait_seconds, status)

    def _log_part_drop(self, name: PartName, detach: bool, status: QueryStatus) -> None:
        """Logs the drop, again if others get ahead. Raises 384 after many attempts."""
        state = self._state
        with state.hold_write_access() as (keeper, _):
            for _ in range(_ATTEMPTS):
                status.check()
                keeper.sync(state.paths.root)
                predicate = read_merge_predicate(
                    keeper, state.paths, state.queue, lambda: self._log.pull(keeper), state.mutations.load, ()
                )
                self._require_free(predicate, name)
                where = (keeper, state.paths, state.replica.name, name, predicate.log_version)
                if log_drop_part(*where, gate=state.gate, detach=detach, clock=state.services.clock):
                    return
                state.sleep(_SOON_SECONDS)
        raise _make_locked_error(name, "other replicas keep assigning merges")

    def _require_free(self, predicate: MergePredicate, name: PartName) -> None:
        """Raises 232 or 384 if the part cannot be dropped now."""
        if name not in predicate.current and self._state.store.get_active(name) is None:
            raise UserError("NO_SUCH_DATA_PART", f"No part {name} in committed state")
        reason = predicate.why_not_mergeable(name)
        if reason is not None:
            raise _make_locked_error(name, reason)
        if self._state.store.get_active(name) is None:
            raise UserError("NO_SUCH_DATA_PART", f"Part {name} is not on this replica yet: SYSTEM SYNC REPLICA first")


def _make_locked_error(name: PartName, reason: str) -> ConflictError:
    return ConflictError("PART_IS_TEMPORARILY_LOCKED", f"Part {name} cannot be taken away now: {reason}; try again")
