"""The settings that change what Pando does, as one typed object.

:class:`Settings` is immutable and complete: a setting that nobody set has its default. Each field is a setting with
ClickHouse's name and default (``system.settings``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple, TypeVar, cast

from sql.settings.setting_values import CLICKHOUSE_DIALECT, SettingValue

Value = TypeVar("Value", bound=SettingValue)


class SettingInfo(NamedTuple):
    """A setting's name, type, default and description."""

    name: str
    type: str
    default: SettingValue
    description: str
    only: tuple[SettingValue, ...] = ()
    """The supported values, if the type has more."""


def _setting(type: str, default: Value, description: str, *, only: tuple[Value, ...] = ()) -> Value:
    return field(default=default, metadata={"type": type, "description": description, "only": only})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All honoured settings. Make it with :func:`sql.settings.session_settings.make_settings`."""

    dialect: str = _setting(
        "Dialect",
        CLICKHOUSE_DIALECT,
        "Whose SQL queries are written in: clickhouse, or spark, postgres, mysql, duckdb, …",
    )

    # inserts and quorum
    insert_quorum: int | str = _setting(
        "UInt64Auto", 0, "Replicas that must have a block before INSERT returns, or auto"
    )
    insert_quorum_parallel: bool = _setting("Bool", True, "Quorum inserts do not wait for each other")
    insert_quorum_timeout: int = _setting("Milliseconds", 600_000, "How long an INSERT waits for its quorum")
    select_sequential_consistency: bool = _setting("Bool", False, "SELECT sees exactly what reached its quorum")
    link_min_position: str = _setting(
        "String", "", "Pando's own: a target of a link is read when it has reached this position"
    )
    link_read_cut: str = _setting(
        "String", "", "Pando's own: tables of a group of links are read at this cut (lastCut) or a later one"
    )
    link_wait_timeout_ms: int = _setting("Milliseconds", 10_000, "Pando's own: the longest wait for it (159)")
    max_link_lag_seconds: int = _setting(
        "UInt64", 0, "Pando's own: a target that is farther behind its source is not read (369); 0: any"
    )
    insert_deduplicate: bool = _setting("Bool", True, "Blocks inserted before are dropped (Replicated tables)")
    insert_deduplication_token: str = _setting("String", "", "Identifies the inserted data in place of its hash")
    insert_transaction: str = _setting(
        "String", "", "Pando's own: the rows wait, unseen, for COMMIT TRANSACTION with this id"
    )
    insert_transaction_attempt: str = _setting(
        "String", "", "Pando's own: the name under which they wait; COMMIT may take some names and leave others"
    )
    engine_file_truncate_on_insert: bool = _setting("Bool", False, "INSERT INTO FUNCTION file writes a file anew")
    parts_to_delay_insert: int = _setting("UInt64", 0, "Parts in a partition that make an INSERT wait; 0: the table's")
    parts_to_throw_insert: int = _setting("UInt64", 0, "Parts in a partition that refuse it (252); 0: the table's")
    min_free_disk_bytes_to_perform_insert: int = _setting("UInt64", 0, "Less free disk refuses an INSERT (243)")
    min_free_disk_ratio_to_perform_insert: float = _setting("Float", 0.0, "The same, as a share of the disk")
    max_partitions_per_insert_block: int = _setting("UInt64", 100, "Partitions a block may touch (252); 0: any number")
    max_insert_block_size: int = _setting("NonZeroUInt64", 1_048_449, "Rows in a block that INSERT forms from its data")
    min_insert_block_size_rows: int = _setting(
        "UInt64", 1_048_449, "INSERT joins smaller blocks up to this number of rows"
    )
    min_insert_block_size_bytes: int = _setting("UInt64", 268_402_944, "A block of an INSERT ends at this size; 0: any")

    insert_allow_materialized_columns: bool = _setting("Bool", False, "INSERT may give values to MATERIALIZED columns")
    optimize_on_insert: bool = _setting("Bool", True, "A block is written as the table's engine would merge it")

    deduplicate_blocks_in_dependent_materialized_views: bool = _setting(
        "Bool", True, "What a view makes of a block is told from others by that block"
    )
    allow_materialized_view_with_bad_select: bool = _setting(
        "Bool", False, "CREATE MATERIALIZED VIEW takes a query with columns that its target lacks"
    )

    # reading
    final: bool = _setting("Bool", False, "FINAL for every table that supports it")
    do_not_merge_across_partitions_select_final: bool = _setting("Bool", False, "FINAL merges each partition by itself")
    enable_automatic_decision_for_merging_across_partitions_for_final: bool = _setting(
        "Bool", True, "The same where the sorting key tells the partition"
    )
    use_skip_indexes_if_final: bool = _setting("Bool", True, "Skip indexes are used with FINAL too")
    use_skip_indexes_if_final_exact_mode: bool = _setting(
        "Bool", True, "… but only where that cannot bring back a row that another replaces"
    )
    max_block_size: int = _setting("NonZeroUInt64", 65_409, "Rows in a block of a result")
    max_threads: int = _setting("MaxThreads", 0, "Threads that decode what a query reads (0: the whole pool)")
    function_sleep_max_microseconds_per_block: int = _setting(
        "UInt64", 3_000_000, "Longest that sleep waits in a block of rows (160); 0: any time"
    )
    max_execution_time: float = _setting("Seconds", 0.0, "Seconds after which a query is ended (159); 0: none")
    max_memory_usage: int = _setting(
        "UInt64",
        0,
        "Bytes of memory a query may use (241); 0: as many as the server has",
    )
    max_memory_usage_for_user: int = _setting(
        "UInt64", 0, "Bytes of memory all queries of a user may use together (241); 0: any"
    )
    max_result_rows: int = _setting("UInt64", 0, "Rows that a SELECT may answer (396); 0: any number")
    max_result_bytes: int = _setting("UInt64", 0, "Bytes, uncompressed, that a SELECT may answer (396); 0: any number")
    result_overflow_mode: str = _setting(
        "OverflowMode", "throw", "Beyond these limits: throw, or break and answer part"
    )
    max_rows_to_read: int = _setting("UInt64", 0, "Rows that a query may read (158); 0: any number")
    max_bytes_to_read: int = _setting("UInt64", 0, "Bytes, uncompressed, that it may read (307); 0: any number")
    read_overflow_mode: str = _setting("OverflowMode", "throw", "Beyond these: throw, or break and leave the rest out")
    max_rows_to_read_leaf: int = _setting("UInt64", 0, "As max_rows_to_read, on every server that reads")
    max_bytes_to_read_leaf: int = _setting("UInt64", 0, "As max_bytes_to_read, on every server that reads")
    read_overflow_mode_leaf: str = _setting("OverflowMode", "throw", "As read_overflow_mode, beyond these two")
    max_columns_to_read: int = _setting("UInt64", 0, "Columns of a table that a query may read (161); 0: any number")
    max_partitions_to_read: int = _setting("Int64", -1, "Partitions of a table (565); 0: any number, -1: the table's")
    force_primary_key: bool = _setting("Bool", False, "A query that the primary key does not narrow is refused (277)")
    force_index_by_date: bool = _setting("Bool", False, "One that the partition key does not narrow is refused (277)")
    use_skip_indexes: bool = _setting("Bool", True, "Granules are passed over by the skip indexes of a table")
    ignore_data_skipping_indices: str = _setting("String", "", "Names of skip indexes that a query does not use")
    force_data_skipping_indices: str = _setting(
        "String", "", "Names of skip indexes that a query must use, or is refused (277)"
    )
    any_join_distinct_right_table_keys: bool = _setting(
        "Bool", False, "ANY JOIN takes one right row for each left one, however many left rows have its key"
    )
    join_use_nulls: bool = _setting("Bool", False, "Missing cells of outer joins are NULL, not the type's default")
    max_query_size: int = _setting("UInt64", 262_144, "Bytes of SQL text that a query may have, without INSERT data")
    max_parser_depth: int = _setting("UInt64", 1000, "Levels that the parser goes down (306); never more than 1000")
    max_ast_depth: int = _setting("UInt64", 1000, "Levels of a query's tree (167); never more than 1000")
    max_ast_elements: int = _setting("UInt64", 50_000, "Elements of a query's tree (168); 0: any number")
    max_expanded_ast_elements: int = _setting(
        "UInt64", 500_000, "Elements of a query's tree with its aliases written out (36); 0: any number"
    )
    readonly: int = _setting("UInt64", 0, "1: only reading and no change of settings; 2: only reading")

    compatibility: str = _setting("String", "", "Other settings that have an effect start with this version's defaults")
    session_timezone: str = _setting("Timezone", "", "The time zone of the session in place of the server's")

    # tables and replication
    default_table_engine: str = _setting(
        "DefaultTableEngine", "MergeTree", "Engine of CREATE TABLE without ENGINE; None"
    )
    default_temporary_table_engine: str = _setting(
        "DefaultTableEngine", "Memory", "Engine of CREATE TEMPORARY TABLE without ENGINE"
    )
    create_table_empty_primary_key_by_default: bool = _setting(
        "Bool", True, "A MergeTree without ORDER BY has ORDER BY tuple()"
    )
    allow_deprecated_syntax_for_merge_tree: bool = _setting(
        "Bool", False, "The keys of a MergeTree may be arguments of its engine"
    )
    check_query_single_value_result: bool = _setting(
        "Bool", False, "CHECK TABLE answers with one row: whether all is well"
    )
    optimize_skip_merged_partitions: bool = _setting("Bool", False, "OPTIMIZE FINAL leaves partitions of one part")
    optimize_throw_if_noop: bool = _setting("Bool", False, "OPTIMIZE that had nothing to do is an error (388)")
    alter_sync: int = _setting("UInt64", 1, "ALTER, OPTIMIZE, TRUNCATE: 0 waits for nothing, 2 for all replicas")
    mutations_sync: int = _setting(
        "UInt64",
        1,
        "A mutation returns when it is kept (0), carried out here (1), on all replicas (2)",
    )
    lightweight_deletes_sync: int = _setting("UInt64", 2, "mutations_sync of DELETE FROM")
    materialize_ttl_after_modify: bool = _setting("Bool", True, "MODIFY TTL applies it to the parts that are there")
    allow_nondeterministic_mutations: bool = _setting(
        "Bool", False, "Mutations of replicated tables may have functions and subqueries that differ between replicas"
    )
    enable_lightweight_delete: bool = _setting("Bool", True, "DELETE FROM is allowed")
    enable_lightweight_update: bool = _setting("Bool", True, "UPDATE … SET is allowed")
    allow_replace_partition_from_empty_source: bool = _setting(
        "Bool", False, "REPLACE PARTITION from a partition without rows drops the other"
    )
    allow_suspicious_primary_key: bool = _setting("Bool", False, "A sorting key may have columns that merges aggregate")
    allow_suspicious_ttl_expressions: bool = _setting("Bool", False, "TTL may be the same for every row")
    allow_drop_detached: bool = _setting("Bool", False, "ALTER TABLE … DROP DETACHED may delete")
    receive_timeout: float = _setting("Seconds", 300.0, "How long SYSTEM SYNC REPLICA waits")

    # the HTTP interface
    wait_end_of_query: bool = _setting("Bool", False, "The whole answer is made before its first byte is sent")
    http_response_buffer_size: int = _setting(
        "UInt64", 1_048_576, "Bytes of an answer held back before the first is sent"
    )
    enable_http_compression: bool = _setting(
        "Bool", False, "Answers are compressed as the client's Accept-Encoding allows"
    )
    http_zlib_compression_level: int = _setting("Int64", 3, "Level of gzip and deflate answers")
    http_receive_timeout: float = _setting("Seconds", 30.0, "A client that sends nothing for so long is 209")
    http_send_timeout: float = _setting("Seconds", 30.0, "A client that reads nothing for so long is left")
    http_max_uri_size: int = _setting("UInt64", 1_048_576, "Longest URI of a request, bytes (of the server's profile)")
    http_max_fields: int = _setting("UInt64", 1000, "Most headers of a request (of the server's profile)")
    http_max_field_name_size: int = _setting("UInt64", 4096, "Longest name of a header (of the server's profile)")
    http_max_field_value_size: int = _setting("UInt64", 131_072, "Longest value of a header (of the server's profile)")
    http_max_request_header_size: int = _setting(
        "UInt64", 10_485_760, "Longest head of a request, bytes (of the server's profile)"
    )
    send_progress_in_http_headers: bool = _setting("Bool", False, "X-ClickHouse-Progress headers while a query runs")
    http_headers_progress_interval_ms: int = _setting("UInt64", 100, "Least time between two progress headers")
    add_http_cors_header: bool = _setting("Bool", False, "Answers may be read by pages of any origin")
    default_format: str = _setting("String", "", "Format of answers to queries without FORMAT")

    # tables in shards
    skip_unavailable_shards: bool = _setting("Bool", False, "A shard of which no replica answers gives no rows")
    prefer_localhost_replica: bool = _setting("Bool", True, "A shard's replica on this server is read without network")
    connect_timeout_with_failover_ms: int = _setting(
        "Milliseconds", 1000, "How long a replica may take to be connected to before another is tried"
    )
    allow_distributed_ddl: bool = _setting("Bool", True, "Statements with ON CLUSTER are taken; 0: refused (392)")
    distributed_ddl_task_timeout: int = _setting(
        "Int64",
        180,
        "Seconds that a statement with ON CLUSTER waits for the servers (159); 0: none, negative: any",
    )
    distributed_ddl_output_mode: str = _setting(
        "DistributedDDLOutputMode", "throw", "What it answers, and when it fails: see ClickHouse's documentation"
    )
    max_replica_delay_for_distributed_queries: int = _setting(
        "UInt64", 300, "Seconds of replication delay from which a replica is stale and others are asked; 0: never"
    )
    fallback_to_stale_replicas_for_distributed_queries: bool = _setting(
        "Bool", True, "If all replicas of a shard are stale the least stale is asked; 0: the query is refused (369)"
    )
    max_distributed_depth: int = _setting("UInt64", 5, "Tables in shards that may lie behind each other; 0: any")
    distributed_product_mode: str = _setting(
        "DistributedProductMode", "deny", "IN and JOIN of two tables in shards: deny, local, global or allow"
    )
    optimize_skip_unused_shards: bool = _setting(
        "Bool", False, "Only shards are asked in which the sharding key that WHERE tells may be"
    )
    optimize_skip_unused_shards_limit: int = _setting(
        "UInt64", 1000, "Most values of the sharding key that are looked at for that"
    )
    optimize_skip_unused_shards_rewrite_in: bool = _setting(
        "Bool", True, "Each shard is asked for those values of an IN that are its own"
    )
    allow_nondeterministic_optimize_skip_unused_shards: bool = _setting(
        "Bool", False, "Shards are left out by sharding keys with rand() as well"
    )
    force_optimize_skip_unused_shards: int = _setting(
        "UInt64", 0, "1: WHERE must leave shards out where there is a sharding key (507); 2: everywhere"
    )
    optimize_skip_unused_shards_nesting: int = _setting(
        "UInt64", 0, "For so many tables in shards behind each other shards are left out; 0: for all"
    )
    force_optimize_skip_unused_shards_nesting: int = _setting(
        "UInt64", 0, "For so many of them shards must be left out; 0: for all"
    )
    distributed_foreground_insert: bool = _setting(
        "Bool", False, "INSERT into shards returns when they have the rows; so it does with 0"
    )

    # formats
    format_csv_delimiter: str = _setting("Char", ",", "The character between CSV fields")
    input_format_skip_unknown_fields: bool = _setting("Bool", True, "Fields that are no column are skipped")
    input_format_column_name_matching_mode: str = _setting(
        "InputFormatColumnMatchingCaseSensitivity",
        "auto",
        "How fields find columns: match_case, ignore_case, or auto: as written, or else ignoring case",
    )
    input_format_null_as_default: bool = _setting(
        "Bool", True, "NULL for a column that cannot hold it becomes its default"
    )
    input_format_defaults_for_omitted_fields: bool = _setting(
        "Bool", True, "Omitted fields get their DEFAULT expression"
    )
    input_format_csv_empty_as_default: bool = _setting("Bool", True, "Empty CSV fields are defaults")
    input_format_csv_detect_header: bool = _setting("Bool", True, "A first row of CSV that names columns is a header")
    input_format_tsv_detect_header: bool = _setting(
        "Bool", True, "A first row of TabSeparated that names columns is a header"
    )
    date_time_input_format: str = _setting(
        "DateTimeInputFormat", "basic", "How text of date and time is read", only=("basic", "best_effort")
    )
    output_format_json_quote_64bit_integers: bool = _setting("Bool", False, "64-bit integers are strings in JSON")
    output_format_json_quote_denormals: bool = _setting("Bool", False, "nan and inf are strings in JSON, not null")
    output_format_json_quote_64bit_floats: bool = _setting("Bool", False, "64-bit floats are strings in JSON")
    output_format_json_named_tuples_as_objects: bool = _setting("Bool", True, "Named tuples are objects in JSON")
    output_format_json_quote_decimals: bool = _setting("Bool", False, "Decimals are strings in JSON")
    output_format_json_escape_forward_slashes: bool = _setting("Bool", True, "/ is written as \\/ in JSON")
    output_format_pretty_max_rows: int = _setting("UInt64", 1000, "Rows that Pretty formats show")
    output_format_pretty_max_value_width: int = _setting(
        "UInt64", 10_000, "Characters of a value that Pretty formats show"
    )
    output_format_pretty_max_column_pad_width: int = _setting(
        "UInt64", 250, "Widest padding of a column in Pretty formats"
    )
    output_format_pretty_color: int | str = _setting("UInt64Auto", "auto", "Pretty formats use colours; auto: no")
    output_format_pretty_row_numbers: bool = _setting("Bool", True, "Pretty formats number the rows")
    output_format_write_statistics: bool = _setting("Bool", True, "JSON formats tell elapsed time and rows read")

    # beside the settings
    changes: Mapping[str, SettingValue] = field(default_factory=dict)
    """The settings that were set, also those that are not honoured, by canonical name."""
    server_timezone: str = "UTC"

    @property
    def timezone(self) -> str:
        """The time zone of DateTime values whose type names none."""
        return self.session_timezone or self.server_timezone


SUPPORTED_SETTINGS: dict[str, SettingInfo] = {
    entry.name: SettingInfo(
        entry.name,
        entry.metadata["type"],
        cast(SettingValue, entry.default),
        entry.metadata["description"],
        entry.metadata["only"],
    )
    for entry in fields(Settings)
    if entry.metadata
}


DEFAULT_SETTINGS = Settings()
