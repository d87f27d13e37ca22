"""SWITCH: source and target change places while both are there, and nothing is lost.

1. The target writes that it asks for a ticket.
2. The source's gate bars everything, and has the ticket: one multi. Behind it nothing commits.
3. The target takes all of it. Its fork uses the ticket up.
4. The former source takes a new epoch and follows; the siblings are told.

The tables of a transactional group have one ticket, and each of these steps is one multi for all of them.

SWITCH again goes on from the ticket, wherever it ended. CANCEL writes at the target that the ticket is void, and only
then opens the source.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.groups.group_switching import read_same_group, require_entered
from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Position
from coordination.links.switching.switching_gate import (
    ASKED,
    PROMISE,
    PROMOTION,
    TELLING,
    read_fact,
    void_ticket,
    write_facts,
)
from coordination.nodes.gate import Gate
from engine.links.exchange.fields import get_texts
from engine.links.switching.forking import Promoted, fork_tables
from engine.links.switching.local_tables import LocalTable, SwitchingServer, move_all_gates
from engine.links.switching.promotion_report import Facts, list_fork_facts
from engine.links.switching.siblings import find_siblings
from engine.links.switching.switched_links import SwitchedLinks, require_promotable
from engine.links.switching.telling import tell_all
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError, UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_PAUSES = 0.005, 0.25
_CLOSE_SECONDS = 40.0
_QUORUM_SECONDS = 20.0
"""How long the source waits for open quorums before it says which do not end."""


def switch(server: SwitchingServer, links: SwitchedLinks, seconds: float, status: QueryStatus) -> Facts:
    """Makes the targets of these links sources, and their sources targets. Returns the report.

    Raises 36 (BAD_ARGUMENTS) for links that cannot be switched, 159 (TIMEOUT_EXCEEDED) if the target does not get
    everything in time: then SWITCH again goes on, and CANCEL opens the source.
    """
    for link, local in links.tables:
        require_promotable(link, local.read_gate(), "SWITCH", links.group_name)
        _require_enabled(link)
    if links.group is not None:
        require_entered(links.group)
    deadline = server.services.monotonic() + seconds
    running = _Switch(server, links)
    running.ask()
    running.close_source()
    running.take_all(deadline, seconds, status)
    server.services.failpoint("switch.before_fork")

    def wait(local: LocalTable) -> None:
        if links.group is not None:
            left = max(0.0, deadline - server.services.monotonic())
            local.links.target.wait_until_visible(left, status)

    forks = fork_tables(running.list_promoted(), ticket=running.ticket, group=links.group, prepare=wait)
    facts: Facts = [("group", links.group_name)] if links.group is not None else []
    for local, fork in zip(links.locals, forks, strict=True):
        facts += [("table", local.name), *list_fork_facts(fork)]
        facts.append(("behind the fork", "0 rows, 0 bytes: the source was closed"))
    return facts + tell_all(server, links.locals)


def _require_enabled(link: StoredLink) -> None:
    if not link.definition.is_enabled:
        name = link.definition.name
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {name!r} is disabled, so it would never bring what its source has: first ALTER REPLICATION LINK "
            f"{name} ENABLE",
        )


def cancel_switch(server: SwitchingServer, links: SwitchedLinks) -> Facts:
    """Ends a SWITCH that did not come to its fork.

    Raises what keeps the source from being told; its tables stay closed then, and the statement can be repeated.
    """
    asked = next((found for local in links.locals if (found := read_fact(local.read_gate(), ASKED))), None)
    if asked is None:
        raise UserError("BAD_ARGUMENTS", f"There is nothing to cancel: {links.title} is not being switched")
    _void_all(links, asked["id"])
    server.services.failpoint("switch.after_void")
    cluster = links.first.source_cluster
    try:
        finish_cancelling(server, links, asked["id"])
    except PandoError as error:
        raise UnavailableError(
            "UNFINISHED",
            f"The SWITCH of {links.title} is cancelled here, but its source, cluster "
            f"{cluster}, could not be told and stays closed: {error.message}. Repeat the statement, "
            f"or run there SYSTEM PROMOTE {links.statement} FORCE",
        ) from error
    server.links.wake()
    return [("cancelled", f"the switch of {links.title}; cluster {cluster} takes writes")]


def finish_cancelling(server: SwitchingServer, links: SwitchedLinks, ticket: str) -> None:
    """Opens the source whose ticket is void."""
    sources = [(link.definition.source_database, link.definition.source_table) for link, _ in links.tables]
    tables = [{"database": database, "table": table} for database, table in sources]
    client = server.links.connect(links.first.source_cluster)
    client.ask("switching/open", {"tables": tables, "ticket": ticket})
    move_all_gates([(local, lambda gate: write_facts(gate, asked=None)) for local in links.locals])


def _void_all(links: SwitchedLinks, ticket: str) -> None:
    move_all_gates([(local, partial(_void, ticket=ticket)) for local in links.locals])


def _void(gate: Gate, ticket: str) -> Gate:
    """Returns the gate in which the ticket is void, and that the source must still be told so."""
    asked = read_fact(gate, ASKED)
    if asked is None or asked["id"] != ticket or asked.get("void"):
        return gate
    return write_facts(void_ticket(gate, ticket), asked={**asked, "void": True})


def find_unfinished(
    server: SwitchingServer, tables: Sequence[LocalTable], name: str, *, is_group: bool = False
) -> Facts | None:
    """Goes on with a switch or promotion of this link, or group, whose fork is made.

    ``None`` if there is none.
    """
    group, found = name if is_group else "", []
    for local in tables:
        gate = local.links.switching.read_known_gate()
        telling = read_fact(gate, TELLING) or [] if gate is not None else []
        if any(each.get("group", "") == group and (is_group or each["link"] == name) for each in telling):
            found.append(local)
    return tell_all(server, found) if found else None


def _open_for_link(gate: Gate) -> Gate:
    return gate if read_fact(gate, PROMOTION) is not None else gate.without_bar(PROMOTION)


class _Switch:
    """One switch, of one table or of all tables of a group."""

    def __init__(self, server: SwitchingServer, links: SwitchedLinks) -> None:
        self._server = server
        self._links = links
        self.ticket = ""
        self._backs: list[str] = []
        """The UUIDs of the links back."""
        self._positions: list[Position] = []

    def ask(self) -> None:
        """Writes that these targets ask for a ticket, unless they have."""
        links, services = self._links, self._server.services
        ticket = str(services.new_uuid())
        backs = [str(services.new_uuid()) for _ in links.tables]
        changes = [
            (local, partial(self._ask, name=link.definition.name, ticket=ticket, back=back))
            for (link, local), back in zip(links.tables, backs, strict=True)
        ]
        asked = [read_fact(gate, ASKED) for gate in move_all_gates(changes)]
        if len({each["id"] for each in asked}) > 1:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Some tables of {links.title} are being switched by themselves: SYSTEM SWITCH {links.statement} "
                "CANCEL ends that",
            )
        self.ticket, self._backs = asked[0]["id"], [each["back"] for each in asked]
        services.failpoint("switch.after_asking")

    def _ask(self, gate: Gate, name: str, ticket: str, back: str) -> Gate:
        asked, statement, group = read_fact(gate, ASKED), self._links.statement, self._links.group_name
        if read_fact(gate, PROMISE) is not None:
            raise UserError("BAD_ARGUMENTS", f"Link {name!r} cannot be switched: another cluster is being promoted")
        if asked is not None and asked.get("void"):
            raise UserError(
                "BAD_ARGUMENTS",
                f"The last SWITCH of link {name!r} was cancelled, and its source was not told: finish that with "
                f"SYSTEM SWITCH {statement} CANCEL",
            )
        new = {"id": ticket, "link": name, "back": back, **({"group": group} if group else {})}
        return gate if asked is not None else write_facts(gate, asked=new)

    def close_source(self) -> None:
        """Closes the source, and learns what there is to take."""
        links, cluster = self._links, self._links.first.source_cluster
        own = self._server.cluster_membership.get_identity(links.locals[0].keeper)
        tables = [
            {
                "database": link.definition.source_database,
                "table": link.definition.source_table,
                "link": link.definition.at_source(own.name),
                "uuid": link.definition.uuid,
                "origin": link.definition.source_origin,
            }
            for link, _ in links.tables
        ]
        request = {"tables": tables, "ticket": self.ticket, "cluster": own.name, "group": links.group_name}
        try:
            client = self._server.links.connect(cluster)
            answer = client.ask("switching/close", {**request, "seconds": _QUORUM_SECONDS}, read_seconds=_CLOSE_SECONDS)
        except UserError:
            self._take_back()
            raise
        except PandoError as error:
            kind = UnknownOutcomeError if isinstance(error, UnknownOutcomeError) else UnavailableError
            raise kind(
                error.name,
                f"The source of {links.title} could not be closed: {error.message}. SYSTEM SWITCH "
                f"{links.statement} goes on, and with CANCEL ends it",
            ) from error
        self._positions = [Position.parse(text) for text in get_texts(answer, "positions")]
        self._server.services.failpoint("switch.after_closing")

    def _take_back(self) -> None:
        """Voids the ticket of a source that refused it, and has it opened in case that it had closed."""
        _void_all(self._links, self.ticket)
        with suppress(PandoError):  # what is left is done by CANCEL
            finish_cancelling(self._server, self._links, self.ticket)

    def take_all(self, deadline: float, seconds: float, status: QueryStatus) -> None:
        """Waits until these targets have everything of their sources, which are closed.

        An attempt that died may have closed the targets, and the sources have logged merges since.
        """
        move_all_gates([(local, _open_for_link) for local in self._links.locals])
        self._server.links.wake()
        for (link, local), position in zip(self._links.tables, self._positions, strict=True):
            self._take(link.definition.name, local, position, deadline, seconds, status)

    def _take(
        self, name: str, local: LocalTable, position: Position, deadline: float, seconds: float, status: QueryStatus
    ) -> None:
        services, never = self._server.services, threading.Event()
        pause, longest = _PAUSES
        while not self._has_taken(local, position):
            status.check()
            left = deadline - services.monotonic()
            if left <= 0:
                progress = self._server.links.find_progress(name)
                why = f": {progress.message}" if progress is not None and progress.message else ""
                statement = self._links.statement
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"After {seconds:g} seconds link {name!r} has not brought everything up to {position}{why}. "
                    f"The source stays closed: SYSTEM SWITCH {statement} goes on, and with CANCEL opens it",
                )
            services.wait(never, min(pause, left))
            pause = min(1.5 * pause, longest)

    def _has_taken(self, local: LocalTable, position: Position) -> bool:
        vector, group = local.links.target.read_target().vector, self._links.group
        if group is None:
            return vector.covers(position)
        now, _ = read_same_group(local.keeper, group)  # a table that was copied waits for the next cut
        return vector.covers(position) and vector.applied(position.origin) == now.place

    def list_promoted(self) -> list[Promoted]:
        """Returns the tables as ones that become sources, with the former source among their targets."""
        peer = self._server.links.connect(self._links.first.source_cluster).get_identity()
        pairs = zip(self._links.tables, self._backs, strict=True)
        return [self._as_promoted(link, local, back, peer) for (link, local), back in pairs]

    def _as_promoted(self, link: StoredLink, local: LocalTable, back: str, peer: ClusterIdentity) -> Promoted:
        definition = link.definition
        siblings = find_siblings(self._server, local, link)
        registered = [
            OutgoingLink(f"{each.cluster}/{each.name}", each.uuid, each.uuid_of_cluster, each.cluster)
            for each in siblings
        ]
        registered.append(OutgoingLink(f"{peer.name}/{definition.name}", back, peer.uuid, peer.name))
        telling = [
            {
                "cluster": definition.source_cluster,
                "database": definition.source_database,
                "table": definition.source_table,
                "link": definition.name,
                "ticket": self.ticket,
                "back": back,
                "settings": _list_back_settings(definition.settings),
                **self._links.name_group(),
            },
            *(each.as_told() for each in siblings),
        ]
        return Promoted(local, link, registered, telling)


def _list_back_settings(settings: Mapping[str, object]) -> str:
    """Returns the settings of the link that goes back, as JSON: those of the link, which has begun."""
    return json.dumps({name: value for name, value in settings.items() if name != "start_position"})
