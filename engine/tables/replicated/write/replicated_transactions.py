"""Transactions of INSERTs into a replicated table, as one replica stages, commits and cleans them.

See ``coordination.transactions.transaction_nodes``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from coordination.drops.drop_partition import LastBlocks
from coordination.inserts.quorum import QuorumPlan, confirm_own_parts, plan_quorum
from coordination.keeper.interface import Keeper, RequestTooLarge
from coordination.nodes.gate import CommitKind
from coordination.nodes.sync_targets import SyncTargetsMoved
from coordination.transactions.commit_request import CommitOutcome, CommitRequest, CommitVerdict
from coordination.transactions.transaction_commit import commit_transaction
from coordination.transactions.transaction_nodes import (
    StagedRecord,
    TransactionState,
    abort_transaction,
    already_decided_error,
    clean_transactions,
    count_finished_replicas,
    open_transaction,
    read_staged_parts,
    read_transaction,
    read_transactions,
    register_staged_parts,
    staged_key,
    transaction_node_name,
)
from engine.tables.capabilities.table_transactions import TransactionSummary
from engine.tables.insert_sink import InsertOutcome, TemporaryPart
from engine.tables.replicated.replica_state import (
    BOOTSTRAP_STAGING_PREFIX,
    DETACHED_STAGING_PREFIX,
    INSERTED_STAGING_PREFIX,
    LINK_STAGING_PREFIX,
    ReplicaState,
)
from engine.tables.replicated.write.changed_rows import make_find_change
from engine.tables.replicated.write.commit_version import find_version_maker
from engine.tables.replicated.write.joined_transaction import JoinedTransaction
from engine.tables.replicated.write.sync_insert import SyncInsert
from engine.tables.statement_options import CommitOptions, InsertOptions
from engine.tables.sync_peers import SyncPart
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, PandoError, UnknownOutcomeError, UserError

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_ATTEMPTS = 20


class ReplicatedTransactions:
    """The transactions of one replica.

    Implements ``engine.tables.capabilities.table_transactions.TableTransactions``.
    """

    def __init__(
        self,
        state: ReplicaState,
        pull: Callable[[Keeper], None],
        last_blocks: Callable[[Keeper], LastBlocks],
        wake_execution: Callable[[], None],
    ) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull
        self._last_blocks = last_blocks
        self._wake_execution = wake_execution

    def stage(self, parts: list[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        """Moves the parts of one INSERT into ``staged/`` and registers them in ZooKeeper."""
        state, services = self._state, self._state.services
        insert = options.deduplication_token or services.new_uuid().hex
        records: dict[str, StagedRecord] = {}
        for number, part in enumerate(parts):
            record = StagedRecord(
                state.replica.name,
                f"{self._find_prefix(options)}{services.new_uuid().hex}",
                part.partition_id,
                part.content_hash,
                part.rows,
                part.bytes,
            )
            records[staged_key(options.transaction_attempt, insert, number)] = record
        places = [record.place for record in records.values()]
        with state.hold_write_access() as (keeper, _):
            transaction = open_transaction(keeper, state.paths, options.transaction)
            if not parts:
                return InsertOutcome()
            state.store.staged.move_in(
                transaction.name, [(part.directory, place) for part, place in zip(parts, places, strict=True)]
            )
            for part in parts:
                state.store.drop_temporary(part.directory)
            services.failpoint("stage.after_move")
            try:
                is_new = register_staged_parts(keeper, state.paths, transaction, records)
            except (UserError, ConflictError, RequestTooLarge):
                state.store.staged.remove(transaction.name, places)
                raise
            # After any other error they may be registered: they stay until the transaction is decided.
            services.failpoint("stage.after_told")
        if not is_new:
            state.store.staged.remove(transaction.name, places)
            return InsertOutcome(deduplicated_blocks=len(parts))
        return InsertOutcome(sum(part.rows for part in parts), sum(part.bytes for part in parts))

    def _find_prefix(self, options: InsertOptions) -> str:
        if options.was_detached:
            return DETACHED_STAGING_PREFIX
        is_versioned = options.has_new_rows and self._state.description.merge_mode.has_row_versions
        return INSERTED_STAGING_PREFIX if is_versioned else ""

    def commit(self, request: CommitRequest, options: CommitOptions) -> CommitOutcome:
        """Commits a transaction, and waits for its rows.

        Raises 285 before anything is done if there are too few replicas for the quorum. Raises 341 (UNFINISHED) if the
        commit was made but its rows did not come in time; repeating it waits again.
        """
        state, name = self._state, transaction_node_name(request.transaction_id)
        sync = SyncInsert(
            state,
            timeout_seconds=options.sync_timeout_seconds,
            is_required=options.requires_sync_replica,
            status=options.status,
            what=f"the commit of transaction {request.transaction_id!r}",
        )
        keeper, plan, outcome = self._pass_sync_gate(request, options, name, sync)
        if outcome.verdict is CommitVerdict.SKIPPED:
            return outcome
        self._wake_execution()
        needed = plan.required if plan is not None else 0
        deadline = state.services.monotonic() + options.timeout_seconds
        with report_as_unfinished(f"Transaction {request.transaction_id!r} is committed"):
            while state.queue.is_queued(name) or (needed > 1 and self._is_waiting(keeper, name, needed)):
                options.status.check()
                replicas = len(keeper.children(state.paths.replicas))
                if replicas < needed:
                    raise UnknownOutcomeError(
                        "UNFINISHED",
                        f"Transaction {request.transaction_id!r} is committed, but a replica was dropped meanwhile: "
                        f"the table has {replicas}, and insert_quorum asks for {needed}",
                    )
                if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                    where = f"{needed} replicas" if needed else "this replica"
                    raise UnknownOutcomeError(
                        "UNFINISHED",
                        f"Transaction {request.transaction_id!r} is committed, but its rows are not visible on {where}"
                        " yet; repeat the COMMIT to wait on",
                    )
                state.sleep(_POLL_SECONDS)
        gate = state.gate.gate
        if gate is None or gate.periods:  # others were decided with no targets, and cost no request
            with report_as_unfinished(f"Transaction {request.transaction_id!r} is committed"):
                decided = read_transaction(keeper, state.paths, name)
            if decided is not None:
                sync.note_commit(decided.decided_zxid, frozenset(decided.sync_targets))
        sync.wait()
        return outcome

    def _pass_sync_gate(
        self, request: CommitRequest, options: CommitOptions, name: str, sync: SyncInsert
    ) -> tuple[Keeper, QuorumPlan | None, CommitOutcome]:
        for _ in range(_ATTEMPTS):
            sync.stage(self._list_own_parts(name))
            try:
                return self._state.pass_gate(
                    CommitKind.ROWS, lambda: self._try_commit(request, options, name, sync), options.status
                )
            except SyncTargetsMoved:
                continue
        raise SyncTargetsMoved(self._state.paths.root)

    def _list_own_parts(self, name: str) -> list[SyncPart]:
        """Returns the staged parts of an open transaction that are on this disk.

        The targets get those of other replicas by the stream.
        """
        state = self._state
        if state.gate.gate is None or not state.gate.gate.sync_targets:
            return []
        keeper = state.require_writable()
        found = read_transaction(keeper, state.paths, name)
        if found is None or found.state is not TransactionState.OPEN:
            return []
        records = read_staged_parts(keeper, state.paths, name, found.keys).values()
        return [
            SyncPart(state.store.staged.path(name, record.place), record.partition_id, record.content_hash, record.rows)
            for record in records
            if record.replica == state.replica.name
        ]

    def _try_commit(
        self, request: CommitRequest, options: CommitOptions, name: str, sync: SyncInsert
    ) -> tuple[Keeper, QuorumPlan | None, CommitOutcome]:
        """Commits the transaction, and pulls its log entry."""
        state = self._state
        with state.hold_write_access() as (keeper, _), state.restart_on_leaked_number():
            plan = plan_quorum(keeper, state.paths, options.quorum, is_parallel=True)
            outcome = commit_transaction(
                keeper,
                state.replica,
                request,
                gate=state.gate,
                first_number=state.store.compute_next_block_number,
                last_blocks=self._last_blocks(keeper),
                clock=state.services.clock,
                left_behind=state.restart,
                quorum=plan.required if plan is not None else 0,
                make_version=find_version_maker(state, name),
                sync=sync.targets,
                find_change=make_find_change(state, self._pull),
            )
            state.services.failpoint("transaction.after_commit")
            if outcome.verdict is CommitVerdict.SKIPPED:
                reason = f"its application {request.application!r} had committed this version"
                abort_transaction(keeper, state.paths, name, reason, transaction_id=request.transaction_id)
                state.store.staged.remove(name)
                return keeper, plan, outcome
            with report_as_unfinished(f"Transaction {request.transaction_id!r} is committed"):
                keeper.sync(state.paths.log)
                self._pull(keeper)
        return keeper, plan, outcome

    def _is_waiting(self, keeper: Keeper, name: str, needed: int) -> bool:
        """Tells whether the quorum of the original COMMIT or the one asked for now is missing."""
        paths = self._state.paths
        return (
            keeper.exists(paths.quorum_parallel_part(name)) is not None
            or count_finished_replicas(keeper, paths, name) < needed
        )

    def join(self, transaction_id: str) -> JoinedTransaction:
        """Returns a transaction as one that another table's multi commits."""
        return JoinedTransaction(self._state, transaction_id, self._pull, self._last_blocks, self._wake_execution)

    def rollback(self, transaction_id: str) -> None:
        """Aborts a transaction. Raises 649 for a committed one."""
        state, name = self._state, transaction_node_name(transaction_id)
        with state.hold_write_access() as (keeper, _):
            found = abort_transaction(keeper, state.paths, name, "it was rolled back", transaction_id=transaction_id)
        if found is not None and found.state is TransactionState.COMMITTED:
            raise already_decided_error(found)
        state.store.staged.remove(name)

    def settle(self, name: str) -> bool | None:
        """Returns whether the transaction was committed; aborts it if it is open."""
        try:
            with self._state.hold_write_access() as (keeper, _):
                return self._settle(keeper, name)
        except PandoError:
            self._state.restart()  # the next session settles it first
            raise

    def _settle(self, keeper: Keeper, name: str) -> bool | None:
        found = abort_transaction(keeper, self._state.paths, name, "it was not finished")
        if found is None or found.state is not TransactionState.COMMITTED:
            self._state.store.staged.remove(name)
        return found.state is TransactionState.COMMITTED if found is not None else None

    def known(self) -> list[TransactionSummary]:
        """Returns the open and the remembered transactions."""
        paths, keeper = self._state.paths, self._state.replication.require_keeper()
        keeper.sync(paths.transactions)
        found = read_transactions(keeper, paths)
        keys = [(known.name, key) for known in found if known.state is TransactionState.OPEN for key in known.keys]
        answers = keeper.get_many([paths.staged_part(*key) for key in keys])
        staged: dict[str, list[StagedRecord]] = {}
        for (name, _), answer in zip(keys, answers, strict=True):
            if answer is not None:
                staged.setdefault(name, []).append(StagedRecord.parse(answer[0]))
        return [TransactionSummary.of(known, staged.get(known.name, ())) for known in found]

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def check_disk(self, keeper: Keeper) -> None:
        """Settles unfinished ATTACHes, and aborts transactions of which this disk has lost rows.

        Runs just after the activation, so that no reads fall behind.
        """
        state = self._state
        for name in state.store.attaching.list_transactions():
            is_attached = self._settle(keeper, name)
            if is_attached is not None:
                state.store.attaching.end(name, is_attached=is_attached)
        for found in read_transactions(keeper, state.paths):
            if found.state is not TransactionState.OPEN:
                continue
            here = set(state.store.staged.list_places(found.name))
            records = read_staged_parts(keeper, state.paths, found.name, found.keys).values()
            lost = [record for record in records if record.replica == state.replica.name and record.place not in here]
            if lost:
                rows = sum(record.rows for record in lost)
                logger.warning("transaction %r is aborted: %s rows of it are not on this disk", found.id, rows)
                abort_transaction(
                    keeper, state.paths, found.name, f"replica {state.replica.name} lost {rows} rows of it"
                )

    def clean_up(self, keeper: Keeper) -> bool:
        """Removes staged parts that no open transaction needs. Returns whether there may be more to do soon."""
        state = self._state
        confirm_own_parts(
            keeper, state.replica, [str(part.name) for part in state.store.list_active()]
        )  # for example those of a clone
        changed = clean_transactions(keeper, state.paths)
        for name in state.store.staged.list_transactions():
            if name.startswith((LINK_STAGING_PREFIX, BOOTSTRAP_STAGING_PREFIX)):  # they clean up themselves
                continue
            found = read_transaction(keeper, state.paths, name)
            if found is not None and found.state is TransactionState.OPEN:
                continue
            if found is not None and found.state is TransactionState.COMMITTED:
                self._pull(keeper)
            if not state.queue.is_queued(name):
                state.store.staged.remove(name)
        return bool(changed or state.store.staged.list_transactions())
