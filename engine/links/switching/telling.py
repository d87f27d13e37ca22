"""Tells other clusters of a fork, until each has heard.

Who must be told stands in the gate of the table that was promoted, so any of its servers goes on after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from coordination.links.positions import Position
from coordination.links.switching.lineage import EpochFork, Lineage
from coordination.links.switching.switching_gate import TELLING, read_fact, write_facts
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from engine.links.exchange.fields import get_text
from engine.links.switching.local_tables import LocalTable, SwitchingServer, list_local_tables, move_all_gates
from engine.links.switching.promotion_report import Facts
from parts.common.errors import PandoError, UnavailableError

logger = logging.getLogger(__name__)

_ASK_SECONDS = 20.0
_AGAIN_SECONDS, _IDLE_SECONDS = 1.0, 5.0


def tell_all(server: SwitchingServer, tables: Sequence[LocalTable]) -> Facts:
    """Tells those who have not heard of the tables' newest forks. Returns what each answered."""
    facts: Facts = []
    turns: dict[str, list[_Told]] = {}
    for local in _with_groups(server, tables):
        gate = local.read_gate()
        lineage = Lineage.read(gate)
        for told in read_fact(gate, TELLING) or []:
            if (fork := lineage.find(told["of"])) is None:  # this table follows another one by now
                _note_told([_Told(local, told, None)])
            elif "ticket" in told:
                turns.setdefault(told["ticket"], []).append(_Told(local, told, fork))
            else:
                facts.append(_tell(server, [_Told(local, told, fork)], "switching/fork"))
    return facts + [_tell(server, each, "switching/turn") for each in turns.values()]


def _with_groups(server: SwitchingServer, tables: Sequence[LocalTable]) -> Sequence[LocalTable]:
    """Returns these tables, with all others of this server if some were switched over as a group."""
    if not any(
        {"links", "ticket"} <= told.keys() for local in tables for told in read_fact(local.read_gate(), TELLING) or []
    ):
        return tables
    names = {local.name for local in tables}
    return [*tables, *(local for local in list_local_tables(server) if local.name not in names)]


@dataclass(frozen=True)
class _Told:
    """Who must be told of a table's fork."""

    local: LocalTable
    told: Mapping[str, str]
    fork: EpochFork | None


def _tell(server: SwitchingServer, those: Sequence[_Told], request: str) -> tuple[str, str]:
    """Tells one of a fork, or the source of a SWITCH of all the forks of its tables."""
    first = those[0].told
    names = ", ".join("link " + each.told["link"] for each in those)
    where = f"cluster {first['cluster']} ({names})"
    try:
        server.services.failpoint("promote.before_telling")
        document = _make_turn(server, those) if request == "switching/turn" else _make_document(those[0])
        answer = server.links.connect(first["cluster"]).ask(request, document, read_seconds=_ASK_SECONDS)
        _note_told(those)
    except PandoError as error:
        return "not told yet", f"{where}: {error.message}"
    message = get_text(answer, "message", "")
    return "told", f"{where}{f': {message}' * bool(message)}"


def _make_document(each: _Told) -> dict[str, object]:
    assert each.fork is not None
    return {**each.told, "fork": each.fork.to_json()}


def _make_turn(server: SwitchingServer, those: Sequence[_Told]) -> dict[str, object]:
    own, first = server.cluster_membership.get_identity(those[0].local.keeper), those[0].told
    missing = set(filter(None, first.get("links", "").split(","))) - {each.told["link"] for each in those}
    if missing:
        raise UnavailableError(
            "ABORTED", f"The tables of links {', '.join(sorted(missing))} of its group do not work on this server"
        )
    tables = []
    for each in those:
        assert each.fork is not None
        tables.append({**_make_document(each), "place": str(_find_turned_place(each.local, each.fork.vector))})
    group = first.get("group", "")
    names: dict[str, object] = {"new_source": own.name, "new_source_uuid": own.uuid}
    return {**names, "ticket": first["ticket"], "group": group, "tables": tables}


def _find_turned_place(local: LocalTable, vector: VersionVector) -> Position:
    """Returns the place in this table's stream at which the former source goes on: it has all that the fork has."""
    place = local.links.switching.find_place(vector)
    if place is None:
        raise UnavailableError("KEEPER_EXCEPTION", f"Table {local.name} does not know its own stream yet")
    return place


def _note_told(those: Sequence[_Told]) -> None:
    move_all_gates([(each.local, partial(_without, told=each.told)) for each in those])


def _without(gate: Gate, told: Mapping[str, str]) -> Gate:
    left = [each for each in read_fact(gate, TELLING) or [] if each != told]
    return write_facts(gate, telling=left or None)


def has_to_tell(server: SwitchingServer) -> bool:
    """Tells whether a table of this server has a fork that somebody has not heard of. Costs no request."""
    gates = (local.links.switching.read_known_gate() for local in list_local_tables(server))
    return any(gate is not None and read_fact(gate, TELLING) for gate in gates)


def tell_again(server: SwitchingServer) -> float:
    """Tells those that did not answer before. Returns the seconds until the next look."""
    waiting = []
    for local in list_local_tables(server):
        try:
            gate = local.links.switching.read_known_gate()
            if gate is not None and read_fact(gate, TELLING) and read_fact(local.read_gate(), TELLING):
                waiting.append(local)
        except PandoError as error:
            logger.debug("the fork of %s is told later: %s", local.name, error)
    try:
        tell_all(server, waiting)
    except PandoError as error:
        logger.debug("forks are told later: %s", error)
    return _AGAIN_SECONDS if waiting else _IDLE_SECONDS
