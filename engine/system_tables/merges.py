"""``system.merges``, ``replicated_fetches`` and ``part_log``: running and finished work on parts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

from engine.queries.context import (
    Row,
    Server,
)
from engine.system_tables.system_table import (
    define_server_table,
)
from engine.tables.part_log import PartEvent, PartEventType
from parts.common.part_name import PartName

_NO_UUID = bytes(16)
_REASONS = {"": 1, "Regular": 2, "TTLDelete": 3, "TTLRecompress": 4}
_TYPES = ", ".join(f"'{name}' = {code}" for name, code in (kind.value for kind in PartEventType))


def _merges(server: Server) -> Iterator[Row]:
    now = server.services.clock()
    for merge in list(server.services.merges):
        yield (
            merge.database,
            merge.table,
            now - merge.started,
            merge.progress,
            len(merge.sources),
            list(merge.sources),
            merge.result,
            [f"{merge.path}/{source}" for source in merge.sources],
            f"{merge.path}/{merge.result}",
            merge.partition,
            PartName.parse(merge.result).partition_id,
            int(merge.is_mutation),
            merge.total_bytes,
            merge.total_uncompressed_bytes,
            int(merge.progress * merge.total_uncompressed_bytes),
            int(merge.progress * merge.total_rows),
            merge.total_rows,
            merge.rows_written,
            merge.merge_type if not merge.is_mutation else "",
            "Horizontal",
        )


def _fetches(server: Server) -> Iterator[Row]:
    now = server.services.clock()
    for fetch in list(server.services.running_fetches):
        url, transfer = urlsplit(fetch.source_url), fetch.transfer
        yield (
            fetch.database,
            fetch.table,
            now - fetch.started,
            transfer.received_bytes / max(1, transfer.total_bytes),
            str(fetch.part),
            str(fetch.directory),
            fetch.part.partition_id,
            transfer.total_bytes,
            transfer.received_bytes,
            fetch.source_path,
            url.hostname or "",
            url.port or 0,
            url.scheme,
            fetch.source_url,
            0,
            0,
        )


def _part_log(server: Server) -> Iterator[Row]:
    for event in server.services.part_log.events():
        yield _event_row(event, server.config.display_name)


def _event_row(event: PartEvent, host: str) -> Row:
    moment = datetime.fromtimestamp(event.time, UTC)
    return (
        host,
        event.query_id,
        event.type.value[1],
        _REASONS.get(event.merge_type, 2),
        moment.date(),
        int(event.time),
        moment.replace(tzinfo=None),
        int(event.duration_seconds * 1000),
        event.database,
        event.table,
        _NO_UUID,
        str(event.name),
        event.name.partition_id,
        event.partition,
        event.part_type,
        "default",
        event.path,
        event.rows,
        event.bytes_on_disk,
        list(event.merged_from),
        event.uncompressed_bytes,
        event.read_rows,
        event.read_bytes,
        0,
        event.error,
        event.exception,
    )


TABLES = (
    define_server_table(
        "merges",
        """
        database String
        table String
        elapsed Float64
        progress Float64
        num_parts UInt64
        source_part_names Array(String)
        result_part_name String
        source_part_paths Array(String)
        result_part_path String
        partition String
        partition_id String
        is_mutation UInt8
        total_size_bytes_compressed UInt64
        total_size_bytes_uncompressed UInt64
        bytes_read_uncompressed UInt64
        rows_read UInt64
        total_rows UInt64
        rows_written UInt64
        merge_type String
        merge_algorithm String
        """,
        _merges,
    ),
    define_server_table(
        "replicated_fetches",
        """
        database String
        table String
        elapsed Float64
        progress Float64
        result_part_name String
        result_part_path String
        partition_id String
        total_size_bytes_compressed UInt64
        bytes_read_compressed UInt64
        source_replica_path String
        source_replica_hostname String
        source_replica_port UInt16
        interserver_scheme String
        URI String
        to_detached UInt8
        thread_id UInt64
        """,
        _fetches,
    ),
    define_server_table(
        "part_log",
        f"""
        hostname String
        query_id String
        event_type Enum8({_TYPES})
        merge_reason Enum8('NotAMerge' = 1, 'RegularMerge' = 2, 'TTLDeleteMerge' = 3, 'TTLRecompressMerge' = 4)
        event_date Date
        event_time DateTime
        event_time_microseconds DateTime64(6)
        duration_ms UInt64
        database String
        table String
        table_uuid UUID
        part_name String
        partition_id String
        partition String
        part_type String
        disk_name String
        path_on_disk String
        rows UInt64
        size_in_bytes UInt64
        merged_from Array(String)
        bytes_uncompressed UInt64
        read_rows UInt64
        read_bytes UInt64
        peak_memory_usage UInt64
        error UInt16
        exception String
        """,
        _part_log,
    ),
)
