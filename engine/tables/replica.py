"""What can be asked of a replicated table beyond what every table does: for SYSTEM commands and operators' views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordination.keeper import Keeper
from coordination.paths import ReplicaPaths, TablePaths
from coordination.queue import ReplicationQueue
from engine.tables.definition import TableDefinition
from engine.tables.options import AlterOptions, SyncMode
from parts.query_status import QueryStatus
from sql.grammar.statements import CreateTable


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
    def is_session_expired(self) -> bool:
        """True too while the connection is lost: whether the session lives on is not known then."""

    @property
    def has_started(self) -> bool:
        """Whether it has compared itself with ZooKeeper; what it lacks is in its queue since."""

    @property
    def warning(self) -> str:
        """What somebody should do something about though the replica works; else empty."""

    @property
    def parts_to_check(self) -> int: ...

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
