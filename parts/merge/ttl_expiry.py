"""Apply TTL in a merge, block by block in key order.

First rows are removed (DELETE, DELETE WHERE), then adjacent expired rows of one key are combined (GROUP BY), then
expired values are replaced by their columns' defaults. The time is given, so the same rows give the same result on
every replica.

Memory holds a block, and with GROUP BY all rows of the key at the block's end, which may continue in the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import DICTIONARY_STRING, concat_blocks, decode_dictionary_columns
from parts.blocks.sort_order import encode_keys
from parts.table.table_description import Column, TableDescription
from parts.table.ttl_rules import RuleKind, TtlGrouping, TtlRule
from parts.types import DataType
from parts.write.block_preparation import sort_block_by_key, take_rows


def apply_ttl(blocks: Iterator[pa.Table], description: TableDescription, now: int) -> Iterator[pa.Table]:
    """Yields the rest of ``blocks`` at ``now``: every stored column, in the order of the sorting key."""
    ttl = description.ttl
    blocks = _remaining(blocks, ttl.list_rules(RuleKind.ROWS, RuleKind.ROWS_WHERE), now)
    for rule in ttl.list_rules(RuleKind.GROUP_BY):
        blocks = _Grouped(rule, description, now).blocks(blocks)
    return reset_expired_values(blocks, ttl.list_rules(RuleKind.COLUMN), description, now)


def reset_expired_values(
    blocks: Iterator[pa.Table], rules: Sequence[TtlRule], description: TableDescription, now: int
) -> Iterator[pa.Table]:
    """Yields the blocks with defaults for the values that have expired by column ``rules``.

    They must have the columns of the rules, and those that times and defaults read.
    """
    if not rules:
        return blocks
    ordered = _in_order(rules)
    return (_with_defaults(block, ordered, description, now) for block in blocks)


def _remaining(blocks: Iterator[pa.Table], rules: Sequence[TtlRule], now: int) -> Iterator[pa.Table]:
    for block in blocks:
        stays = np.ones(block.num_rows, np.bool_)
        for rule in rules:
            stays &= rule.compute_times(block) > now
        if stays.any():
            yield block if stays.all() else take_rows(block, np.flatnonzero(stays))


# GROUP BY -------------------------------------------------------------------------------------------------------------


class _Grouped:
    """Combines expired rows by a GROUP BY rule."""

    def __init__(self, rule: TtlRule, description: TableDescription, now: int) -> None:
        assert rule.grouping is not None
        self._rule = rule
        self._grouping: TtlGrouping = rule.grouping
        self._stored = description.schema.stored.arrow
        self._sorting_key = description.sorting_key
        self._key = description.sorting_key.prefix(self._grouping.keys)
        self._now = now

    def blocks(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yields the blocks with expired rows combined."""
        held: list[pa.Table] = []
        """Rows of the last key so far."""
        for block in blocks:
            starts = self._starts(block if not held else concat_blocks([held[-1].slice(held[-1].num_rows - 1), block]))
            if held:
                starts = starts[1:]
            else:
                starts[0] = False
            positions = np.flatnonzero(starts)
            if not len(positions):
                held.append(block)
                continue
            last = int(positions[-1])
            yield self._grouped(concat_blocks([*held, block.slice(0, last)]))
            held = [block.slice(last)]
        if held:
            yield self._grouped(concat_blocks(held))

    def _starts(self, block: pa.Table) -> np.ndarray:
        """Returns a mask of the rows where another key begins."""
        key_block = decode_dictionary_columns(block.select(list(dict.fromkeys(self._key.columns))), self._key.columns)
        starts = np.zeros(block.num_rows, np.bool_)
        for words in encode_keys(self._key.evaluate(key_block), block.num_rows):
            starts[1:] |= words.codes[1:] != words.codes[:-1]
        return starts

    def _grouped(self, block: pa.Table) -> pa.Table:
        """Combines the expired rows of a block of whole keys."""
        expired = self._rule.compute_times(block) <= self._now
        if not expired.any():
            return block
        rows = np.flatnonzero(expired)
        keys = np.cumsum(self._starts(block))[rows]
        begins = np.concatenate([[True], (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1] + 1)])
        groups = np.cumsum(begins) - 1
        read = list(self._grouping.columns)
        taken = take_rows(decode_dictionary_columns(block.select(read), read), rows) if read else pa.table({})
        assigned = self._grouping.assign(taken, groups)
        single = self._plain(self._first(block, rows, begins), assigned)
        for name, values in assigned.items():
            position = single.schema.get_field_index(name)
            single = single.set_column(position, single.schema.field(position), values)
        others = take_rows(block, np.flatnonzero(~expired))
        found = self._plain(concat_blocks([others, single]), self._sorting_key.columns)
        return sort_block_by_key(found, self._sorting_key)

    def _first(self, block: pa.Table, rows: np.ndarray, begins: np.ndarray) -> pa.Table:
        """Returns for each group of ``rows`` the first value of every column that is not NULL, if any."""
        first = take_rows(block, rows[begins])
        for position, column in enumerate(block.columns):
            if not first.column(position).null_count:
                continue
            values = column.take(pa.array(rows))
            there = values.is_valid().to_numpy()
            # The position of the first non-null value, if it is in the group.
            ends = np.append(np.flatnonzero(begins)[1:], len(rows))
            places = np.where(there, np.arange(len(rows)), len(rows))
            chosen = np.minimum.reduceat(places, np.flatnonzero(begins))
            chosen = np.where(chosen < ends, chosen, np.flatnonzero(begins))
            first = first.set_column(position, first.schema.field(position), values.take(pa.array(chosen)))
        return first

    def _plain(self, table: pa.Table, names: Iterable[str]) -> pa.Table:
        return decode_dictionary_columns(
            table, [name for name in names if self._stored.field(name).type != DICTIONARY_STRING]
        )


# Columns --------------------------------------------------------------------------------------------------------------


def _with_defaults(block: pa.Table, rules: Sequence[TtlRule], description: TableDescription, now: int) -> pa.Table:
    """Replaces expired values. Their times read the old values; defaults read the replaced ones."""
    found = block
    for rule in rules:
        expired = np.flatnonzero(rule.compute_times(block) <= now)
        if not len(expired):
            continue
        column = description.schema.column(rule.column)
        position = block.schema.get_field_index(rule.column)
        field = description.schema.stored.arrow.field(rule.column)
        values = block.column(position)
        values = values.cast(field.type) if values.type != field.type else values
        defaults = _defaults(rule, column, found, expired)
        places = np.arange(block.num_rows)
        places[expired] = block.num_rows + np.arange(len(expired))
        both = _one_array(pa.chunked_array([*values.chunks, *defaults.chunks], values.type))
        found = found.set_column(position, field, both.take(pa.array(places)))
    return found


def _in_order(rules: Sequence[TtlRule]) -> list[TtlRule]:
    """Orders the rules so that a column whose default reads another comes after it."""
    left, ordered = list(rules), list[TtlRule]()
    while left:
        names = {rule.column for rule in left}
        free = [
            rule for rule in left if rule.default is None or names.isdisjoint({*rule.default.columns} - {rule.column})
        ]
        ordered += free or left[:1]
        left = [rule for rule in left if rule not in ordered]
    return ordered


def _defaults(rule: TtlRule, column: Column, block: pa.Table, rows: np.ndarray) -> pa.ChunkedArray:
    if rule.default is None:
        return _of_type(column.type, len(rows))
    names = list(rule.default.columns)
    inputs = take_rows(decode_dictionary_columns(block.select(names), names), rows) if names else pa.table({})
    return rule.default.evaluate(inputs, len(rows))


def _of_type(type_: DataType, rows: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(type_.default, type_.arrow), rows)], type_.arrow)


def _one_array(values: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
