"""ALTER REPLICATION LINK … MODE at the source, where a link is named ``<target cluster>/<name>``."""

from __future__ import annotations

from coordination.links.link_settings import parse_link_setting
from coordination.nodes.gate_link import LinkMode
from engine.links.sync.link_modes import ModeRequest, request_modes, require_known_target
from engine.queries.context import OwnerServer
from parts.common.errors import UserError


def change_mode_at_source(server: OwnerServer, name: str, mode: object) -> None:
    """Asks for a mode of the link, also while its target is away. ``None`` is the default.

    Raises 36 (BAD_ARGUMENTS) if no table of this server is the link's source.
    """
    wanted = LinkMode(parse_link_setting("mode", mode if mode is not None else LinkMode.ASYNC.value))
    require_known_target(name, wanted, server.linked_clusters.names())
    found = False
    for table in server.catalog.tables():
        if table.links is None or table.replication is None or table.replication.problem() is not None:
            continue
        if any(link.name == name for link in table.links.source.list_outgoing()):
            request_modes(table.replication.require_keeper(), [ModeRequest(table.replication.paths, name, wanted)])
            found = True
    if not found:
        raise UserError("BAD_ARGUMENTS", f"No table of this server is the source of link {name!r}")
    server.links.wake()
