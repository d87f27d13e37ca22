"""What this server answers to clusters that switch over (:mod:`.requests`)."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import Any

from coordination.inserts.quorum import read_pending_quorums
from coordination.keeper.interface import Op, SetData
from coordination.links.groups.link_group import find_group
from coordination.links.link_names import find_link_name
from coordination.links.link_nodes import is_left_over, make_taken_error
from coordination.links.link_settings import LinkSettings
from coordination.links.positions import Origin, Position
from coordination.links.switching.lineage import EpochFork, Lineage, find_own_fork
from coordination.links.switching.switching_gate import (
    TICKET,
    close_for_switch,
    end_promise,
    meet_fork,
    open_after_switch,
    promise,
    read_fact,
)
from coordination.links.table_position import read_current_position
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from engine.links.exchange.fields import Document, get_object, get_objects, get_seconds, get_text, get_texts
from engine.links.exchange.link_service import LinkService
from engine.links.exchange.protocol import decode_identity, decode_vector, get_table_name
from engine.links.switching.local_tables import (
    LocalTable,
    SwitchingServer,
    find_link_here,
    list_local_tables,
    move_all_gates,
)
from engine.links.switching.requests import encode_vector
from engine.links.switching.siblings import name_siblings
from engine.links.switching.turning import Turn, turn_tables
from engine.tables.replicated.links.source.outgoing_nodes import make_outgoing
from parts.common.errors import UnavailableError, UserError
from parts.common.query_status import QueryStatus

_MOST_WAIT_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class SwitchingAnswers:
    """The answers of one server."""

    def __init__(self, server: SwitchingServer) -> None:
        self._server = server

    def add_to(self, service: LinkService) -> None:
        """Adds the requests to those that the server answers."""
        service.add("switching/place", self._place)
        service.add("switching/forks", self._forks)
        service.add("switching/group", self._group)
        service.add("switching/promise", self._promise, changes=True)
        service.add("switching/release", self._release, changes=True)
        service.add("switching/fork", self._fork, changes=True)
        service.add("switching/close", self._close, changes=True)
        service.add("switching/open", self._open, changes=True)
        service.add("switching/turn", self._turn, changes=True)

    def _local(self, document: Document) -> LocalTable:
        return LocalTable(self._server, self._server.catalog.table(*get_table_name(document)))

    # -- a new source -------------------------------------------------------------------------------------------------

    def _place(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        local, vector = self._local(document), decode_vector(get_object(document, "vector"))
        own = get_text(document, "own", "")
        place = local.links.switching.find_place(vector, Origin.parse(own) if own else None)
        now, by = local.read_now(), get_text(document, "by", "")
        lineage = Lineage.read(now.gate)
        later = find_own_fork(Origin.parse(by), now.own, lineage) if by else None
        return {
            "place": str(place) if place is not None else "",
            "vector": encode_vector(now.vector),
            "forks": [fork.to_json() for fork in lineage.forks],
            **({"later": later.to_json()} if later is not None and later.name != by else {}),
        }

    def _forks(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        """Finds the table here whose lineage has a fork of one of these epochs, and not one of those ``followed``."""
        origins, followed = list(map(Origin.parse, get_texts(document, "origins"))), get_texts(document, "followed")
        for ended in origins:
            for local in list_local_tables(self._server):
                now = local.read_now()
                lineage = Lineage.read(now.gate)
                fork = lineage.find_end(ended)
                if fork is None or fork.name in followed:
                    continue
                newest = self._newest(local)
                return {
                    "ended": str(ended),
                    "forks": [fork.to_json() for fork in lineage.forks],
                    "database": local.table.definition.database,
                    "table": local.table.definition.name,
                    "vector": encode_vector(now.vector.advance(Position(now.own, newest))),
                    "outgoing": [f"{link.name}" for link in now.gate.links_of(LinkDirection.OUT)],
                }
        return {"ended": "", "forks": []}

    def _group(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        """Names the links that were switched over as one group, and whose tables are here."""
        name, found = get_text(document, "group"), set[str]()
        for local in list_local_tables(self._server):
            lineage = Lineage.read(local.read_gate())
            forks = [fork for fork in lineage.forks if fork.group == name and fork.cluster == self._own_name(local)]
            found.update(fork.link for fork in forks[-1:])
        return {"links": sorted(found)}

    def _own_name(self, local: LocalTable) -> str:
        return self._server.cluster_membership.get_identity(local.keeper).name

    def _newest(self, local: LocalTable) -> int:
        uuid = self._server.cluster_membership.get_identity(local.keeper).uuid
        return Position.parse(read_current_position(local.keeper, local.paths, uuid)).zxid

    # -- a sibling ----------------------------------------------------------------------------------------------------

    def _promise(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        name, origin = get_text(document, "link"), get_text(document, "origin")
        found = find_link_here(self._server, name, get_text(document, "uuid"))
        if found is None:
            return {"is_gone": True}
        link, local = found
        if link.definition.source_origin != origin:
            raise UserError(
                "BAD_ARGUMENTS", f"link {name!r} follows {link.definition.source_origin or 'nobody yet'}, not {origin}"
            )
        asker, asker_uuid = get_text(document, "asker"), get_text(document, "asker_uuid")
        began_ms = int(self._server.services.clock() * 1000)

        def set_vector() -> list[Op]:
            (answer,) = local.keeper.get_many([local.paths.linked.vector])
            return [SetData(local.paths.linked.vector, *_with_version(answer))] if answer is not None else []

        local.move_gate(lambda gate: promise(gate, name, asker, asker_uuid, began_ms), along=lambda _: set_vector())
        self._server.services.failpoint("promise.after_commit")
        now, definition = local.read_now(), local.table.definition
        return {
            "database": definition.database,
            "table": definition.name,
            "own": str(now.own),
            "vector": encode_vector(now.vector),
            "mode": LinkSettings.parse(link.definition.settings).mode,
            "is_paused": not link.definition.is_enabled,
        }

    def _release(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        found = find_link_here(self._server, get_text(document, "link"), get_text(document, "uuid"))
        if found is not None:
            asker = get_text(document, "asker_uuid")
            found[1].move_gate(lambda gate: end_promise(gate, asker))
            self._server.links.wake()
        return {}

    def _fork(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        fork, name = EpochFork.of(get_object(document, "fork")), get_text(document, "link")
        if get_text(document, "uuid", ""):
            found = find_link_here(self._server, name, get_text(document, "uuid"))
            if found is None:
                return {"message": f"it has no link {name} any more"}
            return {"message": self._hear(found[1], fork)}
        return {"message": self._meet(self._local(document), fork, name)}

    def _hear(self, local: LocalTable, fork: EpochFork) -> str:
        """Notes that the epoch of a link's source ended; the server that runs the link follows the fork."""
        if conflict := Lineage.read(local.read_gate()).explain_conflict(fork):
            return f"it does not follow: {conflict}"
        local.move_gate(lambda gate: Lineage.read(gate).meet(fork).write(gate))
        self._server.links.wake()
        return ""

    def _meet(self, local: LocalTable, fork: EpochFork, name: str) -> str:
        """Shuts a table whose epoch ended. Returns what the new source must know."""
        now = local.read_now()
        lineage = Lineage.read(now.gate)
        if now.own == fork.ended.origin:
            local.move_gate(lambda gate: meet_fork(gate, Lineage.read(gate), fork, name))
            return "it is shut until it rejoins"
        conflict = lineage.explain_conflict(fork)
        return f"it does not follow: {conflict}" if conflict else ""

    # -- the source of a SWITCH ---------------------------------------------------------------------------------------

    def _close(self, document: Document, status: QueryStatus) -> dict[str, Any]:
        tables = [(self._local(each), get_text(each, "link")) for each in get_objects(document, "tables")]
        ticket, cluster, group = (get_text(document, name) for name in ("ticket", "cluster", "group"))
        if not all(_has_ticket(local.read_gate(), ticket) for local, _ in tables):
            if group:
                self._require_no_group(group)
            for (local, name), each in zip(tables, get_objects(document, "tables"), strict=True):
                self._require_switchable(local, name, get_text(each, "uuid"), cluster, get_text(each, "origin"))
            for local, _ in tables:
                self._wait_for_quorums(local, get_seconds(document, "seconds", _MOST_WAIT_SECONDS), status)
        closing = partial(close_for_switch, ticket=ticket, cluster=cluster, group=group)
        move_all_gates([(local, partial(closing, link=name)) for local, name in tables])
        self._server.services.failpoint("switch.source_closed")
        return {"tables": [self._describe_closed(local, name) for local, name in tables]}

    def _describe_closed(self, local: LocalTable, name: str) -> dict[str, str]:
        """Tells the last position of a closed table, the mode of a link, and its siblings."""
        now = local.read_now()
        link = now.gate.find_link(name)
        if link is None:
            raise UserError(
                "BAD_ARGUMENTS", f"Link {name} was dropped at table {local.name} since the source was closed"
            )
        others = name_siblings(map(make_outgoing, now.gate.links_of(LinkDirection.OUT)), link.uuid)
        position = Position(now.own, self._newest(local))
        return {"position": str(position), "mode": link.mode.value, "siblings": others}

    def _require_no_group(self, name: str) -> None:
        """The group of the links back gets this name."""
        if find_group(self._server.replication.require_keeper(), name) is not None:
            raise UserError(
                "BAD_ARGUMENTS",
                f"There is a group of links {name!r} at the source's cluster, and the links back would be a group of "
                f"this name: DROP REPLICATION LINK GROUP {name} there ends it",
            )

    def _require_switchable(self, local: LocalTable, name: str, uuid: str, cluster: str, origin: str) -> None:
        now = local.read_now()
        link = now.gate.find_link(name)
        if link is None or link.uuid != uuid or link.direction is not LinkDirection.OUT or str(now.own) != origin:
            raise UserError(
                "BAD_ARGUMENTS", f"Link {name} is not registered at table {local.name}, or it is another one"
            )
        incoming = [each.name for each in now.gate.links_of(LinkDirection.IN)]
        if incoming:
            raise UserError(
                "BAD_ARGUMENTS",
                f"The source, table {local.name}, is itself the target of link {incoming[0]}: switch that one over "
                "first",
            )
        if two_way := [each.name for each in now.gate.links if each.is_two_way]:
            raise UserError("BAD_ARGUMENTS", f"Link {two_way[0]} of the source is written at both ends (two_way = 1)")
        if now.gate.bars:
            raise UserError("BAD_ARGUMENTS", f"The source is closed already: {now.gate.bars[0].reason}")
        keeper, back = local.keeper, name.rpartition("/")[2]
        found = find_link_name(keeper, back)
        if found is not None and not is_left_over(keeper, found):
            raise make_taken_error(back)
        self._server.links.connect(cluster)

    def _wait_for_quorums(self, local: LocalTable, seconds: float, status: QueryStatus) -> None:
        services, never = self._server.services, threading.Event()
        deadline = services.monotonic() + seconds
        while True:
            local.keeper.sync(local.paths.root)
            waiting = [
                str(part) for each, _, _ in read_pending_quorums(local.keeper, local.paths) for part in each.parts
            ]
            if not waiting:
                return
            status.check()
            if services.monotonic() >= deadline:
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"INSERTs into {local.name} still wait for their quorum (parts {', '.join(waiting[:10])}), so the "
                    "source was not closed. Start the replicas that are missing, or wait for insert_quorum_timeout",
                )
            services.wait(never, _LOOK_SECONDS)

    def _open(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        opening = partial(open_after_switch, ticket=get_text(document, "ticket"))
        move_all_gates([(self._local(each), opening) for each in get_objects(document, "tables")])
        return {}

    def _turn(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        ticket, group, messages = get_text(document, "ticket"), get_text(document, "group"), list[str]()
        turns: list[tuple[LocalTable, Turn]] = []
        for each in get_objects(document, "tables"):
            local, fork, name = self._local(each), EpochFork.of(get_object(each, "fork")), get_text(each, "link")
            gate = local.read_gate()
            if Lineage.read(gate).find(fork.name) is not None:
                continue
            if not _has_ticket(gate, ticket):
                messages.append(self._meet(local, fork, name) or "it was opened again; it must REJOIN")
                continue
            self._require_no_tail(local, fork)
            turns.append((local, self._make_turn(document, each, fork, read_fact(gate, TICKET)["link"])))
        if turns:
            turn_tables(turns, group)
            self._server.services.failpoint("switch.source_turned")
            messages.append("it follows")
        return {"message": messages[0] if messages else ""}

    def _require_no_tail(self, local: LocalTable, fork: EpochFork) -> None:
        if local.links.switching.read_tail(fork.vector).changes:
            message = f"Table {local.name} has changes behind the fork {fork.describe()}"
            raise UnavailableError("INCORRECT_DATA", message)

    def _make_turn(self, document: Document, each: Document, fork: EpochFork, link: str) -> Turn:
        peer = decode_identity(document, "new_source", "new_source_uuid")
        settings = json.loads(get_text(each, "settings", "{}"))
        place, names = Position.parse(get_text(each, "place")), (get_text(each, "link"), get_text(each, "back"))
        where = fork.cluster, fork.database, fork.table
        return Turn(*names, (fork,), fork, peer, *where, settings, place, (link,))


def _has_ticket(gate: Gate, ticket: str) -> bool:
    found = read_fact(gate, TICKET)
    return found is not None and found["id"] == ticket


def _with_version(answer: tuple[bytes, Any]) -> tuple[bytes, int]:
    """Returns the same content with the version that was read: the node moves, and a batch under way fails."""
    return answer[0], answer[1].version
