"""Leases: the parts that one execution of a scan reads, held from its first read on for those that follow.

An execution is named by who runs it (``ScanOpening.name``). Its first read, on whichever replica, takes a snapshot
and writes down what it saw (``engine.tables.capabilities.scan_records``), with what the parts measure there; every
other read, also on another replica, later, or after the lease has ended, takes the parts that are written down, by
names and content hashes, and deals them as they were measured.

Invariants:
- All reads of an execution read the same parts, or fail with 232; and under the definition that the table had when it
  began, or fail with 517.
- A read that is a repeated one makes no new record: the one that it began with is gone, and it fails with 232.
- A lease that is being read is never ended by time or by pressure; ``release`` ends it for new reads, and the running
  ones keep their parts until they are through.
- A lease without a reader ends ``seconds`` after its last use.
- There are at most ``limit`` leases. A new one then ends the one that was idle longest; if all are being read it is
  refused.

Thread-safe. The caller runs :meth:`LeaseBook.expire` now and then.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import xxhash
import zstandard

from engine.scan.slot_planning import Steps, measure_steps, select_stored_columns
from engine.tables.capabilities.block_history import BlockHistory, WantedBlocks, require_block_numbers
from engine.tables.table import Table
from parts.common.errors import ConflictError, CorruptionError, PandoError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot
from sql.relations import PartsSnapshot

logger = logging.getLogger(__name__)

MAX_LEASES = 256
MAX_LEASE_SECONDS = 24 * 3600.0
UNKNOWN_DELAY_SECONDS = 1e9
"""In seconds, of a replica that has not compared itself with ZooKeeper yet. Only who allows any delay reads there."""
_TOUCH_SECONDS = 600.0
_RECORD_VERSION = 3
"""Another one when parts are dealt to slots by other rules: replicas that disagree about that must not share a scan."""


@dataclass(frozen=True)
class ScanOpening:
    """How the first read of an execution takes its snapshot."""

    name: str
    """Of the execution; unique for ever."""
    columns: tuple[str, ...] = ()
    """By whose bytes the parts are dealt."""
    seconds: float = 300.0
    """How long the parts are held after each read."""
    is_repeated: bool = False
    """The execution has begun before: it is not opened now."""
    is_alone: bool = False
    """No other server is read from."""
    sequential_consistency: bool = False
    max_delay_seconds: float = float("inf")
    """A replica that is further behind does not open it."""
    blocks: WantedBlocks | None = None
    """Only parts with these are read; all of them are."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MAX_LEASE_SECONDS:
            raise UserError(
                "ARGUMENT_OUT_OF_BOUND", f"'lease_seconds' must be 0 to {MAX_LEASE_SECONDS:g}, got {self.seconds!r}"
            )

    @property
    def digest(self) -> str:
        """A safe name of a file and of a znode."""
        return xxhash.xxh3_128_hexdigest(self.name.encode("utf-8", "surrogatepass"))


class LeaseView(Protocol):
    """A lease as those see it who read its parts."""

    @property
    def parts(self) -> Sequence[Part]: ...

    @property
    def steps(self) -> Steps: ...

    @property
    def metadata_version(self) -> int:
        """Of the definition under which they are read."""


class Leases(Protocol):
    """See :class:`LeaseBook`."""

    def reading(self, table: Table, opening: ScanOpening) -> AbstractContextManager[LeaseView]: ...

    def release(self, table: Table, name: str) -> bool: ...

    def history(self, table: Table, max_delay_seconds: float) -> BlockHistory: ...

    def expire(self) -> None: ...


@dataclass(eq=False)
class Lease:
    """The parts of one execution on this server."""

    table: Table
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
    """The leases of one server. ``delay_seconds`` tells how far behind a table is."""

    clock: Callable[[], float]
    delay_seconds: Callable[[Table], float] = lambda _: 0.0
    limit: int = MAX_LEASES
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _leases: dict[_Key, Lease] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._leases)

    @contextmanager
    def reading(self, table: Table, opening: ScanOpening) -> Iterator[Lease]:
        """The lease for the time of one read; made if there is none.

        Raises 232 (NO_SUCH_DATA_PART) when the parts are not here or the repeated read's record is gone, 369
        (ALL_REPLICAS_ARE_STALE) when this replica is too far behind, 289 when it lacks what a quorum confirmed, 202
        (TOO_MANY_SIMULTANEOUS_QUERIES) when every lease is being read, and what ZooKeeper raises.
        """
        lease = self._entered(table, opening) or self._made(table, opening)
        try:
            self._touch(lease)
            yield lease
        finally:
            self._leave(lease)

    def release(self, table: Table, name: str) -> bool:
        """Ends a lease early; ``False`` if it had ended."""
        with self._lock:
            lease = self._leases.get((id(table), ScanOpening(name).digest))
            if lease is None:
                return False
            self._remove([lease])
            ended = [lease] if lease.readers == 0 else []
        _release(ended)
        return True

    def history(self, table: Table, max_delay_seconds: float) -> BlockHistory:
        """What a stream may read next. Raises 36 for a table that does not keep block numbers, 369."""
        require_block_numbers(table.definition)
        self._require_current(table, max_delay_seconds)
        return table.history()

    def expire(self) -> None:
        """Ends the leases whose time is over."""
        with self._lock:
            ended = self._expired()
            self._remove(ended)
        _release(ended)

    def close(self) -> None:
        with self._lock:
            idle = [lease for lease in self._leases.values() if lease.readers == 0]
            self._remove(list(self._leases.values()))
        _release(idle)

    def _touch(self, lease: Lease) -> None:
        """The record is in use. Who reads has its parts, and does not fail when nobody can be told."""
        if self.clock() - lease.touched > _TOUCH_SECONDS:
            lease.touched = self.clock()
            try:
                lease.table.scan_records(is_alone=lease.opening.is_alone).touch(lease.opening.digest)
            except (PandoError, OSError) as error:  # ZooKeeper is away, or another replica did it at this moment
                logger.info("the record of a scan is not touched: %s", error)

    # -- one lease ------------------------------------------------------------------------------------------------

    def _entered(self, table: Table, opening: ScanOpening) -> Lease | None:
        with self._lock:
            lease = self._leases.get((id(table), opening.digest))
            if lease is not None:
                lease.readers += 1
            return lease

    def _made(self, table: Table, opening: ScanOpening) -> Lease:
        """Two reads at a time may both make it: they agree on the parts, and one lease stays."""
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
                ended = self._make_room()
                self._leases[id(table), opening.digest] = made
                return made
        finally:
            _release(ended)

    def _agreed_snapshot(self, table: Table, opening: ScanOpening) -> tuple[PartsSnapshot, Steps, int]:
        records = table.scan_records(is_alone=opening.is_alone)
        record = records.find(opening.digest)
        if record is None:
            description = table.description
            snapshot = self._first_snapshot(table, opening)
            try:
                if table.description is not description:
                    raise ConflictError(
                        "CANNOT_ASSIGN_ALTER",
                        f"Table {table.definition.full_name} was altered while the query began; run it again",
                    )
                select_stored_columns(description.schema, opening.columns)
                steps = measure_steps(snapshot.parts, opening.columns)
                wanted = _written(snapshot.parts, steps, description.metadata_version)
                record = records.record(opening.digest, wanted)
            except BaseException:
                snapshot.release()
                raise
            if record == wanted:
                return snapshot, steps, description.metadata_version
            snapshot.release()
        return _recorded_snapshot(table, record)

    def _first_snapshot(self, table: Table, opening: ScanOpening) -> PartsSnapshot:
        name = table.definition.full_name
        if opening.is_repeated:
            raise UserError(
                "NO_SUCH_DATA_PART",
                f"This read of {name} is a repeated one, and what its scan began with is not known any more: it began "
                "too long ago. Run the query again",
            )
        self._require_current(table, opening.max_delay_seconds)
        if opening.blocks is None:
            return table.snapshot(sequential_consistency=opening.sequential_consistency)
        snapshot, wanted = table.snapshot_of_blocks(opening.blocks), opening.blocks
        return Snapshot([part for part in snapshot.parts if wanted.overlaps(part.name)], lambda _: snapshot.release())

    def _require_current(self, table: Table, max_delay_seconds: float) -> None:
        delay = self.delay_seconds(table)
        if delay > max_delay_seconds:
            how_far = f"is {delay:.0f} s" if delay < UNKNOWN_DELAY_SECONDS else "does not know yet how far it is"
            raise UnavailableError(
                "ALL_REPLICAS_ARE_STALE",
                f"This replica {how_far} behind with {table.definition.full_name}; the scan allows "
                f"{max_delay_seconds:g} s (max_replica_delay_seconds)",
            )

    def _leave(self, lease: Lease) -> None:
        with self._lock:
            lease.readers -= 1
            lease.deadline = self.clock() + lease.opening.seconds
            is_over = lease.readers == 0 and lease.is_ended
        _release([lease] if is_over else [])

    # -- all of them ------------------------------------------------------------------------------------------------

    def _make_room(self) -> list[Lease]:
        ended = self._expired()
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

    def _expired(self) -> list[Lease]:
        now = self.clock()
        return [lease for lease in self._leases.values() if lease.readers == 0 and lease.deadline <= now]

    def _remove(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            lease.is_ended = True
            self._leases.pop((id(lease.table), lease.opening.digest), None)


def _release(leases: Sequence[Lease]) -> None:
    """Outside the book's lock: releasing takes the part store's."""
    for lease in leases:
        lease.snapshot.release()


@dataclass(frozen=True)
class _RecordedPart:
    content_hash: str
    granularity: int
    steps: list[int]


def _written(parts: Sequence[Part], steps: Steps, metadata_version: int) -> bytes:
    """The record of an execution that reads these parts."""
    items = [[str(part.name), part.content_hash, part.granularity, steps[part.name]] for part in parts]
    document = {"version": _RECORD_VERSION, "definition": metadata_version, "parts": items}
    return zstandard.compress(json.dumps(document, separators=(",", ":")).encode())


def _recorded_snapshot(table: Table, record: bytes) -> tuple[PartsSnapshot, Steps, int]:
    """Raises 232 when a part is not here, or is another one."""
    wanted, version = _read(record)
    try:
        snapshot = table.hold(list(wanted))
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


def _read(record: bytes) -> tuple[Mapping[PartName, _RecordedPart], int]:
    """The parts, and the version of the definition."""
    try:
        document = json.loads(zstandard.decompress(record))
        if document["version"] != _RECORD_VERSION:
            raise ValueError(f"version {document['version']}, this server understands {_RECORD_VERSION}")
        parts = {PartName.parse(name): _RecordedPart(*others) for name, *others in document["parts"]}
        return parts, int(document["definition"])
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise CorruptionError(f"Cannot read what a scan began with: {error}", name="CORRUPTED_DATA") from error
