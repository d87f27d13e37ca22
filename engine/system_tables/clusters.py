"""``system.clusters``: the servers of the configuration's ``remote_servers``, without passwords."""

from __future__ import annotations

from collections.abc import Iterator

from engine.queries.context import (
    Row,
    Server,
)
from engine.remote.server_clusters import get_configured_cluster, resolve_host
from engine.system_tables.system_table import (
    define_server_table,
)


def _clusters(server: Server) -> Iterator[Row]:
    for name in sorted(server.config.remote_servers):
        for shard in get_configured_cluster(server.config, name).shards:
            for number, address in enumerate(shard.replicas, 1):
                count, seconds = server.remote.count_failures(address)
                yield (
                    name, shard.number, shard.name, shard.weight, int(shard.internal_replication), number,
                    address.host, resolve_host(address.host), address.port, int(server.remote.is_local(address)),
                    address.user, address.default_database, count, 0, seconds, "", "", 0, None, None, None, None,
                )  # fmt: skip


TABLES = (
    define_server_table(
        "clusters",
        """
        cluster String
        shard_num UInt32
        shard_name String
        shard_weight UInt32
        internal_replication UInt8
        replica_num UInt32
        host_name String
        host_address String
        port UInt16
        is_local UInt8
        user String
        default_database String
        errors_count UInt32
        slowdowns_count UInt32
        estimated_recovery_time UInt32
        database_shard_name String
        database_replica_name String
        is_shared_catalog_cluster UInt8
        is_active Nullable(UInt8)
        unsynced_after_recovery Nullable(UInt8)
        replication_lag Nullable(UInt32)
        recovery_time Nullable(UInt64)
        name String ALIAS cluster
        """,
        _clusters,
    ),
)
