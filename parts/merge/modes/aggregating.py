"""Rows of a key become one: columns of a type SimpleAggregateFunction(f, T) hold f of theirs, others the first row's.

Source: ClickHouse documentation, "AggregatingMergeTree" and "SimpleAggregateFunction".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.blocks import take_rows
from parts.merge.aggregates import CHANGE_ONE, aggregated
from parts.merge_mode import MergeKeys, MergeMode, SortedRows
from parts.schema import TableSchema


@dataclass(frozen=True)
class Aggregating(MergeMode):
    functions: tuple[tuple[str, str], ...]
    """Columns with their functions."""

    @property
    def name(self) -> str:
        return "Aggregating"

    def reduce(self, rows: SortedRows) -> pa.Table:
        starts = np.flatnonzero(rows.key_starts)
        changes = [function for _, function in self.functions if function in CHANGE_ONE]
        if not len(starts) or (len(starts) == rows.block.num_rows and not changes):
            return rows.block
        found = take_rows(rows.block, starts)
        for name, function in self.functions:
            position = found.schema.get_field_index(name)
            if position >= 0:
                values = aggregated(function, rows.block.column(name), starts)
                found = found.set_column(position, found.schema.field(position).with_type(values.type), values)
        return found


def of_engine(_arguments: Sequence[str], schema: TableSchema, keys: MergeKeys) -> Aggregating:
    columns = (column for column in schema.stored.columns if column.aggregate and column.name not in keys.sorting)
    return Aggregating(tuple((column.name, column.aggregate) for column in columns))
