"""Leases: hold the parts that one execution of a scan reads, from its first read on.

The client names an execution (``ScanOpening.name``). Its first read, on any replica, takes a snapshot and records the
parts and their sizes (``engine.tables.capabilities.scan_records``). Every other read takes the recorded parts by name
and content hash, and divides them by the recorded sizes. It may come later, reach another replica, or come after the
lease has ended.

Invariants:

- The tables of a transactional group that an execution reads are all at one cut (``OwnedTable.snapshot_of_cut``).
- All reads of an execution read the same parts, or fail with 232. They read under the definition that the table had
  when the execution began, or fail with 517.
- A repeated read makes no new record. If the record of its execution is gone, it fails with 232.
- Neither time nor pressure ends a lease that is being read. ``release`` ends it for new reads; running reads keep their
  parts until they end.
- A lease without a reader ends ``seconds`` after its last use.
- There are at most ``limit`` leases. A new one beyond that ends the one that was idle longest, or is refused if all are
  being read.

Thread-safe. The caller runs :meth:`LeaseBook.expire` regularly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import xxhash

from engine.scan.scan_record import decode_record, encode_record
from engine.scan.slot_planning import Steps, measure_steps, select_stored_columns
from engine.tables.capabilities.block_history import BlockHistory, TableBlocks, WantedBlocks, require_block_numbers
from engine.tables.owned_table import OwnedTable
from engine.tables.table import Table
from parts.common.errors import ConflictError, PandoError, UnavailableError, UserError
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot
from sql.relations import PartsSnapshot

logger = logging.getLogger(__name__)

MAX_LEASES = 256
MAX_LEASE_SECONDS = 24 * 3600.0
UNKNOWN_DELAY_SECONDS = 1e9
"""The delay in seconds of a replica that has not compared itself with ZooKeeper yet.

Only reads that allow any delay use such a replica.
"""
_TOUCH_SECONDS = 600.0

T_contra = TypeVar("T_contra", bound=Table, contravariant=True)


@dataclass(frozen=True)
class ScanOpening:
    """How the first read of an execution takes its snapshot."""

    name: str
    """The name of the execution, unique for ever."""
    columns: tuple[str, ...] = ()
    """The columns whose sizes decide how parts are divided into slots."""
    seconds: float = 300.0
    """How long the parts are held after each read."""
    is_repeated: bool = False
    """Whether the execution has begun before, so that this read must not open it."""
    is_alone: bool = False
    """Whether all reads go to this server."""
    sequential_consistency: bool = False
    max_delay_seconds: float = float("inf")
    """A replica with a larger delay does not open the execution."""
    blocks: WantedBlocks | None = None
    """The blocks to read; parts without them are left out."""
    is_settled: bool = False
    """Whether to wait until all blocks before those that are read are decided (``OwnedTable.settled_snapshot``)."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MAX_LEASE_SECONDS:
            raise UserError(
                "ARGUMENT_OUT_OF_BOUND", f"'lease_seconds' must be 0 to {MAX_LEASE_SECONDS:g}, got {self.seconds!r}"
            )

    @property
    def digest(self) -> str:
        """The hash of the name, safe as the name of a file and of a znode."""
        return xxhash.xxh3_128_hexdigest(self.name.encode("utf-8", "surrogatepass"))


class LeaseView(Protocol):
    """A lease, as the readers of its parts see it."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts to read."""

    @property
    def steps(self) -> Steps:
        """The recorded sizes by which the parts are divided into slots."""

    @property
    def metadata_version(self) -> int:
        """The version of the definition under which the parts are read."""


class Leases(Protocol[T_contra]):
    """The interface of :class:`LeaseBook`, for the tables of this process."""

    def hold_lease(self, table: T_contra, opening: ScanOpening) -> AbstractContextManager[LeaseView]:
        """Holds the execution's lease during one read; see :meth:`LeaseBook.hold_lease`."""

    def release(self, table: T_contra, name: str) -> bool:
        """Ends a lease early; see :meth:`LeaseBook.release`."""

    def history(self, table: T_contra, max_delay_seconds: float) -> BlockHistory:
        """Returns the table's block history; see :meth:`LeaseBook.history`."""

    def expire(self) -> None:
        """Ends the leases whose time is over."""


@dataclass(eq=False)
class Lease:
    """The parts that one execution holds on this server."""

    table: OwnedTable
    opening: ScanOpening
    snapshot: PartsSnapshot
    steps: Steps
    metadata_version: int
    deadline: float
    touched: float
    readers: int = 0
    is_ended: bool = False

    @property
    def parts(self) -> Sequence[Part]:
        return self.snapshot.parts


_Key = tuple[int, str]


@dataclass(eq=False)
class LeaseBook:
    """The leases of one server. ``delay_seconds`` returns how far a table is behind."""

    clock: Callable[[], float]
    delay_seconds: Callable[[OwnedTable], float] = lambda _: 0.0
    limit: int = MAX_LEASES
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _leases: dict[_Key, Lease] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._leases)

    @contextmanager
    def hold_lease(self, table: OwnedTable, opening: ScanOpening) -> Iterator[Lease]:
        """Holds the execution's lease during one read; makes it if there is none.

        Raises 232 (NO_SUCH_DATA_PART) if the parts are not here or a repeated read's record is gone, and 369
        (ALL_REPLICAS_ARE_STALE) if this replica is too far behind. Raises 289 if it lacks what a quorum confirmed, 202
        (TOO_MANY_SIMULTANEOUS_QUERIES) if every lease is being read, and ZooKeeper's errors.
        """
        lease = self._find_lease(table, opening) or self._make_lease(table, opening)
        try:
            self._touch(lease)
            yield lease
        finally:
            self._end_reading(lease)

    def release(self, table: OwnedTable, name: str) -> bool:
        """Ends a lease early; returns ``False`` if it had ended."""
        with self._lock:
            lease = self._leases.get((id(table), ScanOpening(name).digest))
            if lease is None:
                return False
            self._remove([lease])
            ended = [lease] if lease.readers == 0 else []
        _release(ended)
        return True

    def history(self, table: OwnedTable, max_delay_seconds: float) -> BlockHistory:
        """Returns the block history, from which a stream plans its next read.

        Raises 36 for a table that does not keep block numbers, and 369 (ALL_REPLICAS_ARE_STALE).
        """
        require_block_numbers(table.definition)
        self._require_current(table, max_delay_seconds)
        return _require_blocks(table).history()

    def expire(self) -> None:
        """Ends the leases whose time is over."""
        with self._lock:
            ended = self._list_expired()
            self._remove(ended)
        _release(ended)

    def close(self) -> None:
        """Ends all leases; running reads keep their parts."""
        with self._lock:
            idle = [lease for lease in self._leases.values() if lease.readers == 0]
            self._remove(list(self._leases.values()))
        _release(idle)

    def _touch(self, lease: Lease) -> None:
        """Marks the record as used. A failure is only logged, because the reader has its parts."""
        if self.clock() - lease.touched > _TOUCH_SECONDS:
            lease.touched = self.clock()
            try:
                lease.table.scan_records(is_alone=lease.opening.is_alone).touch(lease.opening.digest)
            except (PandoError, OSError) as error:  # ZooKeeper is away, or another replica marked it at the same time
                logger.info("the record of a scan is not touched: %s", error)

    # -- one lease ------------------------------------------------------------------------------------------------

    def _find_lease(self, table: OwnedTable, opening: ScanOpening) -> Lease | None:
        with self._lock:
            lease = self._leases.get((id(table), opening.digest))
            if lease is not None:
                lease.readers += 1
            return lease

    def _make_lease(self, table: OwnedTable, opening: ScanOpening) -> Lease:
        """Makes a lease. Two reads may do so at the same time: they agree on the parts, and one lease stays."""
        snapshot, steps, version = self._agreed_snapshot(table, opening)
        now = self.clock()
        made = Lease(table, opening, snapshot, steps, version, now + opening.seconds, now, readers=1)
        ended = [made]
        try:
            with self._lock:
                lease = self._leases.get((id(table), opening.digest))
                if lease is not None:
                    lease.readers += 1
                    return lease
                ended = self._end_surplus()
                self._leases[id(table), opening.digest] = made
                return made
        finally:
            _release(ended)

    def _agreed_snapshot(self, table: OwnedTable, opening: ScanOpening) -> tuple[PartsSnapshot, Steps, int]:
        """Returns the parts that all reads agree on, recording them first if this is the first read."""
        records = table.scan_records(is_alone=opening.is_alone)
        record = records.find(opening.digest)
        if record is None:
            description = table.description
            snapshot, is_settled = self._first_snapshot(table, opening)
            try:
                if table.description is not description:
                    raise ConflictError(
                        "CANNOT_ASSIGN_ALTER",
                        f"Table {table.definition.full_name} was altered while the query began; run it again",
                    )
                select_stored_columns(description.schema, opening.columns)
                steps = measure_steps(snapshot.parts, opening.columns)
                wanted = encode_record(snapshot.parts, steps, description.metadata_version, is_settled=is_settled)
                record = records.record(opening.digest, wanted)
            except BaseException:
                snapshot.release()
                raise
            if record == wanted:
                return snapshot, steps, description.metadata_version
            snapshot.release()
        return _hold_recorded_parts(table, record)

    def _first_snapshot(self, table: OwnedTable, opening: ScanOpening) -> tuple[PartsSnapshot, bool]:
        """Returns the parts, and whether all blocks before theirs are decided."""
        name = table.definition.full_name
        if opening.is_repeated:
            raise UserError(
                "NO_SUCH_DATA_PART",
                f"This read of {name} is a repeated one, and what its scan began with is not known any more: it began "
                "too long ago. Run the query again",
            )
        self._require_current(table, opening.max_delay_seconds)
        if table.link_group and opening.blocks is None and not opening.sequential_consistency:
            return table.snapshot_of_cut(opening.digest), False
        if opening.is_settled:
            return table.settled_snapshot()
        if opening.blocks is None:
            return table.snapshot(sequential_consistency=opening.sequential_consistency), False
        snapshot, wanted = _require_blocks(table).snapshot_of_blocks(opening.blocks), opening.blocks
        parts = [part for part in snapshot.parts if wanted.overlaps(part.name)]
        return Snapshot(parts, lambda _: snapshot.release()), False

    def _require_current(self, table: OwnedTable, max_delay_seconds: float) -> None:
        delay = self.delay_seconds(table)
        if delay > max_delay_seconds:
            how_far = f"is {delay:.0f} s" if delay < UNKNOWN_DELAY_SECONDS else "does not know yet how far it is"
            raise UnavailableError(
                "ALL_REPLICAS_ARE_STALE",
                f"This replica {how_far} behind with {table.definition.full_name}; the scan allows "
                f"{max_delay_seconds:g} s (max_replica_delay_seconds)",
            )

    def _end_reading(self, lease: Lease) -> None:
        with self._lock:
            lease.readers -= 1
            lease.deadline = self.clock() + lease.opening.seconds
            is_over = lease.readers == 0 and lease.is_ended
        _release([lease] if is_over else [])

    # -- all of them ------------------------------------------------------------------------------------------------

    def _end_surplus(self) -> list[Lease]:
        """Removes leases that are over, and the one idle longest if the limit is reached; returns them."""
        ended = self._list_expired()
        if len(self._leases) - len(ended) >= self.limit:
            idle = [lease for lease in self._leases.values() if lease.readers == 0]
            if not idle:
                raise UserError(
                    "TOO_MANY_SIMULTANEOUS_QUERIES",
                    f"{self.limit} scans are being read; retry later or on another replica",
                )
            ended.append(min(idle, key=lambda lease: lease.deadline - lease.opening.seconds))
        self._remove(ended)
        return ended

    def _list_expired(self) -> list[Lease]:
        now = self.clock()
        return [lease for lease in self._leases.values() if lease.readers == 0 and lease.deadline <= now]

    def _remove(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            lease.is_ended = True
            self._leases.pop((id(lease.table), lease.opening.digest), None)


def _require_blocks(table: OwnedTable) -> TableBlocks:
    if table.link_group:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"Table {table.definition.full_name} is in the group {table.link_group} of links: it is read at cuts, not "
            "as a stream. Read the stream at its source",
        )
    assert table.blocks is not None, "only tables that keep block numbers are read as streams"
    return table.blocks


def _release(leases: Sequence[Lease]) -> None:
    """Releases the leases' parts. Runs outside the book's lock, because it takes the part store's lock."""
    for lease in leases:
        lease.snapshot.release()


def _hold_recorded_parts(table: OwnedTable, record: bytes) -> tuple[PartsSnapshot, Steps, int]:
    """Holds the recorded parts. Raises 232 if one is not here or has other content."""
    found = decode_record(record)
    wanted, version = found.parts, found.metadata_version
    try:
        snapshot = table.pin(list(wanted))
    except UserError as error:
        raise UserError(
            error.name,
            f"The parts of {table.definition.full_name} that this scan reads are not on this server any more, or not "
            f"yet: {error.message}. They were merged or dropped since the scan began, or this replica is behind; run "
            "the query again",
        ) from None
    for part in snapshot.parts:
        recorded = wanted[part.name]
        if (part.content_hash, part.granularity) != (recorded.content_hash, recorded.granularity):
            snapshot.release()
            raise UserError(
                "NO_SUCH_DATA_PART",
                f"Part {part.name} of {table.definition.full_name} has other content here ({part.content_hash}, "
                f"granules of {part.granularity}) than the scan began with ({recorded.content_hash}, "
                f"{recorded.granularity})",
            )
    return snapshot, {name: recorded.steps for name, recorded in wanted.items()}, version
