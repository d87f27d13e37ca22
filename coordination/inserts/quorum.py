"""insert_quorum: an INSERT is confirmed only when n replicas hold its part.

While a part waits it has a status node: ``quorum/status`` (one at a time in the table) or ``quorum/parallel/<part>``.
The INSERT's commit creates it with the inserter as first holder. Every fetcher adds itself in the multi that commits
its fetched part. The last one removes the node and, if not parallel, sets ``quorum/last_part`` in the same multi. The
parts of a transaction wait together, under ``quorum/parallel/<transaction>``: a replica adds itself when it has all.

**A missing node does not mean success**. A peer that found no living holder removes it too, and leaves
``quorum/failed_parts/<part>`` (``quorum_failure``). It is also removed when the replicas that are left after a drop
have the part (``quorum_settlement``). ``quorum_wait`` waits for quorums, ``sequential_reads`` reads by them.
Codes: 285 too few live replicas, 286 another part is pending.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from coordination.keeper.interface import (
    BadVersion,
    Delete,
    Keeper,
    MultiFailed,
    NoNode,
    Op,
    SetData,
    Stat,
    Watch,
)
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.paths import ReplicaPaths, TablePaths
from parts.common.errors import ConflictError, CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName

AUTO_QUORUM = "auto"
_ATTEMPTS = 20
_MOST_LAST_PARTS = 1000
"""Partitions kept in ``quorum/last_part``, which every INSERT with a quorum rewrites."""


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """The content of a status node."""

    part: str
    required: int
    replicas: tuple[str, ...]
    owner: str
    block_id: str = ""
    others: tuple[str, ...] = ()
    """The other parts of the same transaction, which wait together with ``part``."""

    @property
    def parts(self) -> tuple[PartName, ...]:
        """All parts that wait together."""
        return tuple(map(PartName.parse, (self.part, *self.others)))

    @property
    def is_met(self) -> bool:
        """Whether enough replicas hold the part."""
        return len(self.replicas) >= self.required

    def with_replica(self, name: str) -> QuorumStatus:
        """Returns the status with one more holder."""
        return self if name in self.replicas else replace(self, replicas=(*self.replicas, name))

    def to_bytes(self) -> bytes:
        """Returns the status as JSON."""
        document = {
            "version": 1,
            "part": self.part,
            "required": self.required,
            "replicas": list(self.replicas),
            "owner": self.owner,
            "block_id": self.block_id,
            **({"others": self.others} if self.others else {}),
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> QuorumStatus:
        """Parses a status node. Raises ``CorruptionError``."""
        try:
            d = json.loads(data)
            others = tuple(d.get("others", ()))
            return cls(d["part"], d["required"], tuple(d["replicas"]), d["owner"], d.get("block_id", ""), others)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"Cannot read quorum status {data[:200]!r}", name="CORRUPTED_DATA") from error


def parse_last_parts(data: bytes) -> dict[str, str]:
    """Parses ``quorum/last_part``: partition id → the last part that reached its quorum, the latest last.

    It holds only the latest partitions. A reader finds any confirmed part that its replica lacks in the log or in the
    replica's queue: entries stay there until the replica has the part. A part that is lost later comes back as an
    entry.
    """
    if not data:
        return {}
    try:
        return dict(json.loads(data)["parts"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"Cannot read quorum/last_part {data[:200]!r}", name="CORRUPTED_DATA") from error


def format_last_parts(parts: dict[str, str]) -> bytes:
    """Returns the content of ``quorum/last_part``."""
    return json.dumps({"version": 1, "parts": parts}, separators=(",", ":")).encode()


# --- before an INSERT ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuorumPlan:
    """The quorum that an INSERT must reach.

    ``pending_part``, if not parallel: another part that waits now.
    """

    required: int
    is_parallel: bool
    pending_part: str = ""
    lowered_version: int = 0
    """The version of ``quorum`` before the INSERT. It changes when a requirement is lowered (``quorum_settlement``)."""

    def node(self, table: TablePaths, part: str) -> str:
        """Returns the path of the part's status node."""
        return table.quorum_parallel_part(part) if self.is_parallel else table.quorum_status


def required_replicas(setting: int | str, total_replicas: int) -> int:
    """Returns ``insert_quorum`` as a number: 'auto' is the majority of all replicas; below 2 is no quorum.

    Raises ``UserError`` 36 (BAD_ARGUMENTS).
    """
    if isinstance(setting, str) and setting.strip().lower() == AUTO_QUORUM:
        return total_replicas // 2 + 1
    try:
        required = int(setting)
    except ValueError as error:
        raise UserError("BAD_ARGUMENTS", f"insert_quorum must be a number or 'auto', got {setting!r}") from error
    if required < 0:
        raise UserError("BAD_ARGUMENTS", f"insert_quorum must not be negative, got {required}")
    return required


def plan_quorum(keeper: Keeper, table: TablePaths, setting: int | str, *, is_parallel: bool) -> QuorumPlan | None:
    """Returns the quorum an INSERT asks for, before anything is written; ``None`` for no quorum.

    Raises 285 when too few replicas live. A part that is pending already (286) is only reported, as ``pending_part``:
    the block may be that very part.
    """
    if setting in (0, 1, "0", "1", ""):
        return None
    names = keeper.children(table.replicas)
    required = required_replicas(setting, len(names))
    if required < 2:
        return None
    lowered, *stats = keeper.exists_many([table.quorum, *(table.replica(name).is_active for name in names)])
    live = sum(stat is not None for stat in stats)
    if live < required:
        raise UnavailableError(
            "TOO_FEW_LIVE_REPLICAS",
            f"Number of alive replicas ({live}) is less than requested quorum ({required}/{len(names)})"
            + (f"; the table has only {len(names)}, ask for less" if required > len(names) else ""),
        )
    pending = None if is_parallel else read_quorum_status(keeper, table.quorum_status)
    return QuorumPlan(required, is_parallel, pending[0].part if pending else "", lowered.version if lowered else 0)


def pending_quorum_error(part: str) -> UnavailableError:
    """Returns the error 286 (UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE)."""
    return UnavailableError(
        "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
        f"Quorum for previous write has not been satisfied yet. Pending part: {part or 'unknown'}",
    )


def read_quorum_status(keeper: Keeper, path: str) -> tuple[QuorumStatus, Stat] | None:
    """Reads a status node; ``None`` if there is none."""
    try:
        data, stat = keeper.get(path)
    except NoNode:
        return None
    return QuorumStatus.parse(data), stat


# --- in the commit of a fetched part -----------------------------------------------------------------------------


def add_holder_ops(keeper: Keeper, table: TablePaths, part: PartName, replica: str, *, is_parallel: bool) -> list[Op]:
    """Returns operations that add ``replica`` as a holder, for the multi that commits its fetched part.

    Empty when the part's quorum was met or failed before. A multi that fails with BadVersion or NoNode on one of these
    met another fetcher: call this again and retry.
    """
    path = table.quorum_parallel_part(str(part)) if is_parallel else table.quorum_status
    found = read_quorum_status(keeper, path)
    if found is None or found[0].part != str(part) or replica in found[0].replicas:
        return []
    return progress_ops(keeper, table, path, found[0].with_replica(replica), found[1].version)


def progress_ops(keeper: Keeper, table: TablePaths, path: str, status: QuorumStatus, version: int) -> list[Op]:
    """Returns operations that replace the status at ``path``, or remove it when it is met.

    ``version`` is the version of the node that was read.
    """
    ops: list[Op] = [Delete(path, version)] if status.is_met else [SetData(path, status.to_bytes(), version)]
    if path != table.quorum_status:
        return ops
    last, last_stat = keeper.get(table.quorum_last_part)
    return ops + _last_part_ops(table, status, PartName.parse(status.part), last, last_stat.version)


def _last_part_ops(table: TablePaths, status: QuorumStatus, part: PartName, last: bytes, last_version: int) -> list[Op]:
    if not status.is_met:
        return []
    parts = parse_last_parts(last)
    parts.pop(part.partition_id, None)
    latest = dict([*parts.items(), (part.partition_id, str(part))][-_MOST_LAST_PARTS:])
    return [SetData(table.quorum_last_part, format_last_parts(latest), last_version)]


def read_pending_quorums(keeper: Keeper, table: TablePaths) -> list[tuple[QuorumStatus, Stat, str]]:
    """Reads the status of every part that waits for its quorum, with its node's stat and path."""
    names = keeper.children(table.quorum_parallel)
    paths = [table.quorum_status, *(table.quorum_parallel_part(name) for name in names)]
    return [
        (QuorumStatus.parse(answer[0]), answer[1], path)
        for path, answer in zip(paths, keeper.get_many(paths), strict=True)
        if answer is not None
    ]


def restored_entry_time(keeper: Keeper, table: TablePaths) -> float:
    """Returns the time for entries that restore parts this replica should have had: the table's creation.

    Seconds since the epoch. Rows of any age are missing until such an entry is executed, so the replica must not count
    as up to date meanwhile (``ReplicationQueue.compute_delay_seconds``).
    """
    stat = keeper.exists(table.metadata)
    return stat.created_ms / 1000 if stat is not None else 0.0


def make_fetch_entries(keeper: Keeper, table: TablePaths, parts: dict[PartName, str], source: str) -> list[LogEntry]:
    """Returns entries that fetch ``parts`` (name → content hash, "" if unknown) for a clone or repair.

    A part whose quorum is pending keeps it, so that the fetch confirms it or notices its failure. A part that failed
    its quorum is left out. Read the list of parts before calling this.
    """
    pending = {
        status.part: (status.required, path != table.quorum_status)
        for status, _, path in read_pending_quorums(keeper, table)
        if not is_transaction_quorum(table, status, path)  # confirmed only when all parts of it are here
    }
    failed = set(read_failed_parts(keeper, table))
    since = restored_entry_time(keeper, table)
    entries = []
    for part, content_hash in parts.items():
        if str(part) in failed:
            continue
        required, is_parallel = pending.get(str(part), (0, False))
        entries.append(
            LogEntry(
                EntryType.GET_PART,
                part,
                since,
                source,
                content_hash=content_hash,
                quorum=required,
                quorum_parallel=is_parallel,
                is_restored=True,
            )
        )
    return entries


def forget_dropped_parts_ops(keeper: Keeper, table: TablePaths, *gone: PartName) -> list[Op]:
    """Returns operations for the multi that drops ``gone``, so that nothing waits for the dropped parts.

    Sequential reads must not wait for a confirmed part that was dropped, nor the other parts of a transaction for it.
    """
    data, stat = keeper.get(table.quorum_last_part)
    last = parse_last_parts(data)
    left = {partition: part for partition, part in last.items() if not _is_covered(PartName.parse(part), gone)}
    ops: list[Op] = []
    if left != last:
        ops.append(SetData(table.quorum_last_part, format_last_parts(left), stat.version))
    for status, stat, path in read_pending_quorums(keeper, table):
        if is_transaction_quorum(table, status, path):
            ops += _without(status, stat, path, gone)
    return ops


def is_transaction_quorum(table: TablePaths, status: QuorumStatus, path: str) -> bool:
    """Tells whether the status node is that of a transaction's parts."""
    return path not in (table.quorum_status, table.quorum_parallel_part(status.part))


def _without(status: QuorumStatus, stat: Stat, path: str, gone: Iterable[PartName]) -> list[Op]:
    parts = [str(part) for part in status.parts if not _is_covered(part, gone)]
    if not parts:
        return [Delete(path, stat.version)]
    left = replace(status, part=parts[0], others=tuple(parts[1:]))
    return [] if left == status else [SetData(path, left.to_bytes(), stat.version)]


def _is_covered(part: PartName, by: Iterable[PartName]) -> bool:
    return any(other.covers(part) for other in by)


def read_failed_parts(keeper: Keeper, table: TablePaths, watch: Watch | None = None) -> list[str]:
    """Lists the parts whose quorum failed."""
    return keeper.children(table.quorum_failed_parts, watch)


def read_unconfirmed_parts(keeper: Keeper, table: TablePaths) -> frozenset[PartName]:
    """Returns the parts that wait for a quorum, failed it, or were lost (``lost_parts``).

    They must neither be merged nor be shown to sequential reads.
    """
    pending = [part for status, _, _ in read_pending_quorums(keeper, table) for part in status.parts]
    # Failures are read second: a part moves from pending to failed in one multi, never back.
    return frozenset((*pending, *map(PartName.parse, read_failed_parts(keeper, table))))


def confirm_own_parts(keeper: Keeper, replica: ReplicaPaths, own_parts: Iterable[str]) -> int:
    """Adds this replica to the status of every pending part or whole transaction that it holds.

    Call it after a restart and after a transaction was carried out. Returns how many statuses changed.
    """
    own = set(own_parts)
    added = 0
    for status, _, path in read_pending_quorums(keeper, replica.table):
        if own.issuperset(map(str, status.parts)) and replica.name not in status.replicas:
            added += _confirm(keeper, replica, path)
    return added


def _confirm(keeper: Keeper, replica: ReplicaPaths, path: str) -> bool:
    for _ in range(_ATTEMPTS):
        found = read_quorum_status(keeper, path)
        if found is None or replica.name in found[0].replicas:
            return False
        ops = progress_ops(keeper, replica.table, path, found[0].with_replica(replica.name), found[1].version)
        try:
            keeper.multi(ops)
            return True
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode):
                raise
    raise ConflictError("KEEPER_EXCEPTION", f"Could not confirm {path}: others keep changing its quorum; retry")
