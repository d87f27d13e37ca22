"""What the engine lends to its tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

from engine.interserver.transfer import Throttle, Transfer
from engine.server.background_pool import BackgroundPool
from engine.tables.disk_reservations import DiskReservations
from engine.tables.part_log import PartLog
from parts.common.part_name import PartName
from parts.merge import MergeProgress
from sql.grammar.statements.statement import CreateTable
from sql.mutations.mutation_queries import MutationStep


@dataclass
class RunningMerge:
    """A merge under way, for ``system.merges``."""

    database: str
    table: str
    result: str
    sources: tuple[str, ...]
    started: float
    total_rows: int
    progress: float = 0.0
    rows_written: int = 0
    is_mutation: bool = False
    merge_type: str = "Regular"
    partition: str = ""
    path: str = ""
    """Of the table's data."""
    total_bytes: int = 0
    """Of the sources on disk, and, by the next, uncompressed."""
    total_uncompressed_bytes: int = 0


@dataclass
class InsertDelays:
    """Counts of INSERTs that too many parts delayed or refused, since the start."""

    count: int = 0
    seconds: float = 0.0
    rejected: int = 0


@dataclass
class Checks:
    """Counts of parts that the background check has read, since the start."""

    parts: int = 0
    read_bytes: int = 0
    broken_parts: int = 0


@dataclass(eq=False)
class RunningFetch:
    """A part on its way from another replica, for ``system.replicated_fetches``."""

    database: str
    table: str
    part: PartName
    directory: Path
    source_path: str
    """In ZooKeeper."""
    source_url: str
    started: float
    transfer: Transfer


@dataclass(frozen=True)
class MergeOrder:
    """What one merge is to do: everything that another process must know of it."""

    database: str
    create: CreateTable
    data_path: Path
    sources: tuple[PartName, ...]
    directory: Path
    """Where the merged part is to be."""
    deduplicate: bool = False
    deduplicate_by: tuple[str, ...] = ()
    cleanup: bool = False
    """Rows that say that they are deleted go: the sources are all parts of their partition."""
    expire_at: int = 0
    """The time of the merge: what has expired then goes, and rows have an age (``MergeMode.with_time``); 0: none."""


@dataclass(frozen=True)
class MutationReadTable:
    """A table that a subquery of a mutation reads: its parts are held while it does."""

    database: str
    create: CreateTable
    data_path: Path
    parts: tuple[PartName, ...]


@dataclass(frozen=True)
class MutationOrder:
    """What is to be made of one part, as :class:`MergeOrder`."""

    database: str
    create: CreateTable
    data_path: Path
    source: PartName
    steps: tuple[MutationStep, ...]
    reads: tuple[MutationReadTable, ...]
    directory: Path


RunInMergeProcess = Callable[[MergeOrder | MutationOrder, Callable[[], bool], Callable[[MergeProgress], None]], None]
"""Carries out a merge or a mutation in another process, asks now and then whether it is cancelled, and tells its
progress."""


class Slots:
    """At most ``most`` of something at a time, in the whole server. From any thread."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return self._free

    @contextmanager
    def try_take(self) -> Iterator[bool]:
        """``False`` when none is free: do without. Never blocks."""
        with self._lock:
            is_taken = self._free > 0
            self._free -= is_taken
        try:
            yield is_taken
        finally:
            with self._lock:
                self._free += is_taken


@dataclass
class TableServices:
    """Time, chance, threads and failpoints: nothing here or below takes them from elsewhere."""

    clock: Callable[[], float]
    """Seconds since 1970: what is written down."""
    monotonic: Callable[[], float]
    """Seconds that never go back: what is waited for."""
    wait: Callable[[threading.Event, float], object]
    """As ``Event.wait``. Every wait of a table goes through here, so that a simulator can let others work meanwhile."""
    wait_for: Callable[[threading.Condition, Callable[[], bool], float], bool]
    """Waits for the predicate at most so many seconds, and says whether it came true."""
    random: Random
    """Makes names, orders sources, spreads load in time."""
    failpoint: Callable[[str], None]
    """Passed at each named place where a test may make the process die or fail."""
    housekeeping: BackgroundPool
    """For short steps: pulling, selecting, cleaning."""
    workers: BackgroundPool
    """For long steps: merging and fetching."""
    writers: Executor
    """Compresses and writes the blocks of INSERTs."""
    merges: list[RunningMerge] = field(default_factory=list)
    merge_elsewhere: RunInMergeProcess | None = None
    """Where merges have processes of their own."""
    merging: Slots = field(default_factory=lambda: Slots(16))
    """Merges and mutations that run now."""
    fetches: Slots = field(default_factory=lambda: Slots(16))
    """Parts that come from other replicas now."""
    delays: InsertDelays = field(default_factory=InsertDelays)
    checks: Checks = field(default_factory=Checks)
    part_log: PartLog = field(default_factory=PartLog)
    running_fetches: list[RunningFetch] = field(default_factory=list)
    disk: DiskReservations = field(default_factory=DiskReservations)
    max_fetches_bandwidth: int = 0
    """Bytes a second that come from other replicas, and, by the next, go to them; 0 for any number."""
    max_sends_bandwidth: int = 0
    queue_wait_seconds: float = 600.0
    """How long OPTIMIZE and TRUNCATE wait until a replica's queue is carried out."""
    write_inline_rows: int = 10_000
    """The thread that brings a block of at most so many rows writes it: a hand-over costs more than it gains."""
    owner: str = ""
    """Of temporary parts, in their names, where several processes write them."""

    def __post_init__(self) -> None:
        self.fetch_throttle = self.throttle(lambda: self.max_fetches_bandwidth)
        self.send_throttle = self.throttle(lambda: self.max_sends_bandwidth)

    def throttle(self, bytes_per_second: Callable[[], int]) -> Throttle:
        return Throttle(bytes_per_second, self.monotonic, self.wait)

    def new_uuid(self) -> UUID:
        return UUID(bytes=self.random.randbytes(16), version=4)
