"""``inSyncClusters('db.t', position)``: the clusters that have a table's changes up to a position.

Source: YTsaurus' ``get-in-sync-replicas``.
"""

from __future__ import annotations

from coordination.links.positions import Position
from engine.links.linkable_tables import require_linkable
from engine.tables.owned_table import OwnedTable


def list_in_sync_clusters(table: OwnedTable, position: Position) -> list[str]:
    """Returns the names of the clusters that have a source's changes up to the position, sorted.

    A cluster has them when it told that ``link_quorum`` replicas show them. It tells about once a second, so the answer
    is never too early and may be late. A cluster with several links of the table counts when all of them are there.

    Raises 36 (BAD_ARGUMENTS) for a position of another table or epoch, and 48 (NOT_IMPLEMENTED) for a table that cannot
    be linked.
    """
    source = require_linkable(table).source
    position.require_origin(source.describe().origin)
    links = source.list_outgoing()
    late = {link.target_cluster_name for link in links if link.trim < position.zxid}
    return sorted({link.target_cluster_name for link in links} - late)
