"""``system.errors``, ``events`` and ``metrics``: the server's counters under ClickHouse's names.

Queries are counted at the HTTP front, over all processes (``engine.front.query_counts``); work on parts is counted by
the process that owns the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    define_owner_table,
)
from engine.tables.capabilities.link_status import UpstreamStatus
from engine.tables.part_log import PartEventType
from parts.common.errors import CODES
from parts.store.part_states import PartState


def _errors(server: OwnerServer) -> Iterator[Row]:
    for name, count in sorted(server.query_totals().errors.items()):
        yield (name, CODES[name], int(count), 0, "", "", [], 0, "")


def _events(server: OwnerServer) -> Iterator[Row]:
    totals, log = server.query_totals(), server.services.part_log
    failed = sum(totals.errors.values())
    rows = [
        ("Query", totals["queries"], "Queries over HTTP"),
        ("InsertQuery", totals["inserts"], "Queries that wrote rows or met duplicates"),
        ("FailedQuery", failed, "Queries that ended with an error"),
        ("SelectedRows", totals["read_rows"], "Rows read by queries"),
        ("InsertedRows", totals["written_rows"], "Rows written by INSERTs"),
        ("DuplicatedInsertedBlocks", totals["deduplicated_blocks"], "Inserted blocks that were there"),
        ("Merge", log.counts[PartEventType.MERGE], "Merges carried out here"),
        ("MergedRows", log.read_rows[PartEventType.MERGE], "Rows read by merges"),
        ("PartMutation", log.counts[PartEventType.MUTATE], "Parts mutated here"),
        ("MutatedRows", log.read_rows[PartEventType.MUTATE], "Rows read by mutations"),
        ("ReplicatedPartFetches", log.counts[PartEventType.DOWNLOAD], "Parts fetched from other replicas"),
        ("ReplicatedPartFailedFetches", log.failures[PartEventType.DOWNLOAD], "Fetches that failed"),
        ("DelayedInserts", server.services.delays.count, "INSERTs that waited because of too many parts"),
        ("DelayedInsertsMilliseconds", server.services.delays.seconds * 1000, "How long they waited"),
        ("BackgroundCheckedParts", server.services.checks.parts, "Parts that the background check has read"),
        ("BackgroundCheckedBytes", server.services.checks.read_bytes, "Bytes that the background check has read"),
        ("BackgroundCheckBrokenParts", server.services.checks.broken_parts, "Broken parts that it has found"),
        ("RejectedInserts", server.services.delays.rejected, "INSERTs refused because of too many parts"),
    ]
    for name, value, description in rows:
        if value:
            yield (name, int(value), description)


def _metrics(server: OwnerServer) -> Iterator[Row]:
    services, config = server.services, server.config
    running = Counter(merge.is_mutation for merge in list(services.merges))
    stores = [table.store for table in server.catalog.tables() if table.store is not None]
    states = Counter(state for store in stores for _, state in store.list_parts())
    replicas = [table.replication for table in server.catalog.tables() if table.replication is not None]
    merges, fetches = config.background_pool_size, config.background_fetches_pool_size
    rows = [
        ("Query", sum(1 for _ in server.processes()), "Statements that run now"),
        ("Merge", running[False], "Merges that run now"),
        ("PartMutation", running[True], "Mutations of parts that run now"),
        ("ReplicatedFetch", len(services.running_fetches), "Parts on their way from other replicas"),
        ("BackgroundMergesAndMutationsPoolTask", merges - services.merging.free, "Merges and mutations, of the next"),
        ("BackgroundMergesAndMutationsPoolSize", merges, "background_pool_size"),
        ("BackgroundFetchesPoolTask", fetches - services.fetches.free, "Fetches, of the next"),
        ("BackgroundFetchesPoolSize", fetches, "background_fetches_pool_size"),
        ("PartsPreActive", states[PartState.PRE_ACTIVE], "Parts that are being committed"),
        ("PartsActive", states[PartState.ACTIVE], "Parts that queries read"),
        ("PartsOutdated", states[PartState.OUTDATED], "Parts that wait for their deletion"),
        ("ReadonlyReplica", sum(replica.problem() is not None for replica in replicas), "Replicas that cannot work"),
        ("ReplicatedChecks", sum(replica.parts_to_check for replica in replicas), "Parts that wait for a check"),
    ]
    yield from rows
    if config.cluster_name is not None:
        yield from _link_metrics(server)


def _link_metrics(server: OwnerServer) -> Iterator[Row]:
    links = [link for link in server.link_statuses() if link.state == "enabled"]
    states = Counter(link.progress.upstream_status for link in links)
    yield ("ReplicationLink", len(links), "Enabled links with other clusters, in either direction")
    yield ("ReplicationLinkPaused", states[UpstreamStatus.PAUSED], "Links that wait until a cause is gone")
    yield ("ReplicationLinkDisconnected", states[UpstreamStatus.DISCONNECTED], "Links whose other side is silent")
    yield ("ReplicationLinkStopped", states[UpstreamStatus.STOPPED], "Links that wait for a person")
    lag = max((link.progress.lag for link in links), default=0.0)
    yield ("ReplicationLinkMaxLag", int(lag), "The largest lag of a link, in seconds")
    yield ("ReplicationLinkRowsBehind", sum(link.progress.rows_behind for link in links), "Rows that targets lack")
    yield ("ReplicationLinkBytesBehind", sum(link.progress.bytes_behind for link in links), "Bytes that targets lack")


TABLES = (
    define_owner_table(
        "errors",
        """
        name String
        code Int32
        value UInt64
        last_error_time DateTime
        last_error_message String
        last_error_format_string String
        last_error_trace Array(UInt64)
        remote UInt8
        query_id String
        """,
        _errors,
    ),
    define_owner_table("events", "event String\nvalue UInt64\ndescription String\nname String ALIAS event", _events),
    define_owner_table("metrics", "metric String\nvalue Int64\ndescription String\nname String ALIAS metric", _metrics),
)
