"""Scans of Distributed tables, which read their shards, and refusal of tables without own rows."""

from __future__ import annotations

from typing import Any

from engine.remote.server_clusters import get_configured_cluster
from engine.scan.division_keys import list_sharding_keys, show_keys
from engine.server.config import Config
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from sql.definitions.engines.proxy_engines import DistributedArguments


def plan_shards(table: Table, config: Config) -> dict[str, Any]:
    """Returns ``shards``, with ``{urls, database, table}`` for each, and ``keys`` that divide rows.

    ``urls`` are the shard's replicas by HTTP. The client authenticates at those servers with its own name and password.
    Raises 701 for an unknown cluster.
    """
    arguments = DistributedArguments.of(table.definition.create)
    cluster = get_configured_cluster(config, arguments.cluster)
    shards = [
        {
            "urls": [f"http://{address}" for address in shard.replicas],
            "database": arguments.database or shard.replicas[0].default_database or "default",
            "table": arguments.table,
        }
        for shard in cluster.shards
    ]
    return {
        "shards": shards,
        **show_keys(list_sharding_keys(arguments.sharding_key, table.description.schema, cluster)),
    }


def require_own_rows(definition: TableDefinition) -> None:
    """Raises 48 for a table that only reads other tables."""
    if definition.engine.is_proxy or definition.engine.is_view:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{definition.full_name} is a {definition.engine_name}: it has no rows of its own that could be read by "
            "parts, as a stream or for an export. Read it by a query (Spark: the option 'query'), or name the table "
            "that has the rows",
        )
