"""The cluster that this server belongs to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from uuid import UUID

from coordination.keeper.interface import Keeper, KeeperConnectionLoss, KeeperError
from coordination.links.cluster_identity import ClusterIdentity, claim_cluster_identity
from coordination.links.shard_place import ShardPlace
from parts.common.errors import UserError

logger = logging.getLogger(__name__)


class ClusterMembership:
    """This server's place in a cluster, as the configuration names it and ZooKeeper knows it. Thread-safe."""

    def __init__(
        self, name: str | None, new_uuid: Callable[[], UUID], find_shard: Callable[[], ShardPlace] = ShardPlace
    ) -> None:
        self._name = name
        self._find_shard = find_shard
        self._new_uuid = new_uuid
        self._identity: ClusterIdentity | None = None

    @cached_property
    def shard(self) -> ShardPlace:
        """The shard that this server belongs to."""
        return self._find_shard()

    def join(self, keeper: Keeper | None) -> None:
        """Makes or checks the cluster's identity when the server starts.

        While ZooKeeper is away this is put off.

        Raises ``UserError`` 36 if the ZooKeeper belongs to a cluster of another name.
        """
        if self._name is None or keeper is None:
            return
        try:
            self.get_identity(keeper)
        except (KeeperError, KeeperConnectionLoss) as error:
            logger.warning("the identity of cluster %s is asked for later: %s", self._name, error)

    def get_identity(self, keeper: Keeper) -> ClusterIdentity:
        """Returns the identity of the cluster; asks ZooKeeper once.

        Raises ``UserError`` 36 without ``cluster_name``, or if the ZooKeeper belongs to a cluster of another name.
        """
        if self._name is None:
            raise UserError(
                "BAD_ARGUMENTS", "This server's configuration has no cluster_name, so its cluster has no identity"
            )
        if self._identity is None:
            self._identity = claim_cluster_identity(keeper, self._name, self._new_uuid)
        return self._identity
