"""Repetitive strings as dictionaries, in merged parts, merges and queries.

A frame of a String column whose strings repeat has the buffers of a dictionary column (``parts.format.flat_arrays``);
its second node distinguishes it from plain strings. Merges and queries that ask for it get such frames as
:data:`DICTIONARY_STRING`, all others as plain strings. The choice depends only on the values of a window of rows: every
replica writes the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DICTIONARY_STRING = pa.dictionary(pa.int32(), pa.string())
DICTIONARY_STRINGS_VERSION = (3, 0)
"""Earlier readers would report a second node as corruption."""
_LEAST_ROWS = 8192
_ROWS_PER_TEXT = 8
"""The least average number of rows with the same string."""
_SAMPLE_ROWS = 4096
_MOST_SAMPLED = _SAMPLE_ROWS * 7 // 8
"""With more distinct strings in a sample the strings are taken as not repetitive."""
_MOST_BYTES = 1 << 30
"""Larger columns stay plain: an array has less than 2 GiB."""
_MOST_LENGTHS = 256
"""The most runs of equal lengths in which equal neighbours are searched."""
_FEW_RUNS = 200


def encode_if_repetitive(texts: pa.Array) -> pa.DictionaryArray | None:
    """Returns the strings (plain or :data:`DICTIONARY_STRING`) as a dictionary if that pays, or ``None``."""
    rows = len(texts)
    if rows < _LEAST_ROWS:
        return None
    sample = texts.take(pa.array(np.arange(0, rows, -(-rows // _SAMPLE_ROWS))))
    if len(_used(sample)) > _MOST_SAMPLED:
        return None
    texts = texts if texts.type == DICTIONARY_STRING else encode_dictionary(texts)
    return texts if len(_used(texts)) * _ROWS_PER_TEXT <= rows else None


def _used(texts: pa.Array) -> pa.Array:
    """Returns the distinct strings."""
    if texts.type == DICTIONARY_STRING:
        is_used = np.zeros(len(texts.dictionary), bool)
        is_used[texts.indices.drop_null().to_numpy()] = True
        texts = texts.dictionary.filter(pa.array(is_used))
    return pc.unique(texts.drop_null())


def decode_dictionary(array: pa.Array) -> pa.Array:
    """Returns the strings without a dictionary."""
    return array.cast(pa.string()) if array.type == DICTIONARY_STRING else array


def decode_dictionary_columns(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Replaces the named columns by ones without dictionaries."""
    for name in names:
        position = table.schema.get_field_index(name)
        if table.schema.types[position] == DICTIONARY_STRING:
            table = table.set_column(position, name, table.column(position).cast(pa.string()))
    return table


def encode_repetitive_columns(table: pa.Table, without: Collection[str]) -> pa.Table:
    """Replaces repetitive string columns by dictionaries, except those ``without``."""
    for position, (name, type_) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if pa.types.is_string(type_) and name not in without:
            column = table.column(position)
            found = encode_if_repetitive(column.combine_chunks()) if column.nbytes < _MOST_BYTES else None
            if found is not None:
                table = table.set_column(position, name, found)
    return table


def concat_blocks(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenates blocks. A column that is a dictionary in only some of them becomes plain."""
    if len(tables) == 1:
        return tables[0]
    if any(table.schema != tables[0].schema for table in tables):
        types = [{table.schema.field(position).type for table in tables} for position in range(tables[0].num_columns)]
        same = [
            field if len(found) == 1 else field.with_type(pa.string())
            for field, found in zip(tables[0].schema, types, strict=True)
        ]
        tables = [table.cast(pa.schema(same)) for table in tables]
    return pa.concat_tables(tables)


def count_text_bytes(array: pa.DictionaryArray, boundaries: np.ndarray) -> np.ndarray:
    """Returns what ``count_content_bytes`` returns for the same strings without a dictionary."""
    lengths = pc.binary_length(array.dictionary).to_numpy()
    each = lengths[array.indices.fill_null(0).to_numpy()] if len(lengths) else np.zeros(len(array), np.int32)
    if array.null_count:
        each[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.diff(boundaries) * 4 + np.add.reduceat(each, boundaries[:-1], dtype=np.int64)


def encode_dictionary(array: pa.Array) -> pa.DictionaryArray:
    """Returns the strings as :data:`DICTIONARY_STRING`. A value of several runs may be in it repeatedly."""
    starts = None if array.null_count or not _is_in_runs(array.slice(0, _SAMPLE_ROWS)) else _starts(array)
    if starts is None:
        return array.dictionary_encode()
    lengths = np.diff(starts, append=len(array))
    indices = np.repeat(np.arange(len(starts), dtype=np.int32), lengths)
    return pa.DictionaryArray.from_arrays(pa.array(indices), array.take(pa.array(starts)), safe=False)


def _is_in_runs(array: pa.Array) -> bool:
    starts = _starts(array)
    return starts is not None and len(starts) * _ROWS_PER_TEXT <= len(array)


def _starts(array: pa.Array) -> np.ndarray | None:
    """Returns the first row of every run of equal strings; ``None`` if that would take long."""
    rows = len(array)
    if not rows:
        return None
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, rows + 1, array.offset * 4)
    lengths = np.diff(offsets)
    cuts = [0, *(np.flatnonzero(lengths[1:] != lengths[:-1]) + 1).tolist(), rows]
    if len(cuts) > _MOST_LENGTHS:
        return None
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    is_start = np.zeros(rows, bool)
    is_start[cuts[:-1]] = True
    for begin, end in itertools.pairwise(cuts):
        length = int(lengths[begin])
        if length and end - begin > 1:  # strings of one length: each beside the one before
            some = text[offsets[begin] : offsets[end]]
            _mark_starts(some[length:] != some[:-length], length, is_start[begin + 1 : end])
    return np.flatnonzero(is_start)


def _mark_starts(differs: np.ndarray, length: int, is_start: np.ndarray) -> None:
    """Marks the rows of which a byte differs from that of the row before, by ``differs``."""
    position = 0
    for _ in range(_FEW_RUNS):
        position += int(differs[position:].argmax()) if position < len(differs) else 0  # several times a search of all
        if position >= len(differs) or not differs[position]:
            return
        is_start[position // length] = True
        position += length - position % length
    is_start[np.flatnonzero(differs) // length] = True
