"""``system.*``: what the server knows about itself, as tables. Columns have ClickHouse's names where it has them."""

from engine.system_tables import (
    absent,
    activity,
    clusters,
    counters,
    disks,
    distributed_ddl,
    graphite,
    indexes,
    information_schema,
    kinds,
    mutations,
    replication,
    server,
    settings,
    storage,
    tables,
    transactions,
    zookeeper,
)
from engine.system_tables.system_table import SystemTable

SYSTEM_TABLES = {
    table.name: table
    for module in (
        tables,
        storage,
        indexes,
        activity,
        clusters,
        counters,
        distributed_ddl,
        graphite,
        kinds,
        server,
        settings,
        replication,
        transactions,
        mutations,
        disks,
        absent,
    )
    for table in module.TABLES
}
SYSTEM_TABLES |= {table.name: table for table in (zookeeper.TABLE, zookeeper.CONNECTIONS)}

SYSTEM_DATABASES: dict[str, dict[str, SystemTable]] = {
    "system": SYSTEM_TABLES,
    "information_schema": information_schema.TABLES,
    "INFORMATION_SCHEMA": information_schema.TABLES,
}
"""The databases that are no directories: tables by name."""
