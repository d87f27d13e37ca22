"""The identity of a cluster: a name, and a UUID that is made once in its ZooKeeper.

::

    /pando/cluster    {"version":1,"name":"west","uuid":"6b1f0c2e-…"}

The first server that has a ``cluster_name`` makes the node; servers that start together agree on it. A ZooKeeper
belongs to one cluster: a server with another name is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from coordination.keeper.interface import Keeper, KeeperConnectionLoss, NodeExists, NoNode
from parts.common.errors import ConflictError, CorruptionError, UserError

CLUSTER_PATH = "/pando/cluster"
_PARENT = "/pando"
_FORMAT_VERSION = 1
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """The name and UUID that distinguish a cluster from all others."""

    name: str
    uuid: str

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        document = {"version": _FORMAT_VERSION, "name": self.name, "uuid": self.uuid}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> ClusterIdentity:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document = json.loads(data)
            if document["version"] != _FORMAT_VERSION:
                raise ValueError(f"version {document['version']}, this server understands {_FORMAT_VERSION}")
            return cls(document["name"], str(UUID(document["uuid"])))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(
                f"Cannot read the cluster's identity {data[:200]!r} ({CLUSTER_PATH}): {error}", name="CORRUPTED_DATA"
            ) from error


def claim_cluster_identity(keeper: Keeper, name: str, new_uuid: Callable[[], UUID]) -> ClusterIdentity:
    """Returns the identity of the cluster of this ZooKeeper, which is made if there is none.

    Raises ``UserError`` 36 (BAD_ARGUMENTS) if the ZooKeeper belongs to a cluster of another name.
    """
    for _ in range(_ATTEMPTS):
        try:
            found = ClusterIdentity.parse(keeper.get(CLUSTER_PATH)[0])
        except NoNode:
            _make(keeper, ClusterIdentity(name, str(new_uuid())))
            continue
        if found.name != name:
            raise UserError(
                "BAD_ARGUMENTS",
                f"cluster_name is {name!r}, but this ZooKeeper belongs to cluster {found.name!r} ({found.uuid}, "
                f"{CLUSTER_PATH}). All servers around one ZooKeeper have the same cluster_name",
            )
        return found
    raise ConflictError("KEEPER_EXCEPTION", f"Could not make the cluster's identity at {CLUSTER_PATH}; try again")


def _make(keeper: Keeper, identity: ClusterIdentity) -> None:
    """Makes the node, unless another server does. The caller reads what is there then."""
    try:
        keeper.create_parents(_PARENT)
        keeper.create(CLUSTER_PATH, identity.to_bytes())
    except (NodeExists, KeeperConnectionLoss):
        return
