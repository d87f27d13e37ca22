"""Commit a part that a queue entry produced: fetched from another replica, or merged here.

One multi: create ``parts/<part>``, delete the queue entry, add this replica to the part's quorum, and agree on content.

Agreement: if another replica lists the part, its hash must be ours. Otherwise the outcome is DIFFERENT: our part is
discarded and theirs fetched. If no replica lists it, the multi checks that none does, so two replicas cannot commit
different contents. A caller that has read another replica's listing already, to fetch the part, passes it as a
:class:`ContentAgreement`. The multi checks that it still holds, and nothing is read again unless that fails.

The nodes of covered source parts stay until cleanup removes outdated parts (``unlist_parts``, then the disk). So a
fetcher that looks for a source still finds its holders.

On COMMITTED the entry has left ZooKeeper. Make the part active, *then* call ``queue.finish(name)``: a DROP_RANGE waits
for the entry, and must find the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from coordination.inserts.quorum import add_holder_ops
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
    Stat,
    check_not_exists,
)
from coordination.log.log_entry import LogEntry
from coordination.log.replication_queue import ReplicationQueue
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths
from parts.common.errors import ConflictError
from parts.common.part_name import PartName

_ATTEMPTS = 20


class PartCommitStatus(Enum):
    """The outcome of a commit."""

    COMMITTED = "committed"
    DIFFERENT = "another replica has other content under this name: discard ours, fetch theirs"
    DROPPED = "not wanted any more (a DROP covered it, or its quorum failed): discard ours and the entry"
    STALE = "what it was made of has changed: discard ours, make it anew"
    UNKNOWN = "may be committed: keep it pre-active and ask again"


@dataclass(frozen=True, slots=True)
class ContentAgreement:
    """The content with which another replica lists the part. ``check`` fails if its listing has changed."""

    check: Check
    content_hash: str

    @classmethod
    def read(cls, path: str, answer: tuple[bytes, Stat]) -> ContentAgreement:
        """Makes an agreement from what ``get`` returned for the listing's ``path``.

        Raises ``CorruptionError``.
        """
        return cls(Check(path, answer[1].version), PartRecord.parse(answer[0]).content_hash)


def commit_produced_part(
    keeper: Keeper,
    replica: ReplicaPaths,
    queue: ReplicationQueue,
    name: str,
    entry: LogEntry,
    part: PartName,
    record: PartRecord,
    *,
    agreement: ContentAgreement | None = None,
    conditions: Sequence[Op] = (),
    resolve_seconds: float = 10.0,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> PartCommitStatus:
    """Commits ``part`` for the queue entry ``name``. Can be repeated.

    ``part`` is ``entry.new_part``, or a virtual part that covers it and was fetched instead. If one of the
    ``conditions`` fails the outcome is STALE. Exceptions mean that it was not committed (now); the entry still exists.
    """
    if queue.is_cancelled(name):
        return PartCommitStatus.DROPPED
    deadline = clock() + resolve_seconds
    is_in_doubt = False
    for attempt in range(_ATTEMPTS):
        try:
            if attempt == 0 and _commit_agreed(keeper, replica, name, entry, part, record, agreement):
                return PartCommitStatus.COMMITTED
            status = _try_commit(keeper, replica, name, entry, part, record, conditions, is_in_doubt=is_in_doubt)
        except KeeperConnectionLoss:
            status, is_in_doubt = None, True
        except MultiFailed as error:
            raise error.cause from error
        except KeeperError:
            if not is_in_doubt:
                raise
            status = None
        if status is PartCommitStatus.DROPPED and entry.new_part is not None and _has_failed(keeper, replica, entry):
            # A failed part that is not a virtual part cannot be merged, and no merge waits for it.
            queue.remove_virtual(entry.new_part)
        if status is not None:
            return status
        if is_in_doubt:
            if clock() >= deadline:
                return PartCommitStatus.UNKNOWN
            sleep(0.05)
    if is_in_doubt:
        return PartCommitStatus.UNKNOWN
    raise ConflictError("KEEPER_EXCEPTION", f"Could not commit part {part}: others keep changing its nodes; retry")


def _commit_agreed(
    keeper: Keeper,
    replica: ReplicaPaths,
    name: str,
    entry: LogEntry,
    part: PartName,
    record: PartRecord,
    agreement: ContentAgreement | None,
) -> bool:
    """Commits with one request if there is an agreement and no quorum. Returns ``False`` otherwise."""
    if agreement is None or agreement.content_hash != record.content_hash or entry.quorum >= 2:
        return False
    try:
        commit_agreed_parts(keeper, replica, [(name, part, record, agreement)])
        return True
    except MultiFailed:
        return False


def commit_agreed_parts(
    keeper: Keeper, replica: ReplicaPaths, parts: Sequence[tuple[str, PartName, PartRecord, ContentAgreement]]
) -> None:
    """Commits agreed parts, each with the name of its queue entry, in one multi: all or none.

    Raises ``MultiFailed`` when one of them cannot be committed this way, ``KeeperConnectionLoss`` when the outcome is
    unknown. Then :func:`commit_produced_part` settles each.
    """
    ops: list[Op] = []
    for name, part, record, agreement in parts:
        create = Create(replica.part(str(part)), record.to_bytes())
        ops += [Delete(replica.queue_entry(name)), agreement.check, create]
    keeper.multi(ops)


def _try_commit(
    keeper: Keeper,
    replica: ReplicaPaths,
    name: str,
    entry: LogEntry,
    part: PartName,
    record: PartRecord,
    conditions: Sequence[Op],
    *,
    is_in_doubt: bool,
) -> PartCommitStatus | None:
    """Tries once. Returns ``None`` if something changed meanwhile: try again."""
    if is_in_doubt:
        keeper.sync(replica.root)
    mine = replica.part(str(part))
    queued, listed = keeper.exists_many([replica.queue_entry(name), mine])
    if queued is None:
        return PartCommitStatus.COMMITTED if listed is not None else PartCommitStatus.DROPPED
    agreement = content_agreement_ops(keeper, replica, part, record)
    if agreement is None:
        return PartCommitStatus.DIFFERENT
    ops: list[Op] = [Delete(replica.queue_entry(name)), *agreement, *conditions]
    if listed is None:
        ops.append(Create(mine, record.to_bytes()))
    if entry.quorum >= 2 and entry.new_part is not None:
        # A peer may have given the part up while its owner, from which we fetched, was coming back.
        if _has_failed(keeper, replica, entry):
            return PartCommitStatus.DROPPED
        ops += check_not_exists(replica.table.quorum_failed_part(str(entry.new_part)))
        ops += add_holder_ops(keeper, replica.table, entry.new_part, replica.name, is_parallel=entry.quorum_parallel)
    try:
        keeper.multi(ops)
    except MultiFailed as error:
        if error.op in conditions:
            return PartCommitStatus.STALE
        if isinstance(error.cause, NodeExists | NoNode) or "/quorum/" in error.op.path:
            return None
        raise
    return PartCommitStatus.COMMITTED


def _has_failed(keeper: Keeper, replica: ReplicaPaths, entry: LogEntry) -> bool:
    marker = replica.table.quorum_failed_part(str(entry.new_part))
    return entry.quorum >= 2 and keeper.exists(marker) is not None


def content_agreement_ops(
    keeper: Keeper, replica: ReplicaPaths, part: PartName, record: PartRecord
) -> Sequence[Op] | None:
    """Returns checks of the agreement on content; ``None`` when another replica's content differs.

    A replica without ``host`` is an interrupted drop: it commits nothing, and may have no list of parts any more.
    """
    names = [name for name in keeper.children(replica.table.replicas) if name != replica.name]
    paths = [replica.table.replica(name).part(str(part)) for name in names]
    answers = keeper.get_many([*paths, *(replica.table.replica(name).host for name in names)])
    asked = [(path, answer) for path, answer, host in zip(paths, answers, answers[len(paths) :], strict=False) if host]
    for path, answer in asked:
        if answer is not None:
            if PartRecord.parse(answer[0]).content_hash != record.content_hash:
                return None
            return [Check(path, answer[1].version)]
    return [op for path, _ in asked for op in check_not_exists(path)]
