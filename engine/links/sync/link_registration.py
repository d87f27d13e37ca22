"""A link as its target tells it to the source, and as the source's answers change it at the target."""

from __future__ import annotations

from coordination.keeper.interface import Keeper
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import change_link
from coordination.links.link_settings import LinkSettings
from coordination.nodes.gate_link import LinkMode
from engine.tables.capabilities.sync_answer import NO_SYNC, SyncAnswer
from engine.tables.capabilities.table_links import OutgoingLink


def make_registration(definition: LinkDefinition, own_name: str, own_uuid: str) -> OutgoingLink:
    """Returns the registration of a link at its source. The target's cluster has this name and UUID."""
    settings = LinkSettings.parse(definition.settings)
    return OutgoingLink(
        definition.at_source(own_name),
        definition.uuid,
        own_uuid,
        own_name,
        is_two_way=settings.two_way,
        is_tracked=settings.enable_tracker,
        mode=LinkMode(settings.mode),
        is_paused=not definition.is_enabled,
        timeout_seconds=settings.replication_timeout,
        sync_tail_bytes=settings.link_sync_tail_bytes,
    )


def take_over_mode(keeper: Keeper, asked: LinkDefinition, sync: SyncAnswer) -> None:
    """Gives a link the mode that the source says, where it was changed there.

    ``asked`` is the definition with which the source was asked: if the mode was changed here since, the answer may be
    older than that.
    """
    mode = sync.mode.value
    if sync == NO_SYNC or LinkSettings.parse(asked.settings).mode == mode:
        return
    change_link(keeper, asked.name, lambda link: link.with_settings({"mode": mode}))
