"""Carries out the changes of mode of one table's links, at the source.

Every server with a replica of the table has one; the elected one acts. Two that both believe to be elected do no harm:
each step expects the gate that it looked at (:mod:`coordination.links.sync.sync_states`).

*Enabling*: when less than ``link_sync_tail_bytes`` is missing, and the target shows what was there a moment ago and
takes INSERTs, the gate keeps INSERTs out. When everything below is visible at the target, and it still takes INSERTs,
the link is ``enabled``. If that takes longer than 30 seconds, INSERTs go on, and the next attempt comes later.

*Disabling*: INSERTs are kept out until the target has stopped answering reads, or must have, because its last lease is
over: four ``replication_timeout`` after this server saw ``disabling``, which is later than it began. The server that
hears the target's confirmation ends it at once (``ReplicaLinkSource.read_changes``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from coordination.keeper.interface import Keeper
from coordination.links.sync.mode_changes import GateChange, GateMoved, move_gates
from coordination.links.sync.sync_states import (
    find_source_link,
    finish_disabling,
    finish_enabling,
    give_up_enabling,
    is_shut,
    shut_for_enabling,
)
from coordination.links.table_position import read_current_position
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkDirection, SyncState
from engine.links.link_leader import LinkLeader
from engine.links.linkable_tables import require_linkable
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

LEASES = 4
"""After so many ``replication_timeout`` a target's last lease is over."""
_SHUT_SECONDS = 30.0
"""How long INSERTs wait for a link that becomes synchronous."""
_AGAIN_SECONDS = 30.0
_LOOK_SECONDS = 0.2
_FAILED_SECONDS = 1.0
_IDLE_SECONDS = 1.0
_PROBE_SECONDS = 2.0
_PROBE_NAME = "becoming synchronous"
_CHANGING = (SyncState.ENABLING, SyncState.DISABLING)


def is_changing(link: GateLink) -> bool:
    """Tells whether something is to be done for the link's mode."""
    return link.state in _CHANGING


class ModeKeeper:
    """The modes of one table's links, as one server keeps them. Used by one thread at a time."""

    def __init__(
        self,
        table: OwnedTable,
        services: TableServices,
        server: str,
        get_cluster_uuid: Callable[[], str],
        wake: Callable[[], None],
    ) -> None:
        assert table.replication is not None, "only replicated tables have links"
        self._table = table
        self._replica = table.replication
        self._source = require_linkable(table).source
        self._services = services
        self._get_cluster_uuid = get_cluster_uuid
        paths = self._replica.paths
        self._leader = LinkLeader(paths, "", server, wake, path=paths.linked.sync_leader)
        self._status = QueryStatus()
        self._since: dict[tuple[str, int], float] = {}
        """When this server first saw a link in the gate of a version that changes it."""
        self._not_before: dict[str, float] = {}

    def step(self) -> float:
        """Takes the next step of each link; returns the seconds until the next look."""
        try:
            if not any(map(is_changing, self._source.list_gate_links())):
                return _IDLE_SECONDS
            keeper = self._replica.require_keeper()
            delay = self._leader.try_lead(keeper, 0)
            return delay or self._step(keeper)
        except GateMoved:
            return 0.0
        except PandoError as error:
            name = self._table.definition.full_name
            logger.info("the modes of the links of %s are looked at later: %s", name, error.message)
            return _FAILED_SECONDS

    def resign(self) -> None:
        """Gives the lead up. Not called while another thread is in a step."""
        try:
            self._leader.resign(self._replica.require_keeper())
        except PandoError as error:
            logger.debug("the lead goes with the session: %s", error)

    def stop(self) -> None:
        """Ends a wait under way. May be called from any thread."""
        self._status.stop()

    def _step(self, keeper: Keeper) -> float:
        paths = self._replica.paths
        keeper.sync(paths.root)
        data, stat = keeper.get(paths.gate)
        gate = Gate.parse(data)
        changing = [link for link in gate.links_of(LinkDirection.OUT) if is_changing(link)]
        kept = {(link.uuid, stat.version) for link in changing}
        self._since = {key: at for key, at in self._since.items() if key in kept}
        for link in changing:
            self._since.setdefault((link.uuid, stat.version), self._services.monotonic())
        for link in changing:
            waited = self._services.monotonic() - self._since[link.uuid, stat.version]
            if link.state is SyncState.DISABLING:
                if waited >= LEASES * link.timeout_seconds:
                    self._move(keeper, link, finish_disabling, stat.version)
                    return 0.0
            elif is_shut(gate, link):
                return self._finish_enabling(keeper, link, stat.version, _SHUT_SECONDS - waited)
            elif self._may_be_shut(keeper, link):
                self._move(keeper, link, shut_for_enabling, stat.version)
                return 0.0
        return _LOOK_SECONDS if changing else _IDLE_SECONDS

    def _may_be_shut(self, keeper: Keeper, link: GateLink) -> bool:
        now = self._services.monotonic()
        if now < self._not_before.get(link.uuid, 0.0) or self._source.measure_tail(link.name) > link.sync_tail_bytes:
            return False
        missing = self._wait_until_ready(keeper, link, _PROBE_SECONDS)
        if missing:
            logger.debug("link %s is not synchronous yet: %s", link.name, missing)
            self._not_before[link.uuid] = self._services.monotonic() + _FAILED_SECONDS
        return not missing

    def _finish_enabling(self, keeper: Keeper, link: GateLink, version: int, left_seconds: float) -> float:
        missing = self._wait_until_ready(keeper, link, min(_PROBE_SECONDS, max(0.0, left_seconds)))
        if not missing:
            self._move(keeper, link, finish_enabling, version)
            logger.info("link %s is synchronous", link.name)
            return 0.0
        if left_seconds <= 0:
            logger.warning("link %s does not become synchronous, and INSERTs go on: %s", link.name, missing)
            self._not_before[link.uuid] = self._services.monotonic() + _AGAIN_SECONDS
            self._move(keeper, link, give_up_enabling, version)
        return _LOOK_SECONDS

    def _wait_until_ready(self, keeper: Keeper, link: GateLink, seconds: float) -> str:
        """Waits until the target shows everything that is committed now; returns what is missing.

        A target that shows everything and takes no INSERTs yet lacks that.
        """
        peers = self._services.sync_peers
        position = read_current_position(keeper, self._replica.paths, self._get_cluster_uuid())
        if missing := peers.wait_until_visible(link, position, seconds, self._status):
            return missing
        try:
            peers.stage(link, _PROBE_NAME, (), seconds, self._status)
        except PandoError as error:
            return f"its target takes no INSERTs: {error.message}"
        return ""

    def _move(self, keeper: Keeper, link: GateLink, step: Callable[[Gate, GateLink], Gate], version: int) -> None:
        def change(gate: Gate) -> Gate:
            found = find_source_link(gate, link.name, link.uuid)
            return step(gate, found) if found is not None else gate

        move_gates(keeper, [GateChange(self._replica.paths, change, version)])
