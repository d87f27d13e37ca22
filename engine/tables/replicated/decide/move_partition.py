"""The source table's half of MOVE PARTITION: its parts leave in the multi that the target commits.

:mod:`coordination.drops.move_partition` explains why no row is lost or doubled. INSERTs, quorums, fetches and mutations
in the partition are waited for, but not merges.

A number that is held longer makes a larger batch of a link: nothing that commits meanwhile may be sent without the move
(``coordination.links.stream.cuts``). So the target prepares the parts in rounds while none is held, which takes the
time. A number is held only to wait for what is below it, and for the commit. What takes longer is waited for without
one: the number is given back, and another one is taken afterwards, each held up to twice as long as the one before. If
other rows come before the commit, everything starts anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from coordination.drops.drop_partition import LastBlocks
from coordination.drops.move_partition import plan_source_drop, why_parts_are_incomplete
from coordination.inserts.block_numbers import (
    BlockLock,
    allocate_block_number,
    read_committing_numbers,
    release_block_number,
)
from coordination.inserts.partition_nodes import find_partition_node
from coordination.inserts.quorum import read_unconfirmed_parts
from coordination.keeper.interface import Keeper, KeeperConnectionLoss, Op
from coordination.nodes.replica_activation import Activation
from coordination.transactions.transaction_commit import OtherTableChanged
from engine.tables.capabilities.table_partitions import AttachParts, PrepareParts, prepare_nothing
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import ConflictError, UnavailableError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot

_ATTEMPTS = 20
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
_FIRST_HOLD_SECONDS = 0.5
_ROUNDS = 5


class LogReader(Protocol):
    """Reads the table's log, for commands that remove rows."""

    def pull(self, keeper: Keeper) -> None:
        """Moves everything that is in the log now into the queue."""

    def last_blocks(self, keeper: Keeper) -> LastBlocks:
        """Returns a function that finds the last blocks in dropped ranges."""


@dataclass(frozen=True, slots=True)
class _MovingParts:
    """The parts to move, and the operations by which the target's commit drops them here."""

    parts: Sequence[Part]
    ops: Sequence[Op]


class PartitionMover:
    """Moves partitions of one replicated table to other tables."""

    def __init__(self, state: ReplicaState, log: LogReader) -> None:
        self._state = state
        self._log = log

    def move(
        self, partition_id: str, attach: AttachParts, status: QueryStatus, prepare: PrepareParts = prepare_nothing
    ) -> bool:
        """Moves a partition's parts, which ``prepare`` gets before.

        Returns ``False`` if there are none. Raises 159, 242, 999, and the errors of ``attach`` and ``prepare``.
        """
        hold_seconds = _FIRST_HOLD_SECONDS
        end = self._state.services.monotonic() + self._state.services.queue_wait_seconds
        for _ in range(_ATTEMPTS):
            status.check()
            self._prepare(partition_id, prepare, status)
            lock = self._allocate_block(partition_id)
            if lock is None:
                return False
            try:
                with self._hold_moving_parts(lock, status, end, hold_seconds) as leaving:
                    if leaving is not None and leaving.parts:
                        attach(leaving.parts, leaving.ops)
                        return True
            except OtherTableChanged:
                self._release_number(lock)
                continue
            except BaseException:
                with suppress(UnavailableError, KeeperConnectionLoss):
                    self._release_number(lock)
                raise
            self._release_number(lock)
            if leaving is not None:
                return False
            hold_seconds *= 2
            self._wait_until_whole(lock, status, end)
        raise ConflictError(
            "KEEPER_EXCEPTION", f"Could not move partition {partition_id} in {_ATTEMPTS} attempts: others get ahead"
        )

    def _prepare(self, partition_id: str, prepare: PrepareParts, status: QueryStatus) -> None:
        """Prepares the parts that are here, until a round finds no new ones."""
        for _ in range(_ROUNDS):
            status.check()
            with self._state.store.snapshot() as held:
                if not prepare([part for part in held.parts if part.name.partition_id == partition_id]):
                    return

    def _allocate_block(self, partition_id: str) -> BlockLock | None:
        """Takes a block number:

        parts with smaller ones may move. Returns ``None`` if the partition never had rows.
        """
        state = self._state
        with state.hold_write_access() as (keeper, _), state.restart_on_leaked_number():
            keeper.sync(state.paths.root)  # a server that lags would not show the newest partitions
            if find_partition_node(keeper, state.paths, partition_id) is None:
                return None
            first = state.store.compute_next_block_number(partition_id)
            lock = allocate_block_number(keeper, state.paths, partition_id, owner=state.replica.name, minimum=first)
            assert isinstance(lock, BlockLock)
            return lock

    def _release_number(self, lock: BlockLock) -> None:
        """Releases the number, which also makes a commit fail that may still be on its way."""
        try:
            release_block_number(self._state.replication.require_keeper(), lock)
        except (UnavailableError, KeeperConnectionLoss):
            self._state.restart()  # the new session removes the unused number
            raise

    @contextmanager
    def _hold_moving_parts(
        self, lock: BlockLock, status: QueryStatus, end: float, hold_seconds: float
    ) -> Iterator[_MovingParts | None]:
        """Yields the parts once they are complete here; ``None`` if that takes longer than ``hold_seconds``.

        Raises 159 (TIMEOUT_EXCEEDED) at the monotonic time ``end``.
        """
        state = self._state
        until = state.services.monotonic() + hold_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with state.hold_write_access() as (keeper, activation):
                keeper.sync(state.paths.root)
                ops, reason, held = self._plan_drop(keeper, activation, lock)
            with held:
                if reason is None:
                    yield _MovingParts([part for part in held.parts if _is_below(part.name, lock)], ops)
                    return
            self._check_time(lock, reason, status, end)
            if state.services.monotonic() >= until:
                yield None
                return
            state.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)

    def _wait_until_whole(self, lock: BlockLock, status: QueryStatus, end: float) -> None:
        """Waits, without a number, for what was below one that was given back. Raises 159 (TIMEOUT_EXCEEDED)."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with self._state.hold_write_access() as (keeper, _):
                keeper.sync(self._state.paths.root)
                reason, held = self._find_obstacle(keeper, lock)
            held.release()
            if reason is None:
                return
            self._check_time(lock, reason, status, end)
            self._state.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)

    def _check_time(self, lock: BlockLock, reason: str, status: QueryStatus, end: float) -> None:
        """Raises 159 (TIMEOUT_EXCEEDED) at the monotonic time ``end``, and if the statement or the table ends."""
        status.check()
        if self._state.services.monotonic() >= end or self._state.is_stopping.is_set():
            text = f"Partition {lock.partition_id} cannot be moved now: {reason}; nothing was moved"
            raise UnavailableError("TIMEOUT_EXCEEDED", text)

    def _plan_drop(
        self, keeper: Keeper, activation: Activation, lock: BlockLock
    ) -> tuple[Sequence[Op], str | None, Snapshot]:
        """Returns the operations, the reason why they must wait, and the parts.

        Plans, which is expensive, only if nothing has to be waited for.
        """
        reason, held = self._find_obstacle(keeper, lock)
        if reason is not None:
            return (), reason, held
        held.release()
        state, last_blocks = self._state, self._log.last_blocks(keeper)
        state.gate.load(keeper)  # an attempt before may have failed because it had moved
        ops = plan_source_drop(
            keeper, state.paths, lock, activation,
            gate=state.gate, clock=state.services.clock, last_blocks=last_blocks,
        )  # fmt: skip
        return (ops, *self._find_obstacle(keeper, lock))

    def _find_obstacle(self, keeper: Keeper, lock: BlockLock) -> tuple[str | None, Snapshot]:
        """Returns why the partition cannot move yet, if so, and the parts that were examined."""
        state = self._state
        committing = read_committing_numbers(keeper, state.paths, [lock.partition_id])[lock.partition_id]
        unconfirmed = read_unconfirmed_parts(keeper, state.paths)
        self._log.pull(keeper)
        mutations = state.mutations.load(keeper)
        held = state.store.snapshot()
        active = [part.name for part in held.parts if _is_below(part.name, lock)]
        virtual = [part for part in state.queue.list_virtual_parts(lock.partition_id) if _is_below(part, lock)]
        entries = [item.entry for item in state.queue.list_entries()]
        if pending := [number for number in committing if number < lock.number]:
            return f"block {pending[0]} is still being inserted", held
        return why_parts_are_incomplete(active, virtual, entries, unconfirmed, mutations), held


def _is_below(part: PartName, lock: BlockLock) -> bool:
    return part.partition_id == lock.partition_id and part.max_block < lock.number
