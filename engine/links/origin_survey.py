"""Asks the tables that links join what they have of one origin, before it is forgotten.

A table's neighbours are the sources of its links and the targets of those that it is the source of. A server asks the
neighbours of its own table, and each of them asks its own, one after the other: a cluster need not know all others.

Invariants: no table is asked twice, since the question names those that have answered. So rings end. It goes no farther
than so many links and tables, and lasts no longer than its asker waits. Whoever is not asked is named.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from coordination.links.forgotten_origin import find_origin, list_incoming
from coordination.links.link_nodes import StoredLink, require_link
from coordination.links.origin_survey import Objection, OriginHolder, OriginSurvey, SurveyRequest
from coordination.links.positions import Origin
from coordination.links.table_vector import read_origin_positions
from engine.catalog.databases import Databases
from engine.interserver.replication import Replication
from engine.links.exchange.fields import Document
from engine.links.exchange.survey_messages import decode_survey_request, encode_survey
from engine.links.linkable_tables import require_linkable
from engine.queries.server_links import ServerLinks
from engine.remote.cluster_membership import ClusterMembership
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus

MOST_TABLES = 64
MOST_LINKS = 16
SURVEY_SECONDS = 20.0
_SHARE = 0.7
"""Of the time that is left, what one neighbour gets: so it can still tell that one behind it is silent."""
_LEAST_SECONDS = 0.2


class SurveyedServer(Protocol):
    """A server whose tables are asked."""

    replication: Replication
    cluster_membership: ClusterMembership
    services: TableServices
    links: ServerLinks

    @property
    def catalog(self) -> Databases[OwnedTable]:
        """The tables of the server."""


class OriginSurveys:
    """The surveys that this server begins, and its part in those of others."""

    def __init__(self, host: SurveyedServer) -> None:
        self._host = host

    def answer(self, document: Document, status: QueryStatus) -> dict[str, Any]:
        """Answers ``/links/origin``."""
        request = decode_survey_request(document)
        return encode_survey(self._survey(self._find_table(request), request, status))

    def survey(self, table: OwnedTable, origin: Origin, status: QueryStatus) -> OriginSurvey:
        """Asks a table of this server, which comes first, and all that links join to it."""
        request = SurveyRequest(origin, seconds=SURVEY_SECONDS, most_links=MOST_LINKS)
        return self._survey(table, request, status)

    def _find_table(self, request: SurveyRequest) -> OwnedTable:
        """Returns the table that is asked for: by its name, or as the target of a link."""
        catalog: Databases[OwnedTable] = self._host.catalog
        if not request.link:
            return catalog.table(request.database, request.table)
        found = require_link(self._host.replication.require_keeper(), request.link)
        if not isinstance(found, StoredLink) or found.definition.uuid != request.uuid:
            raise UserError("BAD_ARGUMENTS", f"Link {request.link!r} is another one now")
        for table in catalog.tables():
            if table.replication is not None and table.replication.paths.root == found.table.root:
                return table
        raise UserError("UNKNOWN_TABLE", f"The target of link {request.link!r} is not on this server")

    def _survey(self, table: OwnedTable, request: SurveyRequest, status: QueryStatus) -> OriginSurvey:
        services = self._host.services
        deadline = services.monotonic() + request.seconds
        holder = self._describe(table, request.origin)
        found = OriginSurvey()
        if holder.key in request.seen:
            return found
        found.holders.append(holder)
        for cluster, target in self._list_neighbours(table):
            status.check()
            seen = {*request.seen, *(each.key for each in found.holders)}
            seconds = (deadline - services.monotonic()) * _SHARE
            asked = SurveyRequest(request.origin, *target, seconds, request.most_links - 1, frozenset(seen))
            try:
                found.add(self._ask(cluster, asked, seen))
            except PandoError as error:
                reason = f"{holder.cluster} gets no answer: {error.message}"
                found.silent.append(Objection(cluster, "", reason))
        return found

    def _ask(self, cluster: str, request: SurveyRequest, seen: Collection[object]) -> OriginSurvey:
        if request.most_links <= 0 or len(seen) >= MOST_TABLES:
            raise UserError("LIMIT_EXCEEDED", f"it lies behind {MOST_LINKS} links or {MOST_TABLES} tables")
        if request.seconds < _LEAST_SECONDS:
            raise UserError("TIMEOUT_EXCEEDED", "no time is left to ask it")
        return self._host.links.connect(cluster).survey_origin(request)

    def _describe(self, table: OwnedTable, origin: Origin) -> OriginHolder:
        require_linkable(table)
        assert table.replication is not None
        keeper, paths = table.replication.require_keeper(), table.replication.paths
        own = self._host.cluster_membership.get_identity(keeper)
        keeper.sync(paths.root)
        positions = read_origin_positions(keeper, paths, own.uuid)
        found = find_origin(positions, origin)
        return OriginHolder(
            own.name,
            own.uuid,
            positions[0].position.origin.table,
            table.definition.full_name,
            found.position.zxid if found is not None else None,
            found is not None and found.is_own,
        )

    def _list_neighbours(self, table: OwnedTable) -> list[tuple[str, tuple[str, str, str, str]]]:
        """Returns the clusters to ask, each with database and table, or name and UUID of the link."""
        assert table.replication is not None
        keeper = table.replication.require_keeper()
        sources = [
            (link.source_cluster, (link.source_database, link.source_table, "", ""))
            for link in list_incoming(keeper, table.replication.paths)
        ]
        targets = [
            (link.target_cluster_name, ("", "", link.name.partition("/")[2], link.uuid))
            for link in require_linkable(table).source.list_outgoing()
        ]
        return sources + targets
