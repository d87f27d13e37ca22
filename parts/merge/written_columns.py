"""Which columns a merge writes: not those that no source has, nor in a wide part those that have expired in every row.

They have the default of their type in every row, as a reader gives it for a column that a part lacks. The part is
smaller; and as in ClickHouse a DEFAULT or another type that the column gets later holds for these rows too. Written all
the same are a column with a DEFAULT, one that anything of the part is made of (keys, skip indexes, times, what the mode
reduces by), and one column at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parts.read.part_reader import Part
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.merge_mode import MergeMode
from parts.table.table_description import Column, TableDescription, TableSchema
from parts.table.ttl_rules import PartTtl, RuleKind


def describe_written_columns(
    sources: Sequence[Part],
    facts: Sequence[PartTtl],
    description: TableDescription,
    mode: MergeMode,
    expire_at: int,
    *,
    is_wide: bool,
) -> TableDescription:
    """The table with the columns that are written. ``facts`` are what the sources know of the table's TTL; what has
    expired at ``expire_at`` is applied, 0: nothing."""
    ttl = description.ttl
    if expire_at and ttl.of_kind(RuleKind.GROUP_BY):  # which gives columns any values
        return description
    needed = {BLOCK_NUMBER, *mode.columns, *_needed_columns(description)}
    rules = {rule.column: rule for rule in ttl.of_kind(RuleKind.COLUMN) if expire_at and is_wide}

    def is_default(column: Column) -> bool:
        if column.name in needed or column.default is not None:
            return False
        rule = rules.get(column.name)
        return all(
            source.lacks([column.name]) or (rule is not None and rule.has_expired(known, expire_at))
            for source, known in zip(sources, facts, strict=True)
        )

    stored = description.schema.stored.columns
    written = tuple(column for column in stored if not is_default(column))
    if len(written) == len(stored):
        return description
    return replace(description, schema=TableSchema(written or stored[:1]))


def find_expired_columns(source: Part, known: PartTtl, description: TableDescription, expire_at: int) -> set[str]:
    """Those that have expired in every row of a part, which a mutation leaves it without if it becomes wide; some
    column stays. ``known`` is what it knows of the table's TTL."""
    if not description.settings.is_wide(source.data_uncompressed_bytes, source.rows):
        return set()
    found = {rule.column for rule in description.ttl.of_kind(RuleKind.COLUMN) if rule.has_expired(known, expire_at)}
    gone = found - _needed_columns(description)
    return gone if {*source.readable, *source.converted} - gone else set()


def _needed_columns(description: TableDescription) -> set[str]:
    """Those that anything of a part is made of, and that the table's mode reduces by."""
    keys = (description.sorting_key, description.partition_key, *(index.key for index in description.indexes))
    columns = {name for key in keys for name in key.columns}
    columns.update(name for rule in description.ttl.rules for name in rule.columns)
    return columns.union(description.merge_mode.columns)
