"""The part of a server that the runner of a link needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coordination.links.link_definition import LinkDefinition
from coordination.links.switching.lineage import EpochFork
from engine.links.link_beginning import BootstrapLink
from engine.links.resting_links import RestingLink
from engine.links.target_views import RunTargetViews
from engine.tables.services import TableServices


@dataclass(frozen=True)
class RunnerWorld:
    """The part of a server that a link's runner needs."""

    services: TableServices
    server: str
    """This server's name, for people."""
    own_cluster: tuple[str, str]
    """Name and UUID."""
    count_running: Callable[[], int]
    max_wait_seconds: Callable[[], float]
    """How long a request may wait at the source for something new."""
    rest: Callable[[str, RestingLink], None]
    """Wakes a link that found nothing, and may not wait by itself, when there is something new."""
    bootstrap: Callable[[], BootstrapLink | None]
    """Copies a table to a link's target; ``None`` while nothing can."""
    run_views: RunTargetViews | None = None
    follow_fork: Callable[[LinkDefinition, EpochFork], object] | None = None
    """Makes a link's target follow the table that was promoted; ``None`` while nothing can."""
    list_runners: Callable[[], Iterable[object]] = tuple
    """The links on this server."""
