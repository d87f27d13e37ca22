"""``system.parts``, ``detached_parts`` and ``merges``."""

from __future__ import annotations

from collections.abc import Iterator

from engine.context import Server
from engine.system_tables.system_table import Row, system_table
from parts.detached import split_detached
from parts.store import PartState


def _parts(server: Server) -> Iterator[Row]:
    for table in server.catalog.tables():
        definition = table.definition
        if not definition.description.has_parts:
            continue
        for part, state in sorted(table.store.all_parts(), key=lambda item: item[0].name):
            yield (
                ", ".join(map(str, part.partition)) if len(part.partition) == 1 else str(part.partition),
                str(part.name),
                str(part.uuid),
                part.part_type,
                int(state is PartState.ACTIVE),
                part.marks,
                part.rows,
                part.bytes_on_disk,
                part.data_uncompressed_bytes,
                int(part.modification_time),
                part.name.partition_id,
                part.name.min_block,
                part.name.max_block,
                part.name.level,
                part.name.mutation,
                part.content_hash,
                definition.database,
                definition.name,
                definition.engine_name,
                str(part.path),
                state.value,
            )


def _detached_parts(server: Server) -> Iterator[Row]:
    for table in server.catalog.tables():
        for directory in table.store.detached():
            reason, name = split_detached(directory)
            files = (table.store.path / "detached" / directory).iterdir()
            yield (
                table.definition.database,
                table.definition.name,
                name.partition_id if name else None,
                directory,
                sum(file.stat().st_size for file in files),
                reason,
                name.min_block if name else None,
                name.max_block if name else None,
                name.level if name else None,
            )


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
            merge.total_rows,
            merge.rows_written,
        )


TABLES = (
    system_table(
        "parts",
        """
        partition String
        name String
        uuid String
        part_type String
        active UInt8
        marks UInt64
        rows UInt64
        bytes_on_disk UInt64
        data_uncompressed_bytes UInt64
        modification_time DateTime
        partition_id String
        min_block_number Int64
        max_block_number Int64
        level UInt32
        data_version UInt64
        hash_of_uncompressed_files String
        database String
        table String
        engine String
        path String
        _state String
        """,
        _parts,
    ),
    system_table(
        "detached_parts",
        """
        database String
        table String
        partition_id Nullable(String)
        name String
        bytes_on_disk UInt64
        reason String
        min_block_number Nullable(Int64)
        max_block_number Nullable(Int64)
        level Nullable(UInt32)
        """,
        _detached_parts,
    ),
    system_table(
        "merges",
        """
        database String
        table String
        elapsed Float64
        progress Float64
        num_parts UInt64
        source_part_names Array(String)
        result_part_name String
        total_rows UInt64
        rows_written UInt64
        """,
        _merges,
    ),
)
