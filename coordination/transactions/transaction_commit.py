"""The commit of a transaction: one multi adds all of its parts to every replica, or none to any.

1. read the transaction and its staged parts; select those of the attempts that count
2. a block number for every partition that loses its rows: blocks below it are dropped (as in ``drop_partition``)
3. block numbers for the parts, as many as each partition gets under one lock; what was read is unchanged (read_state)
4. multi{log REPLACE_RANGE; with a quorum the status of the parts; the transaction := committed, and no INSERT into
   it since 1; delete the locks; the drop's operations; the application's version; check that the replicas that hold
   the parts are active}

Every replica executes the entry as one step (``engine.tables.replicated.follow.replace_range``). After an interruption
the state of the transaction alone tells whether it was committed. A repeated commit learns that it was. A multi of
unknown outcome is fenced off by its locks, which are deleted before the state is read again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from coordination.drops.drop_partition import DropPlan, LastBlocks, plan_drop
from coordination.inserts.block_numbers import BlockLock, LockKind, allocate_block_number, list_partition_ids
from coordination.inserts.insert_commit import release_block_number_if_possible
from coordination.inserts.quorum import QuorumStatus
from coordination.keeper.interface import (
    Check,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    MultiFailed,
    Op,
    SetData,
)
from coordination.keeper.request_limits import MAX_REQUEST_BYTES, operation_bytes, require_log_entry_fits
from coordination.links.stream.commit_times import CommitVersion
from coordination.log.log_entry import EntryType, LogEntry, StagedPart
from coordination.nodes.gate import CommitKind
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.nodes.replica_activation import (
    FEATURE_REPLACE_RANGE,
    FEATURE_TRANSACTION_QUORUM,
    FEATURE_TRANSACTION_VERSIONS,
    require_feature,
)
from coordination.nodes.sync_targets import SyncTargets
from coordination.nodes.table_gate import TableGate
from coordination.transactions.application_versions import ApplicationVersion, read_application_version
from coordination.transactions.commit_request import (
    CommitOutcome,
    CommitRequest,
    CommitVerdict,
    Overwrite,
    select_staged_parts,
)
from coordination.transactions.read_state import FindChange, plan_unchanged
from coordination.transactions.transaction_nodes import (
    StagedRecord,
    Transaction,
    TransactionState,
    abort_transaction,
    already_decided_error,
    open_transaction,
    read_staged_parts,
    read_transaction,
    transaction_content,
    transaction_node_name,
)
from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

_ATTEMPTS = 20
_SLACK_BYTES = 128 * 1024
"""Reserved for the checks of the activation and for the chroot of all paths."""
_NO_VERSION = -2

MakeVersion = Callable[[Keeper, BlockLock, Sequence[StagedPart]], CommitVersion]
"""Makes the version of the rows of a commit from a block number that was just taken and the parts that come."""


class OtherTableChanged(ConflictError):
    """The operations of the other table are not possible any more. Nothing was committed."""


def commit_transaction(
    keeper: Keeper,
    replica: ReplicaPaths,
    request: CommitRequest,
    *,
    gate: TableGate,
    first_number: Callable[[str], int],
    last_blocks: LastBlocks,
    clock: Callable[[], float],
    left_behind: Callable[[], None],
    quorum: int = 0,
    make_version: MakeVersion | None = None,
    sync: SyncTargets | None = None,
    find_change: FindChange | None = None,
) -> CommitOutcome:
    """Commits the transaction. Can be repeated after each error.

    ``first_number``: above every block number that this replica has in a partition. ``quorum``: replicas that must have
    the parts before sequential reads show them, below 2 for none. ``left_behind`` is called when an unused block number
    may be left, as after a ``KeeperError``. ``make_version`` makes the version of the rows, where they have some.
    ``sync``: the targets of synchronous links at which the rows are staged; ``None`` for rows that no client sent.
    ``find_change`` is needed if the request says what was read.

    Raises 649 (INVALID_TRANSACTION), 48 for a replica of an older version, 242 when a replica that holds staged parts
    is not active. Raises 650 (SERIALIZATION_ERROR) if what was read has changed, 290 for more parts than one request to
    ZooKeeper can name, 659 for an unknown outcome.
    """
    if quorum >= 2:
        require_feature(keeper, replica.table, FEATURE_TRANSACTION_QUORUM, "COMMIT TRANSACTION with insert_quorum")
    _require_features(keeper, replica.table, make_version)
    is_in_doubt = False
    for _ in range(_ATTEMPTS):
        try:
            outcome = CommitAttempt(
                keeper,
                replica,
                request,
                gate,
                first_number,
                last_blocks,
                clock,
                quorum,
                make_version,
                sync,
                find_change,
            ).run()
        except KeeperConnectionLoss:
            outcome, is_in_doubt = None, True
            left_behind()
        except KeeperError as error:
            if not is_in_doubt:
                raise
            raise UnknownOutcomeError(
                "UNKNOWN_STATUS_OF_TRANSACTION",
                f"ZooKeeper went away during the commit of transaction {request.transaction_id!r} ({error.message}); "
                "repeat the COMMIT: it does nothing twice",
            ) from error
        if outcome is not None:
            return outcome
    raise ConflictError("KEEPER_EXCEPTION", f"Could not commit in {_ATTEMPTS} attempts: others get ahead; try again")


def _require_features(keeper: Keeper, table: TablePaths, make_version: MakeVersion | None) -> None:
    require_feature(keeper, table, FEATURE_REPLACE_RANGE, "A transaction")
    if make_version is not None:
        require_feature(keeper, table, FEATURE_TRANSACTION_VERSIONS, "A transaction with last_writer_wins")


class CommitAttempt:
    """One attempt to commit, and the block numbers it holds."""

    def __init__(
        self,
        keeper: Keeper,
        replica: ReplicaPaths,
        request: CommitRequest,
        gate: TableGate,
        first_number: Callable[[str], int],
        last_blocks: LastBlocks,
        clock: Callable[[], float],
        quorum: int,
        make_version: MakeVersion | None,
        sync: SyncTargets | None = None,
        find_change: FindChange | None = None,
    ) -> None:
        self._keeper = keeper
        self._replica = replica
        self._table = replica.table
        self._request = request
        self._gate = gate
        self._first_number = first_number
        self._last_blocks = last_blocks
        self._clock = clock
        self._quorum = quorum
        self._make_version = make_version
        self._sync = sync
        self._find_change = find_change
        self._version: CommitVersion | None = None
        self._locks: list[BlockLock] = []

    def run(self) -> CommitOutcome | None:
        """Makes the attempt. Returns ``None`` if others got ahead: try again."""
        request, table = self._request, self._table
        found = read_transaction(self._keeper, table, transaction_node_name(request.transaction_id))
        if found is not None and found.state is TransactionState.COMMITTED:
            if found.reason:  # its rows were lost after the commit
                raise already_decided_error(found)
            return CommitOutcome(CommitVerdict.REPEATED, found.rows)
        application = None
        if request.application:
            application = read_application_version(self._keeper, table, request.application)
            if not application.accepts(request.version):
                return CommitOutcome(CommitVerdict.SKIPPED, application.rows_of(request.version))
        try:
            if found is None or found.state is not TransactionState.OPEN:
                found = open_transaction(self._keeper, table, request.transaction_id)
            return self._commit(found, application)
        finally:
            self.release()

    def plan_along(self) -> Sequence[Op]:
        """Returns the operations that commit an open transaction in the multi of another table.

        Raises 649 (INVALID_TRANSACTION) for a decided transaction, 999 if it is gone, and ``GateBarred``.
        """
        _require_features(self._keeper, self._table, self._make_version)
        found = read_transaction(self._keeper, self._table, transaction_node_name(self._request.transaction_id))
        if found is None:
            raise ConflictError(
                "KEEPER_EXCEPTION", f"Transaction {self._request.transaction_id!r} was given up meanwhile; try again"
            )
        if found.state is not TransactionState.OPEN:
            raise already_decided_error(found)
        return self._plan(found, None)[0]

    def release(self) -> None:
        """Gives the numbers up: a multi with the plan that may still be on its way fails then."""
        for lock in self._locks:
            release_block_number_if_possible(self._keeper, lock)
        self._locks.clear()

    def note_commit(self) -> None:
        """Forgets the numbers, which the multi has used."""
        self._locks.clear()

    def _commit(self, transaction: Transaction, application: ApplicationVersion | None) -> CommitOutcome | None:
        ops, parts = self._plan(transaction, application)
        try:
            self._keeper.multi(ops)
        except MultiFailed as error:
            self._raise_if_hopeless(error, transaction, {part.replica for part in parts})
            return None
        self.note_commit()
        rows = sum(part.rows for part in parts)
        return CommitOutcome(CommitVerdict.COMMITTED, rows, tuple(part.part for part in parts))

    def _plan(
        self, transaction: Transaction, application: ApplicationVersion | None
    ) -> tuple[Sequence[Op], Sequence[StagedPart]]:
        """Takes the numbers; returns the multi's operations, and the parts with their numbers."""
        request, table = self._request, self._table
        staged = select_staged_parts(
            request, read_staged_parts(self._keeper, table, transaction.name, transaction.keys)
        )
        partition_ids = sorted({record.partition_id for record in staged.values()})
        if request.overwrite is not Overwrite.NOTHING:  # rows go, too
            self._gate.require_open(self._keeper, CommitKind.OTHER)
        drops, kept = self._take_numbers_of_old_rows(partition_ids)
        parts = self._name_parts(staged)
        if self._make_version is not None and parts:  # behind all numbers
            self._version = self._make_version(self._keeper, self._locks[-1], parts)
        partitions_version = self._partitions_version() if self._is_of_all_partitions() else None
        drop = plan_drop(self._keeper, table, drops, self._last_blocks) if drops else None
        unchanged = plan_unchanged(self._keeper, table, request.unchanged, drops, kept, self._find_change)
        rows = sum(record.rows for record in staged.values())
        targets = self._sync.links if self._sync is not None and parts else frozenset[str]()
        decided = transaction_content(
            request.transaction_id, TransactionState.COMMITTED, rows=rows, sync_targets=targets
        )
        ops: list[Op] = [
            SetData(table.transaction(transaction.name), decided, transaction.version),
            Delete(table.open_transaction(transaction.name), transaction.inserts),
            *(Delete(lock.path) for lock in self._locks if lock not in drops),
            *(Check(table.replica(name).is_active) for name in sorted({part.replica for part in parts})),
            *self._gate.checks(self._keeper, CommitKind.ROWS, staged_at=self._sync if parts else None),
            *request.extra_ops,
        ]
        if self._quorum >= 2 and parts:
            first, *others = (str(part.part) for part in parts)
            status = QuorumStatus(first, self._quorum, (), self._replica.name, others=tuple(others))
            ops.append(Create(table.quorum_parallel_part(transaction.name), status.to_bytes()))
        if application is not None:
            assert request.version is not None
            ops.append(application.commit_op(request.version, rows))
        ops += unchanged
        if partitions_version is not None:
            ops.append(Check(table.block_numbers, partitions_version))
        limit_bytes = MAX_REQUEST_BYTES - _SLACK_BYTES - sum(map(operation_bytes, ops))
        logged, drop_ops = self._make_log_entry(transaction, parts, drop, limit_bytes)
        return [logged, *ops, *drop_ops], parts

    def _raise_if_hopeless(self, error: MultiFailed, transaction: Transaction, holders: Collection[str]) -> None:
        """Raises if another attempt is of no use."""
        if self._gate.has_moved(self._keeper, error):
            return
        if error.op in self._request.extra_ops:
            raise OtherTableChanged(
                "KEEPER_EXCEPTION", f"The other table has changed meanwhile: {error.message}"
            ) from error
        for name in holders:
            if error.op != Check(self._table.replica(name).is_active):
                continue
            if self._keeper.exists(self._table.replica(name).root) is None:
                abort_transaction(
                    self._keeper, self._table, transaction.name, f"replica {name}, which held rows of it, was dropped"
                )
                return
            raise UnavailableError(
                "TABLE_IS_READ_ONLY",
                f"Replica {name!r}, which holds rows of transaction {self._request.transaction_id!r}, is not "
                "active; nothing was committed. Repeat the COMMIT when it is back",
            ) from error

    def _is_of_all_partitions(self) -> bool:
        unchanged = self._request.unchanged
        return self._request.overwrite is Overwrite.TABLE or (unchanged is not None and unchanged.partition_ids is None)

    def _take_numbers_of_old_rows(self, partition_ids: Sequence[str]) -> tuple[list[BlockLock], list[BlockLock]]:
        """Takes numbers in the partitions of old rows, before the numbers of the parts that come.

        Returns those below which blocks are dropped, and those below which blocks must only be unchanged.
        """
        request = self._request
        if request.overwrite is Overwrite.NOTHING and request.unchanged is None:
            return [], []
        known = set(list_partition_ids(self._keeper, self._table))
        dropped = request.select_dropped(known, partition_ids)
        wanted = known if self._is_of_all_partitions() else dropped
        taken = [self._take_number(partition_id, LockKind.COMMAND) for partition_id in sorted(wanted)]
        used = [lock for lock in taken if lock.number]
        drops = [lock for lock in used if lock.partition_id in dropped]
        return drops, [lock for lock in used if lock not in drops]

    def _take_number(self, partition_id: str, kind: LockKind, count: int = 1) -> BlockLock:
        lock = allocate_block_number(
            self._keeper,
            self._table,
            partition_id,
            owner=self._replica.name,
            kind=kind,
            minimum=self._first_number(partition_id),
            count=count,
        )
        assert isinstance(lock, BlockLock)
        self._locks.append(lock)
        return lock

    def _name_parts(self, staged: Mapping[str, StagedRecord]) -> list[StagedPart]:
        """Returns the parts with their numbers, in the order of their keys."""
        counts = Counter(record.partition_id for record in staged.values())
        numbers = {
            partition_id: iter(range(lock.number, lock.number + lock.count))
            for partition_id, lock in (
                (p, self._take_number(p, LockKind.BLOCK, count)) for p, count in sorted(counts.items())
            )
        }
        parts = []
        for _, record in sorted(staged.items()):
            number = next(numbers[record.partition_id])
            name = PartName(record.partition_id, number, number, 0)
            parts.append(
                StagedPart(name, record.content_hash, record.replica, record.place, record.rows, record.size_bytes)
            )
        return parts

    def _partitions_version(self) -> int:
        """Returns the version of ``block_numbers`` if there are no partitions but those of the locks.

        Otherwise returns a version it never has, so that the multi fails and everything is read again.
        """
        version = self._keeper.get(self._table.block_numbers)[1].version
        held = {lock.partition_id for lock in self._locks}
        return version if held.issuperset(list_partition_ids(self._keeper, self._table)) else _NO_VERSION

    def _make_log_entry(
        self, transaction: Transaction, parts: Sequence[StagedPart], drop: DropPlan | None, limit_bytes: int
    ) -> tuple[Create, list[Op]]:
        entry = LogEntry(
            EntryType.REPLACE_RANGE,
            None,
            self._clock(),
            self._replica.name,
            rows=sum(part.rows for part in parts),
            size_bytes=sum(part.size_bytes for part in parts),
            drop_ranges=drop.ranges if drop is not None else (),
            replace_parts=tuple(parts),
            transaction=transaction.name,
            quorum=self._quorum,
            quorum_parallel=self._quorum >= 2,
            has_leftovers=drop is not None,
            commit_time=self._version.commit_time if self._version is not None else 0,
            origin=self._version.origin if self._version is not None else "",
            place_origin=self._gate.own_origin if parts else "",
            sync_targets=tuple(sorted(self._sync.links)) if self._sync is not None and parts else (),
        )
        logged = Create(self._table.log_prefix, entry.to_bytes(), sequential=True)
        require_log_entry_fits(logged, f"transaction {self._request.transaction_id!r} with {len(parts)} parts")
        if drop is None:
            return logged, []
        ops, has_leftovers = drop.ops(limit_bytes - operation_bytes(logged))
        entry = replace(entry, has_leftovers=has_leftovers)
        return Create(self._table.log_prefix, entry.to_bytes(), sequential=True), ops
