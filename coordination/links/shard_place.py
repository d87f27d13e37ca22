"""The shard that a server belongs to.

A link takes the changes of shard i of a table to shard i of its target. A cluster with several shards has
one table, with a place in ZooKeeper of its own, for each: servers of different shards answer differently for a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from parts.common.errors import UnavailableError, UserError

MAX_SHARDS = 100_000


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """The number of a server's shard, from 1, and how many there are; 0 is unknown."""

    number: int = 0
    count: int = 0

    def __str__(self) -> str:
        return f"shard {self.number}{f' of {self.count}' if self.count else ''}"


def check_shard_counts(own: ShardPlace, met: ShardPlace, own_cluster: str, met_cluster: str) -> None:
    """Raises 36 (BAD_ARGUMENTS), naming both clusters, if their numbers of shards are known and differ."""
    if own.count and met.count and own.count != met.count:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Cluster {met_cluster!r} has {_count(met)} and cluster {own_cluster!r} has {_count(own)}: a link takes "
            "shard i to shard i, so both need as many (remote_servers in the configuration tells it)",
        )


def check_same_shard(own: ShardPlace, met: ShardPlace, server: str) -> None:
    """Raises 36 (BAD_ARGUMENTS) if a server is of another shard than this one; another server may not."""
    if own.number and met.number and own.number != met.number:
        raise UnavailableError(
            "BAD_ARGUMENTS",
            f"{server} is a server of {met}, and this one of {own}: a link takes shard i to shard i. Name servers of "
            f"shard {own.number} in the urls of linked_clusters",
        )


def _count(place: ShardPlace) -> str:
    return f"{place.count} shard{'s' * (place.count != 1)}"
