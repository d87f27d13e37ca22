"""The services that the engine lends to tables: clock, threads, slots, throttles, running work."""

from __future__ import annotations

import threading
from collections import Counter
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
from engine.tables.shown_groups.shown_group import GroupRegistry
from engine.tables.sync_peers import NoSyncPeers, SyncPeers
from parts.common.part_name import PartName
from parts.merge import MergeProgress
from sql.grammar.statements.statement import CreateTable
from sql.mutations.mutation_queries import MutationStep


@dataclass
class RunningMerge:
    """A merge or mutation under way, for ``system.merges``."""

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
    """The directory of the table's data."""
    total_bytes: int = 0
    """The size of the sources on disk; the next field is their uncompressed size."""
    total_uncompressed_bytes: int = 0


class NewsCount:
    """Grows when something came for the links of any table.

    Who waits for news of many tables looks at one number. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def grow(self) -> None:
        """Counts one more."""
        with self._lock:
            self.count += 1


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
    """The znode path of the source replica."""
    source_url: str
    started: float
    transfer: Transfer


@dataclass(frozen=True)
class MergeOrder:
    """One merge to run: everything that another process must know of it."""

    database: str
    create: CreateTable
    data_path: Path
    sources: tuple[PartName, ...]
    directory: Path
    """The directory to write the merged part into."""
    deduplicate: bool = False
    deduplicate_by: tuple[str, ...] = ()
    cleanup: bool = False
    """Removes rows marked as deleted; the sources must be all parts of their partition."""
    expire_at: int = 0
    """The time by which rows expire and have an age (``MergeMode.with_time``); 0 if none does."""
    stable_time: int = 0
    """Tombstones of this commit time, or an earlier one, go; the sources must be all parts of their partition."""
    positions: tuple[int | None, ...] = ()
    """The position of each source's rows (``RowVersion.position``), which its file may lack."""


@dataclass(frozen=True)
class MutationReadTable:
    """A table that a subquery of a mutation reads, with the parts that are held meanwhile."""

    database: str
    create: CreateTable
    data_path: Path
    parts: tuple[PartName, ...]


@dataclass(frozen=True)
class MutationOrder:
    """Mutations to apply to one part: everything that another process must know of them."""

    database: str
    create: CreateTable
    data_path: Path
    source: PartName
    steps: tuple[MutationStep, ...]
    reads: tuple[MutationReadTable, ...]
    directory: Path
    position: int | None = None
    """The position of the source's rows, which its file may lack."""


RunInMergeProcess = Callable[[MergeOrder | MutationOrder, Callable[[], bool], Callable[[MergeProgress], None]], None]
"""Runs a merge or a mutation in another process.

The first function is polled to learn whether the work is cancelled; the second is called with its progress.
"""


class Slots:
    """A limit on how many things of a kind run at a time in the whole server.

    May be called from any thread.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """The number of free slots."""
        return self._free

    @contextmanager
    def try_take(self) -> Iterator[bool]:
        """Takes a slot for the block; yields ``False`` if none is free. Never blocks."""
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
    """Clock, randomness, threads and failpoints, the only source of them for tables."""

    clock: Callable[[], float]
    """Seconds since 1970, for times that are stored."""
    monotonic: Callable[[], float]
    """Seconds that never go back, for waiting."""
    wait: Callable[[threading.Event, float], object]
    """Works like ``Event.wait``.

    Every wait of a table goes through here, so that a simulator can run others meanwhile.
    """
    wait_for: Callable[[threading.Condition, Callable[[], bool], float], bool]
    """Waits for the predicate at most this many seconds; tells whether it came true."""
    random: Random
    """The randomness of names, of the order of sources, and of spreading load."""
    failpoint: Callable[[str], None]
    """Called at each named place where a test may make the process die or fail."""
    housekeeping: BackgroundPool
    """The threads for short steps: pulling, selecting, cleaning."""
    workers: BackgroundPool
    """The threads for long steps: merging and fetching."""
    writers: Executor
    """The threads that compress and write the blocks of INSERTs."""
    merges: list[RunningMerge] = field(default_factory=list)
    run_in_merge_process: RunInMergeProcess | None = None
    """Runs merges and mutations in other processes; ``None`` without merge processes."""
    merging: Slots = field(default_factory=lambda: Slots(16))
    """The slots of merges and mutations."""
    fetches: Slots = field(default_factory=lambda: Slots(16))
    """The slots of fetches from other replicas."""
    delays: InsertDelays = field(default_factory=InsertDelays)
    checks: Checks = field(default_factory=Checks)
    conflicts: Counter[Path] = field(default_factory=Counter)
    """Rows of ``last_writer_wins`` tables that lost to another origin's in merges of this server since its start.

    They are counted by the table's data directory.
    """
    shown_groups: GroupRegistry = field(default_factory=GroupRegistry)
    """The cuts that this server shows of groups of links."""
    part_log: PartLog = field(default_factory=PartLog)
    running_fetches: list[RunningFetch] = field(default_factory=list)
    disk: DiskReservations = field(default_factory=DiskReservations)
    max_fetches_bandwidth: int = 0
    """Limit of bytes per second from other replicas; the next field is that of sending; 0 means unlimited."""
    max_sends_bandwidth: int = 0
    queue_wait_seconds: float = 600.0
    """How long OPTIMIZE and TRUNCATE wait for a replica's queue."""
    write_inline_rows: int = 10_000
    """The most rows of a block that an INSERT's own thread writes.

    A hand-over to another thread costs more than it gains for them.
    """
    link_news: NewsCount = field(default_factory=NewsCount)
    sync_peers: SyncPeers = field(default_factory=NoSyncPeers)
    """The targets of synchronous links."""
    owner: str = ""
    """A mark in the names of temporary parts, if several processes write them."""

    def __post_init__(self) -> None:
        self.fetch_throttle = self.throttle(lambda: self.max_fetches_bandwidth)
        self.send_throttle = self.throttle(lambda: self.max_sends_bandwidth)

    def throttle(self, bytes_per_second: Callable[[], int]) -> Throttle:
        """Makes a bandwidth limit."""
        return Throttle(bytes_per_second, self.monotonic, self.wait)

    def new_uuid(self) -> UUID:
        """Makes a random UUID."""
        return UUID(bytes=self.random.randbytes(16), version=4)
