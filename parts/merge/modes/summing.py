"""SummingMergeTree: the rows of a key become one with their numbers summed.

Source: ClickHouse documentation, "SummingMergeTree".

A row whose sums are all zero is removed. The columns that the engine names are summed, or all numbers outside of the
keys. Columns of type SimpleAggregateFunction are aggregated by their function, and others keep the first row's value. A
Nested structure whose name ends with Map, and whose columns except the first are numbers, is a map: values of equal
keys are summed, whether the engine names it or not.

With FINAL only the columns that the query reads count: a row whose sums are zero in those is removed.

Without a sorting key (``ORDER BY tuple()``) no rows are combined: each is summed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import concat_blocks
from parts.common.errors import UserError
from parts.merge.row_aggregates import FUNCTIONS_THAT_CHANGE_SINGLE_ROWS, aggregate_groups, find_zeros, sum_maps
from parts.table.merge_mode import KeyColumns, MergeMode, SortedRows
from parts.table.table_description import TableSchema
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    NullableType,
)
from parts.write.block_preparation import take_rows

_NUMBERS = (IntegerType, FloatType, DecimalType, BoolType)


@dataclass(frozen=True)
class Summing(MergeMode):
    """The mode of SummingMergeTree."""

    named: tuple[str, ...]
    """The columns named by the engine's arguments."""
    sums: tuple[str, ...]
    functions: tuple[tuple[str, str], ...]
    """(column, function) pairs of columns with other functions."""
    maps: tuple[tuple[str, ...], ...]
    has_key: bool = True

    @property
    def name(self) -> str:
        return "Summing"

    @property
    def role_columns(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, "columns to sum") for name in self.named)

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Sums the rows of each key and removes zero rows."""
        return self._without_zeros(self._summed(rows))

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Sums the rows of one key block by block."""
        if not self.has_key:
            yield from (self.reduce(SortedRows(block, lambda _: ())) for block in blocks)
            return
        kept: pa.Table | None = None
        for block in blocks:
            rows = block if kept is None else concat_blocks([kept, block])
            kept = self._summed(SortedRows(rows, lambda _: ()))
        if kept is not None:
            yield self._without_zeros(kept)

    def _summed(self, rows: SortedRows) -> pa.Table:
        starts = rows.group_starts(has_key=self.has_key)
        block = rows.block
        if not len(starts):
            return block
        is_alone = len(starts) == block.num_rows
        found = block if is_alone else take_rows(block, starts)
        for name, function in (*((name, "sum") for name in self.sums), *self.functions):
            if name in block.column_names and (not is_alone or function in FUNCTIONS_THAT_CHANGE_SINGLE_ROWS):
                found = _with(found, name, aggregate_groups(function, block.column(name), starts))
        for structure in self._maps_of(block):
            summed = sum_maps([block.column(name) for name in structure], starts)
            for name, values in zip(structure, summed, strict=True):
                found = _with(found, name, values)
        return found

    def _maps_of(self, block: pa.Table) -> list[list[str]]:
        there = ([name for name in structure if name in block.column_names] for structure in self.maps)
        return [names for names in there if len(names) > 1]

    def _without_zeros(self, block: pa.Table) -> pa.Table:
        sums = [name for name in self.sums if name in block.column_names]
        has_others = any(name in block.column_names for name, _ in self.functions)
        if not sums or not block.num_rows or has_others or self._maps_of(block):
            return block
        zero = np.ones(block.num_rows, np.bool_)
        for name in sums:
            zero &= np.concatenate([find_zeros(chunk) for chunk in block.column(name).chunks])
        return take_rows(block, np.flatnonzero(~zero)) if zero.any() else block


def _with(block: pa.Table, name: str, values: pa.Array) -> pa.Table:
    position = block.schema.get_field_index(name)
    return block.set_column(position, block.schema.field(position).with_type(values.type), values)


def make_mode(arguments: Sequence[str], schema: TableSchema, keys: KeyColumns) -> Summing:
    """Makes the mode from the columns to sum. Raises 16 or 36."""
    stored = schema.stored
    for name in arguments:
        if name not in stored and not any(column.name.startswith(f"{name}.") for column in stored.columns):
            message = f"Column {name} listed in columns to sum does not exist in table declaration."
            raise UserError("NO_SUCH_COLUMN_IN_TABLE", message)
    for key, what in ((keys.sorting, "sorting"), (keys.partition, "partition")):
        if common := [name for name in arguments if name in key]:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Columns: {', '.join(common)} listed both in columns to sum and in {what} key. That is not allowed.",
            )
    free = [column for column in stored.columns if column.name not in keys.sorting | keys.partition]
    others = tuple((column.name, column.aggregate) for column in free if column.aggregate)
    plain = [column for column in free if not column.aggregate]
    sums = tuple(c.name for c in plain if _is_number(c.type) and (not arguments or c.name in arguments))
    free_maps = tuple(names for names in _maps(schema) if keys.sorting.isdisjoint(names))
    return Summing(tuple(arguments), sums, others, free_maps, bool(keys.sorting))


def _is_number(type_: DataType) -> bool:
    while isinstance(type_, (NullableType, LowCardinalityType)):
        type_ = type_.inner
    return isinstance(type_, _NUMBERS)


def _maps(schema: TableSchema) -> list[tuple[str, ...]]:
    """Returns the columns of every structure that is a map."""
    found: dict[str, list[tuple[str, DataType]]] = {}
    for column in schema.stored.columns:
        structure, dot, _ = column.name.partition(".")
        if dot and structure.endswith("Map") and isinstance(column.type, ArrayType) and not column.aggregate:
            found.setdefault(structure, []).append((column.name, column.type.inner))
    return [
        tuple(name for name, _ in columns)
        for columns in found.values()
        if len(columns) > 1 and all(_is_number(type_) for _, type_ in columns[1:])
    ]
