"""PROMOTE: a target becomes the source.

1. The table is marked as being promoted: from now on it promises nobody anything.
2. Every sibling promises to take nothing more of the present epoch, and says where it is.
3. What a sibling has that this table lacks is taken from it.
4. The fork, one multi (:mod:`engine.links.switching.forking`).
5. Siblings and the old source are told; who does not answer is told again later (:mod:`.telling`).

A crash before 4 leaves the mark and promises: PROMOTE again goes on, PROMOTE … CANCEL ends both.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink
from coordination.links.link_settings import LinkSettings
from coordination.links.switching.lineage import find_surplus
from coordination.links.switching.switching_gate import (
    ASKED,
    PROMOTION,
    begin_promotion,
    end_promise,
    end_promotion,
    read_fact,
)
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from engine.links.switching.forking import Promoted, fork_tables
from engine.links.switching.local_tables import LocalTable, SwitchingServer, find_target_table
from engine.links.switching.promotion_report import Facts, describe_progress, list_fork_facts
from engine.links.switching.siblings import Sibling, find_siblings
from engine.links.switching.tail_taking import take_tail
from engine.links.switching.telling import tell_all
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)


def require_promotable(link: StoredLink, gate: Gate, verb: str) -> None:
    """Raises 36 (BAD_ARGUMENTS) or 48 (NOT_IMPLEMENTED) for a link that cannot be turned."""
    definition = link.definition
    name, settings = definition.name, LinkSettings.parse(definition.settings)
    if definition.group:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{verb} of link {name!r} is not supported: it is in group {definition.group!r}, and groups are not "
            f"switched over yet. ALTER REPLICATION LINK GROUP {definition.group} REMOVE {name} takes it out",
        )
    if definition.database_link:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{verb} of link {name!r} is not supported: it belongs to link {definition.database_link!r} of a whole "
            "database. Links of single tables can be switched over",
        )
    others = [each.name for each in gate.links_of(LinkDirection.IN) if each.name != name]
    if settings.two_way or any(each.is_two_way for each in gate.links_of(LinkDirection.OUT)):
        raise UserError(
            "BAD_ARGUMENTS", f"{verb} of link {name!r} has no meaning: with two_way = 1 both ends are written already"
        )
    if others or settings.allows_writes:
        many = f" (links {', '.join(others)})" if others else ""
        raise UserError(
            "BAD_ARGUMENTS",
            f"{verb} of link {name!r} has no meaning: its target collects the rows of several writers"
            f"{many}, so it is no copy of one source",
        )
    if not definition.is_begun or definition.wants_copy or not definition.source_origin:
        raise UserError(
            "BAD_ARGUMENTS",
            f"{verb} of link {name!r} must wait: the table is not a copy of its source yet. SYSTEM WAIT REPLICATION "
            f"LINK {name} returns when it is",
        )


def promote(server: SwitchingServer, links: Sequence[StoredLink], status: QueryStatus, *, force: bool) -> Facts:
    """Makes the targets of these links sources. Returns the report.

    Raises 36 (BAD_ARGUMENTS) while the source answers, or if a sibling has not promised, unless ``force``; and if one
    is being promoted itself.
    """
    tables = [_Promotion(server, link, find_target_table(server, link)) for link in links]
    for each in tables:
        each.check(force=force)
    begun: list[_Promotion] = []
    try:
        for each in tables:
            each.begin()
            begun.append(each)
            each.ask_siblings(force=force)
        for each in tables:
            each.take_tails(status)
        facts = [fact for each in tables for fact in each.describe_before()]
        server.services.failpoint("promote.after_promises")
        forks = fork_tables([each.as_promoted() for each in tables])
    except PandoError:
        for each in begun:
            each.give_up()
        raise
    for each, fork in zip(tables, forks, strict=True):
        facts += list_fork_facts(each.local.name, fork)
    for each in tables:
        facts += tell_all(server, each.local)
    return facts


def cancel_promotion(server: SwitchingServer, link: StoredLink) -> Facts:
    """Ends a promise that the link's target gave, or a PROMOTE of its own that did not come to its fork."""
    local = find_target_table(server, link)
    gate = local.read_gate()
    if read_fact(gate, PROMOTION) is not None:
        _Promotion(server, link, local).give_up()
        return [("cancelled", f"the promotion of link {link.definition.name}")]
    if end_promise(gate) == gate:
        raise UserError(
            "BAD_ARGUMENTS",
            f"There is nothing to cancel: link {link.definition.name!r} is not being promoted, and has promised nobody "
            "anything",
        )
    local.move_gate(end_promise)
    server.links.wake()
    return [("cancelled", f"the promise of link {link.definition.name}")]


@dataclass
class _Promotion:
    """The promotion of one table."""

    server: SwitchingServer
    link: StoredLink
    local: LocalTable
    promised: list[Sibling] = field(default_factory=list)
    silent: list[tuple[Sibling, str]] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)

    @property
    def definition(self) -> LinkDefinition:
        return self.link.definition

    def check(self, *, force: bool) -> None:
        gate = self.local.read_gate()
        require_promotable(self.link, gate, "PROMOTE")
        name, cluster = self.definition.name, self.definition.source_cluster
        if read_fact(gate, ASKED) is not None and not force:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {name!r} is being switched over: SYSTEM SWITCH REPLICATION LINK {name} goes on, and with CANCEL "
                f"ends it. If cluster {cluster} is gone, SYSTEM PROMOTE REPLICATION LINK {name} FORCE",
            )
        if force:
            return
        try:
            source = self.server.links.connect(cluster).describe_source(self.definition)
        except PandoError as error:
            logger.info("the source of link %s does not answer: %s", name, error.message)
            return
        if str(source.origin) == self.definition.source_origin:
            raise UserError(
                "BAD_ARGUMENTS",
                f"The source of link {name!r}, cluster {cluster}, answers, so nothing needs to be lost: SYSTEM SWITCH "
                f"REPLICATION LINK {name} moves the writes here. FORCE promotes all the same, and what the source "
                "commits from now on is not brought",
            )

    def begin(self) -> None:
        name = self.definition.name
        self.local.move_gate(lambda gate: begin_promotion(gate, name))

    def ask_siblings(self, *, force: bool) -> None:
        services = self.server.services
        for sibling in find_siblings(self.server, self.local, self.link):
            try:
                is_there = sibling.ask_promise(self.definition.source_origin)
            except UserError as error:
                if error.name != "BAD_ARGUMENTS" or "linked_clusters" in error.message:
                    self.silent.append((sibling, error.message))
                    continue
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"Link {self.definition.name!r} cannot be promoted: at cluster {sibling.cluster} {error.message}",
                ) from error
            except PandoError as error:
                self.silent.append((sibling, error.message))
            else:
                self.promised += [sibling] if is_there else []
                services.failpoint("promote.after_promise")
        if self.silent and not force:
            names = "; ".join(f"cluster {each.cluster} (link {each.name}): {why}" for each, why in self.silent)
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {self.definition.name!r} cannot be promoted without the promise of every target of its source: "
                f"{names}. FORCE goes on without them; who has more than the fork then must REJOIN",
            )

    def take_tails(self, status: QueryStatus) -> None:
        for sibling in self.promised:
            now = self.local.read_now()
            assert sibling.vector is not None
            ahead = [
                position
                for position in find_surplus(sibling.vector, [now.vector], now.own)
                if (position.origin.cluster, position.origin.table) != (sibling.uuid_of_cluster, sibling.table_number)
            ]
            if ahead:
                rows = take_tail(self.server, self.link, self.local, sibling, ahead, status)
                self.taken.append(
                    f"cluster {sibling.cluster} was further ahead, at {ahead[0]}: {rows} rows were taken from it"
                )

    def describe_before(self) -> Facts:
        facts = describe_progress(self.server, self.local, self.link)
        facts += [("taken from a sibling", text) for text in self.taken]
        return facts + [
            ("not asked", f"cluster {sibling.cluster} (link {sibling.name}): {why}") for sibling, why in self.silent
        ]

    def as_promoted(self) -> Promoted:
        siblings = [*self.promised, *(sibling for sibling, _ in self.silent)]
        telling = [sibling.as_told() for sibling in siblings]
        definition = self.definition
        telling.append(
            {
                "cluster": definition.source_cluster,
                "database": definition.source_database,
                "table": definition.source_table,
                "link": definition.name,
            }
        )
        registered = [
            OutgoingLink(f"{each.cluster}/{each.name}", each.uuid, each.uuid_of_cluster, each.cluster)
            for each in siblings
        ]
        source = self.local.read_gate().find_link(definition.name)
        if source is not None:  # so that the table goes on keeping its changes, for the old source too
            name, uuid = source.peer_name, str(self.server.services.new_uuid())
            registered.append(OutgoingLink(f"{name}/{definition.name}", uuid, source.peer, name))
        return Promoted(self.local, self.link, registered, telling)

    def give_up(self) -> None:
        """Ends the mark and the promises, unless the fork was made."""
        with suppress(PandoError):
            gate = self.local.read_gate()
            if gate.find_link(self.definition.name) is None:
                return
            self.local.move_gate(end_promotion)
        for sibling in self.promised or find_siblings(self.server, self.local, self.link):
            with suppress(PandoError):
                sibling.release()
        self.server.links.wake()
