"""Keeps the two ends of a link agreed: the mode is the source's, the pause is the target's.

Each end may change while the other does not hear it: ALTER runs at both, the tracker at the source, and a server may
die between two steps of a statement. So the server that runs the link compares them with each answer of the source.
"""

from __future__ import annotations

import logging

from coordination.keeper.interface import Keeper
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink, change_link, find_link
from coordination.links.link_settings import LinkSettings
from coordination.nodes.gate_link import LinkMode, SyncState
from engine.links.sync.link_registration import make_registration
from engine.remote.linked_cluster import LinkedCluster
from engine.tables.capabilities.sync_answer import NO_SYNC, SyncAnswer
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import PandoError, UnavailableError

logger = logging.getLogger(__name__)


def tell_pause(cluster: LinkedCluster, definition: LinkDefinition, link: OutgoingLink) -> None:
    """Tells the source whether the link is disabled. May be repeated. Raises what the source answers.

    A source of an older version takes a pause with a mode alone, so it is told only of a synchronous link's.
    """
    table = definition.source_database, definition.source_table
    try:
        cluster.set_mode(*table, link, None)
    except UnavailableError as error:
        if error.name != "NOT_IMPLEMENTED":
            raise
        if link.mode is LinkMode.SYNC:
            cluster.set_mode(*table, link, link.mode)


class TargetMode:
    """The mode of one link, on the server that runs it. Used by one thread at a time."""

    def __init__(self, cluster: LinkedCluster, own_cluster: tuple[str, str]) -> None:
        """``own_cluster``: name and UUID of the target's."""
        self._cluster = cluster
        self._own_cluster = own_cluster
        self._told: LinkDefinition | None = None

    def take_answer(self, keeper: Keeper, asked: LinkDefinition, sync: SyncAnswer) -> None:
        """Compares an answer of the source with ``asked``, the definition with which it was asked.

        Nothing is done if the definition has changed since: the answer may be older than that, and the next one counts.
        """
        if sync == NO_SYNC:
            return
        mode = sync.mode.value
        if LinkSettings.parse(asked.settings).mode != mode:
            change_link(keeper, asked.name, lambda link: link.with_settings({"mode": mode}) if link == asked else link)
        if sync.mode is LinkMode.SYNC and sync.state is SyncState.DISABLED:  # it believes that the link is disabled
            self._tell(keeper, asked)

    def tell_disabled(self, keeper: Keeper, definition: LinkDefinition) -> None:
        """Tells the source once that the link is disabled; it may have become synchronous meanwhile."""
        if self._told is not definition and self._tell(keeper, definition):
            self._told = definition

    def _tell(self, keeper: Keeper, definition: LinkDefinition) -> bool:
        try:
            found = find_link(keeper, definition.name)
            if isinstance(found, StoredLink) and found.definition == definition:
                tell_pause(self._cluster, definition, make_registration(definition, *self._own_cluster))
        except PandoError as error:
            enabled = "enabled" if definition.is_enabled else "disabled"
            logger.debug("the source hears later that link %s is %s: %s", definition.name, enabled, error)
            return False
        return True
