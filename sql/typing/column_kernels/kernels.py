"""Functions that DuckDB lacks, computed by NumPy and Arrow over one vector at a time.

A vector has at most 2048 values. Its way to a kernel and back costs some ten microseconds, a vector of texts five times
as much (of BLOBs half of that), and holds the interpreter meanwhile. So whatever DuckDB's own functions can express is
written with them.

A kernel sees NULL, keeps it, never fails for a value under a NULL, and must have no side effects: DuckDB folds calls
with constants. It raises errors as ``ValueError("pando:<code>:<message>")``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Kernel:
    """A DuckDB function computed by NumPy and Arrow; its types are DuckDB's.

    ``compute`` takes one array for each of the one or two arguments, all of one length, and returns one more.
    """

    name: str
    arguments: tuple[str, ...]
    result: str
    compute: Callable[..., pa.Array]


def register(connection: duckdb.DuckDBPyConnection, kernels: tuple[Kernel, ...]) -> None:
    """Registers kernels on a DuckDB connection."""
    for kernel in kernels:
        connection.create_function(
            kernel.name, _duckdb_function(kernel), list(kernel.arguments), kernel.result,
            type="arrow", null_handling="special",
        )  # fmt: skip


def _duckdb_function(kernel: Kernel) -> Callable[..., pa.Array]:
    """Returns the function that DuckDB calls; DuckDB counts the parameters of its signature."""
    compute = kernel.compute
    if len(kernel.arguments) == 1:
        return lambda only: compute(_combine_chunks(only))
    return lambda left, right: compute(_combine_chunks(left), _combine_chunks(right))


def _combine_chunks(given: pa.ChunkedArray) -> pa.Array:
    return given.chunk(0) if given.num_chunks == 1 else given.combine_chunks()


def fixed_width_values(array: pa.Array, kind: type[np.generic]) -> np.ndarray:
    """Returns the values of a column of fixed width without a copy; arbitrary under a NULL."""
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def fixed_width_column(values: np.ndarray, type_: pa.DataType, like: pa.Array) -> pa.Array:
    """Builds a column of fixed width that is NULL where ``like`` is NULL."""
    nulls = None
    if like.null_count:
        nulls = like.buffers()[0] if not like.offset else pc.is_valid(like).buffers()[1]
    return pa.Array.from_buffers(type_, len(values), [nulls, pa.py_buffer(np.ascontiguousarray(values))])


def nullable_column(values: np.ndarray, known: np.ndarray, type_: pa.DataType) -> pa.Array:
    """Builds a column of fixed width that is NULL where ``known`` is false."""
    return pa.Array.from_buffers(
        type_, len(values), [validity_buffer(known), pa.py_buffer(np.ascontiguousarray(values))]
    )


def blob_column(values: np.ndarray, known: np.ndarray) -> pa.Array:
    """Builds BLOBs from the rows of a byte matrix, NULL where ``known`` is false."""
    offsets = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [validity_buffer(known), pa.py_buffer(offsets), pa.py_buffer(values)]
    )


def boolean_column(values: np.ndarray, like: pa.Array) -> pa.Array:
    """Builds a boolean column that is NULL where ``like`` is NULL."""
    known = pa.array(values)
    return known if not like.null_count else pc.if_else(pc.is_valid(like), known, pa.scalar(None, pa.bool_()))


def text_offsets(texts: pa.Array) -> np.ndarray:
    """Returns where each text begins in ``text_bytes``, and where the last one ends."""
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


def text_bytes(texts: pa.Array) -> np.ndarray:
    """Returns the bytes of a text column's data buffer."""
    data = texts.buffers()[2]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)


def validity_buffer(known: np.ndarray) -> pa.Buffer | None:
    """Returns Arrow's validity bitmap, or ``None`` if all values are known."""
    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))


def texts_of_size(texts: pa.Array, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows of texts (or BLOBs) of ``size`` bytes, and these texts as a matrix."""
    offsets, data = text_offsets(texts), text_bytes(texts)
    sized = np.diff(offsets) == size
    if texts.null_count:
        sized &= np.asarray(pc.is_valid(texts))
    rows = np.flatnonzero(sized)
    if not len(rows):
        return rows, np.empty((0, size), np.uint8)
    starts = offsets[rows]
    if len(rows) * size == starts[-1] + size - starts[0]:
        return rows, data[starts[0] : starts[-1] + size].reshape(-1, size)
    return rows, data[starts[:, None] + np.arange(size, dtype=np.int32)]


_COMPARED_EVERYWHERE = 3


def find_needle(text: np.ndarray, needle: bytes, counts: np.ndarray) -> np.ndarray:
    """Returns the places of a needle in a text.

    The needle's rarest bytes by ``counts`` are compared everywhere, the others only where those match.
    """
    starts = len(text) - len(needle) + 1
    if starts <= 0:
        return np.zeros(0, np.int64)
    places = sorted(range(len(needle)), key=lambda place: counts[needle[place]])
    is_found = np.zeros(-(-starts // 8) * 8, bool)
    inside = is_found[:starts]
    np.equal(text[places[0] :][:starts], needle[places[0]], out=inside)
    for place in places[1:_COMPARED_EVERYWHERE]:
        inside &= text[place:][:starts] == needle[place]
    found = _find_set_flags(is_found)
    for place in places[_COMPARED_EVERYWHERE:]:
        found = found[text[place:].take(found) == needle[place]]
    return found


def _find_set_flags(mask: np.ndarray) -> np.ndarray:
    """Returns the places of the few set flags of a mask, several times as fast as ``flatnonzero``.

    The mask's length must be a multiple of 8.
    """
    eights = mask.view(np.uint64)
    some = np.flatnonzero(eights != 0)
    places = np.flatnonzero(eights[some].view(bool))
    return (some[places >> 3] << 3) + (places & 7)
