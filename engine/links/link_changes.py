"""Changes a link of a table. What the source must know is told there first."""

from __future__ import annotations

from collections.abc import Callable

from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink, change_link, require_link
from coordination.links.link_settings import LinkSettings
from engine.queries.context import OwnerServer
from engine.tables.capabilities.table_links import OutgoingLink

Change = Callable[[LinkDefinition], LinkDefinition]


def change_table_link(server: OwnerServer, name: str, change: Change) -> None:
    """Gives a link another definition. ``change`` may be called several times.

    Raises what ``change`` raises, and what the source answers if it must be told: then nothing changes.
    """
    keeper = server.replication.require_keeper()
    found = require_link(keeper, name)
    assert isinstance(found, StoredLink)
    former, new = found.definition, change(found.definition)
    is_two_way = LinkSettings.parse(new.settings).two_way
    if is_two_way != LinkSettings.parse(former.settings).two_way:
        _tell_source(server, new, is_two_way=is_two_way)
    change_link(keeper, name, change)
    server.links.wake()


def _tell_source(server: OwnerServer, link: LinkDefinition, *, is_two_way: bool) -> None:
    own = server.cluster_membership.get_identity(server.replication.require_keeper())
    outgoing = OutgoingLink(link.at_source(own.name), link.uuid, own.uuid, own.name, is_two_way)
    server.links.connect(link.source_cluster).register(link.source_database, link.source_table, outgoing)
