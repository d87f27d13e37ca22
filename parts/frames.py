"""Frames: a run of rows of one column as checksummed, encoded Arrow buffers. All integers are little-endian.

======  ====  =======================================================================
offset  size  meaning
======  ====  =======================================================================
0       8     XXH3-64 of everything of the frame after these 8 bytes
8       8     size of the whole frame in bytes, a multiple of 8
16      4     rows
20      2     number of nodes N
22      2     number of buffers B
24      8 N   nodes: length (4), null count (4)
…       24 B  buffers: raw size (8), stored size (8), method chain (8, see ``parts.codecs``)
…             the stored buffers in the same order, each padded with zeros to a multiple of 8
======  ====  =======================================================================

An absent validity bitmap has raw size and stored size 0 and method chain ff…ff. Nodes and buffers are those of
``parts.arrays``. A frame is self-contained: a LowCardinality frame carries its dictionary.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from parts.arrays import LayoutError, flatten, rebuild
from parts.codecs import ChainError, Codec, decode
from parts.errors import CorruptionError

_HEADER = struct.Struct("<QQIHH")
_AFTER_HASH = struct.Struct("<QIHH")
_BUFFER = struct.Struct("<QQ8s")
_ABSENT = b"\xff" * 8
_PADDING = tuple(bytes(n) for n in range(8))
HEADER_BYTES = _HEADER.size
Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame ready to be written: its pieces in order."""

    pieces: list[Piece]
    size: int
    rows: int
    raw_bytes: int


def encode_frame(array: pa.Array, codec: Codec) -> EncodedFrame:
    """Encodes all rows of ``array``."""
    flat = flatten(array)
    descriptors: list[bytes] = []
    pieces: list[Piece] = []
    raw_bytes = 0
    for buffer, kind in flat.buffers:
        if buffer is None:
            descriptors.append(_BUFFER.pack(0, 0, _ABSENT))
            continue
        chain, stored = codec.encode(buffer, kind)
        view = memoryview(stored).cast("B")
        descriptors.append(_BUFFER.pack(buffer.size, view.nbytes, chain))
        pieces.append(view)
        pieces.append(_PADDING[-view.nbytes % 8])
        raw_bytes += buffer.size
    nodes = b"".join(struct.pack("<II", *node) for node in flat.nodes)
    directory = nodes + b"".join(descriptors)
    size = HEADER_BYTES + len(directory) + sum(len(piece) for piece in pieces)
    head = _AFTER_HASH.pack(size, len(array), len(flat.nodes), len(flat.buffers)) + directory
    hasher = xxhash.xxh3_64(head)
    for piece in pieces:
        hasher.update(piece)
    digest = hasher.intdigest().to_bytes(8, "little")
    return EncodedFrame([digest + head, *pieces], size, len(array), raw_bytes)


def frame_size(data: pa.Buffer, offset: int, part: str, file: str) -> int:
    """Size of the frame at ``offset``, checked to lie inside the file."""
    if offset + HEADER_BYTES > data.size:
        raise CorruptionError("File ends inside a frame header", part=part, file=file, offset=offset)
    size = _HEADER.unpack_from(memoryview(data), offset)[1]
    if size < HEADER_BYTES or offset + size > data.size:
        message = f"Frame of {size} bytes does not fit the file of {data.size}"
        raise CorruptionError(message, part=part, file=file, offset=offset)
    return size


def check_frame(data: pa.Buffer, offset: int, part: str, file: str) -> int:
    """Compares the frame's checksum; returns its size."""
    size = frame_size(data, offset, part, file)
    view = memoryview(data)
    stored = int.from_bytes(view[offset : offset + 8], "little")
    actual = xxhash.xxh3_64_intdigest(view[offset + 8 : offset + size])
    if stored != actual:
        message = f"Checksum of a frame doesn't match: stored {stored:016x}, actual {actual:016x}"
        raise CorruptionError(message, part=part, file=file, offset=offset)
    return size


def decode_frame(data: pa.Buffer, offset: int, type_: pa.DataType, part: str, file: str) -> pa.Array:
    """The array of the frame at ``offset`` of a file. Raises ``CorruptionError`` naming part, file and offset."""
    check_frame(data, offset, part, file)
    view = memoryview(data)
    _, _, rows, node_count, buffer_count = _HEADER.unpack_from(view, offset)
    directory = offset + HEADER_BYTES
    try:
        numbers = struct.unpack_from(f"<{2 * node_count}I", view, directory)
        nodes = zip(numbers[::2], numbers[1::2], strict=True)
        reader = _BufferReader(data, directory + 8 * node_count, buffer_count)
        array = rebuild(type_, nodes, reader.next)
    except (ChainError, LayoutError, StopIteration, struct.error, pa.ArrowException) as error:
        message = f"Frame cannot be decoded as {type_}: {error}"
        raise CorruptionError(message, part=part, file=file, offset=offset, name="CORRUPTED_DATA") from error
    if len(array) != rows:
        message = f"Frame of {rows} rows holds {len(array)}"
        raise CorruptionError(message, part=part, file=file, offset=offset, name="CORRUPTED_DATA")
    return array


class _BufferReader:
    """Decodes the buffers of one frame, in order."""

    def __init__(self, data: pa.Buffer, descriptors: int, count: int) -> None:
        self._data = data
        self._view = memoryview(data)
        self._descriptor = descriptors
        self._end = self._position = descriptors + count * _BUFFER.size

    def next(self) -> pa.Buffer | None:
        if self._descriptor >= self._end:
            raise LayoutError("more buffers are needed than the frame has")
        raw_size, stored_size, chain = _BUFFER.unpack_from(self._view, self._descriptor)
        self._descriptor += _BUFFER.size
        if chain == _ABSENT:
            return None
        stored = self._data.slice(self._position, stored_size)
        self._position += stored_size + -stored_size % 8
        return decode(chain.rstrip(b"\x00"), stored, raw_size)
