"""System tables of features that Pando lacks: always empty, with ClickHouse's columns.

Clients and BI tools query them.
"""

from __future__ import annotations

from engine.system_tables.system_table import SystemTable, define_server_table


def _define_empty_table(name: str, columns: str) -> SystemTable:
    return define_server_table(name, columns, lambda _: ())


_STATUS = (
    "Enum8('NOT_LOADED' = 0, 'LOADED' = 1, 'FAILED' = 2, 'LOADING' = 3, 'FAILED_AND_RELOADING' = 4, "
    "'LOADED_AND_RELOADING' = 5, 'NOT_EXIST' = 6)"
)
TABLES = (
    _define_empty_table(
        "dictionaries",
        f"""
        database String
        name String
        uuid UUID
        status {_STATUS}
        origin String
        type String
        key.names Array(String)
        key.types Array(String)
        attribute.names Array(String)
        attribute.types Array(String)
        bytes_allocated UInt64
        hierarchical_index_bytes_allocated UInt64
        query_count UInt64
        hit_rate Float64
        found_rate Float64
        element_count UInt64
        load_factor Float64
        source String
        lifetime_min UInt64
        lifetime_max UInt64
        loading_start_time DateTime
        last_successful_update_time DateTime
        error_count UInt64
        loading_duration Float32
        last_exception String
        comment String
        """,
    ),
    _define_empty_table(
        "projections",
        """
        database String
        table String
        name String
        type Enum8('Normal' = 0, 'Aggregate' = 1)
        sorting_key Array(String)
        query String
        settings Map(String, String)
        """,
    ),
    _define_empty_table(
        "named_collections",
        """
        name String
        collection Map(String, String)
        source String
        create_query String
        """,
    ),
    _define_empty_table(
        "view_refreshes",
        """
        database String
        view String
        uuid UUID
        status String
        last_success_time Nullable(DateTime)
        last_success_duration_ms Nullable(UInt64)
        last_refresh_time Nullable(DateTime)
        last_refresh_replica String
        next_refresh_time Nullable(DateTime)
        exception String
        retry UInt64
        progress Nullable(Float64)
        read_rows Nullable(UInt64)
        read_bytes Nullable(UInt64)
        total_rows Nullable(UInt64)
        written_rows Nullable(UInt64)
        written_bytes Nullable(UInt64)
        """,
    ),
    _define_empty_table(
        "moves",
        """
        database String
        table String
        elapsed Float64
        target_disk_name String
        target_disk_path String
        part_name String
        part_size UInt64
        thread_id UInt64
        """,
    ),
    _define_empty_table(
        "asynchronous_inserts",
        """
        query String
        database String
        table String
        format String
        first_update DateTime64(6)
        total_bytes UInt64
        entries.query_id Array(String)
        entries.bytes Array(UInt64)
        """,
    ),
    _define_empty_table(
        "distribution_queue",
        """
        database String
        table String
        data_path String
        is_blocked UInt8
        error_count UInt64
        data_files UInt64
        data_compressed_bytes UInt64
        broken_data_files UInt64
        broken_data_compressed_bytes UInt64
        last_exception String
        last_exception_time DateTime
        """,
    ),
    _define_empty_table("current_roles", "role_name String\nwith_admin_option UInt8\nis_default UInt8"),
    _define_empty_table(
        "enabled_roles", "role_name String\nwith_admin_option UInt8\nis_current UInt8\nis_default UInt8"
    ),
    _define_empty_table("warnings", "message String\nmessage_format_string LowCardinality(String)"),
)
