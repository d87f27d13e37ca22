"""Queues a statement with ON CLUSTER, and waits for the servers of the cluster."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa

from coordination.ddl.ddl_entry import DdlEntry, DdlHost
from coordination.ddl.ddl_queue import DdlQueue
from coordination.keeper.interface import Keeper, KeeperError
from engine.distributed_ddl.output_modes import Answer, OutputMode
from engine.distributed_ddl.statement_kinds import refuse_on_cluster
from engine.queries.context import Context
from engine.queries.session import QueryResult
from engine.remote.server_clusters import ServerCluster, get_configured_cluster
from engine.server.config import Config
from parts.common.errors import UserError
from sql.definitions.engines.replica_location import expand_macros
from sql.grammar.statements.statement import ParsedStatement
from sql.settings.setting_values import (
    SettingValue,
)
from sql.settings.supported_settings import (
    SUPPORTED_SETTINGS,
)

_POLL_SECONDS = 0.5
"""A watch ends the wait; polling finds servers that become active, and covers a lost watch."""
_INITIATOR_PREFIXES = (
    "readonly", "dialect", "distributed_ddl_", "allow_distributed_ddl", "output_format_", "http_", "max_result_",
    "default_format",
)  # fmt: skip
"""Prefixes of settings that concern the initiator alone."""


def make_ddl_queue(config: Config) -> DdlQueue:
    """Returns the queue that the configuration names."""
    return DdlQueue(config.distributed_ddl.path, config.distributed_ddl.replicas_path)


def execute_on_cluster(parsed: ParsedStatement, context: Context) -> QueryResult:
    """Queues a statement and waits for its outcomes, as ``distributed_ddl_output_mode`` says.

    Raises 392 (QUERY_IS_PROHIBITED), 225 (NO_ZOOKEEPER), 701 (CLUSTER_DOESNT_EXIST), 48 and 36 before it queues
    anything; 159 (TIMEOUT_EXCEEDED) and errors of servers afterwards, depending on the mode.
    """
    assert parsed.on_cluster is not None
    server, settings = context.server, context.settings
    if not settings.allow_distributed_ddl:
        raise UserError("QUERY_IS_PROHIBITED", "Distributed DDL queries are prohibited: allow_distributed_ddl is 0")
    if server.replication.keeper is None:
        raise UserError("NO_ZOOKEEPER", "ON CLUSTER needs ZooKeeper: set 'zookeeper' in the server's configuration")
    cluster = get_configured_cluster(server.config, expand_macros(parsed.on_cluster.cluster, server.replication.macros))
    shards = _list_hosts(cluster)
    refuse_on_cluster(parsed.statement, [len(shard) for shard in shards])
    entry = DdlEntry(
        parsed.on_cluster.text,
        context.session.database,
        cluster.name,
        shards,
        f"{server.config.interserver_host}:{server.config.http_port or 0}",
        context.session.user,
        _collect_passed_settings(context),
        dict(context.parameters),
    )
    queue, keeper = make_ddl_queue(server.config), server.replication.require_keeper()
    name = queue.add(keeper, entry)
    if settings.distributed_ddl_task_timeout == 0:
        return QueryResult()
    answer = Answer(OutputMode.parse(settings.distributed_ddl_output_mode), entry.hosts)
    _wait_for_answer(keeper, queue, name, answer, context)
    if not answer.mode.returns_rows:
        return QueryResult()
    return _make_result(answer)


def _collect_passed_settings(context: Context) -> dict[str, SettingValue]:
    """Returns the changed settings that servers support."""
    changed = {
        name: value
        for name, value in context.settings.changes.items()
        if name in SUPPORTED_SETTINGS and not name.startswith(_INITIATOR_PREFIXES)
    }
    if context.settings.max_memory_usage == context.server.config.default_max_memory_usage:
        changed.pop("max_memory_usage", None)  # the default of this server, not the user's choice
    return changed


def _list_hosts(cluster: ServerCluster) -> tuple[tuple[DdlHost, ...], ...]:
    """Returns the servers of each shard. Raises 80 (INCORRECT_QUERY) for a server that is listed twice."""
    shards = tuple(
        tuple(DdlHost(replica.host, replica.port, replica.default_database) for replica in shard.replicas)
        for shard in cluster.shards
    )
    ids = [host.id for shard in shards for host in shard]
    twice = next((host for host in ids if ids.count(host) > 1), None)
    if twice is not None:
        raise UserError(
            "INCORRECT_QUERY", f"The server {twice} is twice in the cluster {cluster.name}: ON CLUSTER needs it once"
        )
    return shards


def _wait_for_answer(keeper: Keeper, queue: DdlQueue, name: str, answer: Answer, context: Context) -> None:
    services, seconds = context.server.services, context.settings.distributed_ddl_task_timeout
    deadline = services.monotonic() + seconds if seconds > 0 else None
    changed = threading.Event()

    def on_change(_: str) -> None:
        changed.set()

    what = f"Distributed DDL task {queue.entry_path(name)}"
    active: Collection[str] = ()
    while True:
        changed.clear()
        is_late = deadline is not None and services.monotonic() >= deadline
        try:
            status = queue.status(keeper, name, on_change)
            active = status.active
            answer.add_outcomes(status.finished, active)
            is_whole = answer.is_complete(_list_readers(keeper, queue, answer))
        except KeeperError:
            is_whole = False  # the entry stays, and the connection comes back
        if is_whole or is_late:
            answer.finish(active, is_late=is_late, what=what)
            return
        context.status.check()
        services.wait(changed, _POLL_SECONDS)


def _list_readers(keeper: Keeper, queue: DdlQueue, answer: Answer) -> Collection[str]:
    if not answer.mode.only_active:
        return ()
    return queue.list_readers(keeper, [host.id for host in answer.list_remaining()])


def _make_result(answer: Answer) -> QueryResult:
    columns = answer.mode.columns
    arrays = [pa.array([row[place] for row in answer.rows], type_.arrow) for place, (_, type_) in enumerate(columns)]
    schema = pa.schema([pa.field(name, type_.arrow, type_.is_nullable) for name, type_ in columns])
    batches = [pa.record_batch(arrays, schema=schema)] if answer.rows else []
    return replace(QueryResult(), columns=tuple(columns), batches=iter(batches))
