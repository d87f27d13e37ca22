"""Interface of a replicated table for SYSTEM commands and monitoring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordination.keeper.interface import Keeper
from coordination.log.replication_queue import ReplicationQueue
from coordination.nodes.paths import ReplicaPaths, TablePaths
from engine.tables.statement_options import AlterOptions, SyncMode
from engine.tables.table_definition import TableDefinition
from parts.common.query_status import QueryStatus
from sql.grammar.statements.statement import CreateTable


class Replica(Protocol):
    """A replicated table, beyond what every table offers."""

    @property
    def paths(self) -> TablePaths:
        """The znode paths of the table."""

    @property
    def replica(self) -> ReplicaPaths:
        """The znode paths of this replica."""

    @property
    def queue(self) -> ReplicationQueue:
        """The queue of log entries that this replica has still to execute."""

    @property
    def keeper(self) -> Keeper | None:
        """The ZooKeeper client; ``None`` if none is configured."""

    @property
    def zookeeper_name(self) -> str:
        """``default``, or the name of an auxiliary ZooKeeper."""

    def require_keeper(self) -> Keeper:
        """Returns the keeper. Raises 225, 36 and 999 if there is none, or no connection."""

    @property
    def is_session_expired(self) -> bool:
        """Tells whether the session has ended; also true while the connection is lost, as nobody knows then."""

    @property
    def has_started(self) -> bool:
        """Tells whether the replica has compared itself with ZooKeeper.

        Since then its queue holds everything that it lacks.
        """

    @property
    def is_starting(self) -> bool:
        """Tells whether the replica has not tried to begin its ZooKeeper session since the server's start."""

    def delay_seconds(self) -> float:
        """Returns by how much the rows here may be older than those of other replicas.

        This is the age of the oldest missing INSERT, or the time since the log could last be read.
        """

    @property
    def warning(self) -> str:
        """Advice to the operator about a replica that works; otherwise empty."""

    @property
    def parts_to_check(self) -> int:
        """The number of parts that wait for a check."""

    @property
    def refusal(self) -> str:
        """The reason while the replica refuses to start, in which case reads may lack rows; otherwise empty."""

    def problem(self) -> str | None:
        """Returns what keeps the replica from working; ``None`` if it works."""

    def sync(
        self, timeout_seconds: float, status: QueryStatus | None = None, mode: SyncMode = SyncMode.DEFAULT
    ) -> None:
        """Waits until everything that is in the log now has been executed here. Raises 159, 236, 242, 999."""

    def wait_for_others(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Waits until the other active replicas have executed the log. Raises 341, 242, 999."""

    def alter(self, change: Callable[[TableDefinition], CreateTable], options: AlterOptions) -> None:
        """Gives the table, on all replicas, the definition that ``change`` makes of its own.

        Raises 517, 341, 242, 999, 48, and the errors of ``change`` and of the new definition.
        """

    def change_command_source(self, cluster: str) -> None:
        """Sets the cluster from which the table takes mutations and drops of rows; "" takes the setting back.

        Raises 36, 44 (ILLEGAL_COLUMN), 48, 242 and 999.
        """

    def refuse_inserts(self, refused: bool) -> None:
        """Refuses INSERTs on all replicas from this moment on, or allows them again. Raises 48, 242, 999."""

    def restart(self) -> None:
        """Begins the replica's session anew, as after a new ZooKeeper session."""

    def restore(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Writes the parts on disk to ZooKeeper again after ZooKeeper has lost them. Raises 36, 159, 342, 999."""
