"""The interface of a table in the process that owns its files.

It covers the start and stop of the table, and what its kind is capable of.

``start`` and ``stop`` are called once each, by the catalog. A capability that a kind of table lacks is ``None``;
``engine.tables.required_capabilities`` has the errors for that.
"""

from __future__ import annotations

import errno
import shutil
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from engine.server.background_pool import BackgroundPool, BackgroundTask
from engine.tables.capabilities.block_history import TableBlocks
from engine.tables.capabilities.replica import Replica
from engine.tables.capabilities.scan_records import FileScanRecords, ScanRecords
from engine.tables.capabilities.table_links import TableLinks
from engine.tables.capabilities.table_mutations import TableMutations
from engine.tables.capabilities.table_partitions import TablePartitions
from engine.tables.capabilities.table_transactions import JoinedTransaction, TableTransactions
from engine.tables.services import TableServices
from engine.tables.statement_options import OptimizeOptions
from engine.tables.stopped_actions import StoppableAction, StoppedActions
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from parts.common.query_status import QueryStatus
from parts.format.hashed_file import sync_directory
from parts.read.part_reader import Part
from parts.store.part_store import PartStore
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    CreateTable,
)
from sql.relations import PartsSnapshot

_SCANS = "scans"
_REMOVE_ATTEMPTS = 10
_REMOVE_PAUSE_SECONDS = 0.02


class TableCatalog(Protocol):
    """The owner of all tables of the server and of their definitions."""

    def define(self, database: str, create: CreateTable) -> TableDefinition:
        """Raises what contradicts itself in the statement."""

    def find(self, database: str, name: str) -> Table | None:
        """Raises ``UserError`` 81 (UNKNOWN_DATABASE)."""

    def change_definition(self, table: OwnedTable, change: Callable[[TableDefinition], CreateTable | None]) -> bool:
        """Changes the table's definition, on disk too.

        ``change`` gets the present definition and returns the new one, or ``None`` to keep it. Returns ``False`` if
        another statement is changing tables.
        """


class OwnedTable(Table):
    """One table of this process."""

    home: TableCatalog
    """Set by the catalog."""

    store: PartStore | None = None
    """The parts of a table that has any."""
    checked_store: PartStore | None = None
    """The parts that CHECK TABLE reads."""
    partitions: TablePartitions | None = None
    """Commands on partitions and parts."""
    mutations: TableMutations | None = None
    """Changes of rows that are there."""
    transactions: TableTransactions | None = None
    """Inserts that become visible together."""
    join_transaction: Callable[[str], JoinedTransaction] | None = None
    """Returns a transaction, by its id, as one that another replicated table commits in its own multi."""
    blocks: TableBlocks | None = None
    """The table's blocks in their order, for streams."""
    replication: Replica | None = None
    """The replica of a replicated table."""
    links: TableLinks | None = None
    """The two ends of links with other clusters."""
    truncate: Callable[[QueryStatus], None] | None = None
    """Removes all rows that are there now. What has to be waited for ends with the status."""
    optimize: Callable[[OptimizeOptions], None] | None = None
    """Merges now. Raises 388 (CANNOT_ASSIGN_OPTIMIZE) if nothing is to be done and ``throw_if_noop``."""

    def __init__(self, definition: TableDefinition, services: TableServices) -> None:
        super().__init__(definition, services)
        self.is_stopping = threading.Event()
        self.stopped = StoppedActions()
        self._scan_records = FileScanRecords(definition.data_path / _SCANS, services.new_uuid)
        self._tasks: list[tuple[BackgroundPool, BackgroundTask]] = []

    def active_parts(self) -> Sequence[Part]:
        """Returns the parts that queries read now, as far as there are any."""
        return self.store.list_active() if self.store is not None else ()

    # -- life ---------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Makes what CREATE TABLE needs before :meth:`start`."""

    @abstractmethod
    def start(self) -> None:
        """Loads the data and starts background work."""

    def stop(self) -> None:
        """Ends background work; running steps end at their next cancellation point."""
        self.is_stopping.set()
        for pool, task in self._tasks:
            pool.remove(task)
        self._tasks.clear()

    def make_task(self, name: str, step: Callable[[], float]) -> BackgroundTask:
        """Makes a task that waits for :meth:`run_in_background`; waking it before does nothing."""
        return BackgroundTask(f"{self.definition.full_name}: {name}", step)

    def run_in_background(self, pool: BackgroundPool, task: BackgroundTask, delay_seconds: float = 0.0) -> None:
        """Runs the task until :meth:`stop`, first after ``delay_seconds``."""
        self._tasks.append((pool, task))
        pool.add(task, delay_seconds)

    def is_cancelled(self) -> bool:
        """Tells whether background work should end."""
        return self.is_stopping.is_set()

    def allow(self, action: StoppableAction, allowed: bool) -> None:
        """SYSTEM STOP/START."""
        if allowed:
            self.stopped.start(action)
        else:
            self.stopped.stop(action)
        self.stopped_changed()

    def stopped_changed(self) -> None:
        """Some work may go on, or may not."""

    @contextmanager
    def altering(self, new: TableDefinition) -> Iterator[None]:
        """Takes the new definition when the block, which writes it down, ends without an error.

        Raises when existing rows do not convert to its types. Running queries and INSERTs go on with the old one.
        """
        yield
        self.set_definition(new)

    def renamed(self, new: TableRef) -> CreateTable:
        """Returns the definition under another name."""
        return replace(self.definition.create, table=new)

    def check_can_drop(self) -> None:
        """Raises what would make :meth:`drop` fail, while the table still works."""

    def leave_replicas(self) -> None:
        """Tells other replicas not to count on this one: the first half of DROP, which may fail.

        The table does not run.
        """

    def drop(self) -> None:
        """Deletes the data. The table has been stopped. Raises ``OSError`` when something stays."""
        self.remove_directory()

    def undo_create(self) -> None:
        """After a CREATE that failed. The table has been stopped, and nobody has inserted into it."""
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
            self.services.wait(never, _REMOVE_PAUSE_SECONDS)
        else:
            raise OSError(errno.ENOTEMPTY, "The directory of a dropped table cannot be removed", str(path))
        if path.parent.exists():
            sync_directory(path.parent)

    # -- scans --------------------------------------------------------------------------------------------------

    def scan_records(self, *, is_alone: bool) -> ScanRecords:
        """Returns the records by which executions of a scan agree on what they read.

        ``is_alone``: they read from this server only.
        """
        return self._scan_records

    def snapshot_of_cut(self, scan: str) -> PartsSnapshot:
        """Returns the parts of a table of a transactional group at the cut of a scan's execution.

        All tables of the group that the execution reads, on any replica, are at this cut. ``scan`` is its name, valid
        as the name of a znode.
        """
        raise NotImplementedError

    def settled_snapshot(self) -> tuple[PartsSnapshot, bool]:
        """Returns all rows that were inserted before, and whether all blocks before theirs are decided.

        Waits for both. If others keep inserting, the snapshot is one of which the latter is not known. Raises 369
        (ALL_REPLICAS_ARE_STALE) if the former takes too long.
        """
        return self.snapshot(), False
