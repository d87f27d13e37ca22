"""Settings of a MergeTree table, and the check of their names and values.

Those with an effect are the fields of :class:`MergeTreeSettings`. The others are harmless or binding, as settings of a
session are (:mod:`sql.settings.clickhouse_settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import cast

from parts.common.errors import UserError
from parts.table.table_description import PartSettings
from sql.settings.clickhouse_settings import load_clickhouse_settings
from sql.settings.session_settings import Kind, check_unsupported_value, suggest_names
from sql.settings.setting_values import SettingValue, format_setting_value, parse_setting_value

REFUSE_INSERTS = "refuse_inserts"
"""A setting of Pando's own that only ALTER TABLE sets (``engine.interpreter.refuse_inserts``)."""
TRACKER_SETTINGS = (
    "enable_replicated_table_tracker",
    "min_sync_replica_count",
    "max_sync_replica_count",
    "preferred_sync_clusters",
    "link_collocation",
)
"""Settings of Pando's own that only ALTER TABLE sets (``engine.interpreter.links.tracker_settings``)."""
COMMANDS_FROM = "commands_from"
"""Another one (``engine.interpreter.links.commands_from``)."""


@dataclass(frozen=True, slots=True)
class MergeTreeSettings(PartSettings):
    """The settings of a table that have an effect, with ClickHouse's names and defaults.

    Source: ``system.merge_tree_settings``. ``parts`` sees only the fields of its base class.
    """

    allow_nullable_key: bool = False
    """Keys may have NULL."""
    allow_experimental_replacing_merge_with_cleanup: bool = False
    """``OPTIMIZE … FINAL CLEANUP`` may remove rows that are marked as deleted."""
    max_suspicious_broken_parts: int = 100
    """More broken parts than this at a start keep the table from being loaded."""
    max_suspicious_broken_parts_bytes: int = 1024 * 1024 * 1024
    """More bytes of broken parts than this do so too."""
    replicated_max_ratio_of_wrong_parts: float = 0.5
    """If a larger share of the rows differs from ZooKeeper at a start, the table stays read-only (231)."""
    replicated_deduplication_window: int = 1000
    """Ids of inserted blocks that ZooKeeper keeps: a block with a known id is not stored again."""
    replicated_deduplication_window_seconds: int = 7 * 24 * 3600
    """Seconds after which such an id is removed."""
    non_replicated_deduplication_window: int = 0
    """Ids of inserted blocks that a table of one server keeps; 0: no deduplication."""
    parts_to_delay_insert: int = 1000
    """Active parts of a partition from which an INSERT waits."""
    parts_to_throw_insert: int = 3000
    """Active parts of a partition from which an INSERT is refused (252)."""
    inactive_parts_to_delay_insert: int = 0
    """Inactive parts of a partition from which an INSERT waits; 0: any number."""
    inactive_parts_to_throw_insert: int = 0
    """Inactive parts of a partition from which an INSERT is refused (252); 0: any number."""
    max_avg_part_size_for_too_many_parts: int = 1024**3
    """Bytes: where parts are larger on average, their number delays and refuses nothing."""
    max_delay_to_insert: int = 1
    """Longest wait of an INSERT, in seconds."""
    min_delay_to_insert_ms: int = 10
    """Shortest wait of an INSERT that has to wait, in milliseconds."""
    max_partitions_to_read: int = -1
    """Partitions that a query may read (565); -1: any number."""
    max_parts_in_total: int = 100_000
    """Active parts of the table from which an INSERT is refused (252)."""
    max_parts_to_merge_at_once: int = 100
    """Most parts that one merge makes one."""
    max_bytes_to_merge_at_max_space_in_pool: int = 150 * 1024**3
    """Largest merge, in bytes, while the server has slots free."""
    max_bytes_to_merge_at_min_space_in_pool: int = 1024**2
    """Largest merge, in bytes, while few slots are free."""
    max_replicated_merges_in_queue: int = 1000
    """Merges in the queue of a replica from which it logs no more."""
    max_replicated_fetches_network_bandwidth: int = 0
    """Bytes a second that fetched parts of the table may take; 0: any number."""
    max_replicated_sends_network_bandwidth: int = 0
    """Bytes a second that parts sent to other replicas may take; 0: any number."""
    execute_merges_on_single_replica_time_threshold: int = 0
    """Seconds for which one replica alone makes a merge and the others wait to fetch it; 0: all merge."""
    min_free_disk_bytes_to_perform_insert: int = 0
    """Free bytes below which an INSERT is refused (243)."""
    min_free_disk_ratio_to_perform_insert: float = 0.0
    """The same, as a share of the disk."""
    min_replicated_logs_to_keep: int = 10
    """Log entries that are kept even when all replicas have copied them."""
    max_replicated_logs_to_keep: int = 1000
    """Log entries beyond which an inactive replica is given up: it is cloned when it comes back."""
    cleanup_delay_period: int = 30
    """Seconds between two cleanings of the table."""
    max_cleanup_delay_period: int = 300
    """Most seconds between them, where there is nothing to clean."""
    always_fetch_merged_part: bool = False
    """The replica fetches the results of merges that another replica chose."""
    prefer_fetch_merged_part_time_threshold: int = 3600
    """Seconds: a merge that is older is fetched if another replica has the result."""
    prefer_fetch_merged_part_size_threshold: int = 10 * 1024**3
    """Bytes: such a merge is fetched only if its parts are larger together."""
    merge_selecting_sleep_ms: int = 5000
    """Milliseconds between two looks for merges."""
    max_merge_selecting_sleep_ms: int = 60_000
    """Most milliseconds between them, while nothing changes."""
    merge_selecting_sleep_slowdown_factor: float = 1.2
    """How much longer each pause is than the last, while nothing changes."""
    ttl_only_drop_parts: bool = False
    """TTL drops parts that expired as a whole, and rewrites none."""
    remove_empty_parts: bool = True
    """Parts without rows are dropped."""
    merge_with_ttl_timeout: int = 4 * 3600
    """Least seconds between two merges of a partition because of a TTL of rows or columns."""
    merge_with_recompression_ttl_timeout: int = 4 * 3600
    """Least seconds between two merges of a partition because of a TTL with RECOMPRESS."""
    max_number_of_merges_with_ttl_in_pool: int = 2
    """Merges because of TTL at a time, on this server."""
    max_replicated_merges_with_ttl_in_queue: int = 1
    """Merges because of TTL in the queue of a replica from which it logs no more."""
    finished_mutations_to_keep: int = 100
    """Finished mutations that ``system.mutations`` still shows."""
    max_postpone_time_for_failed_mutations_ms: int = 300_000
    """Longest pause, in milliseconds, before a mutation that failed is tried again."""
    number_of_mutations_to_throw: int = 1000
    """Unfinished mutations from which another is refused (692)."""
    link_log_min_seconds_to_retain: int = 300
    """Seconds for which blocks are kept for replication links, though all links have them."""
    link_log_max_seconds_to_retain: int = 86_400
    """Seconds after which blocks are given up, though a link needs them; ignored if not above the minimum."""
    link_log_max_bytes_to_retain: int = 0
    """Bytes of blocks beyond which the oldest are given up, though a link needs them; 0: any number."""
    link_log_stop_retaining_min_disk_mb: int = 1024
    """Free megabytes of the disk below which the oldest blocks are given up, however young; 0: keep them."""
    last_writer_wins: bool = False
    """Of the rows of a key the one inserted last stays, wherever (for ReplicatedReplacingMergeTree; Pando's own)."""
    conflict_order: str = ""
    """An expression over one row: with ``last_writer_wins`` the row with its largest value stays (Pando's own)."""
    link_tombstone_seconds: int = 86_400
    """Seconds for which deleted rows of a ``last_writer_wins`` table are kept after no older row can come (Pando's)."""


SUPPORTED_MERGE_TREE_SETTINGS: dict[str, SettingValue] = {
    field.name: cast(SettingValue, field.default) for field in fields(MergeTreeSettings)
}
"""The default of each setting that has an effect."""
OWN_TABLE_SETTINGS = MappingProxyType(
    {
        "link_log_min_seconds_to_retain": "Seconds",
        "link_log_max_seconds_to_retain": "Seconds",
        "link_log_max_bytes_to_retain": "UInt64",
        "link_log_stop_retaining_min_disk_mb": "UInt64",
        "last_writer_wins": "Bool",
        "conflict_order": "String",
        "link_tombstone_seconds": "Seconds",
    }
)
"""Settings of Pando that ClickHouse lacks, with their types."""


def find_table_setting_type(name: str) -> str:
    """Returns the type of a table setting that has an effect."""
    return OWN_TABLE_SETTINGS.get(name) or load_clickhouse_settings().merge_tree[name].type


def find_table_setting_kind(name: str) -> Kind:
    """Returns whether a table setting is honoured, harmless or binding."""
    if name in SUPPORTED_MERGE_TREE_SETTINGS:
        return "honoured"
    return "binding" if load_clickhouse_settings().merge_tree[name].is_binding else "harmless"


def parse_table_setting(name: str, value: object) -> SettingValue:
    """Returns the typed value.

    Raises 115 (UNKNOWN_SETTING); 27, 36, 69, 72 or 467 for a value of another type; 48 (NOT_IMPLEMENTED) for a binding
    setting's value that Pando lacks.
    """
    known = load_clickhouse_settings().merge_tree
    if name in (REFUSE_INSERTS, COMMANDS_FROM, *TRACKER_SETTINGS):
        raise UserError(
            "BAD_ARGUMENTS", f"Setting {name} is set with ALTER TABLE … MODIFY SETTING alone, for a Replicated table"
        )
    if name not in known and name not in OWN_TABLE_SETTINGS:
        raise UserError(
            "UNKNOWN_SETTING",
            f"Unknown setting {name!r} for MergeTree{suggest_names(name, [*known, *OWN_TABLE_SETTINGS])}",
        )
    if name not in SUPPORTED_MERGE_TREE_SETTINGS:
        return check_unsupported_value(known[name], name, value)
    parsed = parse_setting_value(find_table_setting_type(name), name, value)
    default = SUPPORTED_MERGE_TREE_SETTINGS[name]
    if isinstance(parsed, float) and type(default) is int:
        if not parsed.is_integer():
            raise UserError("BAD_ARGUMENTS", f"Setting {name} takes whole seconds, not {format_setting_value(parsed)}")
        return int(parsed)
    if isinstance(parsed, float) and parsed < 0:
        raise UserError("BAD_ARGUMENTS", f"Setting {name} cannot be negative: {format_setting_value(parsed)}")
    return parsed or default if isinstance(default, str) else parsed


def build_merge_tree_settings(given: Mapping[str, object], defaults: MergeTreeSettings) -> MergeTreeSettings:
    """Returns ``defaults`` with the given settings over them.

    Raises 115 (UNKNOWN_SETTING), 48 for a value that Pando lacks, and others for a value of a wrong kind.
    """
    changes = {name: parse_table_setting(name, value) for name, value in given.items()}
    honoured = {name: value for name, value in changes.items() if name in SUPPORTED_MERGE_TREE_SETTINGS}
    settings: MergeTreeSettings = replace(defaults, **honoured)  # type: ignore[arg-type]
    if settings.index_granularity < 1:
        raise UserError("BAD_ARGUMENTS", f"index_granularity must be at least 1, not {settings.index_granularity}")
    if 0 < settings.index_granularity_bytes < settings.min_index_granularity_bytes:
        raise UserError(
            "BAD_ARGUMENTS",
            f"index_granularity_bytes: {settings.index_granularity_bytes} is lower than specified "
            f"min_index_granularity_bytes: {settings.min_index_granularity_bytes}",
        )
    return settings
