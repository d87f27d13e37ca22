"""Make a lost or new replica equal to a living one, through ZooKeeper alone.

Its queue then fetches the data.

Steps, each safe to repeat, so that a crash anywhere means beginning anew:

1. the source: a replica that is not lost, active if possible, least behind
2. own queue cleared
3. multi{own log_pointer := the source's; check the source's is_lost and log_pointer versions}
4. the source's queue is read, *then* its list of parts (an entry executed in between shows in both, never in neither)
   (and the source must not have been lost meanwhile: it would have cleared its queue)
5. own queue: fetches of the source's parts that are not here, *then* a copy of the source's queue. So a drop that the
   source has not executed yet also drops what was just queued: dropped data does not return
6. local parts that neither the source nor the log after its pointer has are reported, to be moved to detached/clone_…;
   the own list of parts is trimmed
7. ``finish_clone``: is_lost := 0

The replica must be active before, so that the log it will pull is not trimmed under it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordination.inserts.quorum import make_fetch_entries
from coordination.keeper.interface import (
    BadVersion,
    Check,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NoNode,
    SetData,
)
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.log.log_entry import LogEntry
from coordination.log.part_set import PartSet
from coordination.nodes.deletion import delete_if_present
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths, parse_sequence_number
from coordination.nodes.replica_positions import ReplicaPosition, read_replica_positions
from coordination.replicas.cleanup import make_not_lost_check
from coordination.replicas.log_pull import unlist_parts
from parts.common.errors import ConflictError, CorruptionError, UnavailableError
from parts.common.part_name import PartName

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class CloneResult:
    """The result of a clone: the source, and what was queued or must be detached."""

    source: str
    parts_to_detach: tuple[PartName, ...]
    """Local parts that the source lacks or has with other content, or that ZooKeeper never listed here."""
    queued_fetches: int
    copied_entries: int


def needs_clone(keeper: Keeper, replica: ReplicaPaths) -> bool:
    """Tells whether the replica must be cloned first: it is marked as lost, or was never cloned."""
    lost, pointer = keeper.get_many([replica.is_lost, replica.log_pointer])
    return lost is None or lost[0] == b"1" or pointer is None or not pointer[0]


def choose_clone_source(positions: Sequence[ReplicaPosition], own_name: str) -> ReplicaPosition | None:
    """Returns the replica with the least lag that is not lost; an active one if there is any."""
    candidates = [p for p in positions if p.name != own_name and not p.is_lost and p.pointer is not None]
    return max(candidates, key=lambda p: (p.is_active, p.pointer or 0, p.name), default=None)


def request_clone(keeper: Keeper, replica: ReplicaPaths) -> bool:
    """Marks the own replica as lost, so that its next session clones it.

    Returns ``False`` if there is no replica to clone from, or the chosen one was marked as lost meanwhile.
    """
    source = choose_clone_source(read_replica_positions(keeper, replica.table), replica.name)
    if source is None:
        return False
    try:
        keeper.multi([make_not_lost_check(keeper, replica.table.replica(source.name)), SetData(replica.is_lost, b"1")])
        return True
    except MultiFailed as error:
        if not isinstance(error.cause, BadVersion | NoNode):
            raise error.cause from error
        return False


def clone_replica(keeper: Keeper, replica: ReplicaPaths, local_parts: Mapping[PartName, str]) -> CloneResult:
    """Fills this replica's queue with what it needs to become equal to another.

    ``local_parts``: the active parts on disk and their content hashes ("" if unknown). Afterwards detach
    ``parts_to_detach``, call :func:`finish_clone`, load the queue. Raises 254 without a source.
    """
    source = choose_clone_source(read_replica_positions(keeper, replica.table), replica.name)
    if source is None:
        raise UnavailableError("NO_ACTIVE_REPLICAS", f"No replica to clone {replica.root} from: all others are lost")
    origin = replica.table.replica(source.name)
    _clear_queue(keeper, replica)
    lost_version = _take_pointer(keeper, replica, origin)
    queue = _read_queue(keeper, origin)
    listed = _read_parts(keeper, origin)
    _require_not_lost(keeper, origin, lost_version)
    coming = [*queue, *_read_log(keeper, replica)]
    virtual = _virtual_parts(listed, coming)
    hashes = {part: digest for entry in coming for part, digest in entry.content_hashes.items()} | listed
    own = set(keeper.children(replica.parts))
    detach = tuple(
        part
        for part, digest in local_parts.items()
        if str(part) not in own or not _is_known(part, digest, hashes, virtual)
    )
    kept = {part for part in local_parts if part not in detach}
    wanted = {part: listed[part] for part in PartSet(listed) if part not in kept}
    fetches = make_fetch_entries(keeper, replica.table, wanted, source.name)
    _append(keeper, replica, [*fetches, *queue])
    _trim_own_list(keeper, replica, kept)
    return CloneResult(source.name, detach, len(fetches), len(queue))


def finish_clone(keeper: Keeper, replica: ReplicaPaths) -> None:
    """Removes the mark of a lost replica, and in the same multi that of a restore.

    See ``recovery.restore_replica``.
    """
    marks = [Delete(replica.restoring)] if keeper.exists(replica.restoring) is not None else []
    keeper.multi([SetData(replica.is_lost, b"0"), *marks])


def _clear_queue(keeper: Keeper, replica: ReplicaPaths) -> None:
    for name in keeper.children(replica.queue):
        delete_if_present(keeper, replica.queue_entry(name))


def _take_pointer(keeper: Keeper, replica: ReplicaPaths, origin: ReplicaPaths) -> int:
    """Copies the source's log pointer. Returns the version of the source's ``is_lost``."""
    for _ in range(_ATTEMPTS):
        lost, lost_stat = keeper.get(origin.is_lost)
        pointer, pointer_stat = keeper.get(origin.log_pointer)
        if lost == b"1" or not pointer:
            raise ConflictError("KEEPER_EXCEPTION", f"The source {origin.root} was lost meanwhile; choose another")
        try:
            keeper.multi(
                [
                    SetData(replica.log_pointer, pointer),
                    Check(origin.is_lost, lost_stat.version),
                    Check(origin.log_pointer, pointer_stat.version),
                ]
            )
            return lost_stat.version
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion):
                raise error.cause from error
        except KeeperConnectionLoss:
            continue
    raise ConflictError("KEEPER_EXCEPTION", f"The log pointer of {origin.root} moves too fast to be copied; retry")


def _require_not_lost(keeper: Keeper, origin: ReplicaPaths, lost_version: int) -> None:
    """Raises ``ConflictError`` if the source was marked as lost meanwhile.

    It may then have cleared its queue to become a clone itself, and those entries were neither copied nor are they in
    the log after the pointer.
    """
    stat = keeper.exists(origin.is_lost)
    if stat is None or stat.version != lost_version:
        raise ConflictError("KEEPER_EXCEPTION", f"The source {origin.root} was lost meanwhile; choose another")


def _read_queue(keeper: Keeper, origin: ReplicaPaths) -> list[LogEntry]:
    """Returns the source's queue in order. Reads it from the end.

    A drop that the source executes meanwhile removes the entries before it. Those must not be copied without the drop.
    """
    names = sorted(keeper.children(origin.queue), key=parse_sequence_number, reverse=True)
    answers = keeper.get_many([origin.queue_entry(name) for name in names])
    return parse_entries(keeper, origin.table, (answer[0] for answer in reversed(answers) if answer is not None))


def _read_log(keeper: Keeper, replica: ReplicaPaths) -> list[LogEntry]:
    """Returns the entries the source has not pulled.

    A part that they will bring need not be fetched if it is here.
    """
    pointer = int(keeper.get(replica.log_pointer)[0])
    log = replica.table.log
    names = [name for name in keeper.children(log) if parse_sequence_number(name) >= pointer]
    answers = keeper.get_many([f"{log}/{name}" for name in names])
    return parse_entries(keeper, replica.table, (answer[0] for answer in answers if answer is not None))


def _read_parts(keeper: Keeper, origin: ReplicaPaths) -> dict[PartName, str]:
    """Returns the content hash of each listed part, "" where the record cannot be read."""
    names = keeper.children(origin.parts)
    answers = keeper.get_many([origin.part(name) for name in names])
    return {
        PartName.parse(name): _hash(answer[0])
        for name, answer in zip(names, answers, strict=True)
        if answer is not None
    }


def _hash(data: bytes) -> str:
    try:
        return PartRecord.parse(data).content_hash
    except CorruptionError:
        return ""


def _virtual_parts(listed: Mapping[PartName, str], queue: Sequence[LogEntry]) -> PartSet:
    virtual = PartSet(listed)
    for entry in queue:
        for dropped in entry.removed_ranges:
            virtual.remove_covered(dropped)
        for part in entry.created_parts:
            virtual.add(part)
    return virtual


def _is_known(part: PartName, digest: str, hashes: Mapping[PartName, str], virtual: PartSet) -> bool:
    """Tells whether the source has the part with the same content, or is about to make or cover it."""
    theirs = hashes.get(part)
    if theirs and digest and theirs != digest:
        return False
    return virtual.find_covering(part) is not None


def _append(keeper: Keeper, replica: ReplicaPaths, entries: Sequence[LogEntry]) -> None:
    ops = [Create(replica.queue_prefix, entry.to_bytes(), sequential=True) for entry in entries]
    for packet in split_into_multis(ops, operation_bytes):
        keeper.multi(packet)


def _trim_own_list(keeper: Keeper, replica: ReplicaPaths, kept: set[PartName]) -> None:
    """Removes all parts from this replica's list that are not on disk or will not stay."""
    gone = [name for name in keeper.children(replica.parts) if PartName.try_parse(name) not in kept]
    unlist_parts(keeper, replica, gone)
