"""What a link that begins must know of its source's table."""

from __future__ import annotations

from dataclasses import dataclass

from coordination.keeper.interface import NoNode
from coordination.links.version_vector import VersionVector
from engine.tables.owned_table import OwnedTable


@dataclass(frozen=True, slots=True)
class SourceStart:
    """The table's vector, and whether it ever had rows."""

    has_rows: bool
    """Some partition has a counter of block numbers: rows are there, were there, or are about to be."""
    vector: VersionVector
    """What other links brought; the table's own origin is not in it."""
    vector_zxid: int
    """The commit that wrote the vector: the vector is that of every place from there to the moment of the reading."""
    registered: int
    """The commit that registered the link; 0 if the table does not know it."""


def read_start(table: OwnedTable, link: str) -> SourceStart:
    """Reads what a link that begins must know, behind everything that was committed before the call.

    ``link`` is its name at the source, ``<cluster>/<name>``.
    """
    replica = table.replication
    assert replica is not None, "only replicated tables are linkable"
    keeper, paths = replica.require_keeper(), replica.paths
    keeper.sync(paths.root)
    try:
        has_rows = bool(keeper.children(paths.block_numbers))
    except NoNode:
        has_rows = False
    cluster, _, name = link.partition("/")
    vector, registration = keeper.get_many([paths.link_vector, paths.outgoing_link(cluster, name)])
    registered = registration[1].created_zxid if registration is not None else 0
    if vector is None:
        return SourceStart(has_rows, VersionVector(), 0, registered)
    return SourceStart(has_rows, VersionVector.parse(vector[0]), vector[1].modified_zxid, registered)
