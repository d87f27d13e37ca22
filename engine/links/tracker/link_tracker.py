"""The tracker of a source: observes its links' targets, and asks for the modes that follow.

One server of the cluster has the lead, an ephemeral node. It looks every ``tracker_period`` at all tables whose tracker
is on, whether they are its own or not: what it needs is in ZooKeeper. What it decides is a function of what it saw
(:mod:`coordination.links.tracker.tracker`), and stands in ZooKeeper with its reasons; the next leader goes on from it,
and observes for ``tracker_delay`` before it changes anything. Two that believe to lead do no harm: each link's mode is
set with the version of the gate that was read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from coordination.keeper.interface import Keeper, NodeExists
from coordination.links.tracker.mode_plan import find_former, plan_modes
from coordination.links.tracker.observed_health import HealthHistory, Observation
from coordination.links.tracker.seen_positions import SeenPositions
from coordination.links.tracker.tracker import Decision, decide
from coordination.links.tracker.tracker_nodes import (
    DECISIONS_PATH,
    LEADER_PATH,
    StoredDecision,
    TargetDecision,
    read_decisions,
    remove_node,
    write_decision,
)
from coordination.nodes.gate_link import LinkMode, SyncState
from coordination.nodes.paths import TablePaths
from engine.interserver.replication import Replication
from engine.links.sync.link_modes import ModeRequest, request_modes
from engine.links.tracker.tracked_units import ObservedLink, Unit, read_units
from engine.remote.linked_clusters import LinkedClusters
from engine.tables.services import TableServices
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0
"""The pause while no table has a tracker, or another server has the lead."""
_SILENT_TIMEOUTS = 4
"""So many times ``replication_timeout`` without a question, and a target counts as silent."""
_SHORTEST_SILENCE_SECONDS = 3.0
"""Targets of the tracker's tables ask once a second, and their source writes it down as often."""


class TrackingServer(Protocol):
    """The server of a :class:`LinkTracker`."""

    services: TableServices
    replication: Replication
    linked_clusters: LinkedClusters
    uuid: str


class LinkTracker:
    """The tracker, as one server runs it. :meth:`run_once` is a background task."""

    def __init__(self, server: TrackingServer) -> None:
        self._server = server
        self._session = 0
        self._histories: dict[str, HealthHistory] = {}
        self._positions: dict[str, SeenPositions] = {}
        self._heard: dict[str, tuple[int, float]] = {}
        """By the UUID of a link: the version of its node, and when it was seen first."""
        self._stored: dict[str, StoredDecision] = {}

    def run_once(self) -> float:
        """Looks once, decides, and asks for modes. Returns the seconds until the next look."""
        if self._server.replication.keeper is None:
            return _IDLE_SECONDS
        try:
            return self._step(self._server.replication.require_keeper())
        except PandoError as error:
            logger.warning("the tracker of links looks later: %s", error.message)
            return self._server.linked_clusters.keys.tracker_period

    def _step(self, keeper: Keeper) -> float:
        units = read_units(keeper) if self._leads(keeper) else []
        if not units:
            if self._session:
                self._forget_decisions(keeper, {})
            return _IDLE_SECONDS
        now = self._server.services.monotonic()
        for unit in units:
            try:
                self._track(keeper, unit, now)
            except PandoError as error:
                logger.warning("the tracker leaves %s as it is: %s", unit.name, error.message)
        self._forget_decisions(keeper, {unit.name: unit for unit in units})
        return self._server.linked_clusters.keys.tracker_period

    def _leads(self, keeper: Keeper) -> bool:
        """Takes the lead if it is free and there is something to track."""
        if self._session and self._session == keeper.session_id:
            return True
        self._session = 0
        tables, leader = keeper.exists_many([DECISIONS_PATH, LEADER_PATH])
        if tables is None or leader is not None:
            return False
        session = keeper.session_id
        try:
            keeper.create(LEADER_PATH, self._server.uuid.encode(), ephemeral=True)
        except NodeExists:
            return False
        if keeper.session_id != session:
            return False
        self._session = session
        self._histories, self._positions, self._heard = {}, {}, {}
        self._stored = read_decisions(keeper)
        return True

    def _track(self, keeper: Keeper, unit: Unit, now: float) -> None:
        keys = self._server.linked_clusters.keys
        links = {target: [each.tracked for each in found] for target, found in unit.targets.items()}
        known = self._stored.get(unit.name)
        if not unit.observed:
            self._histories.pop(unit.name, None)
            self._store(keeper, unit, Decision((), {}, message="The tracker is off for these tables"))
            return
        for table in unit.observed:
            seen = self._positions.get(table.root, SeenPositions(2 * keys.tracker_max_lag))
            self._positions[table.root] = seen.with_newest(now, table.newest)
        troubles = {target: self._find_trouble(found, now) for target, found in unit.targets.items()}
        history = replace(self._histories.get(unit.name, HealthHistory(0)), delay=keys.tracker_delay)
        longest_gap = max(3 * keys.tracker_period, keys.tracker_delay / 2)
        history = history.with_observation(Observation(now, troubles), longest_gap)
        self._histories[unit.name] = history
        former = known.chosen if known is not None and known.is_enabled else find_former(links)
        decision = decide(unit.options, list(unit.targets), history, former)
        self._store(keeper, unit, decision)
        wanted = plan_modes(decision, links)
        if wanted:
            for each in wanted:
                logger.info("the tracker makes link %s %s", each.tracked.link.name, each.mode.value)
            request_modes(
                keeper,
                [
                    ModeRequest(
                        TablePaths(each.tracked.root), each.tracked.link.name, each.mode, uuid=each.tracked.link.uuid
                    )
                    for each in wanted
                ],
            )

    def _find_trouble(self, links: Sequence[ObservedLink], now: float) -> str:
        """Returns what is wrong with one of the links of a target; "" if nothing is."""
        keys = self._server.linked_clusters.keys
        for each in links:
            link, name = each.tracked.link, each.tracked.link.name
            version, heard_at = self._heard.get(link.uuid, (-1, now))
            if version != each.version:
                heard_at = now
                self._heard[link.uuid] = each.version, now
            silence = max(_SILENT_TIMEOUTS * link.timeout_seconds, _SHORTEST_SILENCE_SECONDS, 2 * keys.tracker_period)
            lag = self._positions[each.tracked.root].measure_lag(now, each.outgoing.applied)
            if link.is_paused:
                return f"the target has disabled link {name}"
            if not each.outgoing.applied:
                return f"link {name} has applied nothing yet"
            if now - heard_at > silence:
                return f"link {name} has not asked for changes for more than {silence:g} seconds"
            if lag > keys.tracker_max_lag:
                return f"link {name} is behind by more than {keys.tracker_max_lag:g} seconds (tracker_max_lag)"
        return ""

    def _store(self, keeper: Keeper, unit: Unit, decision: Decision) -> None:
        least, most = unit.options.find_bounds(len(unit.targets))
        targets = {
            target: TargetDecision(
                target in decision.chosen,
                decision.reasons.get(target, ""),
                tuple(each.tracked.link.name for each in found),
                *_join_modes(found),
            )
            for target, found in unit.targets.items()
        }
        message = decision.message
        if unit.observed and not unit.targets:
            message = (
                "There is no cluster to which every table of the collocation has a link with enable_tracker = 1"
                if len(unit.observed) > 1
                else "The table has no link with enable_tracker = 1"
            )
        new = StoredDecision(
            unit.tables,
            unit.options.collocation,
            bool(unit.observed),
            least,
            most,
            unit.options.preferred,
            message,
            targets,
        )
        if self._stored.get(unit.name) != new:
            write_decision(keeper, unit.name, new)
            self._stored[unit.name] = new

    def _forget_decisions(self, keeper: Keeper, units: Mapping[str, Unit]) -> None:
        for name in self._stored.keys() - units.keys():
            remove_node(keeper, f"{DECISIONS_PATH}/{name}")
            del self._stored[name]
            self._histories.pop(name, None)


def _join_modes(links: Sequence[ObservedLink]) -> tuple[str, str]:
    """Returns mode and state of a target: of its links, those that are furthest from synchronous."""
    orders: tuple[Callable[[ObservedLink], int], ...] = (
        lambda each: list(LinkMode).index(each.tracked.link.mode),
        lambda each: _STATES.index(each.tracked.link.state),
    )
    by_mode, by_state = (min(links, key=order).tracked.link for order in orders)
    return by_mode.mode.value, by_state.state.value


_STATES = (SyncState.DISABLED, SyncState.DISABLING, SyncState.ENABLING, SyncState.ENABLED)
