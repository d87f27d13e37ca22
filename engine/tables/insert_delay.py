"""Delays INSERTs, and at last refuses them, when a table has more parts than merges keep up with.

:func:`compute_delay_seconds` decides on counts alone, as ClickHouse does.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from engine.tables.statement_options import InsertOptions
from engine.tables.table_data import TableData
from parts.common.errors import UnavailableError
from parts.store.part_states import PartState
from sql.settings.merge_tree_settings import MergeTreeSettings

_SLICE_SECONDS = 0.1


@dataclass(frozen=True)
class PartCounts:
    """The numbers of a table's parts that decide on a delay."""

    total: int
    """Active parts in all partitions."""
    most: int
    """Active parts in the partition that has the most."""
    partition_id: str = ""
    most_bytes: int = 0
    """Bytes on disk of these; computed only if ``most`` is too many."""
    inactive: int = 0
    """Inactive parts in the partition that has the most; counted only if a setting needs it."""


def delay_insert(table: TableData, options: InsertOptions, *, may_wait: bool = True) -> None:
    """Waits before an INSERT begins, if the table has many parts.

    Raises 252 (TOO_MANY_PARTS), 243 (NOT_ENOUGH_SPACE), and what ends the query while it waits.
    """
    _require_free_disk(table, options)
    services, settings, never = table.services, table.definition.settings, threading.Event()
    try:
        left = compute_delay_seconds(_count(table, options), settings, options, table.definition.full_name)
    except UnavailableError:
        services.delays.rejected += 1
        raise
    if may_wait and left > 0:
        services.delays.count += 1
        services.delays.seconds += left
    while may_wait and left > 0 and not table.is_cancelled():
        options.status.check()
        services.wait(never, min(left, _SLICE_SECONDS))
        left -= _SLICE_SECONDS


def _require_free_disk(table: TableData, options: InsertOptions) -> None:
    """Raises 243 (NOT_ENOUGH_SPACE) if less disk is free than the query's or table's settings ask for."""
    settings, disk, path = table.definition.settings, table.services.disk, table.store.path
    least = options.min_free_disk_bytes or settings.min_free_disk_bytes_to_perform_insert
    ratio = options.min_free_disk_ratio or settings.min_free_disk_ratio_to_perform_insert
    if not least and not ratio:
        return
    least = max(least, int(ratio * disk.total_bytes(path)))
    if (free := disk.unreserved_bytes(path)) <= least:
        raise UnavailableError(
            "NOT_ENOUGH_SPACE",
            f"Could not perform insert: less than {least} free bytes left in the disk space ({free}). Configure this "
            "limit with min_free_disk_bytes_to_perform_insert or min_free_disk_ratio_to_perform_insert",
        )


def _count(table: TableData, options: InsertOptions) -> PartCounts:
    settings, store = table.definition.settings, table.store
    total, partition_id, most = store.count_active()
    delays, throws = _thresholds(settings, options)
    most_bytes = inactive = 0
    if most >= min(delays or throws, throws):
        most_bytes = sum(part.bytes_on_disk for part in store.list_active() if part.name.partition_id == partition_id)
    if settings.inactive_parts_to_delay_insert or settings.inactive_parts_to_throw_insert:
        states = Counter(p.name.partition_id for p, state in store.list_parts() if state is PartState.OUTDATED)
        inactive = max(states.values(), default=0)
    return PartCounts(total, most, partition_id, most_bytes, inactive)


def _thresholds(settings: MergeTreeSettings, options: InsertOptions) -> tuple[int, int]:
    """Returns the delaying and the refusing number of parts; the query's settings precede the table's."""
    return (
        options.parts_to_delay_insert or settings.parts_to_delay_insert,
        options.parts_to_throw_insert or settings.parts_to_throw_insert,
    )


def compute_delay_seconds(counts: PartCounts, settings: MergeTreeSettings, options: InsertOptions, table: str) -> float:
    """Returns the seconds to wait. Raises 252 (TOO_MANY_PARTS)."""
    delays, throws = _thresholds(settings, options)
    if counts.total >= settings.max_parts_in_total:
        raise UnavailableError(
            "TOO_MANY_PARTS",
            f"Too many parts ({counts.total}) in all partitions in total in table '{table}'. This indicates wrong "
            "choice of partition key. The threshold can be modified with the setting max_parts_in_total of the table",
        )
    delay_inactive, throw_inactive = settings.inactive_parts_to_delay_insert, settings.inactive_parts_to_throw_insert
    if throw_inactive and counts.inactive >= throw_inactive:
        raise UnavailableError(
            "TOO_MANY_PARTS",
            f"Too many inactive parts ({counts.inactive}) in table '{table}'. Parts cleaning are processing "
            "significantly slower than inserts; see old_parts_lifetime and inactive_parts_to_throw_insert",
        )
    average = counts.most_bytes // max(counts.most, 1)
    is_large = 0 < settings.max_avg_part_size_for_too_many_parts < average
    if counts.most >= throws and not is_large:
        raise UnavailableError(
            "TOO_MANY_PARTS",
            f"Too many parts ({counts.most} with average size of {average} bytes in partition {counts.partition_id}) "
            f"in table '{table}'. Merges are processing significantly slower than inserts; insert fewer and larger "
            "blocks, or raise parts_to_throw_insert",
        )
    over = counts.most - delays + 1 if delays and not is_large else 0
    over_inactive = counts.inactive - delay_inactive + 1 if delay_inactive else 0
    if max(over, over_inactive) <= 0:
        return 0.0
    if over >= over_inactive:
        allowed = throws - delays
    else:
        allowed = throw_inactive - delay_inactive if throw_inactive else over_inactive
    longest = float(settings.max_delay_to_insert or 1)
    share = max(over, over_inactive) / allowed if allowed > 0 else 1.0
    return longest if share > 1 else max(settings.min_delay_to_insert_ms / 1000, longest * share)
