"""What every MergeTree table can do; the replicated and the single-server table build on it.

A table may be used from any thread. ``start`` and ``stop`` are called once each, by the catalog.
"""

from __future__ import annotations

import errno
import logging
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from engine.server.background_pool import BackgroundPool, BackgroundTask
from engine.tables.capabilities.block_history import BlockHistory, WantedBlocks
from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.capabilities.replica import Replica
from engine.tables.capabilities.scan_records import FileScanRecords, ScanRecords
from engine.tables.capabilities.table_mutations import TableMutations
from engine.tables.capabilities.table_partitions import TablePartitions
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.insert_sink import InsertSink
from engine.tables.services import TableServices
from engine.tables.statement_options import InsertOptions, OptimizeOptions
from engine.tables.stopped_actions import StoppableAction, StoppedActions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import ConflictError, CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.format.hashed_file import sync_directory
from parts.read.part_reader import Part
from parts.store.part_fit import find_misfit
from parts.store.part_store import PartStore
from parts.table.table_description import TableDescription
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    CreateTable,
)
from sql.relations import PartsSnapshot

logger = logging.getLogger(__name__)

_SCANS = "scans"
_REMEMBERED_CHANGES = 16
_CLEANUP_SECONDS = 10.0
_IDLE_CLEANUP_SECONDS = 60.0
_DROP_WAIT_SECONDS = 3.0
_DROP_POLL_SECONDS = 0.02
_REMOVE_ATTEMPTS = 10


class TableCatalog(Protocol):
    """The owner of all tables of the server and of their definitions."""

    def define(self, database: str, create: CreateTable) -> TableDefinition:
        """Raises what contradicts itself in the statement."""

    def find(self, database: str, name: str) -> Table | None:
        """Raises ``UserError`` 81 (UNKNOWN_DATABASE)."""

    def redefine(self, table: Table, change: Callable[[TableDefinition], CreateTable | None]) -> bool:
        """Changes the table's definition, on disk too.

        ``change`` gets the present definition and returns the new one, or ``None`` to keep it. Returns ``False`` if
        another statement is changing tables.
        """


def load_parts(store: PartStore, definition: TableDefinition) -> None:
    """Finds the table's parts on disk.

    ZooKeeper says which parts belong to a replica. Raises ``UserError`` 231 when more parts are broken than the
    settings allow.
    """
    report = (
        store.load() if definition.is_replicated else store.load(lambda part: find_misfit(part, definition.description))
    )
    settings = definition.settings
    for name, error in report.broken:
        logger.warning("table %s: part %s is broken, moved to detached: %s", definition.full_name, name, error)
    too_many = len(report.broken) > settings.max_suspicious_broken_parts
    if too_many or report.broken_bytes > settings.max_suspicious_broken_parts_bytes:
        raise UserError(
            "TOO_MANY_UNEXPECTED_DATA_PARTS",
            f"Suspiciously many broken parts in table {definition.full_name}: {len(report.broken)} of "
            f"{report.broken_bytes} bytes; max_suspicious_broken_parts = {settings.max_suspicious_broken_parts}, "
            f"max_suspicious_broken_parts_bytes = {settings.max_suspicious_broken_parts_bytes}",
        )


class Table(ABC):
    """One table on this server."""

    home: TableCatalog
    """Set by the catalog."""
    owns_files = True
    """Whether this process makes and removes the table's directories."""

    def __init__(self, definition: TableDefinition, services: TableServices) -> None:
        self.definition = definition
        self.services = services
        self.store = PartStore(
            definition.data_path,
            definition.description,
            services.clock,
            services.new_uuid,
            monotonic=services.monotonic,
            is_owner=self.owns_files,
        )
        self.is_stopping = threading.Event()
        self.stopped = StoppedActions()
        self._former: dict[int, TableDescription] = {}
        self._scan_records = FileScanRecords(definition.data_path / _SCANS, services.new_uuid)
        self._tasks: list[tuple[BackgroundPool, BackgroundTask]] = []

    @property
    def description(self) -> TableDescription:
        return self.definition.description

    def description_of(self, version: int) -> TableDescription:
        """Returns the description that the table had at a metadata version.

        The server remembers the last changes. Raises 517 for an older version, 369 for one that is still to come.
        """
        now = self.description
        if version > now.metadata_version:
            name = self.definition.full_name
            raise UnavailableError(
                "ALL_REPLICAS_ARE_STALE", f"The last ALTER of {name} is not done here yet: try again"
            )
        found = now if version == now.metadata_version else self._former.get(version)
        if found is None:
            raise ConflictError(
                "CANNOT_ASSIGN_ALTER",
                f"Table {self.definition.full_name} was altered since the query began, and this server does not know "
                "any more how it was: run the query again, with the names that the columns have now",
            )
        return found

    def set_definition(self, definition: TableDefinition) -> None:
        self._former[self.description.metadata_version] = self.description
        while len(self._former) > _REMEMBERED_CHANGES:
            del self._former[min(self._former)]
        self.definition = definition
        self.store.alter(definition.description)

    @property
    def replication(self) -> Replica | None:
        """The replica of a replicated table; ``None`` for others."""
        return None

    def create(self) -> None:  # noqa: B027  (most tables have nothing to do)
        """Makes what CREATE TABLE needs before :meth:`start`."""

    def require(self, ability: str) -> None:  # noqa: B027  (tables of parts have all)
        """Raises 48 for ``partitioning``, ``mutations`` or ``check``, if tables of this kind do not have it."""

    def allow(self, action: StoppableAction, allowed: bool) -> None:
        """SYSTEM STOP/START."""
        if allowed:
            self.stopped.start(action)
        else:
            self.stopped.stop(action)
        self.stopped_changed()

    def stopped_changed(self) -> None:  # noqa: B027  (a later look does as well)
        """Some work may go on, or may not."""

    def start(self) -> None:
        """Loads the parts and starts background work."""
        self.load_parts()
        first_pause = min(self.description.settings.old_parts_lifetime, _CLEANUP_SECONDS)
        self.run_in_background(self.services.housekeeping, self.make_task("clean up", self.clean_up_step), first_pause)

    def stop(self) -> None:
        """Ends background work; running steps end at their next cancellation point."""
        self.is_stopping.set()
        for pool, task in self._tasks:
            pool.remove(task)
        self._tasks.clear()

    def load_parts(self) -> None:
        """Finds the table's parts on disk.

        ZooKeeper says which parts belong to a replica. Raises ``UserError`` 231 when more parts are broken than the
        settings allow.
        """
        load_parts(self.store, self.definition)

    def make_task(self, name: str, step: Callable[[], float]) -> BackgroundTask:
        """A task that waits for :meth:`run_in_background`; waking it before does nothing."""
        return BackgroundTask(f"{self.definition.full_name}: {name}", step)

    def run_in_background(self, pool: BackgroundPool, task: BackgroundTask, delay_seconds: float = 0.0) -> None:
        """Runs the task until :meth:`stop`, first after ``delay_seconds``."""
        self._tasks.append((pool, task))
        pool.add(task, delay_seconds)

    def is_cancelled(self) -> bool:
        return self.is_stopping.is_set()

    @abstractmethod
    def begin_insert(self, options: InsertOptions) -> InsertSink:
        """Starts one INSERT. Raises 252 (TOO_MANY_PARTS) and whatever forbids writing now."""

    @property
    def block_memory(self) -> BlockMemory | None:
        """The memory of a table that remembers the blocks of its INSERTs."""
        return None

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Returns the active parts, held until released.

        ``sequential_consistency`` matters to replicated tables alone.
        """
        return self.store.snapshot()

    def hold(self, names: Sequence[PartName]) -> PartsSnapshot:
        """The named parts in whatever state, held until released. Raises 232 (NO_SUCH_DATA_PART)."""
        return self.store.hold(names)

    def scan_records(self, *, is_alone: bool) -> ScanRecords:
        """The records by which executions of a scan agree on what they read.

        ``is_alone``: they read from this server only.
        """
        return self._scan_records

    @property
    @abstractmethod
    def transactions(self) -> TableTransactions:
        """Inserts that become visible together."""

    @property
    @abstractmethod
    def partitions(self) -> TablePartitions:
        """Commands on partitions and parts."""

    @property
    def mutations(self) -> TableMutations:
        """Changes of rows that are there."""
        raise UserError("NOT_IMPLEMENTED", f"Table engine {self.definition.engine_name} doesn't support mutations")

    @abstractmethod
    def history(self) -> BlockHistory:
        """The table's blocks in their order, for streams."""

    @abstractmethod
    def snapshot_of_blocks(self, wanted: WantedBlocks) -> PartsSnapshot:
        """Returns active parts that contain all wanted blocks, held until released.

        Raises 33 (CANNOT_READ_ALL_DATA).
        """

    @abstractmethod
    def report_corruption(self, error: CorruptionError) -> None:
        """Called when a read met corruption."""

    @abstractmethod
    def optimize(self, options: OptimizeOptions) -> None:
        """Merges now. Raises 388 (CANNOT_ASSIGN_OPTIMIZE) if nothing is to be done and ``throw_if_noop``."""

    def truncate(self, status: QueryStatus | None = None) -> None:
        """Removes all rows that are there now. What has to be waited for ends with ``status``."""
        self.partitions.drop(None, status=status)

    @contextmanager
    def altering(self, new: TableDefinition) -> Iterator[None]:
        """Takes the new definition when the block, which writes it down, ends without an error.

        Raises when existing rows do not convert to its types. Running queries and INSERTs go on with the old one.
        """
        checked: set[PartName] = set()
        while unchecked := self._unchecked(checked):
            for part in unchecked:
                part.adapt_to_schema(new.description.schema).check_conversions()
                checked.add(part.name)
        with self.store.lock:  # nothing is committed meanwhile
            for part in self._unchecked(checked):
                part.adapt_to_schema(new.description.schema).check_conversions()
            yield
            self.set_definition(new)

    def _unchecked(self, checked: Collection[PartName]) -> list[Part]:
        parts = (*self.store.list_active(), *self.store.list_preactive())
        return [part for part in parts if part.name not in checked]

    def check_can_drop(self) -> None:  # noqa: B027  (most tables always can)
        """Raises what would make :meth:`drop` fail, while the table still works."""

    def leave_replicas(self) -> None:  # noqa: B027  (most tables have none)
        """Tells other replicas not to count on this one: the first half of DROP, which may fail.

        The table does not run.
        """

    def drop(self) -> None:
        """Deletes the data; queries that read it get a moment to end.

        The table has been stopped. Raises ``OSError`` when something stays.
        """
        monotonic, never = self.services.monotonic, threading.Event()
        deadline = monotonic() + _DROP_WAIT_SECONDS
        while self.store.is_read() and monotonic() < deadline:
            self.services.wait(never, _DROP_POLL_SECONDS)
        self.remove_directory()

    def remove_directory(self) -> None:
        """Removes the table's directory with parts, ``detached/``, ``staged/`` and the replica's files.

        Raises ``OSError`` when something stays.
        """
        path, never = self.definition.data_path, threading.Event()
        for _ in range(_REMOVE_ATTEMPTS):  # a step that still ends may write a file meanwhile
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            if not path.exists():
                break
            self.services.wait(never, _DROP_POLL_SECONDS)
        else:
            raise OSError(errno.ENOTEMPTY, "The directory of a dropped table cannot be removed", str(path))
        if path.parent.exists():
            sync_directory(path.parent)

    def undo_create(self) -> None:
        """After a CREATE that failed. The table has been stopped, and nobody has inserted into it."""
        self.remove_directory()

    def renamed(self, new: TableRef) -> CreateTable:
        """The definition under another name."""
        return replace(self.definition.create, table=new)

    def take_name(self, definition: TableDefinition) -> None:
        """The definition under another name: nothing else of it differs, and the data stay where they are."""
        self.definition = definition

    def clean_up_step(self) -> float:
        """Deletes outdated parts that are old enough and not read by anybody."""
        if StoppableAction.CLEANUP in self.stopped:
            return _CLEANUP_SECONDS
        self.delete_outdated(self.store.list_deletable())
        self._scan_records.clean_up(self.services.monotonic())
        if self.store.has_outdated():
            return _CLEANUP_SECONDS
        # What becomes outdated from now on stays for its lifetime.
        return max(_CLEANUP_SECONDS, min(self.description.settings.old_parts_lifetime, _IDLE_CLEANUP_SECONDS))

    def delete_outdated(self, parts: Sequence[Part]) -> None:
        self.services.part_log.add_removals(self.definition, parts, self.services.clock())
        self.store.delete(parts)
