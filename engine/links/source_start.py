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
    """The commit that wrote the vector: a place at or behind it is one whose vector this is, if it was read later."""


def read_start(table: OwnedTable) -> SourceStart:
    """Reads what a link that begins must know, behind everything that was committed before the call."""
    replica = table.replication
    assert replica is not None, "only replicated tables are linkable"
    keeper, paths = replica.require_keeper(), replica.paths
    keeper.sync(paths.root)
    try:
        has_rows = bool(keeper.children(paths.block_numbers))
    except NoNode:
        has_rows = False
    [found] = keeper.get_many([paths.link_vector])
    if found is None:
        return SourceStart(has_rows, VersionVector(), 0)
    return SourceStart(has_rows, VersionVector.parse(found[0]), found[1].modified_zxid)
