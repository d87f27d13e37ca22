"""``system.*``: what the server knows about itself, as tables. Columns have ClickHouse's names where it has them."""

from engine.system_tables import replication, server, settings, storage, zookeeper

SYSTEM_TABLES = {table.name: table for module in (storage, server, settings, replication) for table in module.TABLES}
SYSTEM_TABLES[zookeeper.TABLE.name] = zookeeper.TABLE
