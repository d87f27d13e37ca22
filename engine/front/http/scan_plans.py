"""Plans scans: into how many slots the rows of a table are worth dealing, and how much they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from engine.front.http.scan_parameters import (
    Body,
    get_flag,
    get_positive_number,
    get_text,
    get_texts,
    parse_task_size,
    parse_wanted_blocks,
)
from engine.scan.block_filter import estimate_rows
from engine.scan.column_statistics import describe_columns, estimate_share
from engine.scan.division_keys import list_partition_keys, show_keys
from engine.scan.leases import LeaseView
from engine.scan.scan_filter import compile_filter, select_granules
from engine.scan.shard_scans import require_own_rows
from engine.scan.slot_planning import Chosen, WeighedGranules, measure_steps, select_columns, sort_parts
from engine.tables.table import Table
from parts.read.part_reader import Part
from parts.table.table_description import Column, TableDescription

_MOST_WHOLE_BYTES = 4 << 30
"""Of more, several servers and tasks compute slots."""


def list_columns(description: TableDescription, body: Body) -> list[Column]:
    """Returns the columns that the request names; a query without names may use all stored columns."""
    schema, names = description.schema, get_texts(body, "columns")
    if not names and body.get("query"):
        return [column for column in schema.columns if column.is_stored]
    return select_columns(schema, names)


def plan_slots(table: Table, columns: Sequence[Column], body: Body, timezone: str) -> dict[str, Any]:
    """Returns ``slots``, ``rows``, ``bytes`` (uncompressed), ``granules`` and ``pruned_granules``.

    ``keys`` are there if Spark may use the partition key. Raises 48 for a table without rows of its own, and the errors
    of the condition.
    """
    require_own_rows(table.definition)
    size, blocks = parse_task_size(body), parse_wanted_blocks(body)
    snapshot = table.snapshot()
    try:
        parts = [part for part in snapshot.parts if blocks is None or blocks.overlaps(part.name)]
        steps = measure_steps(parts, [column.name for column in columns])
        chosen = select_granules(parts, table.description, get_text(body, "filter", ""), timezone)
        scan = WeighedGranules.of(chosen, steps, size)
        facts = _find_statistics(table.description, parts, chosen, columns, body, timezone)
        slots = scan.tasks(size, get_positive_number(body, "partitions"), is_computed=bool(get_text(body, "query", "")))
        if blocks is not None and not body.get("partitions"):  # of a large part perhaps a few rows are wanted
            wanted = sum(estimate_rows(part, blocks) for part, _ in chosen)
            slots = min(slots, max(1, -(-slots * wanted // max(1, sum(part.rows for part, _ in chosen)))))
    finally:
        snapshot.release()
    read, every = len(scan.weights), sum(part.marks for part in parts)
    granules = {"granules": read, "pruned_granules": every - read}
    keys = show_keys(list_partition_keys(table.description))
    return {"slots": slots, "rows": scan.rows, "bytes": scan.bytes, **granules, **keys, **facts}


def _find_statistics(
    description: TableDescription,
    parts: Sequence[Part],
    chosen: Chosen,
    columns: Sequence[Column],
    body: Body,
    timezone: str,
) -> dict[str, Any]:
    """Returns what a cost-based optimizer needs, if the request wants it.

    ``statistics`` are those of columns, and ``share`` is how much of the rows the condition leaves.
    """
    if not get_flag(body, "with_statistics"):
        return {}
    keep = compile_filter(get_text(body, "filter", ""), description, timezone)
    shown = {part.name: part.adapt_to_schema(description.schema) for part in parts}
    share = estimate_share([(shown[part.name], ranges) for part, ranges in chosen], columns, keep)
    return {"statistics": describe_columns([*shown.values()], columns), "share": share}


def plan_partitions(lease: LeaseView, description: TableDescription, body: Body, timezone: str) -> dict[str, Any]:
    """Returns ``keys``, and ``partitions`` that have rows to read: ``{id, values, slots, bytes}``.

    ``values`` are those of the keys. The slots are those of the partition alone, as large as tasks may be.
    """
    keys, size = list_partition_keys(description), parse_task_size(body)
    parts = sort_parts(lease.parts, description)
    chosen = select_granules(parts, description, get_text(body, "filter", ""), timezone)
    partitions = []
    for partition_id, pieces in groupby(chosen, lambda piece: piece[0].name.partition_id):
        mine = list(pieces)
        scan = WeighedGranules.of(mine, lease.steps, size)
        values = [key.find_value(mine[0][0]) for key in keys]
        slots = scan.tasks(size, None, is_computed=True)
        partitions.append({"id": partition_id, "values": values, "slots": slots, "bytes": scan.bytes})
    return {**show_keys(keys), "partitions": partitions}


def plan_whole(table: Table, made: Mapping[str, Any], condition: str, timezone: str) -> dict[str, Any] | None:
    """Plans a query over a whole table as one task; ``None`` if it is too large or has no rows of its own."""
    if table.definition.engine.is_proxy or table.definition.engine.is_view:
        return None
    body = {"filter": condition, "query": made["query"], "partitions": 1}
    plan = plan_slots(table, list_columns(table.description, made), body, timezone)
    return {**made, **plan} if plan["bytes"] <= _MOST_WHOLE_BYTES else None
