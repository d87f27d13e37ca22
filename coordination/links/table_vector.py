"""The positions of a linked table: its own, and how far it has the changes of other origins."""

from __future__ import annotations

from dataclasses import dataclass

from coordination.keeper.interface import Keeper
from coordination.links.positions import Position
from coordination.links.table_position import read_current_position
from coordination.links.version_vector import VersionVector
from coordination.nodes.paths import TablePaths


@dataclass(frozen=True, slots=True)
class OriginPosition:
    """How far a table has the changes of one origin."""

    position: Position
    begin: int = 0
    """The zxid where the table's copy of the origin begins."""
    is_own: bool = False
    """The origin is the table itself."""
    is_forgotten: bool = False


def read_origin_positions(keeper: Keeper, table: TablePaths, cluster_uuid: str) -> list[OriginPosition]:
    """Returns the table's own position first, then those of the vector.

    Raises 225 (NO_ZOOKEEPER) for a table that is not in ZooKeeper, 48 (NOT_IMPLEMENTED) for one without a gate.
    """
    own = Position.parse(read_current_position(keeper, table, cluster_uuid))
    found = [OriginPosition(own, is_own=True)]
    (answer,) = keeper.get_many([table.linked.vector])
    vector = VersionVector.parse(answer[0]) if answer is not None else VersionVector()
    for position in vector:
        entry = vector.entries[position.origin]
        found.append(OriginPosition(position, entry.begin, is_forgotten=entry.is_forgotten))
    return found
