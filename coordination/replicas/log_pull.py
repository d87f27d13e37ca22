"""Connect the queue in memory with ZooKeeper: load it, pull the log into it, remove finished entries.

A pull is one multi for each batch: create the queue nodes, move ``log_pointer`` (expecting its version), update
``min_unprocessed_insert_time``. The entries are added to memory only after it has committed. A lost answer leaves
memory behind ZooKeeper, so the next pull first adds every queue node that memory lacks. Entries that contradict memory
raise ``IntersectingPartsError``: the replica must stop rather than diverge.

The log is read in the order of its indices. An index that is missing below a live pointer was trimmed, which happens
only to a replica marked as lost (:class:`LogTrimmedError`: clone). Indices have no gaps. So a pull that continues from
a :class:`LogCursor` reads the entries behind it, and sets a watch on the first that does not exist yet. It lists
neither the log, which may be long, nor the queue. Only a pull without a cursor sees that the log was trimmed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from coordination.inserts.quorum import confirm_own_parts, make_fetch_entries
from coordination.keeper.interface import (
    BadVersion,
    Create,
    Delete,
    Keeper,
    MultiFailed,
    Op,
    SetData,
    Stat,
    Watch,
)
from coordination.keeper.request_limits import split_into_multis
from coordination.log.entry_list import list_name
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.queue_index import INSERT_ENTRY_TYPES
from coordination.log.replication_queue import ReplicationQueue
from coordination.nodes.deletion import delete_all_present
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.paths import ReplicaPaths, TablePaths, log_entry_name, parse_sequence_number
from parts.common.errors import ConflictError, UnavailableError
from parts.common.part_name import PartName

_BATCH = 200
_MOST_EXPECTED = 8


@dataclass(slots=True)
class LogCursor:
    """The position of the next pull, kept from the last one.

    Unknown at first, while a pull is running, and after a pull failed.
    """

    position: tuple[int, int] | None = None
    """(index of the next entry, version of ``log_pointer``)."""
    expected: int = 1
    """Entries that the last pull found, up to a small limit. A pull that finds more reads the log's length."""

    def take_position(self) -> tuple[int, int] | None:
        """Returns the position and makes it unknown until the pull has succeeded."""
        position, self.position = self.position, None
        return position


@dataclass(frozen=True, slots=True)
class PulledEntry:
    """A log entry as it was read, with the stat of its node. ``data`` has the content of its list, too."""

    index: int
    data: bytes
    stat: Stat
    entry: LogEntry


KeepEntries = Callable[[Sequence[PulledEntry]], None]
"""Called with entries before the pointer moves behind them; if it fails, the pointer stays."""


class LogTrimmedError(ConflictError):
    """The log no longer holds what this replica has to pull next: it must be cloned."""

    def __init__(self, replica: ReplicaPaths, index: int) -> None:
        super().__init__(
            "KEEPER_EXCEPTION",
            f"Log entry {log_entry_name(index)} that replica {replica.name} needs is gone; it must be cloned",
        )


def load_queue(keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue, active_parts: Iterable[PartName]) -> int:
    """Loads the queue into memory at the start of a session. Returns its length."""
    entries = _read_entries(keeper, replica, keeper.children(replica.queue))
    queue.load(active_parts, entries)
    processed = keeper.get(replica.max_processed_insert_time)[0]
    queue.note_processed_insert(float(processed or b"0"))
    return len(entries)


def _read_entries(keeper: Keeper, replica: ReplicaPaths, names: list[str]) -> list[tuple[str, LogEntry]]:
    answers = keeper.get_many([replica.queue_entry(name) for name in names])
    read = [(name, answer[0]) for name, answer in zip(names, answers, strict=True) if answer is not None]
    entries = parse_entries(keeper, replica.table, (data for _, data in read))
    return list(zip((name for name, _ in read), entries, strict=True))


def read_log_pointer(keeper: Keeper, replica: ReplicaPaths) -> tuple[int, int]:
    """Returns the index of the next entry to pull, and the version of the node.

    Raises ``UnavailableError`` if the replica was never cloned.
    """
    data, stat = keeper.get(replica.log_pointer)
    if not data:
        raise UnavailableError(
            "TABLE_IS_READ_ONLY", f"Replica {replica.root} was not cloned yet: it has no log pointer"
        )
    return int(data), stat.version


def read_log_position(keeper: Keeper, replica: ReplicaPaths) -> tuple[int, int]:
    """Returns (log_pointer, log_max_index) as in system.replicas.

    The maximum is the index of the newest entry, 0 for none.
    """
    pointer, _ = read_log_pointer(keeper, replica)
    names = keeper.children(replica.table.log)
    return pointer, parse_sequence_number(names[-1]) if names else 0


def pull_log(
    keeper: Keeper,
    replica: ReplicaPaths,
    queue: ReplicationQueue,
    *,
    watch: Watch | None = None,
    cursor: LogCursor | None = None,
    keep: KeepEntries | None = None,
) -> int:
    """Copies every entry that is in the log now to the queue. Returns how many.

    ``watch`` fires when the next entry comes. Call it from one thread at a time per replica. ``cursor`` belongs to one
    session: nobody else moves the pointer or adds to the queue while the replica is active. If somebody did, the
    pointer's version would differ and the pull would fail.
    """
    cursor = cursor or LogCursor()
    known, size, end = cursor.take_position(), cursor.expected, 0
    if known is None:
        known, end = _find_position(keeper, replica, queue)
        size = min(size, max(0, end - known[0]))
    index, version = known
    is_end = False
    while not is_end:
        entries = _read_log(keeper, replica, index, size)
        is_end = _is_end(keeper, replica.table.log_entry(index + len(entries)), watch, len(entries) < max(1, size))
        for packet in split_into_multis(entries, lambda pulled: len(pulled.data)):
            if keep is not None:
                keep(packet)
            version = _pull_batch(keeper, replica, queue, index, [pulled.entry for pulled in packet], version)
            index += len(packet)
        if not is_end:
            size = max(1, min(_log_end(keeper, replica.table) - index, _BATCH))
    if index < end:
        raise LogTrimmedError(replica, index)
    cursor.position, cursor.expected = (index, version), max(1, min(index - known[0], _MOST_EXPECTED))
    return index - known[0]


def _find_position(keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue) -> tuple[tuple[int, int], int]:
    """Returns the pointer with its version, and the index after the log's newest entry (0 for none)."""
    pointer, version = read_log_pointer(keeper, replica)
    _add_unknown_entries(keeper, replica, queue)
    indices = [parse_sequence_number(name) for name in keeper.children(replica.table.log)]
    if indices and min(indices) > pointer:
        raise LogTrimmedError(replica, pointer)
    return (pointer, version), max(indices, default=-1) + 1


def _log_end(keeper: Keeper, table: TablePaths) -> int:
    """Returns the index of the next entry.

    A node's ``cversion`` counts creates and deletes, so together with the number of children it yields the number of
    creates.
    """
    stat = keeper.exists(table.log)
    return (stat.children_version + stat.children_count) // 2 if stat is not None else 0


def _read_log(keeper: Keeper, replica: ReplicaPaths, index: int, size: int) -> list[PulledEntry]:
    """Returns at most ``size`` entries from ``index`` on, up to the first that does not exist."""
    answers = keeper.get_many([replica.table.log_entry(i) for i in range(index, index + size)])
    there = [a for a in itertools.takewhile(lambda a: a is not None, answers) if a is not None]
    entries = parse_entries(keeper, replica.table, (data for data, _ in there))
    return [
        PulledEntry(
            index + i,
            data if list_name(entry) is None else entry.to_bytes(is_whole=True),
            stat,
            replace(entry, position=stat.created_zxid) if entry.place_origin else entry,
        )
        for i, ((data, stat), entry) in enumerate(zip(there, entries, strict=True))
    ]


def _is_end(keeper: Keeper, following: str, watch: Watch | None, was_missing: bool) -> bool:
    """Tells whether the pull is at the end of the log. ``watch`` fires when ``following`` is created."""
    if watch is None:
        return was_missing
    is_there = keeper.exists(following, watch) is not None
    if was_missing and is_there:  # it has just come
        watch(following)
    return was_missing or not is_there


def _add_unknown_entries(keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue) -> None:
    """Adds entries of a pull whose answer was lost."""
    known = queue.names()
    unknown = [name for name in keeper.children(replica.queue) if name not in known]
    for name, entry in _read_entries(keeper, replica, unknown):
        queue.add(name, entry)


def _pull_batch(
    keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue, index: int, entries: list[LogEntry], version: int
) -> int:
    """Copies the entries from ``index`` on. Returns the pointer's new version."""
    wanted = [entry for entry in entries if not _is_own_insert(queue, entry)]
    ops: list[Op] = [Create(replica.queue_prefix, entry.to_bytes(), sequential=True) for entry in wanted]
    ops.append(SetData(replica.log_pointer, str(index + len(entries)).encode(), version))
    oldest = _oldest_insert(queue, wanted)
    if oldest is not None:
        ops.append(SetData(replica.min_unprocessed_insert_time, str(oldest).encode()))
    try:
        results = keeper.multi(ops)
    except MultiFailed as error:
        if isinstance(error.cause, BadVersion):
            raise ConflictError(
                "KEEPER_EXCEPTION", f"Somebody else moved {replica.log_pointer}: two servers run as this replica?"
            ) from error
        raise error.cause from error
    for entry, path in zip(wanted, results, strict=False):
        assert isinstance(path, str)
        queue.add(path.rpartition("/")[2], entry)
    return results[len(wanted)].version  # type: ignore[union-attr]


def _is_own_insert(queue: ReplicationQueue, entry: LogEntry) -> bool:
    """Tells whether the entry is this replica's own INSERT, whose part is active without a queue entry."""
    return (
        entry.type is EntryType.GET_PART
        and entry.source_replica == queue.replica_name
        and entry.new_part is not None
        and queue.find_virtual_cover(entry.new_part) is not None
    )


def _oldest_insert(queue: ReplicationQueue, fresh: list[LogEntry]) -> float | None:
    """Returns the new value of min_unprocessed_insert_time; ``None`` if it does not change."""
    times = [entry.create_time for entry in fresh if entry.type in INSERT_ENTRY_TYPES]
    if not times:
        return None
    known = queue.insert_times()[0]
    oldest = min(times)
    return oldest if not known or oldest < known else None


def remove_entry(keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue, name: str) -> None:
    """Removes a finished or needless entry, first from ZooKeeper, then from memory.

    If it has a quorum and its part is listed here already, under another entry, the quorum is confirmed first.
    """
    item = queue.get(name)
    entry = item.entry if item is not None else None
    if entry is not None and entry.quorum >= 2 and entry.new_part is not None:
        part = str(entry.new_part)
        if keeper.exists(replica.part(part)) is not None:
            confirm_own_parts(keeper, replica, [part])
    remove_entries(keeper, replica, queue, [name])


def remove_entries(keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue, names: list[str]) -> None:
    """Removes entries as :func:`remove_entry`, in one multi if possible. Repeats it after a lost answer."""
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        delete_all_present(keeper, [replica.queue_entry(name) for name in batch])
        for name in batch:
            queue.finish(name)


def abandon_entry(keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue, name: str) -> None:
    """Removes an entry whose part will never come here.

    ``fail_unreachable_part`` or the outcome DROPPED of its commit told so.
    """
    item = queue.get(name)
    if item is not None and item.entry.new_part is not None:
        # Memory first: a failed part that is not a virtual part cannot be merged.
        queue.remove_virtual(item.entry.new_part)
    remove_entries(keeper, replica, queue, [name])


def read_insert_times(keeper: Keeper, replica: ReplicaPaths) -> tuple[float, float]:
    """Returns what :func:`save_insert_times` wrote, as ``ReplicationQueue.insert_times``."""
    oldest, newest = keeper.get_many([replica.min_unprocessed_insert_time, replica.max_processed_insert_time])
    return tuple(float(answer[0] or 0) if answer is not None else 0.0 for answer in (oldest, newest))  # type: ignore[return-value]


def save_insert_times(keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue) -> None:
    """Writes both insert times, for operators. Call it now and then (each queue step)."""
    oldest, newest = queue.insert_times()
    keeper.multi(
        [
            SetData(replica.min_unprocessed_insert_time, str(oldest).encode() if oldest else b""),
            SetData(replica.max_processed_insert_time, str(newest).encode() if newest else b""),
        ]
    )


def read_listed_parts(keeper: Keeper, replica: ReplicaPaths, partition_id: str | None = None) -> list[PartName]:
    """Lists the parts that ZooKeeper lists for this replica, optionally of one partition.

    Covered parts are included until they are cleaned up.
    """
    prefix = f"{partition_id}_" if partition_id is not None else ""
    return [PartName.parse(name) for name in keeper.children(replica.parts) if name.startswith(prefix)]


def unlist_parts(keeper: Keeper, replica: ReplicaPaths, parts: Iterable[PartName | str]) -> None:
    """Removes outdated, detached or dropped parts from the replica's list. Call it before deleting them."""
    delete_all_present(keeper, [replica.part(str(part)) for part in parts])


def queue_missing_fetches(
    keeper: Keeper, replica: ReplicaPaths, queue: ReplicationQueue, parts: Iterable[PartName]
) -> int:
    """Queues fetches of parts that ZooKeeper lists and the disk lacks or has broken. Returns how many.

    Each part has one multi that unlists it and queues the fetch, so a crash leaves either the listing or the fetch. A
    part that a queued drop covers is only unlisted: a fetch behind the drop would restore it.
    """
    missing = list(parts)
    if not missing:
        return 0
    queued = [entry for _, entry in _read_entries(keeper, replica, keeper.children(replica.queue))]
    drops = [gone for entry in queued for gone in entry.removed_ranges]
    dropped = [part for part in missing if any(gone.covers(part) for gone in drops)]
    unlist_parts(keeper, replica, dropped)
    for part in dropped:
        queue.remove_virtual(part)
    wanted = {part: "" for part in missing if part not in dropped}
    entries = make_fetch_entries(keeper, replica.table, wanted, "")
    for entry in entries:
        assert entry.new_part is not None
        listed = replica.part(str(entry.new_part))
        ops: list[Op] = [Create(replica.queue_prefix, entry.to_bytes(), sequential=True)]
        if keeper.exists(listed) is not None:
            ops.append(Delete(listed))
        path = keeper.multi(ops)[0]
        assert isinstance(path, str)
        queue.add(path.rpartition("/")[2], entry)
    return len(entries)
