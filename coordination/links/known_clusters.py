"""The clusters that this one has links with: each name has one UUID, for good.

::

    /pando/linked_clusters/<name>    the UUID of the cluster that had the name when they met first

Two clusters under one name, or one cluster under two, are refused when they meet: a position names its cluster by the
UUID, and a link by the name.
"""

from __future__ import annotations

from coordination.keeper.interface import Keeper, KeeperConnectionLoss, NodeExists, NoNode
from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.stream.gap_check import require_one_name
from parts.common.errors import ConflictError

PATH = "/pando/linked_clusters"
_ATTEMPTS = 20


def read_known_clusters(keeper: Keeper, own: ClusterIdentity) -> dict[str, str]:
    """Returns name → UUID of the clusters that were met, this one among them."""
    try:
        names = keeper.children(PATH)
    except NoNode:
        names = []
    found = keeper.get_many([f"{PATH}/{name}" for name in names])
    known = {name: answer[0].decode() for name, answer in zip(names, found, strict=True) if answer is not None}
    return {**known, own.name: own.uuid}


def check_known_cluster(keeper: Keeper, own: ClusterIdentity, met: ClusterIdentity) -> None:
    """Raises ``UserError`` 36 (BAD_ARGUMENTS) for a cluster that has another's name or UUID."""
    require_one_name(read_known_clusters(keeper, own), met.name, met.uuid)


def remember_cluster(keeper: Keeper, own: ClusterIdentity, met: ClusterIdentity) -> None:
    """Checks a cluster as :func:`check_known_cluster` does, and remembers it. This cluster needs no entry."""
    for _ in range(_ATTEMPTS):
        known = read_known_clusters(keeper, own)
        require_one_name(known, met.name, met.uuid)
        if met.name in known:
            return
        try:
            keeper.create_parents(PATH)
            keeper.create(f"{PATH}/{met.name}", met.uuid.encode())
        except (NodeExists, KeeperConnectionLoss):  # whose it is now is looked at again
            continue
    raise ConflictError("KEEPER_EXCEPTION", f"Could not remember cluster {met.name!r} at {PATH}; try again")
