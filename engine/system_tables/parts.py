"""``system.parts``, ``parts_columns``, ``detached_parts`` and ``dropped_tables``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime

import xxhash

from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    ColumnGroup,
    define_grouped_table,
    define_owner_table,
)
from engine.system_tables.ttl_columns import COLUMN_TTL_COLUMNS, TTL_COLUMNS, make_column_ttl_values, make_ttl_values
from engine.tables.part_log import format_partition
from engine.tables.table_definition import TableDefinition
from parts.format.file_names import MARKS, PRIMARY_INDEX
from parts.read.part_reader import Part
from parts.store.detached_parts import parse_detached_name
from parts.store.part_states import (
    PartState,
    StoredPart,
)
from parts.table.table_description import Column, PartSettings
from sql.definitions.definition_text import render_shown_expression

_DISK = "default"
_EPOCH = date(1970, 1, 1)
_NO_TIME = 0


def _list_stored_parts(server: OwnerServer) -> Iterator[tuple[TableDefinition, StoredPart]]:
    for table in server.catalog.tables():
        if table.definition.description.has_parts and table.store is not None:
            for entry in table.store.entries():
                yield table.definition, entry


def _list_stored_columns(
    server: OwnerServer,
) -> Iterator[tuple[TableDefinition, StoredPart, int, Column, tuple[int, int]]]:
    """Yields the columns that each part has, with position and sizes."""
    for definition, entry in _list_stored_parts(server):
        sizes = entry.part.column_sizes()
        for position, column in enumerate(definition.description.schema.stored.columns, 1):
            if column.name in sizes:
                yield definition, entry, position, column, sizes[column.name]


def count_marks(settings: PartSettings, part: Part) -> int:
    """Returns the number of marks as ClickHouse counts them.

    It counts one more at the end of a part if granules are bounded by bytes.
    """
    return part.marks + (part.rows > 0 and settings.index_granularity_bytes > 0)


def _hash_files(part: Part) -> str:
    """Returns a hash of the files' sizes and hashes."""
    return xxhash.xxh3_128_hexdigest(part.checksums.encode())


def _count_index_bytes(part: Part) -> tuple[int, int, int]:
    """Returns the skip indexes' bytes: on disk, uncompressed, and of marks, which do not exist."""
    indexes = list(part.skip_index_file or ())
    return sum(index.size for index in indexes), sum(index.uncompressed_bytes for index in indexes), 0


def _partition(definition: TableDefinition, entry: StoredPart, *_: object) -> Row:
    return (format_partition(definition.description.partition_key, entry.part),)


def _name(_: TableDefinition, entry: StoredPart, *__: object) -> Row:
    return (str(entry.part.name), entry.part.uuid.bytes, entry.part.part_type)


def _active(_: TableDefinition, entry: StoredPart, *__: object) -> Row:
    return (int(entry.state is PartState.ACTIVE),)


def _sizes(definition: TableDefinition, entry: StoredPart, *_: object) -> Row:
    part, name = entry.part, entry.part.name
    return (
        count_marks(definition.description.settings, part),
        part.rows,
        part.bytes_on_disk,
        part.data_uncompressed_bytes,
        int(part.modification_time),
        name.partition_id,
        name.min_block,
        name.max_block,
        name.level,
        name.mutation,
    )


_IDENTITY = (
    ColumnGroup("partition String", _partition),
    ColumnGroup("name String\nuuid UUID\npart_type String", _name),
    ColumnGroup("active UInt8", _active),
    ColumnGroup(
        """
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
        """,
        _sizes,
    ),
)
_ALIASES = """
bytes UInt64 ALIAS bytes_on_disk
marks_size UInt64 ALIAS marks_bytes
part_name String ALIAS name"""


def _files(_: TableDefinition, entry: StoredPart) -> Row:
    part, files = entry.part, entry.part.checksums.files
    index = files.get(PRIMARY_INDEX)
    return (
        "Packed" if part.part_type == "Compact" else "Full",
        len(files) + 1,
        *_count_index_bytes(part),
        index.size if index is not None else 0,
    )


def _hashes(_: TableDefinition, entry: StoredPart) -> Row:
    return _hash_files(entry.part), entry.part.content_hash


def _state(_: TableDefinition, entry: StoredPart) -> Row:
    part = entry.part
    is_active = entry.state is PartState.ACTIVE
    return entry.state.value, int(is_active), int(part.has_deleted_rows), int(part.is_frozen), []


def _column(
    definition: TableDefinition, entry: StoredPart, position: int, column: Column, sizes: tuple[int, int]
) -> Row:
    stored, raw = sizes
    return (
        column.name,
        str(column.type),
        position,
        column.default_kind,
        render_shown_expression(column.default_expression),
        stored,
        stored,
        raw,
        0,
        int(entry.part.modification_time),
        "Default",
        *make_column_ttl_values(definition.description, entry.part, column.name),
    )


_PLACE = ColumnGroup(
    """
    database String
    table String
    engine String
    disk_name String
    path String
    """,
    lambda definition, entry, *_: (
        definition.database,
        definition.name,
        definition.engine_name,
        _DISK,
        str(entry.part.path),
    ),
)


def _make_usage_values(_: TableDefinition, entry: StoredPart, *__: object) -> Row:
    part = entry.part
    marks = part.checksums.files.get(MARKS)
    in_memory = part.index_bytes_in_memory
    return (
        sum(stored for stored, _ in part.checksums.column_bytes.values()),
        marks.size if marks is not None else 0,
        int(entry.remove_time or 0),
        entry.references + (entry.state is PartState.ACTIVE),
        *_find_time_range(part),
        in_memory,
        in_memory,
    )


_USE = ColumnGroup(
    """
    data_compressed_bytes UInt64
    marks_bytes UInt64
    remove_time DateTime
    refcount UInt32
    min_date Date
    max_date Date
    min_time DateTime
    max_time DateTime
    primary_key_bytes_in_memory UInt64
    primary_key_bytes_in_memory_allocated UInt64
    """,
    _make_usage_values,
)


def _find_time_range(part: Part) -> Row:
    """Returns the least and greatest date and time of the partition key's columns, or the epoch."""
    dates, times = [_EPOCH, _EPOCH], [_NO_TIME, _NO_TIME]
    for least, greatest in part.minmax.values():
        if isinstance(least, datetime) and isinstance(greatest, datetime):
            times = [int(least.timestamp()), int(greatest.timestamp())]
        elif isinstance(least, date) and isinstance(greatest, date):
            dates = [least, greatest]
    return (*dates, *times)


def _detached_parts(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.tables():
        for directory in table.store.detached() if table.store is not None else ():
            reason, name = parse_detached_name(directory)
            path = table.definition.data_path / "detached" / directory
            try:
                size, changed = sum(file.stat().st_size for file in path.iterdir()), int(path.stat().st_mtime)
            except FileNotFoundError:  # attached or dropped meanwhile
                continue
            yield (
                table.definition.database,
                table.definition.name,
                name.partition_id if name else None,
                directory,
                size,
                changed,
                _DISK,
                str(path),
                reason,
                name.min_block if name else None,
                name.max_block if name else None,
                name.level if name else None,
            )


TABLES = (
    define_grouped_table(
        "parts",
        (
            *_IDENTITY,
            ColumnGroup(
                """
                part_storage_type String
                files UInt64
                secondary_indices_compressed_bytes UInt64
                secondary_indices_uncompressed_bytes UInt64
                secondary_indices_marks_bytes UInt64
                primary_key_size UInt64
                """,
                _files,
            ),
            _USE,
            ColumnGroup("hash_of_all_files String\nhash_of_uncompressed_files String", _hashes),
            _PLACE,
            ColumnGroup(
                """
                _state String
                visible UInt8
                has_lightweight_delete UInt8
                is_frozen UInt8
                projections Array(String)
                """,
                _state,
            ),
            ColumnGroup(TTL_COLUMNS, lambda definition, entry: make_ttl_values(definition.description, entry.part)),
            ColumnGroup(
                "last_check_time DateTime\nlast_check_error String",
                lambda _, entry: (int(entry.checked_at), entry.check_error),
            ),
        ),
        _ALIASES,
        _list_stored_parts,
    ),
    define_grouped_table(
        "parts_columns",
        (
            *_IDENTITY,
            _USE,
            _PLACE,
            ColumnGroup(
                f"""
                column String
                type String
                column_position UInt64
                default_kind String
                default_expression String
                column_bytes_on_disk UInt64
                column_data_compressed_bytes UInt64
                column_data_uncompressed_bytes UInt64
                column_marks_bytes UInt64
                column_modification_time Nullable(DateTime)
                serialization_kind String
                {COLUMN_TTL_COLUMNS}
                """,
                _column,
            ),
        ),
        _ALIASES,
        _list_stored_columns,
    ),
    define_owner_table(
        "detached_parts",
        """
        database String
        table String
        partition_id Nullable(String)
        name String
        bytes_on_disk UInt64
        modification_time DateTime
        disk String
        path String
        reason Nullable(String)
        min_block_number Nullable(Int64)
        max_block_number Nullable(Int64)
        level Nullable(UInt32)
        """,
        _detached_parts,
    ),
    define_owner_table(  # always empty: DROP removes a table before it returns
        "dropped_tables",
        """
        index UInt32
        database String
        table String
        uuid UUID
        engine String
        metadata_dropped_path String
        table_dropped_time DateTime
        """,
        lambda _: [],
    ),
)
