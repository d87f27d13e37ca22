"""SWITCH: source and target change places while both are there, and nothing is lost.

1. The target writes that it asks for a ticket.
2. The source's gate bars everything, and has the ticket: one multi. Behind it nothing commits.
3. The target takes all of it. Its fork uses the ticket up.
4. The former source takes a new epoch and follows; the siblings are told.

SWITCH again goes on from the ticket, wherever it ended. CANCEL writes at the target that the ticket is void, and only
then opens the source.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Position
from coordination.links.switching.switching_gate import ASKED, PROMISE, read_fact, void_ticket, write_facts
from coordination.nodes.gate import Gate
from engine.links.exchange.fields import get_text
from engine.links.switching.forking import Promoted, fork_tables
from engine.links.switching.local_tables import LocalTable, SwitchingServer, find_target_table
from engine.links.switching.promotion import require_promotable
from engine.links.switching.promotion_report import Facts, list_fork_facts
from engine.links.switching.siblings import find_siblings
from engine.links.switching.telling import tell_all
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError, UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_PAUSES = 0.005, 0.25
_CLOSE_SECONDS = 40.0
_QUORUM_SECONDS = 20.0
"""How long the source waits for open quorums before it says which do not end."""


def switch(server: SwitchingServer, links: Sequence[StoredLink], seconds: float, status: QueryStatus) -> Facts:
    """Makes the targets of these links sources, and their sources targets. Returns the report.

    Raises 36 (BAD_ARGUMENTS) for links that cannot be switched, 159 (TIMEOUT_EXCEEDED) if the target does not get
    everything in time: then SWITCH again goes on, and CANCEL opens the source.
    """
    switches = [_Switch(server, link, find_target_table(server, link)) for link in links]
    for each in switches:
        require_promotable(each.link, each.local.read_gate(), "SWITCH")
    deadline = server.services.monotonic() + seconds
    for each in switches:
        each.ask()
    for each in switches:
        each.close_source()
    for each in switches:
        each.take_all(deadline, seconds, status)
    server.services.failpoint("switch.before_fork")
    promoted = [each.as_promoted() for each in switches]
    forks = [fork_tables([each], ticket=s.ticket)[0] for each, s in zip(promoted, switches, strict=True)]
    facts: Facts = []
    for each, fork in zip(switches, forks, strict=True):
        facts += [
            *list_fork_facts(each.local.name, fork),
            ("behind the fork", "0 rows, 0 bytes: the source was closed"),
        ]
    for each in switches:
        facts += tell_all(server, each.local)
    return facts


def cancel_switch(server: SwitchingServer, link: StoredLink) -> Facts:
    """Ends a SWITCH that did not come to its fork.

    Raises what keeps the source from being told; its table stays closed then, and the statement can be repeated.
    """
    local, definition = find_target_table(server, link), link.definition
    asked = read_fact(local.read_gate(), ASKED)
    if asked is None:
        raise UserError("BAD_ARGUMENTS", f"There is nothing to cancel: link {definition.name!r} is not being switched")
    if not asked.get("void"):
        local.move_gate(lambda gate: _void(gate, asked["id"]))
    server.services.failpoint("switch.after_void")
    try:
        finish_cancelling(server, local, link, asked["id"])
    except PandoError as error:
        raise UnavailableError(
            "UNFINISHED",
            f"The SWITCH of link {definition.name!r} is cancelled here, but its source, cluster "
            f"{definition.source_cluster}, could not be told and stays closed: {error.message}. Repeat the statement, "
            f"or run there SYSTEM PROMOTE REPLICATION LINK {definition.name} FORCE",
        ) from error
    server.links.wake()
    return [("cancelled", f"the switch of link {definition.name}; cluster {definition.source_cluster} takes writes")]


def finish_cancelling(server: SwitchingServer, local: LocalTable, link: StoredLink, ticket: str) -> None:
    """Opens the source whose ticket is void."""
    definition = link.definition
    server.links.connect(definition.source_cluster).ask(
        "switching/open",
        {"database": definition.source_database, "table": definition.source_table, "ticket": ticket},
    )
    local.move_gate(lambda gate: write_facts(gate, asked=None))


def _void(gate: Gate, ticket: str) -> Gate:
    """Returns the gate in which the ticket is void, and that the source must still be told so."""
    asked = read_fact(gate, ASKED)
    if asked is None or asked["id"] != ticket:
        return gate
    return write_facts(void_ticket(gate, ticket), asked={**asked, "void": True})


def find_unfinished(server: SwitchingServer, locals_: Sequence[LocalTable], name: str) -> Facts | None:
    """Goes on with a switch or promotion of this link whose fork is made. ``None`` if there is none."""
    for local in locals_:
        gate = local.links.switching.read_known_gate()
        if gate is not None and any(each["link"] == name for each in read_fact(gate, "telling") or []):
            return tell_all(server, local)
    return None


class _Switch:
    """The switch of one table."""

    def __init__(self, server: SwitchingServer, link: StoredLink, local: LocalTable) -> None:
        self._server = server
        self.link = link
        self.local = local
        self.ticket = ""
        self._back = ""
        self._position: Position | None = None

    def ask(self) -> None:
        """Writes that this target asks for a ticket, unless it has."""
        services, name = self._server.services, self.link.definition.name
        new = {"id": str(services.new_uuid()), "link": name, "back": str(services.new_uuid())}

        def change(gate: Gate) -> Gate:
            asked = read_fact(gate, ASKED)
            if read_fact(gate, PROMISE) is not None:
                raise UserError("BAD_ARGUMENTS", f"Link {name!r} cannot be switched: another cluster is being promoted")
            if asked is not None and asked.get("void"):
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"The last SWITCH of link {name!r} was cancelled, and its source was not told: finish that with "
                    f"SYSTEM SWITCH REPLICATION LINK {name} CANCEL",
                )
            return gate if asked is not None else write_facts(gate, asked=new)

        asked = read_fact(self.local.move_gate(change), ASKED)
        self.ticket, self._back = asked["id"], asked["back"]
        services.failpoint("switch.after_asking")

    def close_source(self) -> None:
        """Closes the source, and learns what there is to take."""
        definition = self.link.definition
        own = self._server.cluster_membership.get_identity(self.local.keeper)
        request = {
            "database": definition.source_database,
            "table": definition.source_table,
            "link": definition.at_source(own.name),
            "uuid": definition.uuid,
            "ticket": self.ticket,
            "cluster": own.name,
            "origin": definition.source_origin,
            "seconds": _QUORUM_SECONDS,
        }
        try:
            client = self._server.links.connect(definition.source_cluster)
            answer = client.ask("switching/close", request, read_seconds=_CLOSE_SECONDS)
        except UserError:
            self._take_back()
            raise
        except PandoError as error:
            kind = UnknownOutcomeError if isinstance(error, UnknownOutcomeError) else UnavailableError
            raise kind(
                error.name,
                f"The source of link {definition.name!r} could not be closed: {error.message}. SYSTEM SWITCH "
                f"REPLICATION LINK {definition.name} goes on, and with CANCEL ends it",
            ) from error
        self._position = Position.parse(get_text(answer, "position"))
        self._server.services.failpoint("switch.after_closing")

    def _take_back(self) -> None:
        """Voids the ticket of a source that refused it, and has it opened in case that it had closed."""
        self.local.move_gate(lambda gate: _void(gate, self.ticket))
        with suppress(PandoError):  # what is left is done by CANCEL
            finish_cancelling(self._server, self.local, self.link, self.ticket)

    def take_all(self, deadline: float, seconds: float, status: QueryStatus) -> None:
        """Waits until this target has everything of the source, which is closed."""
        services, name, never = self._server.services, self.link.definition.name, threading.Event()
        pause, longest = _PAUSES
        assert self._position is not None
        self._server.links.wake()
        while not self.local.links.target.read_target().vector.covers(self._position):
            status.check()
            left = deadline - services.monotonic()
            if left <= 0:
                progress = self._server.links.find_progress(name)
                why = f": {progress.message}" if progress is not None and progress.message else ""
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"After {seconds:g} seconds link {name!r} has not brought everything up to {self._position}{why}. "
                    f"The source stays closed: SYSTEM SWITCH REPLICATION LINK {name} goes on, and with CANCEL opens it",
                )
            services.wait(never, min(pause, left))
            pause = min(1.5 * pause, longest)

    def as_promoted(self) -> Promoted:
        """Returns the table as one that becomes a source, with the former source among its targets."""
        definition = self.link.definition
        siblings = find_siblings(self._server, self.local, self.link)
        peer = self._server.links.connect(definition.source_cluster).get_identity()
        registered = [
            OutgoingLink(f"{each.cluster}/{each.name}", each.uuid, each.uuid_of_cluster, each.cluster)
            for each in siblings
        ]
        registered.append(OutgoingLink(f"{peer.name}/{definition.name}", self._back, peer.uuid, peer.name))
        telling = [
            {
                "cluster": definition.source_cluster,
                "database": definition.source_database,
                "table": definition.source_table,
                "link": definition.name,
                "ticket": self.ticket,
                "back": self._back,
                "settings": _list_back_settings(definition.settings),
            },
            *(each.as_told() for each in siblings),
        ]
        return Promoted(self.local, self.link, registered, telling)


def _list_back_settings(settings: Mapping[str, object]) -> str:
    """Returns the settings of the link that goes back, as JSON: those of the link, which has begun."""
    return json.dumps({name: value for name, value in settings.items() if name != "start_position"})
