"""The pages a server has about itself, for health checks and monitoring: of this process's engine, or of another's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coordination.keeper.interface import SessionState
from engine.front.prometheus_metrics import Metrics
from engine.remote.replica_delays import write_delays

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class StatusPage:
    body: bytes
    status: int = 200
    content_type: str = _TEXT


OK_PAGE = StatusPage(b"Ok.\n")


class StatusPages(Protocol):
    """All but ``ping`` may wait, for a lock or another process: they are called from threads of their own."""

    def ping(self) -> StatusPage: ...

    def replicas_status(self, *, verbose: bool) -> StatusPage: ...

    def replica_delays(self) -> StatusPage: ...

    def ready(self) -> StatusPage: ...

    def metrics(self) -> StatusPage: ...


class EngineStatusPages:
    """What the engine of this process says."""

    def __init__(self, engine: StatementRunner, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics

    def ping(self) -> StatusPage:
        return OK_PAGE

    def replicas_status(self, *, verbose: bool) -> StatusPage:
        return make_replicas_status_page(self._engine, verbose=verbose)

    def replica_delays(self) -> StatusPage:
        """For servers that read shards of this one. See :func:`engine.remote.replica_delays.parse_delays`."""
        return StatusPage(write_delays(self._engine.replicas_status()), content_type="application/json")

    def ready(self) -> StatusPage:
        """503 while a configured ZooKeeper has no session with this server, and until each replicated table has tried
        to become writable."""
        keeper = self._engine.replication.keeper
        if keeper is not None and keeper.state is not SessionState.CONNECTED:
            return StatusPage(f"The ZooKeeper session is {keeper.state.value}\n".encode(), 503)
        replicas = [replica for table in self._engine.catalog.tables() if (replica := table.replication) is not None]
        if starting := sum(replica.is_starting for replica in replicas):
            return StatusPage(f"{starting} of {len(replicas)} replicated tables are starting\n".encode(), 503)
        return OK_PAGE

    def metrics(self) -> StatusPage:
        return StatusPage(self._metrics.text(), content_type="text/plain; version=0.0.4; charset=utf-8")


def make_replicas_status_page(engine: StatementRunner, *, verbose: bool) -> StatusPage:
    """503 when a replica lags or cannot take part."""
    limit = engine.config.max_replica_delay_for_distributed_queries
    lines = []
    is_healthy = True
    for status in engine.replicas_status():
        is_late = bool(limit) and status.delay_seconds >= limit
        is_healthy = is_healthy and not is_late and status.problem is None
        remarks = " ".join(filter(None, (status.problem, status.warning)))
        lines.append(f"{status.table}:\tAbsolute delay: {status.delay_seconds:.0f}. {remarks}".rstrip() + "\n")
    if is_healthy and not verbose:
        return OK_PAGE
    return StatusPage("".join(lines).encode() or OK_PAGE.body, 200 if is_healthy else 503)
