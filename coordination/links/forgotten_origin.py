"""Marks an origin that is gone for good in a table's vector: whatever still arrives of it is dropped.

The mark is a promise that no other cluster has changes of the origin that this table lacks: they would be lost here.
The other clusters are not asked, so the statement takes FORCE alone.
"""

from __future__ import annotations

from coordination.keeper.interface import BadVersion, Keeper, KeeperConnectionLoss, NoNode
from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Origin
from coordination.links.table_vector import read_origin_positions
from coordination.links.version_vector import VersionVector
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError, UserError

_ATTEMPTS = 20


def forget_origin(keeper: Keeper, table: TablePaths, cluster_uuid: str, origin: Origin) -> None:
    """Sets the mark. Does nothing if it is there.

    Raises 36 (BAD_ARGUMENTS) for an origin of which the table has no changes, for its own, and for one that a link
    brings changes of.
    """
    _require_gone(keeper, table, cluster_uuid, origin)
    for _ in range(_ATTEMPTS):
        keeper.sync(table.root)
        try:
            data, stat = keeper.get(table.linked.vector)
            vector = VersionVector.parse(data)
            if origin not in vector.entries:
                known = ", ".join(map(str, vector.entries)) or "none"
                raise UserError("BAD_ARGUMENTS", f"The table has no changes of {origin}; it has those of: {known}")
            if vector.entries[origin].is_forgotten:
                return
            keeper.set(table.linked.vector, vector.forget(origin).to_bytes(), stat.version)
            return
        except NoNode:
            raise UserError(
                "BAD_ARGUMENTS", f"The table has no changes of {origin}: no link ever brought any"
            ) from None
        except (BadVersion, KeeperConnectionLoss):
            continue
    raise ConflictError("KEEPER_EXCEPTION", f"The vector of {table.root} keeps moving; repeat the statement")


def _require_gone(keeper: Keeper, table: TablePaths, cluster_uuid: str, origin: Origin) -> None:
    if any(
        each.is_own and each.position.origin == origin for each in read_origin_positions(keeper, table, cluster_uuid)
    ):
        raise UserError("BAD_ARGUMENTS", f"{origin} is the table itself: it cannot be forgotten")
    names = keeper.children_many([table.linked.incoming])[0] or []
    found = keeper.get_many([table.linked.incoming_link(name) for name in names])
    for link in (LinkDefinition.parse(answer[0]) for answer in found if answer is not None):
        if link.source_origin == str(origin):
            raise UserError(
                "BAD_ARGUMENTS",
                f"{origin} is the source of link {link.name!r}. DROP REPLICATION LINK {link.name} first, if it is gone",
            )
