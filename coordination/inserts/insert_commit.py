"""The commit of an inserted block: one multi adds the block to every replica or to none.

The path of one block takes two requests to ZooKeeper when nothing fails. The first may be sent, without the block id,
while the part is still being written::

    taken = begin_insert(...)            # 1: block id is new, block number taken (an ephemeral lock)
    if DuplicateBlock: done, nothing written
    rename the part to its final name, fsynced (pre-active)
    status = commit_insert(...)          # 2: the commit multi
    COMMITTED → make the part active;    DUPLICATE → remove the part;
    RETRY → rename back, begin again     UNKNOWN → keep the part pre-active, queue a check, answer 319.

Invariants:
- A part is rolled back only when it cannot be committed any more. Every exception of :func:`commit_insert` means that.
- Only an active replica commits. If the session has ended, or another server has taken the replica over, the rows would
  be listed where they are not.
- An unknown answer is settled by the block lock: deleting it fences the commit, which deletes it too.
- ``blocks/<id>`` alone decides what a duplicate is, and only inside a multi. Nothing is cached.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from enum import Enum

from coordination.inserts.block_numbers import (
    BlockLock,
    DuplicateBlock,
    LockKind,
    allocate_block_number,
    release_block_number,
)
from coordination.inserts.block_views import NOTHING_MISSING, BlockNode, MissingViews
from coordination.inserts.partition_nodes import PartitionNode
from coordination.inserts.quorum import QuorumPlan, QuorumStatus, pending_quorum_error
from coordination.keeper.interface import (
    Check,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
)
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.gate import CommitKind, GateBarred
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.nodes.replica_activation import Activation
from coordination.nodes.sync_targets import NO_SYNC_TARGETS, SyncTargets, SyncTargetsMoved
from coordination.nodes.table_gate import TableGate
from parts.common.errors import ConflictError, UnavailableError
from parts.common.part_name import PartName

_ATTEMPTS = 20


class InsertStatus(Enum):
    """The outcome of a commit."""

    COMMITTED = "committed"
    DUPLICATE = "another insert of the same block came first"
    RETRY = "not committed and never will be: take a new block number"
    UNKNOWN = "may be committed"


@dataclass(frozen=True, slots=True)
class InsertRequest:
    """One block to commit. ``create_time`` is seconds since the epoch."""

    replica: ReplicaPaths
    part: PartName
    lock: BlockLock
    record: PartRecord
    create_time: float
    activation: Activation
    gate: TableGate
    block_id: str = ""
    quorum: QuorumPlan | None = None
    missing: MissingViews = NOTHING_MISSING
    """The materialized views that still need the block."""
    commit_time: int = 0
    """See ``LogEntry.commit_time``."""
    sync: SyncTargets = NO_SYNC_TARGETS
    """The targets of synchronous links at which the block is staged."""
    origin: str = ""
    """The origin that the part keeps for its rows, where the gate asks for it."""

    @property
    def log_entry(self) -> LogEntry:
        """The GET_PART entry that tells the other replicas of the part."""
        return LogEntry(
            type=EntryType.GET_PART,
            new_part=self.part,
            create_time=self.create_time,
            source_replica=self.replica.name,
            block_id=self.block_id,
            quorum=self.quorum.required if self.quorum else 0,
            quorum_parallel=self.quorum.is_parallel if self.quorum else False,
            content_hash=self.record.content_hash,
            rows=self.record.rows,
            size_bytes=self.record.size_bytes,
            commit_time=self.commit_time,
            sync_targets=tuple(sorted(self.sync.links)),
        )


@dataclass(frozen=True, slots=True)
class InsertResult:
    """The outcome of a commit, with the reason and the duplicate found."""

    status: InsertStatus
    duplicate_of: str = ""
    """For DUPLICATE: the part that holds the rows; ``missing`` has the views that miss the block."""
    missing: MissingViews = NOTHING_MISSING
    reason: str = ""


def begin_insert(
    keeper: Keeper,
    table: TablePaths,
    partition_id: str,
    block_id: str,
    *,
    owner: str,
    quorum: QuorumPlan | None = None,
    minimum: int = 0,
    known: MutableMapping[str, PartitionNode] | None = None,
) -> BlockLock | DuplicateBlock:
    """Takes a block number, or reports a duplicate. Raises 286 if another part's quorum is pending.

    ``minimum``: above every block number this replica has in the partition. ``known``: see ``allocate_block_number``.
    After a ``KeeperError`` or ``KeeperConnectionLoss`` an unused number may be left.
    """
    taken = allocate_block_number(
        keeper, table, partition_id, block_id, owner=owner, kind=LockKind.BLOCK, minimum=minimum, known=known
    )
    if isinstance(taken, BlockLock) and quorum is not None and quorum.pending_part:
        release_block_number(
            keeper, taken
        )  # errors are raised: the caller must learn that an unused number may be left
        raise pending_quorum_error(quorum.pending_part)
    return taken


def insert_commit_ops(request: InsertRequest, gate_checks: Sequence[Op]) -> list[Op]:
    """Returns the commit multi. The order of the operations decides which failure is reported."""
    table, part = request.replica.table, str(request.part)
    ops: list[Op] = [
        Create(table.log_prefix, request.log_entry.to_bytes(), sequential=True),
        Delete(request.lock.path),
    ]
    if request.quorum is not None:
        status = QuorumStatus(
            part, request.quorum.required, (request.replica.name,), request.replica.name, request.block_id
        )
        ops.append(Create(request.quorum.node(table, part), status.to_bytes()))
    ops += [*request.activation.checks, *gate_checks]
    if request.block_id:
        node = BlockNode(part, request.missing, tuple(sorted(request.sync.links)))
        ops.append(Create(table.block(request.block_id), node.to_bytes()))
    ops.append(Create(request.replica.part(part), request.record.to_bytes()))
    return ops


def commit_insert(
    keeper: Keeper,
    request: InsertRequest,
    *,
    resolve_seconds: float = 10.0,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> InsertResult:
    """Commits the block. An exception means that it was not committed and never will be.

    If the table's gate has moved, only the multi is repeated. Raises 286 (another quorum part is pending), 242 (this
    replica's session ended, or a bar keeps INSERTs out), 285 (no synchronous link is enabled), 999, and
    ``SyncTargetsMoved``.
    """
    for _ in range(_ATTEMPTS):
        try:
            checks = request.gate.checks(keeper, CommitKind.ROWS, staged_at=request.sync)
            if request.origin != request.gate.own_origin:  # not older than what the checks expect
                release_block_number(keeper, request.lock)
                return InsertResult(InsertStatus.RETRY, reason="parts of the table now keep the places of rows")
            keeper.multi(insert_commit_ops(request, checks))
            return InsertResult(InsertStatus.COMMITTED)
        except MultiFailed as error:
            if not _has_gate_moved(keeper, request, error):
                return _explain_failure(keeper, request, error)
        except KeeperConnectionLoss:
            return settle_insert(keeper, request, resolve_seconds=resolve_seconds, clock=clock, sleep=sleep)
        except (GateBarred, SyncTargetsMoved):
            release_block_number(keeper, request.lock)  # its errors tell that an unused number may be left
            raise
        except (KeeperError, UnavailableError):
            release_block_number_if_possible(keeper, request.lock)
            raise
    release_block_number_if_possible(keeper, request.lock)
    raise ConflictError("KEEPER_EXCEPTION", f"The gate of the table moved {_ATTEMPTS} times during the commit; retry")


def _has_gate_moved(keeper: Keeper, request: InsertRequest, error: MultiFailed) -> bool:
    try:
        return request.gate.has_moved(keeper, error)
    except KeeperError:
        release_block_number_if_possible(keeper, request.lock)
        raise


def _explain_failure(keeper: Keeper, request: InsertRequest, error: MultiFailed) -> InsertResult:
    table, path, cause = request.replica.table, error.op.path, error.cause
    if path == request.lock.path:
        return InsertResult(InsertStatus.RETRY, reason=f"block number {request.lock.number} was taken back by a DROP")
    release_block_number_if_possible(keeper, request.lock)
    if request.block_id and path == table.block(request.block_id) and isinstance(cause, NodeExists):
        answer = keeper.get_many([path])[0]
        if answer is None:
            return InsertResult(InsertStatus.RETRY, reason="the block that was a duplicate is gone")
        node = BlockNode.parse(answer[0])
        return InsertResult(InsertStatus.DUPLICATE, duplicate_of=node.part, missing=node.missing)
    if path == table.quorum_status and isinstance(cause, NodeExists):
        raise pending_quorum_error("") from error
    if isinstance(error.op, Check):
        raise UnavailableError(
            "TABLE_IS_READ_ONLY", f"Replica {request.replica.name} lost its ZooKeeper session during the INSERT; retry"
        ) from error
    if isinstance(cause, NodeExists):
        raise ConflictError("DUPLICATE_DATA_PART", f"Part {request.part} exists in ZooKeeper already") from error
    if isinstance(cause, NoNode):
        raise UnavailableError("TABLE_IS_DROPPED", f"The table or replica is not in ZooKeeper: {path}") from error
    raise cause from error


def settle_insert(
    keeper: Keeper,
    request: InsertRequest,
    *,
    resolve_seconds: float = 10.0,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> InsertResult:
    """Finds out the outcome of a commit whose answer was lost.

    Returns COMMITTED, RETRY (the commit is fenced off), or UNKNOWN while ZooKeeper is away. May be called again later
    with the same request.
    """
    deadline = clock() + resolve_seconds
    while True:
        try:
            return _settle(keeper, request)
        except (KeeperError, KeeperConnectionLoss) as error:
            if clock() >= deadline:
                return InsertResult(InsertStatus.UNKNOWN, reason=error.message)
        sleep(0.05)


def _settle(keeper: Keeper, request: InsertRequest) -> InsertResult:
    keeper.sync(request.replica.table.root)
    if not is_insert_committed(keeper, request) and release_block_number(keeper, request.lock):
        return InsertResult(InsertStatus.RETRY, reason="the connection was lost before the commit")
    # The lock is gone, so the answer cannot change any more.
    keeper.sync(request.replica.table.root)
    if is_insert_committed(keeper, request) or _is_logged(keeper, request):
        return InsertResult(InsertStatus.COMMITTED)
    return InsertResult(InsertStatus.RETRY, reason="the block number was lost with the session, or to a DROP")


def is_insert_committed(keeper: Keeper, request: InsertRequest) -> bool:
    """Tells whether this replica's list of parts, or the block id, proves the commit.

    A listed part that covers it proves nothing: merges reach over numbers that were never used.
    """
    replica, part = request.replica, request.part
    if keeper.exists(replica.part(str(part))) is not None:
        return True
    if request.block_id:
        answer = keeper.get_many([replica.table.block(request.block_id)])[0]
        return answer is not None and BlockNode.parse_part_name(answer[0]) == str(part)
    return False


def _is_logged(keeper: Keeper, request: InsertRequest) -> bool:
    """Tells whether the log has the block: one that was committed and dropped again is only there."""
    log = request.replica.table.log
    for answer in keeper.get_many([f"{log}/{name}" for name in keeper.children(log)]):
        if answer is not None:
            entry = LogEntry.parse(answer[0])
            if entry.new_part == request.part and entry.type is EntryType.GET_PART:
                return True
    return False


def release_block_number_if_possible(keeper: Keeper, lock: BlockLock) -> None:
    """Gives up an unused number. If ZooKeeper is away, the session's end frees it."""
    try:
        release_block_number(keeper, lock)
    except (KeeperError, KeeperConnectionLoss):
        return
