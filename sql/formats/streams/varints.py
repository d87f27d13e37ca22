"""Encodes and decodes varints (LEB128: seven bits a byte, the lowest first), whole columns at a time.

Where a string begins is known only when the one before has been read. So :func:`next_item_offsets` computes for *every*
byte where a string that began there would end, in one pass of NumPy, and :func:`follow_offsets` follows these steps
inside ``itertools``.
"""

from __future__ import annotations

from itertools import accumulate, islice, repeat, takewhile

import numpy as np
import pyarrow as pa

MAX_LENGTH_BYTES = 5
"""Bytes of a length that matters: five hold 35 bits."""
FAR = 1 << 40
"""The end of a string with an impossible length: behind everything."""
_MORE, _BITS = 0x80, 0x7F


def encode(number: int) -> bytes:
    """Encodes one number ≥ 0."""
    pieces = bytearray()
    while number > _BITS:
        pieces.append(number & _BITS | _MORE)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def encode_all(numbers: np.ndarray) -> pa.Array:
    """Encodes numbers from 0 to 2**35 - 1, each as a binary value."""
    if not len(numbers) or int(numbers.max()) <= _BITS:
        data, offsets = numbers.astype(np.uint8), np.arange(len(numbers) + 1, dtype=np.int32)
    else:
        sizes = np.ones(len(numbers), np.int32)
        matrix = np.empty((len(numbers), MAX_LENGTH_BYTES), np.uint8)
        for position in range(MAX_LENGTH_BYTES):
            rest = numbers >> np.int64(7 * position)
            matrix[:, position] = (rest & _BITS) | np.where(rest > _BITS, _MORE, 0)
            sizes += (rest > _BITS).astype(np.int32)
        data = matrix[np.arange(MAX_LENGTH_BYTES) < sizes[:, None]]
        offsets = np.zeros(len(numbers) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def decode_at(data: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the number that begins at each position, and how many bytes it has.

    ``data`` has :data:`MAX_LENGTH_BYTES` bytes more than the positions.
    """
    first = data[places].astype(np.int64)
    numbers, sizes = first & _BITS, np.ones(len(places), np.int64)
    open_ones = np.flatnonzero(first & _MORE)
    for position in range(1, MAX_LENGTH_BYTES):
        if not len(open_ones):
            break
        byte = data[places[open_ones] + position].astype(np.int64)
        numbers[open_ones] |= (byte & _BITS) << (7 * position)
        sizes[open_ones] += 1
        open_ones = open_ones[(byte & _MORE) != 0]
    numbers[open_ones] = FAR
    return numbers, sizes


def next_item_offsets(data: np.ndarray, count: int, width: int = 1) -> np.ndarray:
    """Returns for each of the first ``count`` bytes where an item that begins there ends.

    An item is a string, or an array of elements of ``width`` bytes. ``data`` has :data:`MAX_LENGTH_BYTES` bytes more
    than ``count``.
    """
    first = data[:count].astype(np.int64)
    if width != 1:
        first *= width
    ends = np.arange(1, count + 1, dtype=np.int64)
    ends += first
    long = np.flatnonzero(data[:count] & _MORE)
    numbers, sizes = decode_at(data, long)
    ends[long] = np.minimum(long + sizes + numbers * width, FAR)
    return ends


def follow_offsets(ends: np.ndarray, most: int) -> np.ndarray:
    """Follows the steps from position 0: where its string ends, where the one behind that ends, and so on.

    Returns at most ``most`` positions, all inside ``ends``.
    """
    inside = len(ends).__gt__
    follow = ends.reshape(-1, 1).item  # item(place, 0): the two arguments that accumulate gives
    places = islice(takewhile(inside, accumulate(repeat(0), follow, initial=0)), most)
    return np.fromiter(places, np.int64)
