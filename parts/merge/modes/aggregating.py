"""AggregatingMergeTree: columns of SimpleAggregateFunction(f, T) are aggregated by f for each key.

Other columns keep the first row's value. Without a sorting key (``ORDER BY tuple()``) no rows are combined: f is
applied to each alone. Source: ClickHouse documentation, "AggregatingMergeTree" and "SimpleAggregateFunction".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parts.merge.row_aggregates import FUNCTIONS_THAT_CHANGE_SINGLE_ROWS, aggregate_groups
from parts.table.merge_mode import KeyColumns, MergeMode, SortedRows
from parts.table.table_description import TableSchema
from parts.write.block_preparation import take_rows


@dataclass(frozen=True)
class Aggregating(MergeMode):
    """The mode of AggregatingMergeTree."""

    functions: tuple[tuple[str, str], ...]
    """(column, function) pairs."""
    has_key: bool = True

    @property
    def name(self) -> str:
        return "Aggregating"

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Applies the functions to the rows of each key."""
        starts = rows.group_starts(has_key=self.has_key)
        changes = [function for _, function in self.functions if function in FUNCTIONS_THAT_CHANGE_SINGLE_ROWS]
        if not len(starts) or (len(starts) == rows.block.num_rows and not changes):
            return rows.block
        found = take_rows(rows.block, starts)
        for name, function in self.functions:
            position = found.schema.get_field_index(name)
            if position >= 0:
                values = aggregate_groups(function, rows.block.column(name), starts)
                found = found.set_column(position, found.schema.field(position).with_type(values.type), values)
        return found

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        if self.has_key:
            return super().reduce_one_key(blocks)
        return (self.reduce(SortedRows(block, lambda _: ())) for block in blocks)


def make_mode(_arguments: Sequence[str], schema: TableSchema, keys: KeyColumns) -> Aggregating:
    """Makes the mode from the table's columns."""
    columns = (column for column in schema.stored.columns if column.aggregate and column.name not in keys.sorting)
    return Aggregating(tuple((column.name, column.aggregate) for column in columns), bool(keys.sorting))
