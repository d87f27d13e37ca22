"""Finds where the values of RowBinary rows end, for every byte of a window at once.

A row is as long as its strings and arrays say, so one would have to be read before the next is found. Instead each type
has a table over all positions (:class:`ValueEnds`): where a value that began there would end. A tuple's table chains
those of its elements. An array's table skips as many elements as its length says, by tables for 1, 2, 4, 8 … elements.
So no value is looked at alone, whatever the type. Only the step from row to row is taken one by one, inside
``itertools``.

Positions are 0 to ``size``; ``size + 1`` stands for everything that does not end inside the window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
)
from sql.formats.binary.native_reader import build_lists, build_maps
from sql.formats.converters.fixed_width_values import from_bytes
from sql.formats.converters.value_checks import decode_utf8
from sql.formats.streams.length_prefixed_strings import strings_at
from sql.formats.streams.varints import decode_at, follow_offsets, next_item_offsets

Places = np.ndarray
_FEW = 8


class ValueEnds:
    """The tables of one window. ``buffer`` has ``MAX_LENGTH_BYTES`` bytes more than its ``size``."""

    def __init__(self, buffer: np.ndarray, size: int) -> None:
        self.buffer = buffer
        self.size = size
        self._beyond = size + 1
        self._tables: dict[DataType, Places] = {}

    def find_rows(self, types: Sequence[DataType]) -> Places:
        """Returns where the whole rows of these columns begin, and where the last one ends."""
        table = self._chain_tables(types)
        places = follow_offsets(table[: self.size], self.size)
        if table[places[-1]] == self._beyond:
            return places
        return np.append(places, table[places[-1]])

    def table_of(self, type_: DataType) -> Places:
        """Returns the table of a type."""
        table = self._tables.get(type_)
        if table is None:
            table = self._tables[type_] = self._close(self._make_table(type_))
        return table

    def element_table(self, type_: ArrayType | MapType) -> Places:
        """Returns the table of one element, for a map of a key and its value."""
        return (
            self._chain_tables([type_.key, type_.value]) if isinstance(type_, MapType) else self.table_of(type_.inner)
        )

    def _chain_tables(self, types: Sequence[DataType]) -> Places:
        table = self.table_of(types[0])
        for type_ in types[1:]:
            table = _take(self.table_of(type_), table)
        return table

    def _close(self, ends: Places) -> Places:
        """Returns the table with the positions behind the last byte, where nothing begins."""
        table = np.full(self.size + 2, self._beyond, np.int64)
        np.copyto(table[: self.size], ends, where=ends <= self.size)
        return table

    def _make_table(self, type_: DataType) -> Places:
        """Computes the table of a type. An end beyond the window may be any greater number."""
        width = type_.memory_width_bytes
        if width is not None:
            return np.arange(width, self.size + width, dtype=np.int64)
        match type_:
            case StringType():
                return next_item_offsets(self.buffer, self.size)
            case LowCardinalityType(inner):
                return self.table_of(inner)[: self.size]
            case NullableType(inner):
                behind = np.arange(1, self.size + 1, dtype=np.int64)
                return np.where(self.buffer[: self.size] == 0, _take(self.table_of(inner), behind), behind)
            case TupleType(elements):
                return self._chain_tables([inner for _, inner in elements])[: self.size]
            case ArrayType() | MapType():
                return self._make_list_table(type_)
        raise AssertionError(type_)

    def _make_list_table(self, type_: ArrayType | MapType) -> Places:
        width = type_.inner.memory_width_bytes if isinstance(type_, ArrayType) else None
        if width is not None:
            return next_item_offsets(self.buffer, self.size, width)
        every = np.arange(self.size, dtype=np.int64)
        counts, sizes = decode_at(self.buffer, every)
        begins = np.minimum(every + sizes, self._beyond)
        inner = [type_.key, type_.value] if isinstance(type_, MapType) else [type_.inner]
        is_possible = begins + counts * sum(map(min_value_bytes, inner)) <= self.size
        ends = skip_values(self.element_table(type_), begins, np.where(is_possible, counts, 0))
        return np.where(is_possible, ends, self._beyond)


def skip_values(table: Places, places: Places, counts: np.ndarray) -> Places:
    """Returns for each position the one that is ``counts`` values ahead."""
    beyond = table[-1]
    while counts.any():
        places = np.where(counts & 1, _take(table, places), places)
        counts = counts >> 1
        left = np.flatnonzero((counts != 0) & (places != beyond))
        if not len(left):
            break
        table = _take(table, table)
        if table.min() == beyond:
            places[left] = beyond
            break
        if len(left) < len(places) // _FEW:
            places[left] = skip_values(table, places[left], counts[left])
            break
    return places


def _take(table: Places, places: Places) -> Places:
    return table.take(places, mode="clip")  # no position is outside, but clipping is fastest


def min_value_bytes(type_: DataType) -> int:
    """Returns the least bytes that a value of the type takes."""
    match type_:
        case TupleType(elements):
            return sum(min_value_bytes(inner) for _, inner in elements)
        case LowCardinalityType(inner):
            return min_value_bytes(inner)
    return type_.memory_width_bytes or 1


def read_values(type_: DataType, places: Places, ends: ValueEnds) -> pa.Array:
    """Returns the values that begin at ``places``, in order. Raises :class:`BadValueError`."""
    buffer = ends.buffer
    width = type_.memory_width_bytes
    if width is not None:
        return from_bytes(buffer[places[:, None] + np.arange(width)], type_)
    match type_:
        case StringType():
            return decode_utf8(strings_at(buffer, places))
        case LowCardinalityType(inner):
            return pc.dictionary_encode(read_values(inner, places, ends))
        case NullableType(inner):
            is_null = buffer[places] != 0
            return _insert_nulls(read_values(inner, places[~is_null] + 1, ends), is_null)
        case TupleType(elements):
            children = []
            for _, inner in elements:
                children.append(read_values(inner, places, ends))
                places = ends.table_of(inner)[places]
            return pa.StructArray.from_arrays(children, fields=list(type_.arrow))
        case ArrayType(inner):
            offsets, starts = _find_elements(type_, places, ends)
            return build_lists(type_, offsets, read_values(inner, starts, ends))
        case MapType(key, value):
            offsets, starts = _find_elements(type_, places, ends)
            keys = read_values(key, starts, ends)
            return build_maps(type_, offsets, keys, read_values(value, ends.table_of(key)[starts], ends))
    raise AssertionError(type_)


def _find_elements(type_: ArrayType | MapType, places: Places, ends: ValueEnds) -> tuple[np.ndarray, Places]:
    """Returns offsets of the lists, and where their elements begin."""
    counts, sizes = decode_at(ends.buffer, places)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    begins = np.repeat(places + sizes, counts)
    within = np.arange(len(begins)) - np.repeat(offsets[:-1].astype(np.int64), counts)
    width = type_.inner.memory_width_bytes if isinstance(type_, ArrayType) else None
    return offsets, begins + within * width if width is not None else skip_values(
        ends.element_table(type_), begins, within
    )


def _insert_nulls(values: pa.Array, is_null: np.ndarray) -> pa.Array:
    """Inserts nulls; ``values`` are those that are not null."""
    if not is_null.any():
        return values
    return values.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))
