"""PROMOTE: a target becomes the source, or all targets of a transactional group do, at one moment.

1. The tables are marked as being promoted: from now on they promise nobody anything.
2. Every sibling promises to take nothing more of the present epoch, and says where it is.
3. What a sibling has that a table lacks is taken from it; for a group as one cut (:mod:`.group_tail`).
4. The fork, one multi (:mod:`engine.links.switching.forking`).
5. Siblings and the old source are told; who does not answer is told again later (:mod:`.telling`).

A crash before 4 leaves the mark and promises: PROMOTE again goes on, PROMOTE … CANCEL ends both.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from coordination.links.groups.group_switching import require_entered
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink
from coordination.links.switching.lineage import find_surplus
from coordination.links.switching.switching_gate import (
    ASKED,
    PROMOTION,
    begin_promotion,
    end_promise,
    end_promotion,
    read_fact,
)
from engine.links.switching.forking import Promoted, fork_tables
from engine.links.switching.group_tail import TailTaker, take_group_tail
from engine.links.switching.local_tables import LocalTable, SwitchingServer, move_all_gates
from engine.links.switching.promotion_report import Facts, describe_progress, list_fork_facts
from engine.links.switching.siblings import Sibling, find_siblings
from engine.links.switching.switched_links import SwitchedLinks, require_promotable
from engine.links.switching.tail_taking import take_tail
from engine.links.switching.telling import tell_all
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_SHOWN_SECONDS = 30.0


def promote(server: SwitchingServer, links: SwitchedLinks, status: QueryStatus, *, force: bool) -> Facts:
    """Makes the targets of these links sources. Returns the report.

    Raises 36 (BAD_ARGUMENTS) while the source answers, or if a sibling has not promised, unless ``force``; and if one
    is being promoted itself.
    """
    tables = [_Promotion(server, link, local, links) for link, local in links.tables]
    for each in tables:
        each.check(force=force)
    if links.group is not None:
        require_entered(links.group)
    move_all_gates([(each.local, partial(begin_promotion, link=each.definition.name)) for each in tables])
    try:
        server.services.failpoint("promote.after_mark")
        for each in tables:
            each.ask_siblings(force=force)
        left = _take_tails(server, links, tables, status, force=force)
        facts = [each.describe_before() for each in tables]
        server.services.failpoint("promote.after_promises")
        closed = _ClosedTables(links, status, server.services.monotonic() + _SHOWN_SECONDS, force=force)
        forks = fork_tables([each.as_promoted() for each in tables], group=links.group, prepare=closed.prepare)
    except PandoError:
        for each in tables:
            each.give_up()
        raise
    report: Facts = [*([("group", links.group_name)] if links.group is not None else []), *left]
    for each, before, fork in zip(tables, facts, forks, strict=True):
        report += [("table", each.local.name), *before, *closed.facts[each.local.name], *list_fork_facts(fork)]
    return report + tell_all(server, links.locals)


def _take_tails(
    server: SwitchingServer, links: SwitchedLinks, tables: Sequence[_Promotion], status: QueryStatus, *, force: bool
) -> Facts:
    """Takes what siblings have in addition. With ``force`` what cannot be taken stays there; returns what that is."""
    try:
        if links.group is None:
            tables[0].take_tails(status)
        else:
            taken = take_group_tail(server, links.group, [each.as_tail_taker() for each in tables], status)
            for each, text in zip(tables, taken, strict=True):
                each.taken += [text] if text else []
    except (UserError, UnavailableError) as error:
        if not force:
            raise
        return [("left at a sibling", error.message)]
    return []


class _ClosedTables:
    """Prepares tables for their fork when they are closed."""

    def __init__(self, links: SwitchedLinks, status: QueryStatus, end: float, *, force: bool) -> None:
        self._links = links
        self._status = status
        self._end = end
        self._force = force
        self.facts: dict[str, Facts] = {}
        """By table."""

    def prepare(self, local: LocalTable) -> None:
        """Detaches what links have staged.

        A table of a group waits before until every active replica shows the last cut: from the fork on it is shown
        alone. With ``force`` the wait may end without that, and what cannot be detached is told.
        """
        facts = self.facts[local.name] = []
        if self._links.group is not None:
            try:
                left = self._end - local.server.services.monotonic()
                local.links.target.wait_until_visible(max(0.0, left), self._status)
            except UnavailableError as error:
                if error.name != "TIMEOUT_EXCEEDED" or not self._force:
                    raise
                facts.append(("not shown yet", error.message))
        try:
            blocks, rows = local.links.switching.detach_staged()
        except PandoError as error:
            if not self._force:
                raise
            facts.append(("staged, not detached", error.message))
            return
        if blocks:
            facts.append(("staged behind the fork", f"{blocks} blocks with {rows} rows, linked to detached/ here"))


def cancel_promotion(server: SwitchingServer, links: SwitchedLinks) -> Facts:
    """Ends promises that the links' targets gave, or a PROMOTE of their own that did not come to its fork."""
    facts: Facts = []
    for link, local in links.tables:
        name, gate = link.definition.name, local.read_gate()
        if read_fact(gate, PROMOTION) is not None:
            _Promotion(server, link, local, links).give_up()
            facts.append(("cancelled", f"the promotion of link {name}"))
        elif end_promise(gate) != gate:
            local.move_gate(end_promise)
            facts.append(("cancelled", f"the promise of link {name}"))
    if not facts:
        raise UserError(
            "BAD_ARGUMENTS",
            f"There is nothing to cancel: {links.title} is not being promoted, and has promised nobody anything",
        )
    server.links.wake()
    return facts


@dataclass
class _Promotion:
    """The promotion of one table."""

    server: SwitchingServer
    link: StoredLink
    local: LocalTable
    links: SwitchedLinks
    promised: list[Sibling] = field(default_factory=list)
    silent: list[tuple[Sibling, str]] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)

    @property
    def definition(self) -> LinkDefinition:
        return self.link.definition

    def check(self, *, force: bool) -> None:
        gate = self.local.read_gate()
        require_promotable(self.link, gate, "PROMOTE", self.links.group_name)
        name, cluster, statement = self.definition.name, self.definition.source_cluster, self.links.statement
        if read_fact(gate, ASKED) is not None and not force:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {name!r} is being switched over: SYSTEM SWITCH {statement} goes on, and with CANCEL ends it. If "
                f"cluster {cluster} is gone, SYSTEM PROMOTE {statement} FORCE",
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
                f"{statement} moves the writes here. FORCE promotes all the same, and what the source "
                "commits from now on is not brought",
            )

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

    def as_tail_taker(self) -> TailTaker:
        """Returns the table as one that takes what its siblings have."""
        return TailTaker(self.link, self.local, self.promised)

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
                **self.links.name_group(),
            }
        )
        registered = [each.as_registered() for each in siblings]
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
