"""Commits the batch of a link with one multi.

The parts are staged before. Block numbers are taken, then what the plan needs is read, then the multi is sent;
``coordination.links.batches.batch_ops`` tells what it expects. An attempt that loses against another commit of the
table gives its numbers up, reads everything anew and tries again. So does one that loses against another version of the
vector, if the batch is whole and next at that version too: else a link whose batches take longer would never win
against another one of the table. If somebody else has applied changes of it, the source must be asked anew.

If the answer to the multi is lost, its locks are deleted first, so that one still on its way fails. Then the vector
tells whether the batch is applied. A batch without locks only moves the vector, which no repeat does twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coordination.drops.drop_partition import LastBlocks, list_quorum_ops
from coordination.inserts.block_ids import read_block_ids
from coordination.inserts.block_numbers import BlockLock, LockKind, allocate_block_number, read_committing_numbers
from coordination.inserts.block_views import BlockNode
from coordination.inserts.insert_commit import release_block_number_if_possible
from coordination.inserts.partition_nodes import find_partitions
from coordination.inserts.quorum import forget_dropped_parts_ops
from coordination.keeper.interface import BadVersion, Keeper, KeeperConnectionLoss, MultiFailed, NodeExists, NoNode, Op
from coordination.links.batches.batch_list import must_be_list
from coordination.links.batches.batch_ops import BatchCommit, TargetReads, make_batch_commit
from coordination.links.batches.batch_plan import (
    BatchLimits,
    BatchPlan,
    Target,
    count_numbers,
    mark_cut,
    plan_batch,
)
from coordination.links.batches.batch_selection import select_batch
from coordination.links.groups.cut_mark import CutMark
from coordination.links.link_definition import LinkDefinition
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import drop_range_name
from coordination.nodes.gate import CommitKind, Gate
from coordination.reads.dropped_blocks import record_drop_ops
from engine.tables.capabilities.incoming_blocks import StagedViews
from engine.tables.capabilities.table_links import IncomingBatch, TargetState
from engine.tables.replicated.links.incoming_commands import note_marks_ops
from engine.tables.replicated.links.large_batches import LargeBatches
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import CancelledError, ConflictError, UnavailableError
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

NO_VECTOR = -2
"""The version of a vector that does not exist. ZooKeeper never has it, so nothing is committed against it."""
_ATTEMPTS = 20
_NO_LIMITS = BatchLimits(0, 0)


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A batch whose parts are staged here."""

    batch: IncomingBatch
    target: Target
    sets_ids: bool
    """Whether the block ids of the source are set here too."""
    metadata_version: int
    """The version of the definition that the batch was checked against."""
    views: StagedViews | None = None
    """What materialized views made of the rows: committed in the same multi."""
    origin: str = ""
    """The table's own origin before the parts were staged, if parts keep the places of rows."""


class BatchCommitter:
    """Commits batches on one replica.

    ``last_blocks`` pulls the log; see ``drop_partition``. ``read_target`` reads the vector.
    """

    def __init__(
        self,
        state: ReplicaState,
        last_blocks: Callable[[Keeper], LastBlocks],
        read_target: Callable[[Keeper], TargetState],
    ) -> None:
        self.state = state
        self.last_blocks = last_blocks
        self.read_target = read_target
        self.lists = LargeBatches(state.paths)
        self.limits = _NO_LIMITS
        """A batch that passes the limits of an entry or a request is committed by a list."""

    def commit(
        self, keeper: Keeper, staged: StagedBatch, columns_version: Callable[[Keeper], int | None]
    ) -> BatchPlan | None:
        """Commits the batch and returns what it did.

        Returns ``None`` if somebody else had applied changes of it: nothing was committed.

        ``columns_version``: that of the node of columns, ``None`` if this replica has other ones. Raises 999 if others
        keep changing the table, and ``GateBarred``.
        """
        self.lists.settle(keeper, staged.batch.link.uuid)
        for number in range(_ATTEMPTS):
            version = columns_version(keeper)
            if version is None or self.state.description.metadata_version != staged.metadata_version:
                raise ConflictError("CANNOT_ASSIGN_ALTER", "The table's definition changed meanwhile; try again")
            attempt = CommitAttempt(self, number, keeper, staged, version)
            plan = attempt.run()
            if attempt.has_vector_moved:
                batch = _admit_anew(staged.batch, self.read_target(keeper))
                if batch is None:
                    return None
                staged = replace(staged, batch=batch)
            elif attempt.is_over:
                if plan is not None and attempt.has_list:
                    self.lists.settle(keeper, staged.batch.link.uuid)
                return plan
        raise ConflictError("KEEPER_EXCEPTION", f"Could not commit a batch in {_ATTEMPTS} attempts: others get ahead")


def _admit_anew(batch: IncomingBatch, state: TargetState) -> IncomingBatch | None:
    """Returns the batch as it is admitted in a newer state of the target; ``None`` if it is not the same there."""
    source, end = batch.end.origin, batch.end.zxid
    if state.own != batch.state.own or state.vector_version == NO_VECTOR:
        return None
    found = select_batch(batch.changes, [end], state.vector, source, state.own, state.forks, _NO_LIMITS)
    if found.end != end or found.changes != batch.changes:
        return None
    return replace(batch, state=state, vector=found.vector)


def check_link(state: ReplicaState, keeper: Keeper, link: LinkDefinition) -> tuple[Op, ...]:
    """Returns the gate's checks for a commit of the link.

    Raises ``CancelledError`` if the link was dropped, so that nothing of it is committed behind its DROP, and
    ``GateBarred``.
    """
    if not _has_link(state.gate.gate, link):  # it was made a moment ago, or dropped
        keeper.sync(state.paths.root)
        state.gate.load(keeper)
    checks = state.gate.checks(keeper, CommitKind.LINK)
    if not _has_link(state.gate.gate, link):  # not older than what the checks expect
        raise CancelledError(f"Link {link.name!r} was dropped; nothing of it is committed any more")
    return checks


def _has_link(gate: Gate | None, link: LinkDefinition) -> bool:
    if gate is None or not gate.periods:  # a table that no statement linked
        return True
    known = gate.find_link(link.name)
    return known is not None and known.uuid == link.uuid


class CommitAttempt:
    """One attempt to commit, and the locks that it holds."""

    def __init__(
        self, owner: BatchCommitter, number: int, keeper: Keeper, staged: StagedBatch, columns_version: int
    ) -> None:
        self._owner = owner
        self._number = number
        self._state = owner.state
        self._keeper = keeper
        self._last_blocks = owner.last_blocks(keeper)
        self._staged = staged
        self._batch = staged.batch
        self._views = staged.views
        self._columns_version = columns_version
        self._locks: list[BlockLock] = []
        self._list = ""
        """The name of the batch's list, if it has one."""
        self.is_over = True
        """Whether another attempt is of no use."""
        self.has_vector_moved = False
        """Whether somebody else has moved the vector."""

    @property
    def has_list(self) -> bool:
        """Whether the batch was written as a list."""
        return bool(self._list)

    def run(self) -> BatchPlan | None:
        """Makes the attempt; returns the plan that was committed."""
        try:
            return self._commit()
        finally:
            self.release()

    def release(self) -> None:
        """Gives the numbers up."""
        for lock in self._locks:
            release_block_number_if_possible(self._keeper, lock)
        self._locks.clear()
        if self._views is not None:
            self._views.release()

    def prepare(self, mark: CutMark | None = None, *, is_list: bool = False) -> tuple[BatchPlan, BatchCommit]:
        """Takes the numbers and plans the multi. A plan that no request holds is written as a list.

        ``mark``: the cut of a group that the batch is of. ``is_list``: whatever its size.
        """
        plan, reads = self._plan()
        if mark is not None:
            plan = mark_cut(plan, self._staged.target, mark)
        along = self._additions(plan)
        commit = make_batch_commit(plan, self._state.paths, reads, along=along, sets_ids=self._staged.sets_ids)
        if is_list or must_be_list(commit, self._owner.limits):
            commit = self._write_list(plan, reads, along)
        return plan, commit

    def give_up(self) -> None:
        """Gives the numbers up, and the list, of a commit that certainly did not happen."""
        if self._list:
            self._owner.lists.abandon(self._keeper, self._list)
        self.release()

    def note_commit(self) -> None:
        """The commit has deleted the locks."""
        self._locks.clear()

    def _commit(self) -> BatchPlan | None:
        keeper, table, batch = self._keeper, self._state.paths, self._batch
        plan, commit = self.prepare()
        self._state.services.failpoint("link.before_commit")
        try:
            keeper.multi(commit.ops)
        except MultiFailed as error:
            if self._list:
                self._owner.lists.abandon(keeper, self._list)
            if self._views is not None:
                self._views.note_failure(error)
            if error.op.path == table.linked.vector:
                self.has_vector_moved = True
            else:
                self.judge(error)
            return None
        except KeeperConnectionLoss:
            self.release()
            self._state.services.failpoint("link.unknown_outcome")
            keeper.sync(table.linked.vector)
            if not VersionVector.parse(keeper.get(table.linked.vector)[0]).covers_vector(plan.vector):
                raise
            return plan
        self._locks.clear()
        if self._views is not None:
            self._views.note_commit()
        logger.debug("a batch of link %s is committed up to %s", batch.link.name, plan.end)
        return plan

    def _write_list(self, plan: BatchPlan, reads: TargetReads, along: Sequence[Op]) -> BatchCommit:
        """Writes the batch as a list, and returns the multi that commits it."""
        self._list = f"{self._staged.target.staging}-{self._number}"
        link, sets_ids = self._batch.link.uuid, self._staged.sets_ids
        lists = self._owner.lists
        commit = lists.make_commit(self._keeper, plan, reads, along, self._list, link, sets_ids=sets_ids)
        self._state.services.failpoint("link.after_list")
        return commit

    def judge(self, error: MultiFailed) -> None:
        """Raises if another attempt is of no use; else notes that there must be one."""
        if any(error.op.path == lock.path for lock in self._locks):
            raise UnavailableError(
                "TABLE_IS_READ_ONLY", "The ZooKeeper session ended during a link's batch; nothing was committed"
            ) from error
        has_changed = isinstance(error.cause, NoNode | NodeExists | BadVersion)
        if not self._state.gate.has_moved(self._keeper, error) and not has_changed:
            raise error.cause from error
        self.is_over = False

    # -- reads ------------------------------------------------------------------------------------------------------

    def _plan(self) -> tuple[BatchPlan, TargetReads]:
        """Reads what the multi expects, in the order of ``TargetReads``, and plans the batch."""
        keeper, table, batch = self._keeper, self._state.paths, self._batch
        mutations = keeper.get(table.mutations)[1].version
        commanded = {p for change in batch.changes for p, _ in change.command_numbers()}
        counts = sorted(count_numbers(batch.changes).items())
        firsts = {p: self._take_numbers(p, count, commanded) for p, count in counts}
        committing = read_committing_numbers(keeper, table, list(firsts)) if firsts else {}
        guards = {p: (node, stat.version) for p, (node, stat) in find_partitions(keeper, table, list(firsts)).items()}
        plan = plan_batch(batch.changes, firsts, batch.vector, batch.end, self._staged.target)
        ids = read_block_ids(keeper, table, set(plan.drops)) if plan.drops else {}
        ids |= self._existing_ids(plan.block_ids)
        reads = TargetReads(
            batch.state.vector_version,
            tuple(self._locks),
            committing,
            guards,
            ids,
            mutations,
            self._columns_version,
            self._staged.metadata_version,
        )
        return plan, reads

    def _take_numbers(self, partition_id: str, count: int, commanded: Collection[str]) -> int:
        """Takes numbers in a partition; ``commanded`` has those to which the batch brings commands."""
        state = self._state
        virtual = (part.max_block + 1 for part in state.queue.list_virtual_parts(partition_id))
        lock = allocate_block_number(
            self._keeper,
            state.paths,
            partition_id,
            owner=state.replica.name,
            kind=LockKind.COMMAND if partition_id in commanded else LockKind.BLOCK,
            minimum=max(state.store.compute_next_block_number(partition_id), *virtual, 0),
            count=count,
        )
        assert isinstance(lock, BlockLock)
        self._locks.append(lock)
        return lock.number

    def _existing_ids(self, wanted: Collection[str]) -> dict[str, PartName]:
        table, found = self._state.paths, {}
        for id_, answer in zip(wanted, self._keeper.get_many([table.block(id_) for id_ in wanted]), strict=True):
            if answer is not None:
                part = PartName.try_parse(BlockNode.parse_part_name(answer[0]))
                found[id_] = part if part is not None else PartName("all", 0, 0, 0)
        return found

    def _additions(self, plan: BatchPlan) -> Sequence[Op]:
        """Returns what the multi has besides the batch.

        These are the gate's checks, what views made, and what drops do to quorums and records.
        """
        keeper, table = self._keeper, self._state.paths
        checks = check_link(self._state, keeper, self._batch.link)
        ops: list[Op] = [*checks, *note_marks_ops(self._state, keeper, self._batch.changes, checks)]
        if self._state.gate.own_origin != self._staged.origin:  # not older than what the checks expect
            raise ConflictError("KEEPER_EXCEPTION", "Parts of the table now keep the places of rows; try again")
        if self._views is not None:
            ops += self._views.plan()
        ranges = [drop_range_name(p, number) for p, number in sorted(plan.drops.items()) if number > 0]
        if not ranges:
            return ops
        lasts: Mapping[str, int] = {
            gone.partition_id: last
            for gone, last in zip(ranges, self._last_blocks(ranges), strict=True)
            if last is not None
        }
        ops += record_drop_ops(keeper, table, lasts)
        ops += forget_dropped_parts_ops(keeper, table, *ranges)
        for group in list_quorum_ops(keeper, table, ranges):
            ops += group
        return ops
