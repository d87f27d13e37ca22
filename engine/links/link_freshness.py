"""Lets a query read a link's target only when it is fresh enough.

``link_min_position`` waits for a position, or refuses (159); ``max_link_lag_seconds`` refuses what is staler (369).
Tables that no link brings changes to are as fresh as ever.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence

from coordination.keeper.interface import Keeper, KeeperConnectionLoss, KeeperError, SessionState, Stat
from coordination.links.positions import Position
from coordination.nodes.paths import TablePaths
from engine.queries.context import OwnerServer
from engine.queries.server_links import LinkFreshness
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from engine.tables.owned_table import OwnedTable
from parts.common.errors import UnavailableError, UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.1
_Node = tuple[bytes, Stat] | None
_CURRENT = (UpstreamStatus.FOLLOW, UpstreamStatus.SYNC)


def require_fresh(server: OwnerServer, table: OwnedTable, demand: LinkFreshness, status: QueryStatus) -> None:
    """Returns when this replica is as fresh as demanded.

    Raises 159 (TIMEOUT_EXCEEDED) and 369 (ALL_REPLICAS_ARE_STALE), naming the table; 36 (BAD_ARGUMENTS) for a position
    of an origin that the table has no changes of.
    """
    replica = table.replication
    if replica is None or table.links is None:
        return
    keeper, paths = replica.require_keeper(), replica.paths
    links = keeper.children_many([paths.linked.incoming])[0]
    if not links:
        return
    if demand.min_position:
        _wait_for_position(server, table, Position.parse(demand.min_position), demand.wait_seconds, status)
    if demand.max_lag_seconds:
        _require_small_lag(server, keeper, table, links, demand.max_lag_seconds)


def _require_small_lag(
    server: OwnerServer, keeper: Keeper, table: OwnedTable, links: Sequence[str], most_seconds: int
) -> None:
    assert table.replication is not None
    for name in links:
        seconds = measure_staleness(server, keeper, table.replication.paths, name)
        if seconds is None or seconds > most_seconds:
            behind = "nobody knows yet how far" if seconds is None else f"{seconds:.0f} seconds"
            raise UnavailableError(
                "ALL_REPLICAS_ARE_STALE",
                f"Table {table.definition.full_name} is {behind} behind the source of link {name!r}, and "
                f"max_link_lag_seconds is {most_seconds}",
            )


def measure_staleness(server: OwnerServer, keeper: Keeper, table: TablePaths, link: str) -> float | None:
    """Returns by how many seconds a target may be behind a source; ``None`` if nobody has told yet."""
    own = server.links.find_progress(link)
    if own is not None:
        return _measure_own(own)
    state, leader = keeper.get_many([table.linked.status(link), table.linked.leader(link)])
    return _measure_told(state, leader, server.services.clock())


def measure_lags(
    links: Sequence[tuple[OwnedTable, str, LinkProgress | None]], keeper: Keeper | None, clock: float
) -> dict[str, float]:
    """Returns by how many seconds the targets of these links may be behind, by ``database.table``.

    Each link is its target, its name, and how far it is if this server runs it; ``clock`` is the time. Infinity: nobody
    has told yet. Links of other servers are left out while ZooKeeper is away.
    """
    lags: dict[str, float] = {}
    places: list[str] = []
    elsewhere: list[str] = []
    for table, name, own in links:
        full_name, replica = table.definition.full_name, table.replication
        if own is not None:
            lags[full_name] = max(lags.get(full_name, 0.0), _measure_own(own))
        elif replica is not None:
            elsewhere.append(full_name)
            places += replica.paths.linked.status(name), replica.paths.linked.leader(name)
    if not elsewhere or keeper is None or keeper.state is not SessionState.CONNECTED:
        return lags
    try:
        found = keeper.get_many(places)
    except (KeeperError, KeeperConnectionLoss) as error:
        logger.debug("the lag of links that other servers run is not known now: %s", error)
        return lags
    for full_name, state, leader in zip(elsewhere, found[::2], found[1::2], strict=True):
        seconds = _measure_told(state, leader, clock)
        lags[full_name] = max(lags.get(full_name, 0.0), math.inf if seconds is None else seconds)
    return lags


def _measure_own(progress: LinkProgress) -> float:
    return progress.lag if progress.upstream_status in _CURRENT else max(progress.lag, progress.idle)


def _measure_told(state: _Node, leader: _Node, clock: float) -> float | None:
    """Returns the lag that the server that runs the link wrote, as old as it is by now."""
    if state is None:
        return None
    progress = LinkProgress.parse(state[0])
    age = max(0.0, clock - state[1].modified_ms / 1000)
    if leader is None or progress.upstream_status not in _CURRENT:
        return max(progress.lag, progress.idle) + age
    return progress.lag + age if progress.lag else 0.0


def _wait_for_position(
    server: OwnerServer, table: OwnedTable, wanted: Position, wait_seconds: float, status: QueryStatus
) -> None:
    assert table.replication is not None
    assert table.links is not None
    target, services, never = table.links.target, server.services, threading.Event()
    end, pause = services.monotonic() + wait_seconds, _FIRST_PAUSE_SECONDS
    while True:
        vector = target.read_target().vector
        if wanted.origin not in vector.entries:
            known = ", ".join(map(str, vector.entries)) or "none"
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {table.definition.full_name} has no changes of the origin of link_min_position {wanted}; "
                f"it has those of {known}",
            )
        if vector.covers(wanted):
            break
        left = end - services.monotonic()
        status.check()
        if left <= 0:
            reached = Position(wanted.origin, vector.applied(wanted.origin))
            raise UnavailableError(
                "TIMEOUT_EXCEEDED",
                f"Table {table.definition.full_name} has not reached link_min_position {wanted} after "
                f"{wait_seconds:g} seconds; it is at {reached}",
            )
        services.wait(never, min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    table.replication.sync(max(0.1, end - services.monotonic()), status)
