"""Commits a cut of a group: the batches of all its tables in one multi.

Each table's batch is staged and planned as one of its own link; the operations of all go into one multi, with the
checks of all gates and activations, all vectors, and the group's node. If they do not fit, the largest batches become
lists. What fails is planned anew, all of it, unless a vector or the group's node has moved: then the source is asked
anew. If the answer is lost, all locks are deleted first, and then the first table's vector tells for all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from coordination.keeper.interface import Keeper, KeeperConnectionLoss, MultiFailed, Op
from coordination.keeper.request_limits import MAX_REQUEST_BYTES, operation_bytes
from coordination.links.batches.batch_ops import BatchCommit
from coordination.links.batches.batch_plan import BatchPlan
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import CommitKind
from coordination.nodes.replica_activation import FEATURE_GROUP_MUTATIONS, feature_checks
from engine.tables.capabilities.table_links import AppliedBatch, GroupCut, IncomingBatch
from engine.tables.replicated.links.applied_batch import describe_applied
from engine.tables.replicated.links.batch_commit import BatchCommitter, CommitAttempt, StagedBatch
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import ConflictError
from parts.common.query_status import QueryStatus
from parts.common.thread_pool import map_waiting

logger = logging.getLogger(__name__)

_ATTEMPTS = 20
Result = TypeVar("Result")


class CutTable(Protocol):
    """The target's end of one link of the group."""

    committer: BatchCommitter

    @property
    def state(self) -> ReplicaState: ...

    def stage_cut(self, batch: IncomingBatch, status: QueryStatus) -> AbstractContextManager[StagedBatch]: ...

    def forget_staging(self, name: str) -> None: ...

    def read_columns_version(self, keeper: Keeper) -> int | None: ...

    def follow_cut(self, keeper: Keeper) -> None: ...


def apply_cut(tables: Sequence[tuple[CutTable, IncomingBatch]], cut: GroupCut, status: QueryStatus) -> AppliedBatch:
    """Stages and commits the batches of all tables, at once or not at all.

    May be repeated after any error.
    """
    tables = sorted(tables, key=lambda each: each[0].state.paths.root)

    def pass_gates(number: int) -> AppliedBatch:
        if number == len(tables):
            return _apply(tables, cut, status)
        state = tables[number][0].state
        return state.pass_gate(CommitKind.LINK, partial(pass_gates, number + 1), status)

    return pass_gates(0)


def _apply(tables: Sequence[tuple[CutTable, IncomingBatch]], cut: GroupCut, status: QueryStatus) -> AppliedBatch:
    with ExitStack() as held:
        # One after another, in the order of the tables: each takes a lock, and a PROMOTE may apply a cut meanwhile.
        staged = [held.enter_context(table.stage_cut(batch, status)) for table, batch in tables]
        states = [table.state for table, _ in tables]
        states[0].services.failpoint("link.after_stage")
        keepers = []
        for state in states:
            keeper, _ = held.enter_context(state.hold_write_access())
            held.enter_context(state.restart_on_leaked_number())
            keepers.append(keeper)
        ends = [table for table, _ in tables]
        for end, ready in zip(ends, staged, strict=True):
            end.forget_staging(ready.target.staging)
        plans = _commit(ends, keepers, staged, cut)
        states[0].services.failpoint("link.after_commit")
        if plans is None:
            for state, ready in zip(states, staged, strict=True):
                state.store.staged.remove(ready.target.staging)
            return AppliedBatch(is_applied=False)
        # The logs of the others tell of themselves; but a table enters the group together with all.
        changed = [at for at, ready in enumerate(staged) if ready.batch.changes or cut.joining]
        map_waiting(lambda at: ends[at].follow_cut(keepers[at]), changed, "cut")
    return describe_applied(plans)


def _for_each(act: Callable[[int], Result], count: int) -> list[Result]:
    """Does the same to each table, by number, at once: most of it waits for ZooKeeper. Raises the first error."""
    return map_waiting(act, range(count), "cut")


def _commit(
    tables: Sequence[CutTable], keepers: Sequence[Keeper], staged: Sequence[StagedBatch], cut: GroupCut
) -> list[BatchPlan] | None:
    for number in range(_ATTEMPTS):

        def begin(at: int, number: int = number) -> CommitAttempt:
            table, keeper, ready = tables[at], keepers[at], staged[at]
            if not number:
                table.committer.lists.settle(keeper, ready.batch.link.uuid)
            version = table.read_columns_version(keeper)
            if version is None or table.state.description.metadata_version != ready.metadata_version:
                raise ConflictError("CANNOT_ASSIGN_ALTER", "The table's definition changed meanwhile; try again")
            return CommitAttempt(table.committer, number, keeper, ready, version)

        attempts = _for_each(begin, len(tables))
        together = _Together(tables, keepers, staged, attempts, cut)
        try:
            plans = together.run()
        finally:
            for attempt in attempts:
                attempt.release()
        if plans is not None or together.must_ask_anew:
            return plans
    raise ConflictError("KEEPER_EXCEPTION", f"Could not commit a cut in {_ATTEMPTS} attempts: others get ahead")


class _Together:
    """One attempt to commit the batches of all tables."""

    def __init__(
        self,
        tables: Sequence[CutTable],
        keepers: Sequence[Keeper],
        staged: Sequence[StagedBatch],
        attempts: Sequence[CommitAttempt],
        cut: GroupCut,
    ) -> None:
        self._tables = tables
        self._keepers = keepers
        self._staged = staged
        self._attempts = attempts
        self._cut = cut
        self.must_ask_anew = False
        """Whether somebody else has moved a vector or the group."""

    def run(self) -> list[BatchPlan] | None:
        """Returns the plans that were committed."""
        prepared = self._prepare()
        plans, keeper = [plan for plan, _ in prepared], self._keepers[0]
        ops = [op for _, commit in prepared for op in commit.ops]
        services = self._tables[0].state.services
        services.failpoint("link.before_commit")
        try:
            keeper.multi(_once([*ops, *self._cut.along, *self._activations(), *self._require_mutations(plans)]))
        except MultiFailed as error:
            for attempt in self._attempts:
                attempt.give_up()
            self._judge(error)
            return None
        except KeeperConnectionLoss:
            for attempt in self._attempts:
                attempt.release()
            services.failpoint("link.unknown_outcome")
            vector = self._tables[0].state.paths.linked.vector
            keeper.sync(vector)
            if not VersionVector.parse(keeper.get(vector)[0]).covers_vector(plans[0].vector):
                raise
            return plans
        for attempt in self._attempts:
            attempt.note_commit()
        logger.debug("a cut of %s tables is committed up to %s", len(plans), self._cut.mark.place)
        return plans

    def _prepare(self) -> list[tuple[BatchPlan, BatchCommit]]:
        """Plans all batches. Those after which the request would be full are lists."""
        room = MAX_REQUEST_BYTES - sum(map(operation_bytes, [*self._cut.along, *self._activations()]))
        share = room // len(self._attempts)

        def prepare(at: int) -> tuple[BatchPlan, BatchCommit]:
            attempt = self._attempts[at]
            mark = replace(self._cut.mark, joins=self._staged[at].batch.link.name in self._cut.joining)
            plan, commit = attempt.prepare(mark)
            if commit.size_bytes > share and not attempt.has_list:
                attempt.release()
                return attempt.prepare(mark, is_list=True)
            return plan, commit

        return _for_each(prepare, len(self._attempts))

    def _activations(self) -> list[Op]:
        """Returns the checks that all tables' replicas are active; the first one's keeper has its own."""
        found: list[Op] = []
        for table in self._tables[1:]:
            activation = table.state.activation
            assert activation is not None, "write access is held"
            found += activation.checks
        return found

    def _require_mutations(self, plans: Sequence[BatchPlan]) -> list[Op]:
        """Returns the checks that all replicas show cuts with mutations whole. Raises 48 (NOT_IMPLEMENTED)."""
        found: list[Op] = []
        for table, keeper, plan in zip(self._tables, self._keepers, plans, strict=True):
            if any(mutation.numbers for mutation in plan.mutations):
                what = "A mutation in a transactional group"
                found += feature_checks(keeper, table.state.paths, FEATURE_GROUP_MUTATIONS, what)
        return found

    def _judge(self, error: MultiFailed) -> None:
        paths = [table.state.paths for table in self._tables]
        if error.op in self._cut.along or any(error.op.path == each.linked.vector for each in paths):
            self.must_ask_anew = True
            return
        for attempt, each in zip(self._attempts, paths, strict=True):
            if error.op.path.startswith(f"{each.root}/"):
                attempt.judge(error)
                return
        raise error.cause from error


def _once(ops: Sequence[Op]) -> list[Op]:
    """Returns the operations without those that are there already: tables may share checks."""
    found: list[Op] = []
    seen: set[Op] = set()
    for op in ops:
        if op not in seen:
            seen.add(op)
            found.append(op)
    return found
