"""``system.*``: the server's state as tables, with ClickHouse's column names where it has them."""

from engine.system_tables import (
    built_in_objects,
    clusters,
    disks,
    distributed_ddl,
    empty_tables,
    graphite,
    information_schema,
    links,
    merges,
    metrics,
    mutations,
    parts,
    processes,
    replication,
    settings,
    skip_indexes,
    tables,
    transactions,
    zookeeper,
)
from engine.system_tables.system_table import SystemTable

SYSTEM_TABLES = {
    table.name: table
    for module in (
        tables,
        parts,
        skip_indexes,
        merges,
        clusters,
        metrics,
        distributed_ddl,
        graphite,
        built_in_objects,
        processes,
        settings,
        replication,
        links,
        transactions,
        mutations,
        disks,
        empty_tables,
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
