"""The shard that this server belongs to, as its configuration tells it."""

from __future__ import annotations

from coordination.links.shard_place import MAX_SHARDS, ShardPlace
from engine.remote.server_clusters import get_configured_cluster, is_this_server
from engine.server.config import Config


def find_own_shard(config: Config) -> ShardPlace:
    """Returns the place of this server among the shards of its cluster.

    ``remote_servers`` tells it, under the name of ``cluster_name`` or of the macro ``cluster``. If this server is not
    there, the macro ``shard`` tells the number, if it is one.
    """
    for name in (config.cluster_name, config.macros.get("cluster")):
        if name is None or name not in config.remote_servers:
            continue
        shards = get_configured_cluster(config, name).shards
        for shard in shards:
            if any(is_this_server(address, config) for address in shard.replicas):
                return ShardPlace(shard.number, len(shards))
    text = config.macros.get("shard", "")
    is_number = text.isascii() and text.isdecimal() and len(text) < len(str(MAX_SHARDS))
    return ShardPlace(int(text) if is_number else 0)
