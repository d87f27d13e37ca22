"""``information_schema``: the standard's views of databases, tables and columns.

Their rows come from the ``system`` tables. Every column exists twice, in lower and in upper case; so does every table,
and the database itself. Source: ClickHouse's ``information_schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    SystemTable,
    define_owner_table,
)
from engine.system_tables.tables import list_column_rows, list_table_rows
from sql.definitions.engines.registry import TABLE_ENGINES

_COLLATION = "utf8mb4_0900_ai_ci"


def _define_doubled_table(name: str, columns: str, rows: Callable[[OwnerServer], Iterator[Row]]) -> SystemTable:
    """Makes a table whose columns exist in lower and in upper case."""
    lines = [line.strip() for line in columns.strip().splitlines()]
    upper = [" ".join((line.split(" ", 1)[0].upper(), line.split(" ", 1)[1])) for line in lines]
    return define_owner_table(name, "\n".join([*lines, *upper]), lambda server: (row + row for row in rows(server)))


def _schemata(server: OwnerServer) -> Iterator[Row]:
    for name in server.database_names():
        yield (name, name, "default", None, None, None, None, _COLLATION, "NO")


def _tables(server: OwnerServer) -> Iterator[Row]:
    for row in list_table_rows(server):
        database, engine_name = row["database"], str(row["engine"])
        kind = "VIEW" if engine_name.endswith("View") else "SYSTEM VIEW" if engine_name == "System" else "BASE TABLE"
        yield (
            database, database, row["name"], kind, row["total_rows"], row["total_bytes"], None, _COLLATION,
            row["comment"], engine_name if kind == "BASE TABLE" else None, *[None] * 11,
        )  # fmt: skip


def _columns(server: OwnerServer) -> Iterator[Row]:
    for row in list_column_rows(server):
        type_ = str(row["type"])
        yield (
            row["database"],
            row["database"],
            row["table"],
            row["name"],
            row["position"],
            row["default_expression"],
            str(int(type_.startswith("Nullable("))),
            type_,
            None,
            row["character_octet_length"],
            row["numeric_precision"],
            row["numeric_precision_radix"],
            row["numeric_scale"],
            row["datetime_precision"],
            *[None] * 9,
            "DEFAULT_GENERATED" if row["default_kind"] == "DEFAULT" else "",
            row["comment"],
            type_,
            "PRI" if row["is_in_primary_key"] else "",
            "",
            "",
            None,
        )


def _key_columns(server: OwnerServer) -> Iterator[Row]:
    for row in list_column_rows(server):
        if row["is_in_primary_key"]:
            place = ("def", row["database"], "PRIMARY", "def", row["database"], row["table"], row["name"])
            yield (*place, 1, None, None, None, None)


def _views(server: OwnerServer) -> Iterator[Row]:
    for row in list_table_rows(server):
        if str(row["engine"]).endswith("View"):
            place = (row["database"], row["database"], row["name"], row["as_select"])
            yield (*place, "NONE", 0, int(row["engine"] == "MaterializedView"), 0, 0, 0)


def _engines(_: OwnerServer) -> Iterator[Row]:
    for name in sorted(TABLE_ENGINES):
        yield (name, "DEFAULT" if name == "MergeTree" else "YES")


def _collations(_: OwnerServer) -> Iterator[Row]:
    yield (_COLLATION, "utf8mb4", 255, "Yes", "Yes", 0, "NO PAD")
    yield ("binary", "binary", 63, "Yes", "Yes", 1, "NO PAD")


def _nothing(_: OwnerServer) -> Iterator[Row]:
    yield from ()


_TABLES = (
    _define_doubled_table(
        "schemata",
        """
        catalog_name String
        schema_name String
        schema_owner String
        default_character_set_catalog Nullable(String)
        default_character_set_schema Nullable(String)
        default_character_set_name Nullable(String)
        sql_path Nullable(String)
        default_collation_name String
        default_encryption String
        """,
        _schemata,
    ),
    _define_doubled_table(
        "tables",
        """
        table_catalog String
        table_schema String
        table_name String
        table_type String
        table_rows Nullable(UInt64)
        data_length Nullable(UInt64)
        index_length Nullable(UInt64)
        table_collation Nullable(String)
        table_comment Nullable(String)
        engine Nullable(String)
        version Nullable(UInt64)
        row_format Nullable(String)
        avg_row_length Nullable(UInt64)
        max_data_length Nullable(UInt64)
        data_free Nullable(UInt64)
        auto_increment Nullable(UInt64)
        create_time Nullable(DateTime)
        update_time Nullable(DateTime)
        check_time Nullable(DateTime)
        checksum Nullable(Int64)
        create_options Nullable(String)
        """,
        _tables,
    ),
    _define_doubled_table(
        "columns",
        """
        table_catalog String
        table_schema String
        table_name String
        column_name String
        ordinal_position UInt64
        column_default String
        is_nullable String
        data_type String
        character_maximum_length Nullable(UInt64)
        character_octet_length Nullable(UInt64)
        numeric_precision Nullable(UInt64)
        numeric_precision_radix Nullable(UInt64)
        numeric_scale Nullable(UInt64)
        datetime_precision Nullable(UInt64)
        character_set_catalog Nullable(String)
        character_set_schema Nullable(String)
        character_set_name Nullable(String)
        collation_catalog Nullable(String)
        collation_schema Nullable(String)
        collation_name Nullable(String)
        domain_catalog Nullable(String)
        domain_schema Nullable(String)
        domain_name Nullable(String)
        extra Nullable(String)
        column_comment String
        column_type String
        column_key String
        privileges String
        generation_expression String
        srs_id Nullable(UInt32)
        """,
        _columns,
    ),
    _define_doubled_table(
        "key_column_usage",
        """
        constraint_catalog String
        constraint_schema String
        constraint_name Nullable(String)
        table_catalog String
        table_schema String
        table_name String
        column_name Nullable(String)
        ordinal_position UInt32
        position_in_unique_constraint Nullable(UInt32)
        referenced_table_schema Nullable(String)
        referenced_table_name Nullable(String)
        referenced_column_name Nullable(String)
        """,
        _key_columns,
    ),
    _define_doubled_table(
        "referential_constraints",
        """
        constraint_catalog String
        constraint_schema String
        constraint_name Nullable(String)
        unique_constraint_catalog String
        unique_constraint_schema String
        unique_constraint_name Nullable(String)
        match_option String
        update_rule String
        delete_rule String
        table_name String
        referenced_table_name String
        """,
        _nothing,
    ),
    _define_doubled_table(
        "statistics",
        """
        table_catalog String
        table_schema String
        table_name String
        non_unique Int32
        index_schema String
        index_name Nullable(String)
        seq_in_index UInt32
        column_name Nullable(String)
        collation Nullable(String)
        cardinality Nullable(Int64)
        sub_part Nullable(Int64)
        packed Nullable(String)
        nullable String
        index_type String
        comment String
        index_comment String
        is_visible String
        expression Nullable(String)
        """,
        _nothing,
    ),
    _define_doubled_table(
        "views",
        """
        table_catalog String
        table_schema String
        table_name String
        view_definition String
        check_option String
        is_updatable Enum8('NO' = 0, 'YES' = 1)
        is_insertable_into Enum8('NO' = 0, 'YES' = 1)
        is_trigger_updatable Enum8('NO' = 0, 'YES' = 1)
        is_trigger_deletable Enum8('NO' = 0, 'YES' = 1)
        is_trigger_insertable_into Enum8('NO' = 0, 'YES' = 1)
        """,
        _views,
    ),
    _define_doubled_table("engines", "engine String\nsupport String", _engines),
    _define_doubled_table("character_sets", "character_set_name String", lambda _: iter([("utf8mb4",), ("binary",)])),
    _define_doubled_table(
        "collations",
        """
        collation_name String
        character_set_name Nullable(String)
        id Nullable(UInt64)
        is_default Nullable(String)
        is_compiled Nullable(String)
        sortlen Nullable(UInt64)
        pad_attribute Nullable(String)
        """,
        _collations,
    ),
)
TABLES = {**{table.name: table for table in _TABLES}, **{table.name.upper(): table for table in _TABLES}}
