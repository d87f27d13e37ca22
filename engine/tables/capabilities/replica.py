"""What can be asked of a replicated table beyond what every table does: for SYSTEM commands and operators' views."""

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
    @property
    def paths(self) -> TablePaths: ...

    @property
    def replica(self) -> ReplicaPaths: ...

    @property
    def queue(self) -> ReplicationQueue: ...

    @property
    def keeper(self) -> Keeper | None: ...

    @property
    def zookeeper_name(self) -> str:
        """``default``, or that of an auxiliary one."""

    def require_keeper(self) -> Keeper:
        """Raises 225, 36 and 999 when there is none, or no connection."""

    @property
    def is_session_expired(self) -> bool:
        """True too while the connection is lost: whether the session lives on is not known then."""

    @property
    def has_started(self) -> bool:
        """Whether it has compared itself with ZooKeeper; what it lacks is in its queue since."""

    @property
    def is_starting(self) -> bool:
        """Whether it has not yet tried to begin its ZooKeeper session since the start of the server."""

    def delay_seconds(self) -> float:
        """By how much the rows here may be older than those of other replicas: the age of the oldest INSERT that is
        missing, or the time since the log could last be read."""

    @property
    def warning(self) -> str:
        """What somebody should do something about though the replica works; else empty."""

    @property
    def parts_to_check(self) -> int: ...

    @property
    def refusal(self) -> str:
        """Why the replica refused to start, as long as it does; else empty. Its answers may lack rows."""

    def problem(self) -> str | None:
        """What keeps the replica from working; ``None`` when nothing does."""

    def sync(
        self, timeout_seconds: float, status: QueryStatus | None = None, mode: SyncMode = SyncMode.DEFAULT
    ) -> None:
        """Returns when everything in the log now has been carried out here. Raises 159, 236, 242, 999."""

    def wait_for_others(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Returns when the other active replicas have carried out what is in the log now. Raises 341, 242, 999."""

    def alter(self, change: Callable[[TableDefinition], CreateTable], options: AlterOptions) -> None:
        """Gives the table, on all replicas, the definition that ``change`` makes of its own.

        Raises 517, 341, 242, 999, 48, and what ``change`` and the new definition raise."""

    def restart(self) -> None:
        """As if the ZooKeeper session were new."""

    def restore(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Writes down in ZooKeeper what the disk has, when ZooKeeper has lost it. Raises 36, 159, 342, 999."""
