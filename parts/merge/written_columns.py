"""Choose which columns a merge writes.

It leaves out columns that no source has, and in a wide part those that have expired in every row. A reader gives them
their type's default, as for any column that a part lacks. That makes the part smaller. As in ClickHouse, a DEFAULT or
another type that the column gets later then applies to these rows too. A column is written nevertheless if it has a
DEFAULT, or if keys, skip indexes, TTL or the merge mode read it. At least one column is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parts.read.part_reader import Part
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.merge_mode import MergeMode
from parts.table.row_version import ROW_PLACE_NAMES
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
    """Returns the table with the columns to write.

    ``facts`` are the sources' TTL times. Columns that have expired at ``expire_at`` are left out; 0: none.
    """
    ttl = description.ttl
    if expire_at and ttl.list_rules(RuleKind.GROUP_BY):  # which gives columns any values
        return description
    needed = {BLOCK_NUMBER, *ROW_PLACE_NAMES, *mode.columns, *_needed_columns(description)}
    rules = {rule.column: rule for rule in ttl.list_rules(RuleKind.COLUMN) if expire_at and is_wide}

    def is_default(column: Column) -> bool:
        """Tells whether the column has its type's default in every row."""
        if column.name in needed or column.default is not None:
            return False
        rule = rules.get(column.name)
        return all(
            source.lacks_columns([column.name]) or (rule is not None and rule.has_expired(known, expire_at))
            for source, known in zip(sources, facts, strict=True)
        )

    stored = description.schema.stored.columns
    written = tuple(column for column in stored if not is_default(column))
    if len(written) == len(stored):
        return description
    return replace(description, schema=TableSchema(written or stored[:1]))


def find_expired_columns(source: Part, known: PartTtl, description: TableDescription, expire_at: int) -> set[str]:
    """Returns the columns expired in every row, which a mutation of a wide part leaves out.

    At least one column stays. ``known``: the part's TTL times.
    """
    if not description.settings.is_wide(source.data_uncompressed_bytes, source.rows):
        return set()
    found = {rule.column for rule in description.ttl.list_rules(RuleKind.COLUMN) if rule.has_expired(known, expire_at)}
    gone = found - _needed_columns(description)
    return gone if {*source.readable_columns, *source.converted_columns} - gone else set()


def _needed_columns(description: TableDescription) -> set[str]:
    """Returns the columns that keys, skip indexes, TTL or the table's mode read."""
    keys = (description.sorting_key, description.partition_key, *(index.key for index in description.indexes))
    columns = {name for key in keys for name in key.columns}
    columns.update(name for rule in description.ttl.rules for name in rule.columns)
    return columns.union(description.merge_mode.columns)
