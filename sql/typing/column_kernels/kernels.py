"""Functions that DuckDB has not, computed by NumPy and Arrow over a vector of values at a time.

A vector has at most 2048 values and costs some ten microseconds on its way to a kernel and back, a text five times as
much (a BLOB half of that), and holds the interpreter meanwhile: what DuckDB's own functions can say is said with them.
A kernel sees NULL, keeps it, never fails for what stands under one, and must have no effects: DuckDB folds calls with
constants. It raises errors as ``ValueError("pando:<code>:<message>")``.
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
    """``compute`` gets an array for each of its one or two arguments, of one length, and gives one more; types are
    DuckDB's."""

    name: str
    arguments: tuple[str, ...]
    result: str
    compute: Callable[..., pa.Array]


def register(connection: duckdb.DuckDBPyConnection, kernels: tuple[Kernel, ...]) -> None:
    for kernel in kernels:
        connection.create_function(
            kernel.name, _of_columns(kernel), list(kernel.arguments), kernel.result,
            type="arrow", null_handling="special",
        )  # fmt: skip


def _of_columns(kernel: Kernel) -> Callable[..., pa.Array]:
    """As DuckDB calls it; it counts the parameters of the signature."""
    compute = kernel.compute
    if len(kernel.arguments) == 1:
        return lambda only: compute(_whole(only))
    return lambda left, right: compute(_whole(left), _whole(right))


def _whole(given: pa.ChunkedArray) -> pa.Array:
    return given.chunk(0) if given.num_chunks == 1 else given.combine_chunks()


def fixed_width_values(array: pa.Array, kind: type[np.generic]) -> np.ndarray:
    """The values of a column of fixed width, as they lie in memory; anything under a NULL."""
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def fixed_width_column(values: np.ndarray, type_: pa.DataType, like: pa.Array) -> pa.Array:
    """Values of fixed width as a column that is NULL where ``like`` is."""
    nulls = None
    if like.null_count:
        nulls = like.buffers()[0] if not like.offset else pc.is_valid(like).buffers()[1]
    return pa.Array.from_buffers(type_, len(values), [nulls, pa.py_buffer(np.ascontiguousarray(values))])


def column_of_known(values: np.ndarray, known: np.ndarray, type_: pa.DataType) -> pa.Array:
    """Values of fixed width as a column that is NULL where they are not ``known``."""
    return pa.Array.from_buffers(
        type_, len(values), [validity_buffer(known), pa.py_buffer(np.ascontiguousarray(values))]
    )


def blob_column(values: np.ndarray, known: np.ndarray) -> pa.Array:
    """The rows of a byte matrix as BLOBs, NULL where they are not ``known``."""
    offsets = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [validity_buffer(known), pa.py_buffer(offsets), pa.py_buffer(values)]
    )


def masked_bits(values: np.ndarray, like: pa.Array) -> pa.Array:
    """Booleans as a column that is NULL where ``like`` is."""
    known = pa.array(values)
    return known if not like.null_count else pc.if_else(pc.is_valid(like), known, pa.scalar(None, pa.bool_()))


def text_offsets(texts: pa.Array) -> np.ndarray:
    """Where each text begins in ``text_bytes``, and where the last one ends."""
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


def text_bytes(texts: pa.Array) -> np.ndarray:
    data = texts.buffers()[2]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)


def validity_buffer(known: np.ndarray) -> pa.Buffer | None:
    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))


def texts_of_size(texts: pa.Array, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Which texts (or BLOBs) have so many bytes, and these as a matrix."""
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
    """Where the needle stands: its rarest bytes by ``counts`` are compared everywhere, the others where these are."""
    starts = len(text) - len(needle) + 1
    if starts <= 0:
        return np.zeros(0, np.int64)
    places = sorted(range(len(needle)), key=lambda place: counts[needle[place]])
    is_found = np.zeros(-(-starts // 8) * 8, bool)
    inside = is_found[:starts]
    np.equal(text[places[0] :][:starts], needle[places[0]], out=inside)
    for place in places[1:_COMPARED_EVERYWHERE]:
        inside &= text[place:][:starts] == needle[place]
    found = _set_places(is_found)
    for place in places[_COMPARED_EVERYWHERE:]:
        found = found[text[place:].take(found) == needle[place]]
    return found


def _set_places(mask: np.ndarray) -> np.ndarray:
    """Which of the bits, a multiple of 8 and few of them set, are set: several times as fast as to look at each."""
    eights = mask.view(np.uint64)
    some = np.flatnonzero(eights != 0)
    places = np.flatnonzero(eights[some].view(bool))
    return (some[places >> 3] << 3) + (places & 7)
