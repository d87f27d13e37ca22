"""Opens Distributed tables and the functions ``remote`` and ``cluster`` for reading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from engine.distributed.shard_settings import collect_forwarded_settings, make_shard_context
from engine.distributed.sharded_relation import LocalQueries, ShardedTable
from engine.queries.context import Context
from engine.remote.parallel_streams import read_in_parallel
from engine.remote.remote_servers import make_bad_answer_error
from engine.remote.server_clusters import Address, ServerCluster, get_configured_cluster, parse_addresses
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UnavailableError, UserError
from parts.common.query_status import QueryStatus
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from sql.compile.shards.remote_table_functions import RemoteFunction
from sql.definitions.engines.proxy_engines import DistributedArguments, ShardingKey
from sql.grammar.queries.query_formatter import format_query
from sql.grammar.queries.table_references import replace_tables
from sql.grammar.syntax_tree import NamedTable, Node, Select, Star, SubqueryTable, TableFunction

_MOST_DESCRIPTION_BYTES = 16 << 20


def open_distributed_table(definition: TableDefinition, context: Context, here: LocalQueries) -> ShardedTable:
    """Returns a Distributed table as a relation. Raises 701 (CLUSTER_DOESNT_EXIST)."""
    arguments = DistributedArguments.of(definition.create)
    schema = definition.description.schema
    return ShardedTable(
        context,
        here,
        get_configured_cluster(context.server.config, arguments.cluster),
        NamedTable(arguments.database or None, arguments.table),
        schema,
        ShardingKey.of(arguments.sharding_key, schema) if arguments.sharding_key else None,
    )


def open_function_table(function: RemoteFunction, context: Context, here: LocalQueries) -> ShardedTable:
    """Returns the table of ``remote(…)`` or ``cluster(…)`` as a relation.

    Raises 164 (READONLY) for ``remote`` in a read-only session, 519 (NO_REMOTE_SHARD_AVAILABLE) if no server describes
    the columns.
    """
    config = context.server.config
    if function.name == "remote":
        if context.settings.readonly == 1:
            raise UserError("READONLY", "Cannot use the table function remote in readonly mode")
        cluster = parse_addresses(function.servers, config, function.user, function.password)
    else:
        cluster = get_configured_cluster(config, function.servers)
    if function.name == "clusterAllReplicas":
        cluster = cluster.replicas_as_shards
    table = function.table
    if isinstance(table, NamedTable):  # without a database it is in each server's default one
        database = context.session.database if table.database is None else table.database
        table = replace(table, database=database or None)
    elif isinstance(table, SubqueryTable):
        table = replace(table, query=replace_tables(table.query, partial(_qualify_table, context.session.database)))
    schema = fetch_schema(cluster, table, context, here)
    key = ShardingKey.of(function.sharding_key, schema) if function.sharding_key is not None else None
    return ShardedTable(context, here, cluster, table, schema, key)


def _qualify_table(database: str, table: NamedTable | TableFunction) -> Node:
    """Adds the session's database to a table without one, so that any server finds it."""
    if not isinstance(table, NamedTable) or table.database is not None:
        return table
    return replace(table, database=database, alias=table.alias or table.table)


def fetch_schema(cluster: ServerCluster, table: Node, context: Context, here: LocalQueries) -> TableSchema:
    """Returns the columns that the first answering shard reports.

    Raises 519 (NO_REMOTE_SHARD_AVAILABLE).
    """
    problems = []
    for shard in cluster.shards:
        try:
            return context.server.remote.ask_any_replica(
                shard, lambda address: _describe(address, table, context, here)
            )
        except UnavailableError as error:
            problems.append(error.message)
    raise UnavailableError(
        "NO_REMOTE_SHARD_AVAILABLE", f"All attempts to get table structure failed. Log: {'; '.join(problems)}"
    )


def _describe(address: Address, table: Node, context: Context, here: LocalQueries) -> TableSchema:
    deeper = make_shard_context(context, address)
    remote, settings = context.server.remote, context.settings
    text = format_query(Select((Star(),), source=table))
    if settings.prefer_localhost_replica and remote.is_local(address):
        if isinstance(table, NamedTable):
            return _get_local_schema(table, deeper)
        return TableSchema(tuple(Column(name, type_) for name, type_ in here.describe(text, deeper)))
    if isinstance(table, NamedTable):
        text = format_query(Select((Star(),), source=table)).removeprefix("SELECT * FROM ")
        text = f"DESCRIBE TABLE {text}"
    else:
        text = f"DESCRIBE ({text})"
    # In a separate thread, because a thread that waits for the network cannot check for cancellation.
    return next(read_in_parallel([_request_schema(address, text, deeper)], context.status.check))


def _request_schema(address: Address, text: str, context: Context) -> Iterator[TableSchema]:
    settings = context.settings
    with context.server.remote.post(
        address,
        f"{text} FORMAT JSONCompact",
        collect_forwarded_settings(context),
        user=context.session.user,
        connect_seconds=settings.connect_timeout_with_failover_ms / 1000,
        read_seconds=settings.receive_timeout or None,
    ) as answer:
        data = _read_bounded(address, answer, context.status)
    try:
        columns = [_make_column(*row[:4]) for row in json.loads(data)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise make_bad_answer_error(address, data.decode(errors="replace")) from None
    yield TableSchema(tuple(columns))


def _read_bounded(address: Address, answer: Iterable[bytes], status: QueryStatus) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for piece in answer:
        status.check()
        size += len(piece)
        status.memory.check_available(size, f"the answer of {address}")
        if size > _MOST_DESCRIPTION_BYTES:
            raise make_bad_answer_error(
                address, f"a description of columns of more than {_MOST_DESCRIPTION_BYTES} bytes"
            )
        pieces.append(piece)
    return b"".join(pieces)


def _make_column(name: object, type_: object, kind: object, expression: object) -> Column:
    """Makes a column of a row of DESCRIBE. Raises ``TypeError`` for values of other types."""
    for each in (name, type_, kind, expression):
        if not isinstance(each, str):
            raise TypeError(each)
    return Column(str(name), parse_type(str(type_)), default_kind=str(kind), default_expression=str(expression))


def _get_local_schema(table: NamedTable, context: Context) -> TableSchema:
    database = context.database(table.database)
    system = context.server.system_schemas.get(database, {})
    if table.table in system:
        return system[table.table]
    return context.server.catalog.table(database, table.table).description.schema
