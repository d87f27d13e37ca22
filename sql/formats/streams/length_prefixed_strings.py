"""Reads and writes columns of strings of the binary formats: a varint length, then the bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from sql.formats.streams.byte_source import ByteSource, pad_for_varints
from sql.formats.streams.row_chunks import MAX_ROW_BYTES
from sql.formats.streams.varints import decode_at, encode_all, follow_offsets, next_item_offsets
from sql.grammar.text_escapes import concatenate_bytes

_SLICE_ROWS = 1 << 15
"""Rows of a slice, few enough to stay in the caches of a core."""
_SHORT = 128
MAX_TEXT_BYTES = MAX_ROW_BYTES
_MOST_COLUMN_BYTES = (1 << 31) - 1
"""The largest offset of an Arrow array of strings."""


def encode_strings(array: pa.Array) -> Iterator[np.ndarray | bytes]:
    """Yields the bytes of all strings with their lengths; null is an empty string."""
    if array.null_count:
        array = array.fill_null("")
    for start in range(0, len(array), _SLICE_ROWS):
        piece = array.slice(start, _SLICE_ROWS)
        offsets = np.frombuffer(piece.buffers()[1], np.int32, len(piece) + 1, 4 * piece.offset).astype(np.int64)
        lengths = np.diff(offsets)
        if int(lengths.max()) < _SHORT:
            yield _encode_short(piece, offsets, lengths)
        else:
            yield concatenate_bytes(pc.binary_join_element_wise(encode_all(lengths), pc.cast(piece, pa.binary()), b""))


def _encode_short(piece: pa.Array, offsets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Puts lengths of one byte between the strings."""
    size = int(offsets[-1] - offsets[0])
    out = np.empty(size + len(piece), np.uint8)
    is_text = np.ones(len(out), bool)
    heads = offsets[:-1] - offsets[0] + np.arange(len(piece))
    is_text[heads] = False
    out[heads] = lengths
    data = piece.buffers()[2]
    if size:
        out[is_text] = np.frombuffer(data, np.uint8, size, int(offsets[0]))
    return out


def read_strings(source: ByteSource, rows: int) -> pa.Array:
    """Reads ``rows`` strings as binary values.

    Raises 33, 131, 117 (more than 2 GiB in one column of a block).
    """
    pieces: list[pa.Array] = []
    missing, size = rows, 0
    while missing:
        data = source.window()
        values, used = _read_whole_strings(data, missing, source)
        if not len(values):
            values, used = _read_long_string(source), 0
        source.take(used)
        source.hold(values.nbytes)
        size += values.nbytes
        if size > _MOST_COLUMN_BYTES:
            raise source.make_malformed_error(
                f"a column of strings has more than {_MOST_COLUMN_BYTES} bytes: send smaller blocks"
            )
        missing -= len(values)
        pieces.append(values)
    return pa.concat_arrays(pieces) if pieces else pa.array([], pa.binary())


def _read_whole_strings(data: memoryview, most: int, source: ByteSource) -> tuple[pa.Array, int]:
    """Returns the strings that are wholly in ``data``, and how many bytes they take."""
    buffer = pad_for_varints(data)
    ends = next_item_offsets(buffer, len(data))
    places = follow_offsets(ends, most)
    if len(places) and ends[places[-1]] > len(data):
        places = places[:-1]
    if not len(places):
        return pa.array([], pa.binary()), 0
    return strings_at(buffer, places), int(ends[places[-1]])


def strings_at(buffer: np.ndarray, places: np.ndarray) -> pa.Array:
    """Returns the strings whose lengths stand at ``places``, in order, none overlapping another."""
    lengths, sizes = decode_at(buffer, places)
    begins = places + sizes
    is_apart = not len(places) or bool((places[1:] == begins[:-1] + lengths[:-1]).all())
    offsets = np.zeros(len(places) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if is_apart and len(places) and int(sizes.max()) == 1:
        start, end = int(places[0]), int(begins[-1] + lengths[-1])
        is_text = np.ones(end - start, bool)
        is_text[places - start] = False
        texts = buffer[start:end][is_text]
        return pa.Array.from_buffers(pa.binary(), len(places), [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
    return slice_bytes(buffer, begins, begins + lengths)


def slice_bytes(buffer: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> pa.Array:
    """Returns ``buffer[begin:end]`` for every pair; the pairs are in order and apart."""
    offsets = np.empty(2 * len(begins) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = begins, ends
    offsets[-1] = ends[-1] if len(ends) else 0
    both = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
    return both.take(pa.array(np.arange(0, 2 * len(begins), 2)))


def _read_long_string(source: ByteSource) -> pa.Array:
    """Reads one string that is longer than the window."""
    size = source.number()
    if size > MAX_TEXT_BYTES:
        raise UserError(
            "TOO_LARGE_STRING_SIZE", f"A string of {size} bytes is too large: at most {MAX_TEXT_BYTES} bytes"
        )
    return pa.array([bytes(source.take(size))], pa.binary())
