"""Changes a link of a table. What the source must know is told there first."""

from __future__ import annotations

from collections.abc import Callable

from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink, change_link, require_link
from coordination.links.link_settings import LinkSettings
from engine.links.link_wait import find_target
from engine.links.sync.link_registration import make_registration
from engine.links.target_views import require_fit_views
from engine.queries.context import OwnerServer
from sql.definitions.several_origins import refuse_several_origins

Change = Callable[[LinkDefinition], LinkDefinition]


def change_table_link(server: OwnerServer, name: str, change: Change) -> None:
    """Gives a link another definition. ``change`` may be called several times.

    Raises what ``change`` raises, and what the source answers if it must be told: then nothing changes.
    """
    found = require_link(server.replication.require_keeper(), name)
    was_sync = isinstance(found, StoredLink) and LinkSettings.parse(found.definition.settings).mode == "sync"
    new, is_news = check_link_change(server, name, change)
    if is_news:
        _tell_source(server, new, is_sync=was_sync or LinkSettings.parse(new.settings).mode == "sync")
    change_link(server.replication.require_keeper(), name, change)
    server.links.wake()


def check_link_change(server: OwnerServer, name: str, change: Change) -> tuple[LinkDefinition, bool]:
    """Returns the definition that a link would get, and whether its source must know.

    Raises what ``change`` raises, and 36 (BAD_ARGUMENTS) if a table that cannot take rows of several origins would.
    Raises 48 (NOT_IMPLEMENTED) if a view fills a table that the link could not.
    """
    found = require_link(server.replication.require_keeper(), name)
    assert isinstance(found, StoredLink)
    new = change(found.definition)
    settings = LinkSettings.parse(new.settings)
    is_two_way = settings.two_way
    if settings.run_views and not LinkSettings.parse(found.definition.settings).run_views:
        require_fit_views(server.catalog, find_target(server, found))
    former = LinkSettings.parse(found.definition.settings)
    is_sync = "sync" in (settings.mode, former.mode)
    is_told = is_two_way != former.two_way or settings.enable_tracker != former.enable_tracker
    is_news = is_told or (
        is_sync
        and (settings.mode, settings.replication_timeout, settings.link_sync_tail_bytes, new.is_enabled)
        != (former.mode, former.replication_timeout, former.link_sync_tail_bytes, found.definition.is_enabled)
    )
    if is_two_way and not former.two_way:
        table = find_target(server, found)
        refuse_several_origins(table.description, table.definition.full_name)
    return new, is_news


def _tell_source(server: OwnerServer, link: LinkDefinition, *, is_sync: bool) -> None:
    own = server.cluster_membership.get_identity(server.replication.require_keeper())
    outgoing, table = make_registration(link, own.name, own.uuid), (link.source_database, link.source_table)
    cluster = server.links.connect(link.source_cluster)
    cluster.register(*table, outgoing)
    if is_sync:
        cluster.set_mode(*table, outgoing)
