"""The settings of a MergeTree table: the one check of their names and values.

Those with an effect are the fields of :class:`MergeTreeSettings`; the others are harmless or binding as settings of
a session are (:mod:`sql.settings.clickhouse_settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import cast

from parts.common.errors import UserError
from parts.table.table_description import PartSettings
from sql.settings.clickhouse_settings import load_clickhouse_settings
from sql.settings.session_settings import Kind, check_unsupported_value, suggest_names
from sql.settings.setting_values import SettingValue, format_setting_value, parse_setting_value


@dataclass(frozen=True, slots=True)
class MergeTreeSettings(PartSettings):
    """The settings of a table that have an effect. Names and defaults are ClickHouse's
    (``system.merge_tree_settings``); ``parts`` sees only its own of them."""

    allow_nullable_key: bool = False
    allow_experimental_replacing_merge_with_cleanup: bool = False
    max_suspicious_broken_parts: int = 100
    max_suspicious_broken_parts_bytes: int = 1024 * 1024 * 1024
    replicated_max_ratio_of_wrong_parts: float = 0.5
    replicated_deduplication_window: int = 1000
    replicated_deduplication_window_seconds: int = 7 * 24 * 3600
    non_replicated_deduplication_window: int = 0
    parts_to_delay_insert: int = 1000
    parts_to_throw_insert: int = 3000
    inactive_parts_to_delay_insert: int = 0
    inactive_parts_to_throw_insert: int = 0
    max_avg_part_size_for_too_many_parts: int = 1024**3
    max_delay_to_insert: int = 1
    min_delay_to_insert_ms: int = 10
    max_partitions_to_read: int = -1
    max_parts_in_total: int = 100_000
    max_parts_to_merge_at_once: int = 100
    max_bytes_to_merge_at_max_space_in_pool: int = 150 * 1024**3
    max_bytes_to_merge_at_min_space_in_pool: int = 1024**2
    max_replicated_merges_in_queue: int = 1000
    max_replicated_fetches_network_bandwidth: int = 0
    max_replicated_sends_network_bandwidth: int = 0
    execute_merges_on_single_replica_time_threshold: int = 0
    min_free_disk_bytes_to_perform_insert: int = 0
    min_free_disk_ratio_to_perform_insert: float = 0.0
    min_replicated_logs_to_keep: int = 10
    max_replicated_logs_to_keep: int = 1000
    cleanup_delay_period: int = 30
    max_cleanup_delay_period: int = 300
    always_fetch_merged_part: bool = False
    prefer_fetch_merged_part_time_threshold: int = 3600
    prefer_fetch_merged_part_size_threshold: int = 10 * 1024**3
    merge_selecting_sleep_ms: int = 5000
    max_merge_selecting_sleep_ms: int = 60_000
    merge_selecting_sleep_slowdown_factor: float = 1.2
    ttl_only_drop_parts: bool = False
    remove_empty_parts: bool = True
    merge_with_ttl_timeout: int = 4 * 3600
    merge_with_recompression_ttl_timeout: int = 4 * 3600
    max_number_of_merges_with_ttl_in_pool: int = 2
    max_replicated_merges_with_ttl_in_queue: int = 1
    finished_mutations_to_keep: int = 100
    max_postpone_time_for_failed_mutations_ms: int = 300_000
    number_of_mutations_to_throw: int = 1000


SUPPORTED_MERGE_TREE_SETTINGS: dict[str, SettingValue] = {
    field.name: cast(SettingValue, field.default) for field in fields(MergeTreeSettings)
}
"""With Pando's defaults."""


def table_setting_kind(name: str) -> Kind:
    if name in SUPPORTED_MERGE_TREE_SETTINGS:
        return "honoured"
    return "binding" if load_clickhouse_settings().merge_tree[name].is_binding else "harmless"


def parse_table_setting(name: str, value: object) -> SettingValue:
    """The typed value. Raises 115 (UNKNOWN_SETTING); 27, 36, 69, 72 or 467 for a value of another type; 48
    (NOT_IMPLEMENTED) for a binding setting's value that Pando does not have."""
    known = load_clickhouse_settings().merge_tree
    if name not in known:
        raise UserError("UNKNOWN_SETTING", f"Unknown setting {name!r} for MergeTree{suggest_names(name, known)}")
    if name not in SUPPORTED_MERGE_TREE_SETTINGS:
        return check_unsupported_value(known[name], name, value)
    parsed = parse_setting_value(known[name].type, name, value)
    default = SUPPORTED_MERGE_TREE_SETTINGS[name]
    if isinstance(parsed, float) and type(default) is int:
        if not parsed.is_integer():
            raise UserError("BAD_ARGUMENTS", f"Setting {name} takes whole seconds, not {format_setting_value(parsed)}")
        return int(parsed)
    if isinstance(parsed, float) and parsed < 0:
        raise UserError("BAD_ARGUMENTS", f"Setting {name} cannot be negative: {format_setting_value(parsed)}")
    return parsed or default if isinstance(default, str) else parsed


def build_merge_tree_settings(given: Mapping[str, object], defaults: MergeTreeSettings) -> MergeTreeSettings:
    """``defaults`` with the given settings over them. Raises 115 (UNKNOWN_SETTING), 48 for a value that Pando does not
    have, and others for a value of a wrong kind."""
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
