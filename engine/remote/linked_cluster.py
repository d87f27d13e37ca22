"""Another cluster, as statements about links ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.link_definition import LinkDefinition
from coordination.links.origin_survey import OriginSurvey, SurveyRequest
from coordination.nodes.gate_link import LinkMode
from engine.tables.capabilities.table_links import OutgoingLink, SourceTable


@dataclass(frozen=True, slots=True)
class LinkableTable:
    """A table of a linked cluster's database."""

    table: str
    create_query: str
    """The statement that makes such a table; "" if the table is not linkable."""
    problem: str
    """Why links cannot take its changes; "" if they can."""


class LinkedCluster(Protocol):
    """A cluster of ``linked_clusters``. Any of its servers answers.

    All methods raise 210 (NETWORK_ERROR) if none answers, 516 if the user or password is wrong, and what the other
    side raises.
    """

    def get_identity(self) -> ClusterIdentity:
        """Returns the name and the UUID that the cluster gives itself, checked against what was met before."""

    def describe(self, database: str, table: str) -> SourceTable:
        """Returns what a table is now."""

    def describe_source(self, link: LinkDefinition) -> SourceTable:
        """Returns what the source of a link is now, under whatever name."""

    def register(self, database: str, table: str, link: OutgoingLink) -> SourceTable:
        """Makes the table keep its changes for the link from now on. May be repeated."""

    def set_mode(self, database: str, table: str, link: OutgoingLink, mode: LinkMode | None) -> None:
        """Says whether a registered link is paused, and asks for its mode. May be repeated.

        ``None`` leaves the mode as it is. Raises 48 (NOT_IMPLEMENTED) if the cluster's servers do not know that.
        """

    def unregister(self, database: str, table: str, name: str, uuid: str) -> None:
        """Ends the keeping for the link of this name (``<target cluster>/<name>``) and UUID. May be repeated."""

    def list_tables(self, database: str) -> Sequence[LinkableTable]:
        """Lists the tables of a database. Raises 81 (UNKNOWN_DATABASE)."""

    def ask(self, name: str, document: Mapping[str, Any], *, read_seconds: float = 30.0) -> Mapping[str, Any]:
        """Sends the request ``/links/<name>`` and returns the answer."""

    def survey_origin(self, request: SurveyRequest) -> OriginSurvey:
        """Asks a table of the cluster what it has of an origin, and those that links join to it."""
