"""Trim the log and the deduplication window, and mark replicas as lost that are dead for too long.

It also lowers quorums that wait for dropped replicas (:mod:`coordination.inserts.quorum_settlement`). Decisions are
pure (``select_…``, ``find_…``); :func:`run_cleanup` reads, decides and acts. Any active replica may run it, several at
a time too: every action may be lost or repeated.

Invariants:

- No log entry is trimmed before the pointers of all replicas that are not lost have passed it. Lost replicas that are
  active count too: they are being cloned.
- A replica is marked as lost only in one multi with a check of its host version: a replica that becomes active
  meanwhile stays.
- Never are all replicas lost, and never one that holds the only copy of a part that another replica still waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from coordination.inserts.deduplication_window import DeduplicationWindow
from coordination.inserts.quorum_settlement import settle_quorums
from coordination.keeper.interface import (
    BadVersion,
    Check,
    Delete,
    Keeper,
    MultiFailed,
    NoNode,
    SetData,
)
from coordination.links.stream.kept_changes import clean_definitions, select_in_journals
from coordination.log.part_set import PartSet
from coordination.nodes.deletion import delete_all_present
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.paths import ReplicaPaths, TablePaths, log_entry_name, parse_sequence_number
from coordination.nodes.replica_positions import ReplicaPosition, read_replica_positions
from coordination.reads.dropped_blocks import clean_lost_blocks
from coordination.reads.scan_records import delete_unused_scan_records
from coordination.transactions.application_versions import clean_applications
from parts.common.part_name import PartName

_NO_VERSION = -2
"""A version that no node has."""


@dataclass(frozen=True, slots=True)
class CleanupSettings:
    """The limits of cleanup. Names and defaults are those of a table's settings.

    The last two bound lists that have no setting.
    """

    min_replicated_logs_to_keep: int = 10
    max_replicated_logs_to_keep: int = 1000
    replicated_deduplication_window: int = 1000
    replicated_deduplication_window_seconds: int = 7 * 24 * 3600
    applications_to_keep: int = 10_000
    lost_parts_to_keep: int = 1000


@dataclass(frozen=True, slots=True)
class LogBlockingReplica:
    """A dead replica that is not marked as lost, because it alone has ``part``, which others wait for.

    Until it is back or dropped, no log entry is trimmed that it has not seen.
    """

    name: str
    part: PartName
    entries_behind: int

    @property
    def warning(self) -> str:
        """The message for the operator."""
        return (
            f"Replica {self.name} is not active and {self.entries_behind} log entries behind, and it alone has part "
            f"{self.part} that others wait for: the log is kept for it and grows. Start its server again; if it is "
            f"gone for good, SYSTEM DROP REPLICA '{self.name}' gives up what only it has"
        )


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """The result of one round: what was deleted, and which replicas were marked as lost or block the log."""

    log_entries: int = 0
    blocks: int = 0
    lost_replicas: tuple[str, ...] = field(default=())
    log_holders: tuple[LogBlockingReplica, ...] = field(default=())

    @property
    def is_work_left(self) -> bool:
        """Whether the next round may find more, even if nothing is logged before it."""
        return bool(self.log_entries or self.blocks or self.lost_replicas or self.log_holders)


def select_lost_replicas(
    newest_index: int,
    replicas: Sequence[ReplicaPosition],
    sole_holders: Collection[str],
    *,
    max_logs: int,
) -> list[ReplicaPosition]:
    """Returns dead replicas that lag more than ``max_logs`` entries and that the table does not need."""
    others = [r for r in replicas if not r.is_lost]
    candidates = [
        r
        for r in others
        if not r.is_active and newest_index + 1 - (r.pointer or 0) > max_logs and r.name not in sole_holders
    ]
    if len(candidates) == len(others):
        # One replica must keep the data: the one that saw most of the log.
        keeper_of_data = max(candidates, key=lambda r: (r.pointer or 0, r.name), default=None)
        candidates = [r for r in candidates if r is not keeper_of_data]
    return candidates


def select_log_entries_to_trim(
    indices: Iterable[int], replicas: Sequence[ReplicaPosition], *, min_logs: int
) -> list[int]:
    """Returns the log indices that no replica needs any more."""
    ordered = sorted(indices)
    pointers = [r.pointer for r in replicas if r.holds_log and r.pointer is not None]
    if not ordered or not pointers:
        return []
    bound = min(*pointers, ordered[-1] + 1 - min_logs) if pointers else 0
    return [index for index in ordered if index < bound]


def find_sole_holders(held: dict[str, PartSet], awaited: Iterable[PartName]) -> dict[str, PartName]:
    """Returns the replicas that alone list, or cover, an awaited part, and one such part of each.

    ``awaited``: parts that some queue or the log still has to bring.
    """
    found: dict[str, PartName] = {}
    for part in awaited:
        holders = [name for name, parts in held.items() if parts.find_covering(part) is not None]
        if len(holders) == 1:
            found.setdefault(holders[0], part)
    return found


def run_cleanup(
    keeper: Keeper,
    table: TablePaths,
    settings: CleanupSettings,
    window: DeduplicationWindow | None = None,
    *,
    was_linked: bool = False,
    before_trim: Callable[[int], None] = lambda first_kept: None,
) -> CleanupReport:
    """Runs one round: lost replicas, the log, the deduplication window.

    ``window`` caches block ids from the last round. ``was_linked``: whether the table has or had links. ``before_trim``
    is called with the first log entry that will stay.
    """
    indices = [parse_sequence_number(name) for name in keeper.children(table.log)]
    replicas = read_replica_positions(keeper, table)
    max_logs = settings.max_replicated_logs_to_keep
    lost, holders = _mark_lost(keeper, table, indices, replicas, max_logs) if indices else ([], [])
    if lost:
        replicas = read_replica_positions(keeper, table)
    surplus = select_log_entries_to_trim(indices, replicas, min_logs=settings.min_replicated_logs_to_keep)
    if surplus:
        before_trim(surplus[-1] + 1)
    # In order, so that an interrupted run has trimmed the log from its front.
    delete_all_present(keeper, [f"{table.log}/{log_entry_name(index)}" for index in surplus])
    settle_quorums(keeper, table)
    _clean_failed_parts(keeper, table, replicas)
    if was_linked:
        clean_definitions(keeper, table, [position.name for position in replicas if not position.is_lost])
    delete_unused_scan_records(keeper, table)
    clean_applications(keeper, table, most=settings.applications_to_keep)
    clean_lost_blocks(keeper, table, most=settings.lost_parts_to_keep)
    blocks = (window or DeduplicationWindow()).clean(
        keeper,
        table,
        window=settings.replicated_deduplication_window,
        window_seconds=settings.replicated_deduplication_window_seconds,
    )
    return CleanupReport(len(surplus), blocks, tuple(lost), tuple(holders))


def _clean_failed_parts(keeper: Keeper, table: TablePaths, replicas: Sequence[ReplicaPosition]) -> None:
    """Deletes the marker of a failed quorum once no list, queue or unread log entry names the part.

    Until then the marker keeps every replica from merging the part. The log's version changes in the same multi, so
    that a merge chosen from an older view is not assigned. In a linked table it stays until all have it in their
    journals.
    """
    names = keeper.children(table.quorum_failed_parts)
    if not names:
        return
    stats = keeper.exists_many([table.quorum_failed_part(name) for name in names])
    zxids = {name: stat.created_zxid for name, stat in zip(names, stats, strict=True) if stat is not None}
    staying = [position.name for position in replicas if not position.is_lost]
    names = select_in_journals(keeper, table, zxids, staying, "failures")
    pulled = min((position.pointer or 0 for position in replicas if position.holds_log), default=0)
    paths = [f"{table.log}/{name}" for name in keeper.children(table.log) if parse_sequence_number(name) >= pulled]
    for position in replicas:
        replica = table.replica(position.name)
        paths += [replica.queue_entry(entry) for entry in keeper.children(replica.queue)]
    entries = parse_entries(keeper, table, (answer[0] for answer in keeper.get_many(paths) if answer is not None))
    named = {str(part) for entry in entries for part in entry.created_parts}
    for listing in keeper.children_many([table.replica(position.name).parts for position in replicas]):
        named.update(listing or ())
    for name in names:
        if name not in named:
            try:
                keeper.multi([Delete(table.quorum_failed_part(name)), SetData(table.log, b"")])
            except MultiFailed as error:
                if not isinstance(error.cause, NoNode):
                    raise error.cause from error


def _mark_lost(
    keeper: Keeper, table: TablePaths, indices: Sequence[int], replicas: Sequence[ReplicaPosition], max_logs: int
) -> tuple[list[str], list[LogBlockingReplica]]:
    """Returns the replicas that were marked, and those that are too far behind but still needed."""
    newest = max(indices)
    candidates = select_lost_replicas(newest, replicas, (), max_logs=max_logs)
    if not candidates:
        return [], []
    held = {r.name: _listed_parts(keeper, table.replica(r.name)) for r in replicas if not r.is_lost}
    protected = find_sole_holders(held, _awaited_parts(keeper, table, indices, replicas))
    holders = [
        LogBlockingReplica(r.name, protected[r.name], newest + 1 - (r.pointer or 0))
        for r in candidates
        if r.name in protected
    ]
    marked: list[str] = []
    for position in select_lost_replicas(newest, replicas, protected, max_logs=max_logs):
        replica = table.replica(position.name)
        # Checking that a survivor stays unlost keeps two cleaners from marking each other's survivor.
        survivor = _survivor(replicas, {*marked, position.name})
        if survivor is None:
            continue
        stays = make_not_lost_check(keeper, table.replica(survivor))
        try:
            keeper.multi([Check(replica.host, position.host_version), stays, SetData(replica.is_lost, b"1")])
            marked.append(position.name)
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode):
                raise error.cause from error
    return marked, holders


def _survivor(replicas: Sequence[ReplicaPosition], going: set[str]) -> str | None:
    staying = [r for r in replicas if not r.is_lost and r.name not in going]
    best = max(staying, key=lambda r: (r.is_active, r.pointer or 0, r.name), default=None)
    return best.name if best is not None else None


def make_not_lost_check(keeper: Keeper, replica: ReplicaPaths) -> Check:
    """Returns a check for the multi that marks another replica as lost.

    It fails if this replica is marked too, or was before.
    """
    answer = keeper.get_many([replica.is_lost])[0]
    return Check(replica.is_lost, answer[1].version if answer is not None and answer[0] != b"1" else _NO_VERSION)


def _listed_parts(keeper: Keeper, replica: ReplicaPaths) -> PartSet:
    listed = PartSet()
    for part in sorted(filter(None, map(PartName.try_parse, keeper.children(replica.parts)))):
        if not any(part.intersects(other) for other in listed.list_overlapping(part)):
            listed.add(part)
    return listed


def _awaited_parts(
    keeper: Keeper, table: TablePaths, indices: Sequence[int], replicas: Sequence[ReplicaPosition]
) -> set[PartName]:
    """Returns the results of entries that some replica has yet to execute, without dropped ones."""
    paths: list[str] = []
    for position in replicas:
        if position.is_active:
            replica = table.replica(position.name)
            paths += [replica.queue_entry(name) for name in keeper.children(replica.queue)]
    pulled = min((r.pointer for r in replicas if r.is_active and r.pointer is not None), default=0)
    paths += [table.log_entry(index) for index in sorted(indices) if index >= pulled]
    awaited: set[PartName] = set()
    contents = [answer[0] for answer in keeper.get_many(paths) if answer is not None]
    for entry in parse_entries(keeper, table, contents):
        for gone in entry.removed_ranges:
            awaited = {part for part in awaited if not gone.covers(part)}
        awaited.update(entry.created_parts)
    return awaited
