"""Tables whose rows are those of others: a scan of a table in shards is one of the shards, on their servers."""

from __future__ import annotations

from typing import Any

from engine.remote.server_clusters import get_configured_cluster
from engine.server.config import Config
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from sql.definitions.engines.proxy_engines import DistributedArguments


def list_shards(definition: TableDefinition, config: Config) -> list[dict[str, Any]]:
    """For each shard ``{urls, database, table}``: its replicas by HTTP. ``definition`` is of a Distributed table. Who
    scans is known to those servers, or not, under the name and password given here. Raises 701."""
    arguments = DistributedArguments.of(definition.create)
    return [
        {
            "urls": [f"http://{address}" for address in shard.replicas],
            "database": arguments.database or shard.replicas[0].default_database or "default",
            "table": arguments.table,
        }
        for shard in get_configured_cluster(config, arguments.cluster).shards
    ]


def require_own_rows(definition: TableDefinition) -> None:
    """Raises 48 for a table whose rows are those of others."""
    if definition.engine.is_proxy or definition.engine.is_view:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{definition.full_name} is a {definition.engine_name}: it has no rows of its own that could be read by "
            "parts, as a stream or for an export. Read it by a query (Spark: the option 'query'), or name the table "
            "that has the rows",
        )
