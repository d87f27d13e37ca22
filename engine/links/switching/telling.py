"""Tells other clusters of a fork, until each has heard.

Who must be told stands in the gate of the table that was promoted, so any of its servers goes on after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from coordination.links.positions import Position
from coordination.links.switching.lineage import Lineage
from coordination.links.switching.switching_gate import TELLING, read_fact, write_facts
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from engine.links.exchange.fields import get_text
from engine.links.switching.local_tables import LocalTable, SwitchingServer, list_local_tables
from engine.links.switching.promotion_report import Facts
from parts.common.errors import PandoError, UnavailableError

logger = logging.getLogger(__name__)

_ASK_SECONDS = 20.0
_AGAIN_SECONDS, _IDLE_SECONDS = 1.0, 5.0


def tell_all(server: SwitchingServer, local: LocalTable) -> Facts:
    """Tells those who have not heard of the table's newest fork. Returns what each answered."""
    gate = local.read_gate()
    waiting: list[Mapping[str, str]] = read_fact(gate, TELLING) or []
    lineage = Lineage.read(gate)
    facts: Facts = []
    for told in waiting:
        if (fork := lineage.find(told["of"])) is None:  # this table follows another one by now
            local.move_gate(lambda gate, told=told: _without(gate, told))  # type: ignore[misc]
            continue
        where = f"cluster {told['cluster']}"
        try:
            server.services.failpoint("promote.before_telling")
            document: dict[str, object] = {**told, "fork": fork.to_json()}
            if is_turn := "ticket" in told:
                own = server.cluster_membership.get_identity(local.keeper)
                document |= {"new_source": own.name, "new_source_uuid": own.uuid}
                document["place"] = str(_find_turned_place(local, fork.vector))
            request = "switching/turn" if is_turn else "switching/fork"
            answer = server.links.connect(told["cluster"]).ask(request, document, read_seconds=_ASK_SECONDS)
            message = get_text(answer, "message", "")
        except PandoError as error:
            facts.append(("not told yet", f"{where} (link {told['link']}): {error.message}"))
            continue
        facts.append(("told", f"{where} (link {told['link']}){f': {message}' * bool(message)}"))
        local.move_gate(lambda gate, told=told: _without(gate, told))  # type: ignore[misc]
    return facts


def _find_turned_place(local: LocalTable, vector: VersionVector) -> Position:
    """Returns the place in this table's stream at which the former source goes on: it has all that the fork has."""
    place = local.links.switching.find_place(vector)
    if place is None:
        raise UnavailableError("KEEPER_EXCEPTION", f"Table {local.name} does not know its own stream yet")
    return place


def _without(gate: Gate, told: Mapping[str, str]) -> Gate:
    left = [each for each in read_fact(gate, TELLING) or [] if each != told]
    return write_facts(gate, telling=left or None)


def has_to_tell(server: SwitchingServer) -> bool:
    """Tells whether a table of this server has a fork that somebody has not heard of. Costs no request."""
    gates = (local.links.switching.read_known_gate() for local in list_local_tables(server))
    return any(gate is not None and read_fact(gate, TELLING) for gate in gates)


def tell_again(server: SwitchingServer) -> float:
    """Tells those that did not answer before. Returns the seconds until the next look."""
    is_waiting = False
    for local in list_local_tables(server):
        try:
            gate = local.links.switching.read_known_gate()
            if gate is not None and read_fact(gate, TELLING):
                is_waiting = True
                tell_all(server, local)
        except PandoError as error:
            logger.debug("the fork of %s is told later: %s", local.name, error)
    return _AGAIN_SECONDS if is_waiting else _IDLE_SECONDS
