"""Waits until the targets of synchronous links show what a mutation did: ``mutations_sync = 3``."""

from __future__ import annotations

from coordination.nodes.gate_link import SyncState
from engine.queries.context import OwnerServer
from engine.tables.owned_table import OwnedTable
from parts.common.errors import UnavailableError
from parts.common.query_status import QueryStatus


def wait_for_sync_targets(server: OwnerServer, table: OwnedTable, timeout_seconds: float, status: QueryStatus) -> None:
    """Waits until every enabled target shows everything that is committed now.

    Raises 341 (UNFINISHED), naming the targets that do not in time: they carry the mutation out later.
    """
    links = table.links.source.list_gate_links() if table.links is not None else ()
    targets = [link for link in links if link.state is SyncState.ENABLED]
    if not targets:
        return
    position = server.current_position(table.definition.database, table.definition.name)
    end = server.services.monotonic() + timeout_seconds
    for link in targets:
        left = max(0.0, end - server.services.monotonic())
        missing = server.services.sync_peers.wait_until_visible(link, position, left, status)
        if missing:
            raise UnavailableError(
                "UNFINISHED",
                f"The mutation is carried out in this cluster, and comes to cluster {link.peer_name!r} later; after "
                f"{timeout_seconds:g} seconds it is not there yet: {missing}",
            )
