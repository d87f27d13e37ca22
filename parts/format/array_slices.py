"""Decode some rows of an encoded array, without the rest where the layout allows it.

The layout is that of ``parts.format.flat_arrays``. A window begins at a multiple of 8 rows, so that bits are cut at
whole bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from parts.format.flat_arrays import LayoutError, build_dictionary_array, check_validity, compute_offsets, rebuild_array

SLICE_ROW_MULTIPLE = 8


class BufferSource(Protocol):
    """The buffers of one array in order; each is taken once, whole or in part."""

    def next(self) -> pa.Buffer | None:
        """Takes the next buffer whole; ``None`` if it is absent."""

    def next_slice(self, begin: int, size: int) -> pa.Buffer | None:
        """Takes ``size`` bytes of the next buffer from byte ``begin`` on.

        Raises ``ChainError`` when the buffer is shorter.
        """


def can_be_sliced(type_: pa.DataType) -> bool:
    """Tells whether rows of the type can be decoded alone: not for arrays, maps and tuples."""
    return not pt.is_nested(type_)


def rebuild_slice(
    type_: pa.DataType, nodes: Iterator[tuple[int, int]], buffers: BufferSource, first: int, rows: int
) -> pa.Array:
    """Returns rows ``first`` to ``first + rows - 1``. Raises :class:`LayoutError`, ``ChainError``."""
    assert first % SLICE_ROW_MULTIPLE == 0
    length, nulls = next(nodes)
    if first + rows > length:
        raise LayoutError(f"{first + rows} rows are needed, {length} are there")
    first_byte, bit_bytes = first // 8, (rows + 7) // 8
    validity = buffers.next_slice(first_byte, bit_bytes)
    if validity is None:
        check_validity(None, length, nulls)
    unknown = -1 if nulls else 0
    if pt.is_dictionary(type_):
        codes = _present(buffers.next_slice(4 * first, 4 * rows))
        dictionary = rebuild_array(type_.value_type, nodes, buffers.next)
        return build_dictionary_array(type_, rows, unknown, validity, codes, dictionary)
    if pt.is_string(type_) or pt.is_binary(type_):
        lengths = np.frombuffer(_present(buffers.next()), np.uint32)
        if len(lengths) != length:
            raise LayoutError(f"{length} lengths are needed, {len(lengths)} are there")
        offsets = compute_offsets(lengths[first : first + rows])
        data = _present(buffers.next_slice(int(lengths[:first].sum(dtype=np.int64)), int(offsets[-1])))
        return pa.Array.from_buffers(type_, rows, [validity, pa.py_buffer(offsets), data], unknown)
    if pt.is_boolean(type_):
        return pa.Array.from_buffers(
            type_, rows, [validity, _present(buffers.next_slice(first_byte, bit_bytes))], unknown
        )
    width = type_.bit_width // 8
    values = _present(buffers.next_slice(width * first, width * rows))
    return pa.Array.from_buffers(type_, rows, [validity, values], unknown)


def _present(buffer: pa.Buffer | None) -> pa.Buffer:
    if buffer is None:
        raise LayoutError("a buffer is needed and absent")
    return buffer
