"""A server's pages for health checks and monitoring, of this process's engine or another's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coordination.keeper.interface import SessionState
from engine.front.prometheus_metrics import Metrics
from engine.remote.replica_delays import encode_delays
from engine.tables.capabilities.link_status import LinkStatus

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class StatusPage:
    """A page: status, content type and body."""

    body: bytes
    status: int = 200
    content_type: str = _TEXT


OK_PAGE = StatusPage(b"Ok.\n")


class StatusPages(Protocol):
    """The pages of a server. All but ``ping`` may block and are called on threads."""

    def ping(self) -> StatusPage:
        """Returns ``/ping``."""

    def replicas_status(self, *, verbose: bool) -> StatusPage:
        """Returns ``/replicas_status``."""

    def replica_delays(self) -> StatusPage:
        """Returns ``/replicas_status?delays=1``."""

    def ready(self) -> StatusPage:
        """Returns ``/ready``."""

    def metrics(self) -> StatusPage:
        """Returns ``/metrics``."""


class EngineStatusPages:
    """The pages of the engine in this process."""

    def __init__(self, engine: StatementRunner, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics

    def ping(self) -> StatusPage:
        """Returns ``Ok.``."""
        return OK_PAGE

    def replicas_status(self, *, verbose: bool) -> StatusPage:
        """Returns the state of the replicated tables; 503 when one lags or cannot take part."""
        return make_replicas_status_page(self._engine, verbose=verbose)

    def replica_delays(self) -> StatusPage:
        """Returns the delays as JSON; see :func:`engine.remote.replica_delays.parse_delays`."""
        return StatusPage(encode_delays(self._engine.replica_delays()), content_type="application/json")

    def ready(self) -> StatusPage:
        """Returns 503 without a ZooKeeper session, or while replicated tables are starting."""
        keeper = self._engine.replication.keeper
        if keeper is not None and keeper.state is not SessionState.CONNECTED:
            return StatusPage(f"The ZooKeeper session is {keeper.state.value}\n".encode(), 503)
        replicas = self._engine.replicas_status()
        if starting := sum(replica.is_starting for replica in replicas):
            return StatusPage(f"{starting} of {len(replicas)} replicated tables are starting\n".encode(), 503)
        return OK_PAGE

    def metrics(self) -> StatusPage:
        """Returns the metrics in Prometheus's text format."""
        return StatusPage(self._metrics.render(), content_type="text/plain; version=0.0.4; charset=utf-8")


def _describe_link(link: LinkStatus) -> str:
    """Returns a line of ``/replicas_status``. What is wrong with a link makes no server unhealthy."""
    progress = link.progress
    table = f"{link.database}.{link.table}" if link.table else link.database
    status = progress.upstream_status.value if link.state == "enabled" else link.state
    return (
        f"link {link.name} ({link.direction.value}, {table}, cluster {link.peer}):\tLag: {progress.lag:.0f}. "
        f"{status}. {progress.message}".rstrip()
        + "\n"
    )


def make_replicas_status_page(engine: StatementRunner, *, verbose: bool) -> StatusPage:
    """Returns the state of the replicated tables; 503 when one lags or cannot take part."""
    limit = engine.config.max_replica_delay_for_distributed_queries
    lines = []
    is_healthy = True
    for status in engine.replicas_status():
        is_late = bool(limit) and status.delay_seconds >= limit
        is_healthy = is_healthy and not is_late and status.problem is None
        remarks = " ".join(filter(None, (status.problem, status.warning)))
        lines.append(f"{status.table}:\tAbsolute delay: {status.delay_seconds:.0f}. {remarks}".rstrip() + "\n")
    if verbose:
        lines += map(_describe_link, engine.link_statuses())
    if is_healthy and not verbose:
        return OK_PAGE
    return StatusPage("".join(lines).encode() or OK_PAGE.body, 200 if is_healthy else 503)
