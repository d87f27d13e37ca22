"""From the definition of a Distributed table, or the arguments of a table function, to what a SELECT reads."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from engine.context import Context
from engine.interpreter.shards.relation import LocalQueries, ShardedTable
from engine.interpreter.shards.settings import passed_settings, shard_context
from engine.remote.clusters import Address, ServerCluster, cluster_of_addresses, configured_cluster
from engine.tables.definition import TableDefinition
from parts.errors import UnavailableError, UserError
from parts.schema import Column, TableSchema
from parts.types import parse_type
from sql.compile.shard_functions import ShardFunction
from sql.definitions.proxies import DistributedArguments, ShardingKey
from sql.grammar.syntax_tree import NamedTable, Node, Select, Star, SubqueryTable, TableFunction
from sql.grammar.table_names import replace_tables
from sql.grammar.written import query_text


def distributed_table(definition: TableDefinition, context: Context, here: LocalQueries) -> ShardedTable:
    """Raises 701 for a cluster that the configuration has no more."""
    arguments = DistributedArguments.of(definition.create)
    schema = definition.description.schema
    return ShardedTable(
        context,
        here,
        configured_cluster(context.server.config, arguments.cluster),
        NamedTable(arguments.database or None, arguments.table),
        schema,
        ShardingKey.of(arguments.sharding_key, schema) if arguments.sharding_key else None,
    )


def function_table(function: ShardFunction, context: Context, here: LocalQueries) -> ShardedTable:
    """Raises 164 for ``remote`` in a session that may only read tables, 519 where no server tells the columns."""
    config = context.server.config
    if function.name == "remote":
        if context.settings.readonly == 1:
            raise UserError("READONLY", "Cannot use the table function remote in readonly mode")
        cluster = cluster_of_addresses(function.servers, config, function.user, function.password)
    else:
        cluster = configured_cluster(config, function.servers)
    if function.name == "clusterAllReplicas":
        cluster = cluster.one_by_one
    table = function.table
    if isinstance(table, NamedTable):  # without a name it is each server's default one
        database = context.session.database if table.database is None else table.database
        table = replace(table, database=database or None)
    elif isinstance(table, SubqueryTable):
        table = replace(table, query=replace_tables(table.query, partial(_of_database, context.session.database)))
    schema = remote_schema(cluster, table, context, here)
    key = ShardingKey.of(function.sharding_key, schema) if function.sharding_key is not None else None
    return ShardedTable(context, here, cluster, table, schema, key)


def _of_database(database: str, table: NamedTable | TableFunction) -> Node:
    """A table of a view is one of the session's database, on whichever server."""
    if not isinstance(table, NamedTable) or table.database is not None:
        return table
    return replace(table, database=database, alias=table.alias or table.table)


def remote_schema(cluster: ServerCluster, table: Node, context: Context, here: LocalQueries) -> TableSchema:
    """The columns as the first shard that answers has them."""
    problems = []
    for shard in cluster.shards:
        try:
            return context.server.remote.of_any_replica(
                shard, lambda address: _described(address, table, context, here)
            )
        except UnavailableError as error:
            problems.append(error.message)
    raise UnavailableError(
        "NO_REMOTE_SHARD_AVAILABLE", f"All attempts to get table structure failed. Log: {'; '.join(problems)}"
    )


def _described(address: Address, table: Node, context: Context, here: LocalQueries) -> TableSchema:
    deeper = shard_context(context, address)
    remote, settings = context.server.remote, context.settings
    text = query_text(Select((Star(),), source=table))
    if settings.prefer_localhost_replica and remote.is_local(address):
        if isinstance(table, NamedTable):
            return _own_schema(table, deeper)
        return TableSchema(tuple(Column(name, type_) for name, type_ in here.described(text, deeper)))
    if isinstance(table, NamedTable):
        text = query_text(Select((Star(),), source=table)).removeprefix("SELECT * FROM ")
        text = f"DESCRIBE TABLE {text}"
    else:
        text = f"DESCRIBE ({text})"
    seconds = settings.connect_timeout_with_failover_ms / 1000
    passed = passed_settings(deeper)
    with remote.post(address, f"{text} FORMAT JSONCompact", passed, connect_seconds=seconds) as answer:
        rows = json.loads(answer.read())["data"]
    return TableSchema(
        tuple(
            Column(name, parse_type(type_), default_kind=kind, default_expression=expression)
            for name, type_, kind, expression, *_ in rows
        )
    )


def _own_schema(table: NamedTable, context: Context) -> TableSchema:
    database = context.database(table.database)
    system = context.server.system_schemas.get(database, {})
    if table.table in system:
        return system[table.table]
    return context.server.catalog.table(database, table.table).description.schema
