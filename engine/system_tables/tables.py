"""``system.databases``, ``tables``, ``columns`` and ``detached_tables``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.catalog.database_names import TEMPORARY_DATABASE
from engine.queries.context import (
    Context,
    OwnerServer,
    Row,
    require_owner,
)
from engine.system_tables.parts import count_marks
from engine.system_tables.system_table import (
    define_owner_table,
    define_session_table,
)
from engine.tables.owned_table import OwnedTable
from parts.table.table_description import Key
from parts.types import (
    BoolType,
    DataType,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FixedStringType,
    IntegerType,
    strip_nullable,
)
from sql.definitions.definition_text import render_engine_full, render_shown_create, render_shown_expression
from sql.definitions.view_queries import render_stored_query
from sql.grammar.clause_types import (
    TableRef,
)

_NO_UUID = bytes(16)


def _databases(server: OwnerServer) -> Iterator[Row]:
    for name in server.database_names():
        kind = get_database_engine(server, name)
        data = str(server.path / "data" / name)
        yield (name, kind, data, str(server.path / "metadata" / name), _NO_UUID, kind, "", 0)


def get_database_engine(server: OwnerServer, name: str) -> str:
    """Returns the engine name that clients see for a database."""
    if name in server.system_schemas:
        return "System" if name == "system" else "Memory"
    return "Ordinary"


def _tables_of_session(context: Context) -> Iterator[Row]:
    """Yields the rows of all tables, with the session's temporary tables, which have no database."""
    catalog = require_owner(context).server.catalog
    yield from _tables(require_owner(context).server)
    for name, hidden in sorted(context.session.temporary_tables.items()):
        table = catalog.find(TEMPORARY_DATABASE, hidden)
        if table is not None:
            yield _table_row(table, "", name, (), is_temporary=1)


def _tables(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.tables():
        database, name = table.definition.database, table.definition.name
        file = server.catalog.definition_file(database, name) if table.definition.engine.is_durable else None
        yield _table_row(table, database, name, server.catalog.views_of(table), file)
    for failed in server.catalog.not_loaded():
        yield _row_without_table(failed.database, failed.name, "", failed.reason)
    for database, tables in server.system_schemas.items():
        kind = "System" if database == "system" else "View"
        for name in sorted(tables):
            yield _row_without_table(database, name, kind)


def _row_without_table(database: str, name: str, engine: str, load_error: str = "") -> Row:
    """Returns the row of a system table, or of a table that could not be loaded."""
    return (
        database,
        name,
        _NO_UUID,
        engine,
        0,
        [],
        [],
        [],
        *[""] * 8,
        *[None] * 6,
        "",
        0,
        "",
        0,
        0,
        [],
        [],
        [],
        [],
        [],
        "",
        "",
        None,
        None,
        load_error,
    )


def _detached_tables(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.detached_tables():
        path = table.definition.relative_to(server.path)
        yield (table.database, table.name, _NO_UUID, str(path), int(table.is_permanently))


def _table_row(
    table: OwnedTable,
    database: str,
    name: str,
    views: Sequence[OwnedTable],
    file: Path | None = None,
    *,
    is_temporary: int = 0,
) -> Row:
    definition = table.definition
    description = definition.description
    active, has_parts = table.active_parts(), description.has_parts
    keeps_rows = definition.create.view is None and not definition.engine.is_proxy
    rows = sum(part.rows for part in active) if keeps_rows else None
    query = render_stored_query(definition.create)
    shown = replace(definition.create, table=TableRef(database or None, name), as_select=query)
    return (
        database,
        name,
        _NO_UUID,
        definition.engine_name,
        is_temporary,
        [str(definition.data_path)] if definition.engine.is_durable else [],
        [view.definition.database for view in views],
        [view.definition.name for view in views],
        render_shown_create(shown, in_one_line=True),
        render_engine_full(definition.create) if definition.create.view is None else "",
        query,
        _render_key(description.partition_key),
        _render_key(description.sorting_key),
        _render_key(description.primary_key),
        _render_key(description.sampling_key),
        "default",
        rows,
        _count_bytes_on_disk(table),
        sum(part.data_uncompressed_bytes for part in active) if rows is not None else None,
        len(table.store.list_parts()) if has_parts and table.store is not None else None,
        len(active) if has_parts else None,
        sum(count_marks(definition.description.settings, part) for part in active) if has_parts else None,
        definition.create.comment,
        int(rows is not None),
        *_find_file_facts(file),
        description.metadata_version,
        [index.kind for index in description.indexes],
        *[[]] * 4,
        *(definition.target if definition.view_source is not None else ("", "")),
        None,
        None,
        "",
    )


def _find_file_facts(file: Path | None) -> tuple[str, int]:
    """Returns the path of a definition and the time it was written."""
    try:
        return (str(file), int(file.stat().st_mtime)) if file is not None else ("", 0)
    except FileNotFoundError:  # dropped meanwhile
        return str(file), 0


def _render_key(key: Key) -> str:
    return ", ".join(map(render_shown_expression, key.expressions))


def _count_bytes_on_disk(table: OwnedTable) -> int | None:
    """Returns the bytes of the active parts; ``None`` for views and Merge tables.

    For a Distributed table ClickHouse counts the rows that wait to be sent; here none wait.
    """
    definition = table.definition
    if definition.create.view is not None or definition.engine_name == "Merge":
        return None
    return sum(part.bytes_on_disk for part in table.active_parts())


def _columns(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.tables():
        definition = table.definition
        sizes = _sum_column_sizes(table)
        keys = definition.description
        # Of a primary key that is a prefix of the sorting key, ``columns`` has the whole key's columns.
        in_primary_key = {name for names in keys.primary_key.reads for name in names}
        for position, column in enumerate(definition.description.schema.columns, 1):
            compressed, uncompressed = sizes.get(column.name, (0, 0))
            yield (
                definition.database,
                definition.name,
                column.name,
                column.type_text,
                position,
                column.default_kind,
                render_shown_expression(column.default_expression),
                compressed,
                uncompressed,
                column.comment,
                int(column.name in keys.partition_key.columns),
                int(column.name in keys.sorting_key.columns),
                int(column.name in in_primary_key),
                int(column.name in keys.sampling_key.columns),
                f"CODEC({column.codec})" if column.codec else "",
                *_find_precision(column.type),
            )
    for database, tables in server.system_schemas.items():
        for name, schema in sorted(tables.items()):
            for position, column in enumerate(schema.columns, 1):
                keys_and_codec = (0, 0, 0, 0, "")
                yield (
                    database, name, column.name, column.type_text, position, column.default_kind,
                    column.default_expression, 0, 0, "", *keys_and_codec, *_find_precision(column.type),
                )  # fmt: skip


def _find_precision(type_: DataType) -> tuple[int | None, int | None, int | None, int | None, int | None]:
    """Returns octet length, numeric precision, its radix, scale, and precision of times."""
    type_ = strip_nullable(type_)
    if isinstance(type_, FixedStringType):
        return type_.length, None, None, None, None
    if isinstance(type_, BoolType):
        return None, 8, 2, 0, None
    if isinstance(type_, IntegerType):
        return None, type_.bits, 2, 0, None
    if isinstance(type_, DecimalType):
        return None, type_.precision, 10, type_.scale, None
    if isinstance(type_, DateTime64Type):
        return None, None, None, None, type_.precision
    return None, None, None, None, 0 if isinstance(type_, DateTimeType | DateType) else None


def _sum_column_sizes(table: OwnedTable) -> dict[str, tuple[int, int]]:
    totals: dict[str, tuple[int, int]] = {}
    for part in table.active_parts():
        for name, (compressed, uncompressed) in part.column_sizes().items():
            before = totals.get(name, (0, 0))
            totals[name] = (before[0] + compressed, before[1] + uncompressed)
    return totals


TABLES = (
    define_owner_table(
        "databases",
        """
        name String
        engine String
        data_path String
        metadata_path String
        uuid UUID
        engine_full String
        comment String
        is_external UInt8
        database String ALIAS name
        """,
        _databases,
    ),
    define_session_table(
        "tables",
        """
        database String
        name String
        uuid UUID
        engine String
        is_temporary UInt8
        data_paths Array(String)
        dependencies_database Array(String)
        dependencies_table Array(String)
        create_table_query String
        engine_full String
        as_select String
        partition_key String
        sorting_key String
        primary_key String
        sampling_key String
        storage_policy String
        total_rows Nullable(UInt64)
        total_bytes Nullable(UInt64)
        total_bytes_uncompressed Nullable(UInt64)
        parts Nullable(UInt64)
        active_parts Nullable(UInt64)
        total_marks Nullable(UInt64)
        comment String
        has_own_data UInt8
        metadata_path String
        metadata_modification_time DateTime
        metadata_version Int32
        skipping_indices_types Array(String)
        loading_dependencies_database Array(String)
        loading_dependencies_table Array(String)
        loading_dependent_database Array(String)
        loading_dependent_table Array(String)
        target_database String
        target_table String
        lifetime_rows Nullable(UInt64)
        lifetime_bytes Nullable(UInt64)
        load_error String
        table String ALIAS name
        """,
        _tables_of_session,
    ),
    define_owner_table(
        "columns",
        """
        database String
        table String
        name String
        type String
        position UInt64
        default_kind String
        default_expression String
        data_compressed_bytes UInt64
        data_uncompressed_bytes UInt64
        comment String
        is_in_partition_key UInt8
        is_in_sorting_key UInt8
        is_in_primary_key UInt8
        is_in_sampling_key UInt8
        compression_codec String
        character_octet_length Nullable(UInt64)
        numeric_precision Nullable(UInt64)
        numeric_precision_radix Nullable(UInt64)
        numeric_scale Nullable(UInt64)
        datetime_precision Nullable(UInt64)
        column String ALIAS name
        """,
        _columns,
    ),
    define_owner_table(
        "detached_tables",
        """
        database String
        table String
        uuid UUID
        metadata_path String
        is_permanently UInt8
        """,
        _detached_tables,
    ),
)


def list_table_rows(server: OwnerServer) -> Iterator[dict[str, object]]:
    """Yields the rows of ``system.tables`` by column name."""
    names = TABLES[1].schema.stored.names
    return (dict(zip(names, row, strict=True)) for row in _tables(server))


def list_column_rows(server: OwnerServer) -> Iterator[dict[str, object]]:
    """Yields the rows of ``system.columns`` by column name."""
    names = TABLES[2].schema.stored.names
    return (dict(zip(names, row, strict=True)) for row in _columns(server))
