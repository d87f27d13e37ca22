"""Marks an origin that is gone for good in a table's vector: whatever still arrives of it is dropped.

The mark is a promise that no other cluster has changes of the origin that this table lacks: they would be lost here. So
the tables that links join to this one are asked first (:mod:`coordination.links.origin_survey`).
"""

from __future__ import annotations

from collections.abc import Iterable

from coordination.keeper.interface import BadVersion, Keeper, KeeperConnectionLoss, NoNode
from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Origin
from coordination.links.table_vector import OriginPosition, read_origin_positions
from coordination.links.version_vector import VersionVector
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError, UserError

_ATTEMPTS = 20


def find_origin(positions: Iterable[OriginPosition], origin: Origin) -> OriginPosition | None:
    """Returns a table's position of one origin, or ``None``."""
    return next((each for each in positions if each.position.origin == origin), None)


def require_forgettable(keeper: Keeper, table: TablePaths, cluster_uuid: str, origin: Origin) -> OriginPosition:
    """Returns how far the table has the changes of an origin.

    Raises 36 (BAD_ARGUMENTS) for one that it cannot forget: one of which it has no changes, its own, and one that a
    link brings changes of.
    """
    keeper.sync(table.root)
    positions = read_origin_positions(keeper, table, cluster_uuid)
    found = find_origin(positions, origin)
    if found is not None and found.is_own:
        raise UserError("BAD_ARGUMENTS", f"{origin} is the table itself: it cannot be forgotten")
    _require_no_link(keeper, table, origin)
    if found is None:
        known = ", ".join(str(each.position.origin) for each in positions if not each.is_own)
        raise UserError(
            "BAD_ARGUMENTS",
            f"The table has no changes of {origin}: "
            + (f"it has those of {known}" if known else "no link ever brought any"),
        )
    return found


def forget_origin(keeper: Keeper, table: TablePaths, origin: Origin, applied: int | None = None) -> bool:
    """Sets the mark; does nothing if it is there. Returns whether it is set.

    With ``applied`` it is not set if the table's changes of the origin do not end there any more.
    """
    for _ in range(_ATTEMPTS):
        keeper.sync(table.root)
        try:
            data, stat = keeper.get(table.linked.vector)
            vector = VersionVector.parse(data)
            entry = vector.entries.get(origin)
            if entry is not None and entry.is_forgotten:
                return True
            if applied is not None and vector.applied(origin) != applied:
                return False
            keeper.set(table.linked.vector, vector.forget(origin).to_bytes(), stat.version)
            return True
        except (BadVersion, KeeperConnectionLoss, NoNode):
            continue
    raise ConflictError("KEEPER_EXCEPTION", f"The vector of {table.root} keeps moving; repeat the statement")


def list_incoming(keeper: Keeper, table: TablePaths) -> list[LinkDefinition]:
    """Returns the links whose target the table is."""
    names = keeper.children_many([table.linked.incoming])[0] or []
    found = keeper.get_many([table.linked.incoming_link(name) for name in names])
    return [LinkDefinition.parse(answer[0]) for answer in found if answer is not None]


def _require_no_link(keeper: Keeper, table: TablePaths, origin: Origin) -> None:
    for link in list_incoming(keeper, table):
        if link.source_origin == str(origin):
            raise UserError(
                "BAD_ARGUMENTS",
                f"{origin} is the source of link {link.name!r}. DROP REPLICATION LINK {link.name} first, if it is gone",
            )
