"""insert_quorum: an INSERT is confirmed only when n replicas hold its part.

While a part waits it has a status node: ``quorum/status`` (one at a time in the table) or ``quorum/parallel/<part>``.
The INSERT's commit creates it with the inserter as first holder; every fetcher adds itself in the multi that commits
its fetched part; the last one removes the node (and, not parallel, sets ``quorum/last_part`` atomically).

**A missing node does not mean success**: a peer that found no living holder removes it too, and leaves
``quorum/failed_parts/<part>``; and the marker is cleared when the owner comes back. So the waiter asks three things, of
one synced view: node gone, no failure marker, and its own activation unchanged (:func:`judge`).
A time-out deletes nothing: the part may still reach its quorum. Codes: 285 too few live replicas, 286 another part is
pending, 319 outcome unknown, 289 this replica lacks a confirmed part.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from coordination.keeper import (
    BadVersion,
    Check,
    Create,
    Delete,
    Keeper,
    KeeperError,
    MultiFailed,
    NoNode,
    Op,
    SetData,
    Stat,
)
from coordination.log_entry import EntryType, LogEntry
from coordination.paths import ReplicaPaths, TablePaths, sequence_number
from coordination.replica_activity import Activation
from parts.errors import (
    CancelledError,
    ConflictError,
    CorruptionError,
    UnavailableError,
    UnknownOutcomeError,
    UserError,
)
from parts.part_name import PartName

AUTO = "auto"
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """The content of a status node."""

    part: str
    required: int
    replicas: tuple[str, ...]
    owner: str
    block_id: str = ""

    @property
    def is_met(self) -> bool:
        return len(self.replicas) >= self.required

    def with_replica(self, name: str) -> QuorumStatus:
        return self if name in self.replicas else replace(self, replicas=(*self.replicas, name))

    def to_bytes(self) -> bytes:
        document = {
            "version": 1,
            "part": self.part,
            "required": self.required,
            "replicas": list(self.replicas),
            "owner": self.owner,
            "block_id": self.block_id,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> QuorumStatus:
        try:
            d = json.loads(data)
            return cls(d["part"], d["required"], tuple(d["replicas"]), d["owner"], d.get("block_id", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"Cannot read quorum status {data[:200]!r}", name="CORRUPTED_DATA") from error


def parse_last_parts(data: bytes) -> dict[str, str]:
    """``quorum/last_part``: partition id → the last part that reached its quorum."""
    if not data:
        return {}
    try:
        return dict(json.loads(data)["parts"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"Cannot read quorum/last_part {data[:200]!r}", name="CORRUPTED_DATA") from error


def format_last_parts(parts: dict[str, str]) -> bytes:
    return json.dumps({"version": 1, "parts": parts}, separators=(",", ":"), sort_keys=True).encode()


# --- before an INSERT ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuorumPlan:
    """What an INSERT must reach. ``pending_part`` (not parallel): another part that waits now."""

    required: int
    is_parallel: bool
    pending_part: str = ""

    def node(self, table: TablePaths, part: str) -> str:
        return table.quorum_parallel_part(part) if self.is_parallel else table.quorum_status


def required_replicas(setting: int | str, total_replicas: int) -> int:
    """``insert_quorum`` as a number: 'auto' is the majority of all replicas; below 2 means no quorum."""
    if isinstance(setting, str) and setting.strip().lower() == AUTO:
        return total_replicas // 2 + 1
    try:
        required = int(setting)
    except ValueError as error:
        raise UserError("BAD_ARGUMENTS", f"insert_quorum must be a number or 'auto', got {setting!r}") from error
    if required < 0:
        raise UserError("BAD_ARGUMENTS", f"insert_quorum must not be negative, got {required}")
    return required


def plan_quorum(keeper: Keeper, table: TablePaths, setting: int | str, *, is_parallel: bool) -> QuorumPlan | None:
    """Before anything is written. ``None``: no quorum asked. Raises 285 when too few replicas live.

    A part that is pending already (286) is only reported, as ``pending_part``: the block may be that very part.
    """
    if setting in (0, 1, "0", "1", ""):
        return None
    names = keeper.children(table.replicas)
    required = required_replicas(setting, len(names))
    if required < 2:
        return None
    stats = keeper.exists_many([table.replica(name).is_active for name in names])
    live = sum(stat is not None for stat in stats)
    if live < required:
        raise UnavailableError(
            "TOO_FEW_LIVE_REPLICAS",
            f"Number of alive replicas ({live}) is less than requested quorum ({required}/{len(names)})",
        )
    pending = None if is_parallel else read_status(keeper, table.quorum_status)
    return QuorumPlan(required, is_parallel, pending[0].part if pending else "")


def too_many_pending(part: str) -> UnavailableError:
    return UnavailableError(
        "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
        f"Quorum for previous write has not been satisfied yet. Pending part: {part or 'unknown'}",
    )


def read_status(keeper: Keeper, path: str) -> tuple[QuorumStatus, Stat] | None:
    try:
        data, stat = keeper.get(path)
    except NoNode:
        return None
    return QuorumStatus.parse(data), stat


# --- in the commit of a fetched part -----------------------------------------------------------------------------


def holder_ops(keeper: Keeper, table: TablePaths, part: PartName, replica: str, *, is_parallel: bool) -> list[Op]:
    """Operations that add ``replica`` as a holder, for the multi that commits its fetched part.

    Empty when the part's quorum was met or failed before. A multi that fails with BadVersion or NoNode on one of these
    met another fetcher: ask again and retry.
    """
    path = table.quorum_parallel_part(str(part)) if is_parallel else table.quorum_status
    found = read_status(keeper, path)
    if found is None or found[0].part != str(part) or replica in found[0].replicas:
        return []
    status, stat = found
    if is_parallel:
        return _progress_ops(path, status.with_replica(replica), stat.version)
    last, last_stat = keeper.get(table.quorum_last_part)
    return _progress_ops(path, status.with_replica(replica), stat.version) + _last_part_ops(
        table, status.with_replica(replica), part, last, last_stat.version
    )


def _progress_ops(path: str, status: QuorumStatus, version: int) -> list[Op]:
    return [Delete(path, version)] if status.is_met else [SetData(path, status.to_bytes(), version)]


def _last_part_ops(table: TablePaths, status: QuorumStatus, part: PartName, last: bytes, last_version: int) -> list[Op]:
    if not status.is_met:
        return []
    parts = parse_last_parts(last) | {part.partition_id: str(part)}
    return [SetData(table.quorum_last_part, format_last_parts(parts), last_version)]


def pending_parts(keeper: Keeper, table: TablePaths) -> list[tuple[QuorumStatus, Stat, str]]:
    """Every part that waits for its quorum, with its node's stat and path."""
    names = keeper.children(table.quorum_parallel)
    paths = [table.quorum_status, *(table.quorum_parallel_part(name) for name in names)]
    return [
        (QuorumStatus.parse(answer[0]), answer[1], path)
        for path, answer in zip(paths, keeper.get_many(paths), strict=True)
        if answer is not None
    ]


def fetch_entries(
    keeper: Keeper, table: TablePaths, parts: dict[PartName, str], source: str, now: float
) -> list[LogEntry]:
    """Entries that fetch ``parts`` (name → content hash, "" if unknown) outside the log's course (clone, repair).

    A part whose quorum is pending keeps it, so that the fetch confirms it or notices its failure; one that failed its
    quorum is left out. Read the list of parts before calling this.
    """
    pending = {
        status.part: (status.required, path != table.quorum_status) for status, _, path in pending_parts(keeper, table)
    }
    failed = set(failed_parts(keeper, table))
    entries = []
    for part, content_hash in parts.items():
        if str(part) in failed:
            continue
        required, is_parallel = pending.get(str(part), (0, False))
        entries.append(
            LogEntry(
                EntryType.GET_PART,
                part,
                now,
                source,
                content_hash=content_hash,
                quorum=required,
                quorum_parallel=is_parallel,
                is_restored=True,
            )
        )
    return entries


def forget_confirmed_ops(keeper: Keeper, table: TablePaths, gone: PartName) -> list[Op]:
    """For the multi that drops ``gone``: sequential reads must not wait for a confirmed part that it covers."""
    data, stat = keeper.get(table.quorum_last_part)
    last = parse_last_parts(data)
    left = {partition: part for partition, part in last.items() if not gone.covers(PartName.parse(part))}
    return [] if left == last else [SetData(table.quorum_last_part, format_last_parts(left), stat.version)]


def failed_parts(keeper: Keeper, table: TablePaths) -> list[str]:
    return keeper.children(table.quorum_failed_parts)


def unconfirmed_parts(keeper: Keeper, table: TablePaths) -> frozenset[PartName]:
    """Parts that wait for a quorum or failed theirs: not to be merged, not to be shown to sequential reads."""
    names = [status.part for status, _, _ in pending_parts(keeper, table)]
    # Failures are read second: a part moves from pending to failed in one multi, never back.
    return frozenset(PartName.parse(name) for name in (*names, *failed_parts(keeper, table)))


def confirm_own_parts(keeper: Keeper, replica: ReplicaPaths, own_parts: Iterable[str]) -> int:
    """After a restart: adds this replica to the status of every pending part that it holds. Returns how many."""
    own = set(own_parts)
    added = 0
    for status, _, path in pending_parts(keeper, replica.table):
        if status.part in own and replica.name not in status.replicas:
            part = PartName.parse(status.part)
            is_parallel = path != replica.table.quorum_status
            added += _confirm(keeper, replica, part, is_parallel=is_parallel)
    return added


def _confirm(keeper: Keeper, replica: ReplicaPaths, part: PartName, *, is_parallel: bool) -> bool:
    for _ in range(_ATTEMPTS):
        ops = holder_ops(keeper, replica.table, part, replica.name, is_parallel=is_parallel)
        if not ops:
            return False
        try:
            keeper.multi(ops)
            return True
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode):
                raise
    raise ConflictError("KEEPER_EXCEPTION", f"Could not confirm part {part}: others keep changing its quorum; retry")


# --- failure -----------------------------------------------------------------------------------------------------


def fail_unreachable_part(keeper: Keeper, replica: ReplicaPaths, entry: LogEntry) -> bool:
    """For a replica that must fetch a quorum part: gives the part up if no living replica has it.

    One multi checks every replica's host version, so that nobody who came alive meanwhile is overruled, removes the
    status, leaves the failure marker and frees the block id for a retry. ``True``: the part has failed (by us or
    before), its entry can go. Raises ``MultiFailed`` when somebody moved meanwhile; retry later.
    """
    table, part = replica.table, str(entry.new_part)
    path = table.quorum_parallel_part(part) if entry.quorum_parallel else table.quorum_status
    keeper.sync(table.root)
    names = keeper.children(table.replicas)
    hosts = keeper.exists_many([table.replica(name).host for name in names])
    active = keeper.exists_many([table.replica(name).is_active for name in names])
    holds = keeper.exists_many([table.replica(name).part(part) for name in names])
    if any(a is not None and h is not None for a, h in zip(active, holds, strict=True)):
        return False
    found = read_status(keeper, path)
    if found is None or found[0].part != part:
        return keeper.exists(table.quorum_failed_part(part)) is not None
    if replica.name in found[0].replicas:
        return False
    ops: list[Op] = [
        Check(table.replica(name).host, stat.version)
        for name, stat in zip(names, hosts, strict=True)
        if stat is not None
    ]
    keeper.multi([*ops, *failure_ops(keeper, table, found[0], path, found[1].version)])
    return True


def failure_ops(keeper: Keeper, table: TablePaths, status: QuorumStatus, path: str, version: int) -> list[Op]:
    """Removes the status, marks the part as failed, frees its block id.

    Moves the log's version too: a merge that was chosen while the part looked healthy must not be assigned any more.
    The marker stays until no log entry, queue or list of parts names the part (``cleanup``).
    """
    ops: list[Op] = [Delete(path, version), SetData(table.log, b"")]
    marker = table.quorum_failed_part(status.part)
    if keeper.exists(marker) is None:
        ops.append(Create(marker, status.owner.encode()))
    if status.block_id and keeper.exists(table.block(status.block_id)) is not None:
        ops.append(Delete(table.block(status.block_id)))
    return ops


def take_back_failed_parts(keeper: Keeper, replica: ReplicaPaths) -> list[str]:
    """For a replica that comes back: its own parts that failed their quorum, which it must detach as ``noquorum_``.

    Call it before ``activate`` (so that nobody fetches them from here) and again after (a peer may have given one up in
    between; once this replica is active, none can). After detaching, call :func:`forget_failed_parts`.
    """
    names = failed_parts(keeper, replica.table)
    held = keeper.exists_many([replica.part(name) for name in names])
    owners = keeper.get_many([replica.table.quorum_failed_part(name) for name in names])
    return [
        name
        for name, stat, owner in zip(names, held, owners, strict=True)
        if stat is not None or (owner is not None and owner[0].decode() == replica.name)
    ]


def forget_failed_parts(keeper: Keeper, replica: ReplicaPaths, names: Iterable[str]) -> None:
    """Removes the parts from the replica's list. Their failure markers stay for the others; cleanup removes them."""
    for name in names:
        _delete_if_there(keeper, replica.part(name))


def _delete_if_there(keeper: Keeper, path: str) -> None:
    try:
        keeper.delete(path)
    except NoNode:
        return


# --- waiting -----------------------------------------------------------------------------------------------------


class Verdict(Enum):
    WAIT = "wait"
    MET = "met"
    FAILED = "failed"
    LOST_SESSION = "lost session"


def judge(*, node_exists: bool, marked_failed: bool, is_still_active: bool) -> Verdict:
    """The waiter's decision on one synced view. Success needs all three facts."""
    if not is_still_active:
        return Verdict.LOST_SESSION
    if marked_failed:
        return Verdict.FAILED
    return Verdict.WAIT if node_exists else Verdict.MET


def wait_for_quorum(
    keeper: Keeper,
    table: TablePaths,
    part: PartName | str,
    activation: Activation,
    *,
    is_parallel: bool,
    timeout_seconds: float,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Returns when the part has its quorum. Raises ``UnknownOutcomeError`` 319 otherwise; deletes nothing.

    Serves the inserter and a repeated insert of a pending block alike.
    """
    path = table.quorum_parallel_part(str(part)) if is_parallel else table.quorum_status
    deadline = clock() + timeout_seconds
    while True:
        changed = threading.Event()
        try:
            verdict = _look(keeper, table, str(part), path, activation, changed)
        except KeeperError as error:
            raise _unknown(part, f"ZooKeeper went away while waiting for quorum: {error.message}") from error
        if verdict is Verdict.MET:
            return
        if verdict is Verdict.FAILED:
            raise _unknown(part, "the part was given up: no living replica had it")
        if verdict is Verdict.LOST_SESSION:
            raise _unknown(part, "this replica lost its ZooKeeper session while waiting for quorum")
        left = deadline - clock()
        if left <= 0:
            raise _unknown(part, f"Timeout ({timeout_seconds:g} s) while waiting for quorum; it may still be reached")
        if is_cancelled():
            raise CancelledError(f"The wait for the quorum of part {part} was cancelled; the rows may still be stored")
        wait(changed, min(left, 1.0))


def _look(
    keeper: Keeper, table: TablePaths, part: str, path: str, activation: Activation, changed: threading.Event
) -> Verdict:
    keeper.sync(table.root)
    stat = keeper.exists(path, lambda _: changed.set())
    found = read_status(keeper, path) if stat is not None else None
    marker, active, host = keeper.exists_many(
        [table.quorum_failed_part(part), activation.replica.is_active, activation.replica.host]
    )
    is_still_active = (
        active is not None
        and host is not None
        and active.ephemeral_owner == activation.session_id
        and host.version == activation.host_version
    )
    return judge(
        node_exists=found is not None and found[0].part == part,
        marked_failed=marker is not None,
        is_still_active=is_still_active,
    )


def _unknown(part: PartName | str, why: str) -> UnknownOutcomeError:
    return UnknownOutcomeError("UNKNOWN_STATUS_OF_INSERT", f"Unknown quorum status of part {part}: {why}")


# --- sequential reads --------------------------------------------------------------------------------------------


def sequential_hidden_parts(
    keeper: Keeper, replica: ReplicaPaths, is_held: Callable[[PartName], bool]
) -> frozenset[PartName]:
    """For ``select_sequential_consistency``: the parts that the read must not show.

    Take the snapshot of local parts first, then call this; ``is_held`` says whether the snapshot has the part or one
    that covers it. Raises 289 when a confirmed part is missing from the snapshot: it lies in this replica's queue, in
    the log beyond what the replica has pulled, or is the last confirmed one of its partition.
    """
    table = replica.table
    keeper.sync(table.root)
    last, _ = keeper.get(table.quorum_last_part)
    missing = [part for part in _quorum_parts_ahead(keeper, replica) if not is_held(part)]
    missing += [part for part in map(PartName.parse, parse_last_parts(last).values()) if not is_held(part)]
    # What is pending after the list of missing parts was made was not confirmed when the read began, or is now.
    hidden = unconfirmed_parts(keeper, table)
    unmet = sorted(part for part in missing if part not in hidden)
    if unmet:
        raise UnavailableError(
            "REPLICA_IS_NOT_IN_QUORUM",
            f"Replica {replica.name} does not have part {unmet[0]} that was written with quorum; read another replica "
            "or wait until this one has caught up",
        )
    return hidden


def _quorum_parts_ahead(keeper: Keeper, replica: ReplicaPaths) -> list[PartName]:
    """Confirmed parts of entries that this replica has not executed, dropped ones left out."""
    queued = [replica.queue_entry(name) for name in keeper.children(replica.queue)]
    pointer = int(keeper.get(replica.log_pointer)[0] or b"0")
    log = replica.table.log
    logged = [f"{log}/{name}" for name in keeper.children(log) if sequence_number(name) >= pointer]
    ahead: list[PartName] = []
    for answer in keeper.get_many([*queued, *logged]):
        entry = LogEntry.parse(answer[0]) if answer is not None else None
        if entry is None or entry.new_part is None:
            continue
        if entry.is_dropping:
            ahead = [part for part in ahead if not entry.new_part.covers(part)]
        elif entry.quorum >= 2 or entry.is_restored:
            ahead.append(entry.new_part)
    return ahead
