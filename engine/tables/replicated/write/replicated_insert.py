"""Commits an INSERT into a replicated table: block number, rename, commit, wait for the quorum.

A part is rolled back only if it cannot be committed any more (see ``coordination.inserts.insert_commit``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from coordination.inserts.block_numbers import BlockLock, DuplicateBlock, release_block_number
from coordination.inserts.block_views import NOTHING_MISSING, MissingViews
from coordination.inserts.insert_commit import (
    InsertRequest,
    InsertResult,
    InsertStatus,
    begin_insert,
    commit_insert,
    release_block_number_if_possible,
)
from coordination.inserts.quorum import QuorumPlan, plan_quorum
from coordination.inserts.quorum_wait import wait_for_quorum
from coordination.keeper.interface import Keeper
from coordination.nodes.gate import CommitKind, GateBarred
from coordination.nodes.replica_activation import Activation
from coordination.nodes.sync_targets import SyncTargetsMoved
from engine.tables.insert_sink import InsertOutcome, PartSink, TemporaryPart
from engine.tables.part_log import PartEventType
from engine.tables.replicated.replica_state import ReplicaState, make_part_record
from engine.tables.replicated.write.sync_insert import SyncInsert
from engine.tables.statement_options import InsertOptions
from engine.tables.sync_peers import SyncPart
from parts.common.errors import CancelledError, ConflictError, PandoError, UnknownOutcomeError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.table.row_version import RowVersion, make_place
from parts.write.part_stamp import stamp_part

logger = logging.getLogger(__name__)

_ATTEMPTS = 20
_RESOLVE_SECONDS = 10.0
_COPIES_PAUSES = (0.05, 1.0)
"""The first and the longest pause between looks for copies of a repeated block.

Each look lists all parts.
"""
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class _Committed:
    """The part that holds a block's rows:

    of this INSERT or of an earlier one, with the views that lack it.
    """

    part: str
    is_duplicate: bool
    missing: MissingViews = NOTHING_MISSING


class ReplicatedInsert(PartSink):
    """An INSERT into one replica."""

    def __init__(
        self,
        state: ReplicaState,
        options: InsertOptions,
        stage: Callable[[list[TemporaryPart], InsertOptions], InsertOutcome],
    ) -> None:
        """Raises 242 or 285 if the INSERT has no chance. ``stage`` stages the rows of a transaction."""
        super().__init__(state, options)
        self._state = state
        self._stage = stage
        self._expected: tuple[BlockLock, Activation] | None = None
        self._sync = SyncInsert(
            state,
            timeout_seconds=options.sync_timeout_seconds,
            is_required=options.requires_sync_replica,
            status=options.status,
            what=f"the INSERT into {state.definition.full_name}",
        )
        state.pass_gate(CommitKind.ROWS, lambda: None, options.status)
        self._plan_quorum()  # refuses an impossible quorum before any work

    def allocate_block_number(self, partition_id: str) -> None:
        """Takes the block number ahead of the commit, which later finds whether the block is new.

        Not where the rows go to the targets of synchronous links first.
        """
        gate = self._state.gate.gate
        if gate is not None and gate.sync_targets:
            return
        with self._state.hold_write_access() as (keeper, activation), self._state.restart_on_leaked_number():
            taken = self._allocate_number(keeper, partition_id, "", None)
        assert isinstance(taken, BlockLock)
        self._expected = (taken, activation)

    def abort(self) -> None:
        """Releases a number taken ahead, and removes the temporary parts."""
        if self._expected is not None:
            lock, self._expected = self._expected[0], None
            with (
                suppress(PandoError),
                self._state.hold_write_access() as (keeper, _),
                self._state.restart_on_leaked_number(),
            ):
                release_block_number(keeper, lock)
        super().abort()

    def commit_parts(self, parts: list[TemporaryPart]) -> InsertOutcome:
        """Commits part by part. After an error the parts committed before stay, and the error 319 says so."""
        if self.options.transaction:
            return self._stage(parts, self.options)
        outcome = InsertOutcome()
        self._sync.stage(list(map(_make_sync_part, parts)))
        for number, part in enumerate(parts):
            try:
                self._commit_part(part, outcome, parts[number:])
            except CancelledError:
                raise
            except Exception as error:
                if not outcome.part_names or len(parts) == 1:
                    raise
                raise self._make_partial_error(parts, outcome, error) from error
        self._sync.wait()
        return outcome

    def _commit_part(self, part: TemporaryPart, outcome: InsertOutcome, left: Sequence[TemporaryPart]) -> None:
        """Commits a part. ``left``: this one and those behind it, should other targets get them."""
        keeper, activation, plan, committed = self._pass_sync_gate(part, left)
        if committed.is_duplicate:
            outcome.add_known(part.block_id, committed.missing)
            self._wait_for_original(keeper, activation, committed.part, plan)
            self._sync.note_duplicate(keeper, part.block_id)
            return
        self._sync.note_part(keeper, committed.part)
        outcome.written_rows += part.rows
        outcome.written_bytes += part.bytes
        outcome.part_names.append(committed.part)
        self._add_to_part_log(committed.part)
        if plan is not None:
            self._wait_for_quorum(keeper, activation, committed.part, plan.is_parallel, plan)

    def _pass_sync_gate(
        self, part: TemporaryPart, left: Sequence[TemporaryPart]
    ) -> tuple[Keeper, Activation, QuorumPlan | None, _Committed]:
        for _ in range(_ATTEMPTS):
            try:
                return self._state.pass_gate(CommitKind.ROWS, lambda: self._try_commit(part), self.options.status)
            except SyncTargetsMoved:
                self._sync.stage(list(map(_make_sync_part, left)))
        raise SyncTargetsMoved(self._state.paths.root)

    def _try_commit(self, part: TemporaryPart) -> tuple[Keeper, Activation, QuorumPlan | None, _Committed]:
        with self._state.hold_write_access() as (keeper, activation), self._state.restart_on_leaked_number():
            plan = self._plan_quorum()
            return keeper, activation, plan, self._commit(keeper, activation, part, plan)

    def _add_to_part_log(self, name: str) -> None:
        services, stored = self._state.services, self._state.store.get(PartName.parse(name))
        if stored is not None:
            services.part_log.note(
                PartEventType.NEW,
                self._state.definition,
                stored,
                services.clock(),
                query_id=self.options.query_id,
            )

    def _make_partial_error(self, parts: list[TemporaryPart], outcome: InsertOutcome, error: Exception) -> PandoError:
        names = outcome.part_names
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        advice = (
            "Repeating the same INSERT stores the rest: what is stored already will be deduplicated"
            if self.options.deduplicate
            else "Without deduplication a repeat stores those rows twice: insert only what is missing"
        )
        return UnknownOutcomeError(
            "UNKNOWN_STATUS_OF_INSERT",
            f"{outcome.written_rows} of {sum(part.rows for part in parts)} rows of this INSERT into "
            f"{self._state.definition.full_name} are stored, as {len(names)} of {len(parts)} parts "
            f"({', '.join(names[:_NAMES_SHOWN])}{more}); then came: {str(error) or type(error).__name__}. {advice}",
        )

    def _plan_quorum(self) -> QuorumPlan | None:
        if self.options.quorum in (0, 1):
            return None
        keeper = self._state.require_writable()
        return plan_quorum(keeper, self._state.paths, self.options.quorum, is_parallel=self.options.quorum_parallel)

    def _wait_for_quorum(
        self, keeper: Keeper, activation: Activation, part: str, is_parallel: bool, plan: QuorumPlan | None = None
    ) -> None:
        wait_for_quorum(
            keeper,
            self._state.paths,
            part,
            activation,
            is_parallel=is_parallel,
            plan=plan,
            timeout_seconds=self.options.quorum_timeout_seconds,
            clock=self._state.services.monotonic,
            wait=self._state.services.wait,
            is_cancelled=lambda: self._state.is_stopping.is_set() or self.options.status.is_stopped,
        )

    def _wait_for_original(self, keeper: Keeper, activation: Activation, part: str, plan: QuorumPlan | None) -> None:
        """Waits until the original of a repeated block is confirmed, by its own quorum and the one asked now.

        Without its own quorum, rows would be acknowledged that the failure of that quorum removes.
        """
        paths = self._state.paths
        for is_parallel, path in ((True, paths.quorum_parallel_part(part)), (False, paths.quorum_status)):
            keeper.sync(paths.root)
            if keeper.exists(path) is not None or keeper.exists(paths.quorum_failed_part(part)) is not None:
                self._wait_for_quorum(keeper, activation, part, is_parallel)
        deadline = self._state.services.monotonic() + self.options.quorum_timeout_seconds
        pause, longest = _COPIES_PAUSES
        while plan is not None and self._count_copies(keeper, PartName.parse(part)) < plan.required:
            self.options.status.check()
            replicas = len(keeper.children(paths.replicas))
            is_over = self._state.services.monotonic() >= deadline or self._state.is_stopping.is_set()
            if is_over or replicas < plan.required:
                raise UnknownOutcomeError(
                    "UNKNOWN_STATUS_OF_INSERT",
                    f"The rows are stored already, as part {part}, but on fewer than {plan.required} replicas "
                    f"(the table has {replicas})",
                )
            self._state.sleep(pause)
            pause = min(2 * pause, longest)

    def _count_copies(self, keeper: Keeper, part: PartName) -> int:
        """Returns the number of replicas that have the part or one it was merged into."""
        replicas = keeper.children(self._state.paths.replicas)
        listings = keeper.children_many([self._state.paths.replica(name).parts for name in replicas])
        parsed = ([PartName.try_parse(name) for name in listing or ()] for listing in listings)
        return sum(any(other is not None and other.covers(part) for other in listing) for listing in parsed)

    def _commit(
        self,
        keeper: Keeper,
        activation: Activation,
        part: TemporaryPart,
        plan: QuorumPlan | None,
    ) -> _Committed:
        for _ in range(_ATTEMPTS):
            taken = self._take_number(keeper, activation, part, plan)
            if isinstance(taken, DuplicateBlock):
                return _Committed(taken.part, is_duplicate=True, missing=taken.missing)
            name = PartName(part.partition_id, taken.number, taken.number, 0)
            origin = self._state.gate.own_origin
            commit_time = self._stamp(keeper, part, taken, origin)
            stored = self._add_preactive(keeper, part, name, taken)
            request = InsertRequest(
                replica=self._state.replica,
                part=name,
                lock=taken,
                record=make_part_record(stored),
                create_time=self._state.services.clock(),
                activation=activation,
                gate=self._state.gate,
                block_id=part.block_id,
                missing=part.missing,
                quorum=plan,
                commit_time=commit_time,
                sync=self._sync.targets,
                origin=origin,
            )
            with self._state.queue.mark_insert(name):
                try:
                    result = self._commit_in_keeper(keeper, request, stored)
                except GateBarred as barred:
                    self._take_back_or_remove(part, stored, barred)
                    raise
                except SyncTargetsMoved:
                    part.directory = self._state.store.take_back(stored)
                    raise
                if result.status is InsertStatus.COMMITTED:
                    self._add_committed(stored, request.create_time)
            if result.status is InsertStatus.COMMITTED:
                return _Committed(str(name), is_duplicate=False)
            if result.status is InsertStatus.DUPLICATE:
                self._state.store.rollback(stored)
                return _Committed(result.duplicate_of, is_duplicate=True, missing=result.missing)
            logger.info("block %s of %s takes a new number: %s", name, self._state.definition.full_name, result.reason)
            part.directory = self._state.store.take_back(stored)
        raise ConflictError("KEEPER_EXCEPTION", f"The block could not be committed in {_ATTEMPTS} attempts; try again")

    def _stamp(self, keeper: Keeper, part: TemporaryPart, lock: BlockLock, origin: str) -> int:
        """Gives the rows their version or their ``origin``, which only some tables have. Returns the commit time, or 0.

        After an error the number is released, because merges would wait for it.
        """
        state = self._state
        has_versions = state.description.merge_mode.has_row_versions
        if not has_versions and not origin:
            return 0
        try:
            version = make_place(origin)
            if has_versions:
                made = state.commit_times.make_version(keeper, lock, state.store.get_largest_commit_time())
                version = RowVersion(made.commit_time, made.origin, made.block)
            meta = stamp_part(part.directory, version, state.description.settings, meta=part.written)
        except Exception:
            release_block_number_if_possible(keeper, lock)
            raise
        part.written = meta if part.written else b""
        return version.commit_time

    def _take_back_or_remove(self, part: TemporaryPart, stored: Part, barred: GateBarred) -> None:
        """Keeps a part that waits for the gate as a temporary one: it is not written anew."""
        if barred.bar.waits:
            part.directory = self._state.store.take_back(stored)
        else:
            self._state.store.rollback(stored)

    def _add_committed(self, part: Part, create_time: float) -> None:
        """Makes the part visible and known to the queue."""
        self._state.store.commit(part)
        self._state.queue.add_active(part.name)
        self._state.queue.note_processed_insert(create_time)

    def _take_number(
        self, keeper: Keeper, activation: Activation, part: TemporaryPart, plan: QuorumPlan | None
    ) -> BlockLock | DuplicateBlock:
        if self._expected is not None and plan is None:
            lock, since = self._expected
            if lock.partition_id == part.partition_id and since is activation:
                self._expected = None
                return lock
        return self._allocate_number(keeper, part.partition_id, part.block_id, plan)

    def _allocate_number(
        self, keeper: Keeper, partition_id: str, block_id: str, plan: QuorumPlan | None
    ) -> BlockLock | DuplicateBlock:
        return begin_insert(
            keeper,
            self._state.paths,
            partition_id,
            block_id,
            owner=self._state.replica.name,
            quorum=plan,
            # A counter that was recreated must not collide with parts on disk here.
            minimum=self._state.store.compute_next_block_number(partition_id),
            known=self._state.partition_nodes,
        )

    def _add_preactive(self, keeper: Keeper, part: TemporaryPart, name: PartName, lock: BlockLock) -> Part:
        """Renames the part to its final name.

        After an error the number is released, because merges would wait for it.
        """
        try:
            stored = self._state.store.add_preactive(part.directory, name, is_synced=True, written=part.written)
            self._state.services.failpoint("insert.after_rename")
        except Exception:
            release_block_number_if_possible(keeper, lock)
            named = self._state.store.get_preactive(name)
            if named is not None:  # it was renamed, and certainly not committed
                self._state.store.rollback(named)
            raise
        return stored

    def _commit_in_keeper(self, keeper: Keeper, request: InsertRequest, stored: Part) -> InsertResult:
        state = self._state
        try:
            state.services.failpoint("insert.before_commit")
        except PandoError:
            release_block_number_if_possible(keeper, request.lock)
            state.store.rollback(stored)
            raise
        try:
            result = commit_insert(
                keeper, request, clock=state.services.monotonic, sleep=state.sleep, resolve_seconds=_RESOLVE_SECONDS
            )
        except (GateBarred, SyncTargetsMoved):
            raise
        except PandoError:
            state.store.rollback(stored)
            raise
        state.services.failpoint("insert.after_commit")
        if result.status is InsertStatus.UNKNOWN:
            # The part stays pre-active; the next ZooKeeper session finds the outcome.
            state.unknown_inserts.append(request)
            state.restart()
            raise UnknownOutcomeError(
                "UNKNOWN_STATUS_OF_INSERT",
                f"Unknown status of part {request.part}: {result.reason}. ZooKeeper went away during the commit; the "
                "rows may be stored. Repeating the same INSERT is safe: it will be deduplicated",
            )
        return result


def _make_sync_part(part: TemporaryPart) -> SyncPart:
    return SyncPart(part.directory, part.partition_id, part.content_hash, part.rows)
