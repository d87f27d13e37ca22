"""Frames: a run of rows of one column as checksummed, encoded Arrow buffers.

All integers are little-endian.

======  ====  =======================================================================
offset  size  meaning
======  ====  =======================================================================
0       8     XXH3-64 of everything of the frame after these 8 bytes;
8       8     size of the whole frame in bytes, a multiple of 8;
16      4     rows;
20      2     number of nodes N;
22      2     number of buffers B;
24      8 N   nodes: length (4), null count (4);
…       24 B  buffers: raw size (8), stored size (8), method chain (8, see ``parts.format.codecs``);
…             the stored buffers in the same order, each padded with zeros to a multiple of 8.
======  ====  =======================================================================

An absent validity bitmap has raw size and stored size 0 and method chain ff…ff. Nodes and buffers are those of
``parts.format.flat_arrays``. A frame is self-contained: a LowCardinality frame contains its dictionary. Since version
3.0 a frame of a String column with repetitive strings does too, with the nodes and buffers of a dictionary
(``parts.blocks.dictionary_strings``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from parts.blocks.dictionary_strings import DICTIONARY_STRING, decode_dictionary
from parts.common.errors import CorruptionError
from parts.format.array_slices import SLICE_ROW_MULTIPLE, can_be_sliced, rebuild_slice
from parts.format.codecs import ChainError, Encoder, decode_chain
from parts.format.codecs.buffer_slices import decode_slice
from parts.format.decimal64 import decode_low_halves, to_decimal64, to_decimal64_type
from parts.format.flat_arrays import FlatArray, LayoutError, flatten_array, rebuild_array

_HEADER = struct.Struct("<QQIHH")
_AFTER_HASH = struct.Struct("<QIHH")
_BUFFER = struct.Struct("<QQ8s")
_ABSENT = b"\xff" * 8
_PADDING = tuple(bytes(n) for n in range(8))
_NODES_OF_REPEATED = 2
HEADER_BYTES = _HEADER.size
Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame ready to be written: its pieces in order."""

    pieces: list[Piece]
    size: int
    rows: int
    raw_bytes: int


def encode_frame(array: pa.Array, encoder: Encoder) -> EncodedFrame:
    """Encodes all rows of ``array``."""
    return encode_flat_array(flatten_array(array), len(array), encoder)


def encode_flat_array(flat: FlatArray, rows: int, encoder: Encoder) -> EncodedFrame:
    """Encodes the result of ``flatten_array`` as a frame."""
    descriptors: list[bytes] = []
    pieces: list[Piece] = []
    raw_bytes = 0
    for position, (buffer, kind) in enumerate(flat.buffers):
        if buffer is None:
            descriptors.append(_BUFFER.pack(0, 0, _ABSENT))
            continue
        chain, stored = encoder.encode(buffer, kind, position)
        view = memoryview(stored).cast("B")
        descriptors.append(_BUFFER.pack(buffer.size, view.nbytes, chain))
        pieces.append(view)
        pieces.append(_PADDING[-view.nbytes % 8])
        raw_bytes += buffer.size
    nodes = b"".join(struct.pack("<II", *node) for node in flat.nodes)
    directory = nodes + b"".join(descriptors)
    size = HEADER_BYTES + len(directory) + sum(len(piece) for piece in pieces)
    head = _AFTER_HASH.pack(size, rows, len(flat.nodes), len(flat.buffers)) + directory
    hasher = xxhash.xxh3_64(head)
    for piece in pieces:
        hasher.update(piece)
    digest = hasher.intdigest().to_bytes(8, "little")
    return EncodedFrame([digest + head, *pieces], size, rows, raw_bytes)


def read_frame_size(data: pa.Buffer, offset: int, part: str, file: str) -> int:
    """Returns the size of the frame at ``offset``, checked to lie inside the file."""
    if offset + HEADER_BYTES > data.size:
        raise CorruptionError("File ends inside a frame header", part=part, file=file, offset=offset)
    size = _HEADER.unpack_from(memoryview(data), offset)[1]
    if size < HEADER_BYTES or offset + size > data.size:
        message = f"Frame of {size} bytes does not fit the file of {data.size}"
        raise CorruptionError(message, part=part, file=file, offset=offset)
    return size


def read_raw_size(data: pa.Buffer, offset: int, part: str, file: str) -> int:
    """Returns the decoded size of all buffers of the frame at ``offset``, from its header."""
    size = read_frame_size(data, offset, part, file)
    _, _, _, nodes, buffers = _HEADER.unpack_from(memoryview(data), offset)
    begin = offset + HEADER_BYTES + 8 * nodes
    if HEADER_BYTES + 8 * nodes + _BUFFER.size * buffers > size:
        raise CorruptionError("Frame ends inside its directory", part=part, file=file, offset=offset)
    view = memoryview(data)
    return sum(_BUFFER.unpack_from(view, begin + number * _BUFFER.size)[0] for number in range(buffers))


def has_dictionary(data: pa.Buffer, offset: int, part: str, file: str) -> bool:
    """Tells whether the frame of strings at ``offset`` has a dictionary."""
    read_frame_size(data, offset, part, file)
    return bool(_HEADER.unpack_from(memoryview(data), offset)[3] == _NODES_OF_REPEATED)


def copy_frame(data: pa.Buffer, offset: int, part: str, file: str) -> pa.Buffer:
    """Returns a copy of the frame at ``offset``: bytes of a mapped file may change after their check."""
    size = read_frame_size(data, offset, part, file)
    return pa.py_buffer(bytes(memoryview(data)[offset : offset + size]))


def check_frame(data: pa.Buffer, offset: int, part: str, file: str, place: int | None = None) -> int:
    """Compares the frame's checksum and returns its size. ``place``: its offset in the file, for errors."""
    size = read_frame_size(data, offset, part, file)
    view = memoryview(data)
    stored = int.from_bytes(view[offset : offset + 8], "little")
    actual = xxhash.xxh3_64_intdigest(view[offset + 8 : offset + size])
    if stored != actual:
        message = f"Checksum of a frame doesn't match: stored {stored:016x}, actual {actual:016x}"
        raise CorruptionError(message, part=part, file=file, offset=offset if place is None else place)
    return size


def decode_frame(
    data: pa.Buffer, offset: int, type_: pa.DataType, part: str, file: str, *, is_kept: bool = False
) -> pa.Array:
    """Returns the array of the frame at ``offset``. Raises ``CorruptionError`` with part, file and offset.

    ``is_kept``: the array is used for longer than one query, so it must not share bytes with the file.
    """
    if is_kept:
        return decode_rows(copy_frame(data, offset, part, file), 0, type_, part, file, 0, None, place=offset)
    return decode_rows(data, offset, type_, part, file, 0, None)


def decode_rows(
    data: pa.Buffer,
    offset: int,
    type_: pa.DataType,
    part: str,
    file: str,
    first: int,
    rows: int | None,
    *,
    is_short: bool = False,
    with_dictionaries: bool = False,
    place: int | None = None,
) -> pa.Array:
    """Returns ``rows`` rows (``None``: all) from row ``first`` of the frame at ``offset`` on.

    The whole frame's checksum is compared, but only what the rows need is decoded. With ``is_short`` decimals are 8
    bytes wide (``parts.format.decimal64``). ``with_dictionaries`` keeps strings as the frame stores them
    (``parts.blocks.dictionary_strings``). ``place`` is the frame's offset in the file. Raises ``CorruptionError``
    naming part, file and offset, also when the frame has fewer rows.
    """
    place = offset if place is None else place
    check_frame(data, offset, part, file, place)
    _, _, total, node_count, buffer_count = _HEADER.unpack_from(memoryview(data), offset)
    rows = total - first if rows is None else rows
    if first + rows > total:
        message = f"Frame holds {total} rows, {first + rows} are needed"
        raise CorruptionError(message, part=part, file=file, offset=place, name="CORRUPTED_DATA")
    is_repeated = node_count == _NODES_OF_REPEATED and pa.types.is_string(type_)
    type_ = DICTIONARY_STRING if is_repeated else type_
    try:
        if rows < total and can_be_sliced(type_):
            array = _window(data, offset, type_, node_count, buffer_count, first, rows)
            array = to_decimal64(array) if is_short else array
        else:
            nodes, buffers = _content(data, offset, node_count, buffer_count)
            wanted = to_decimal64_type(type_) if is_short else type_
            array = rebuild_array(wanted, nodes, buffers.next if wanted == type_ else buffers.next_of_short)
            if len(array) != total:
                raise LayoutError(f"{total} rows are needed, {len(array)} are there")
            array = array if rows == total else array.slice(first, rows)
    except (ChainError, LayoutError, StopIteration, struct.error, pa.ArrowException) as error:
        message = f"Frame cannot be decoded as {type_}: {error}"
        raise CorruptionError(message, part=part, file=file, offset=place, name="CORRUPTED_DATA") from error
    return decode_dictionary(array) if is_repeated and not with_dictionaries else array


def _window(
    data: pa.Buffer, offset: int, type_: pa.DataType, node_count: int, buffer_count: int, first: int, rows: int
) -> pa.Array:
    nodes, buffers = _content(data, offset, node_count, buffer_count)
    skipped = first % SLICE_ROW_MULTIPLE
    array = rebuild_slice(type_, nodes, buffers, first - skipped, rows + skipped)
    return array.slice(skipped) if skipped else array


def _content(
    data: pa.Buffer, offset: int, node_count: int, buffer_count: int
) -> tuple[Iterator[tuple[int, int]], _BufferReader]:
    directory = offset + HEADER_BYTES
    numbers = struct.unpack_from(f"<{2 * node_count}I", memoryview(data), directory)
    nodes = zip(numbers[::2], numbers[1::2], strict=True)
    return nodes, _BufferReader(data, directory + 8 * node_count, buffer_count)


class _BufferReader:
    """Decodes the buffers of one frame, in order."""

    def __init__(self, data: pa.Buffer, descriptors: int, count: int) -> None:
        self._data = data
        self._view = memoryview(data)
        self._descriptor = descriptors
        self._is_begun = False
        self._end = self._position = descriptors + count * _BUFFER.size

    def next(self) -> pa.Buffer | None:
        """Decodes the next buffer; ``None`` if it is absent."""
        found = self._take()
        return None if found is None else decode_chain(*found)

    def next_of_short(self) -> pa.Buffer | None:
        """Decodes the next buffer of a decimal as 8-byte values."""
        is_validity, self._is_begun = not self._is_begun, True
        found = self._take()
        if found is None:
            return None
        return decode_chain(*found) if is_validity else decode_low_halves(*found)

    def next_slice(self, begin: int, size: int) -> pa.Buffer | None:
        """Decodes a slice of the next buffer; ``None`` if it is absent."""
        found = self._take()
        return None if found is None else decode_slice(*found, begin, size)

    def _take(self) -> tuple[bytes, pa.Buffer, int] | None:
        """Returns chain, stored bytes and raw size of the next buffer; ``None`` if it is absent."""
        if self._descriptor >= self._end:
            raise LayoutError("more buffers are needed than the frame has")
        raw_size, stored_size, chain = _BUFFER.unpack_from(self._view, self._descriptor)
        self._descriptor += _BUFFER.size
        if chain == _ABSENT:
            return None
        stored = self._data.slice(self._position, stored_size)
        self._position += stored_size + -stored_size % 8
        return chain.rstrip(b"\x00"), stored, raw_size
