"""Changes a link of a table. What the source must know is told there first."""

from __future__ import annotations

from collections.abc import Callable

from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink, change_link, require_link
from coordination.links.link_settings import LinkSettings
from coordination.nodes.gate_link import LinkMode
from engine.links.link_wait import find_target
from engine.links.sync.link_registration import make_registration
from engine.links.sync.target_mode import tell_pause
from engine.links.target_views import require_fit_views
from engine.queries.context import OwnerServer
from parts.common.errors import UnavailableError
from sql.definitions.several_origins import refuse_several_origins

Change = Callable[[LinkDefinition], LinkDefinition]


def change_table_link(server: OwnerServer, name: str, change: Change, *, mode: LinkMode | None = None) -> None:
    """Gives a link another definition. ``change`` may be called several times.

    ``mode``: the statement asks for it. The source is told then, whatever the definition has: a link's mode is the
    source's, and the definition follows it.

    Raises what ``change`` raises, and what the source answers if it must be told: then nothing changes.
    """
    former, new = check_link_change(server, name, change)
    if mode is not None or _is_news(former, new):
        _tell_source(server, former, new, mode)
    change_link(server.replication.require_keeper(), name, change)
    server.links.wake()


def check_link_change(server: OwnerServer, name: str, change: Change) -> tuple[LinkDefinition, LinkDefinition]:
    """Returns the definition of a link, and the one that it would get.

    Raises what ``change`` raises, and 36 (BAD_ARGUMENTS) if a table that cannot take rows of several origins would.
    Raises 48 (NOT_IMPLEMENTED) if a view fills a table that the link could not.
    """
    found = require_link(server.replication.require_keeper(), name)
    assert isinstance(found, StoredLink)
    new = change(found.definition)
    settings, former = LinkSettings.parse(new.settings), LinkSettings.parse(found.definition.settings)
    if settings.run_views and not former.run_views:
        require_fit_views(server.catalog, find_target(server, found))
    if settings.two_way and not former.two_way:
        table = find_target(server, found)
        refuse_several_origins(table.description, table.definition.full_name)
    return found.definition, new


def _is_news(former: LinkDefinition, new: LinkDefinition) -> bool:
    """Tells whether the source must know of a change that asks for no mode.

    It learns of the pause of an asynchronous link from the server that runs the link.
    """
    was, settings = LinkSettings.parse(former.settings), LinkSettings.parse(new.settings)
    if (was.two_way, was.enable_tracker) != (settings.two_way, settings.enable_tracker):
        return True
    return settings.mode == LinkMode.SYNC.value and (
        (was.replication_timeout, was.link_sync_tail_bytes, former.is_enabled)
        != (settings.replication_timeout, settings.link_sync_tail_bytes, new.is_enabled)
    )


def _tell_source(server: OwnerServer, former: LinkDefinition, new: LinkDefinition, mode: LinkMode | None) -> None:
    own = server.cluster_membership.get_identity(server.replication.require_keeper())
    outgoing, table = make_registration(new, own.name, own.uuid), (new.source_database, new.source_table)
    cluster = server.links.connect(new.source_cluster)
    cluster.register(*table, outgoing)
    if mode is None:
        if former.is_enabled != new.is_enabled:
            tell_pause(cluster, new, outgoing)
        return
    try:
        cluster.set_mode(*table, outgoing, mode)
    except UnavailableError as error:
        if error.name != "NOT_IMPLEMENTED" or mode is LinkMode.SYNC:  # an older source has no synchronous links
            raise
