"""ClickHouse's own compression of request and response bodies, as a sequence of frames.

It is asked for by ``decompress=1`` and ``compress=1``.

=====  ========================================================================== bytes  content =====
========================================================================== 16     CityHash128 (version 1.0.2) of the
rest of the frame: its high, then its low half, little endian 1      method: 0x82 LZ4, 0x90 ZSTD, 0x02 none 4      size
of the frame without the checksum, little endian 4      size of the data, little endian …      the data, compressed
=====  ==========================================================================

Source: ClickHouse documentation, "Native protocol, compression"; the frames of ClickHouse's own files in the tests.
"""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO

import pyarrow as pa
import zstandard
from clickhouse_cityhash.cityhash import CityHash128

from parts.common.errors import UserError

LZ4, ZSTD, NONE = 0x82, 0x90, 0x02
BLOCK_BYTES = 1 << 20
"""Data bytes in one written frame; clients expect about this size."""
MAX_FRAME_BYTES = 128 << 20
_CHECKSUM_BYTES, _HEAD = 16, struct.Struct("<BII")
_LZ4_EXPANSION, _LZ4_SMALL = 255, 64
_READ_BYTES = 1 << 20


def compute_checksum(data: bytes) -> bytes:
    """Returns the checksum of a frame's other bytes."""
    number = CityHash128(data)
    return struct.pack("<QQ", number >> 64, number & (2**64 - 1))


def compress_block(data: bytes) -> bytes:
    """Returns the data as one LZ4 frame."""
    compressed = pa.Codec("lz4_raw").compress(data, asbytes=True)
    rest = _HEAD.pack(LZ4, _HEAD.size + len(compressed), len(data)) + compressed
    return compute_checksum(rest) + rest


class BlockCompressor:
    """Compresses a response into frames of :data:`BLOCK_BYTES`."""

    encoding = ""

    def __init__(self) -> None:
        self._held = bytearray()

    def compress(self, data: bytes) -> bytes:
        """Takes bytes; returns the frames that are full."""
        self._held += data
        whole = len(self._held) - len(self._held) % BLOCK_BYTES
        frames = [
            compress_block(bytes(self._held[start : start + BLOCK_BYTES])) for start in range(0, whole, BLOCK_BYTES)
        ]
        del self._held[:whole]
        return b"".join(frames)

    def finish(self) -> bytes:
        """Returns the last frame."""
        data = compress_block(bytes(self._held)) if self._held else b""
        self._held.clear()
        return data


class BlockReader(io.RawIOBase):
    """The data of a stream of frames.

    Raises 40 (CHECKSUM_DOESNT_MATCH), 89 (UNKNOWN_COMPRESSION_METHOD), 271 (CANNOT_DECOMPRESS), 33
    (CANNOT_READ_ALL_DATA) and 39 (TOO_LARGE_SIZE_COMPRESSED) for malformed frames.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = memoryview(b"")

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer from the present frame, or from the next one."""
        view = memoryview(buffer).cast("B")
        while not self._data:
            first = self._stream.read(1)
            if not first:
                return 0
            self._data = memoryview(self._read_frame(first))
        size = min(len(view), len(self._data))
        view[:size] = self._data[:size]
        self._data = self._data[size:]
        return size

    def _read_frame(self, first: bytes) -> bytes:
        given = first + self._read_exactly(_CHECKSUM_BYTES - 1)
        head = self._read_exactly(_HEAD.size)
        method, size, data_bytes = _HEAD.unpack(head)
        if method not in (LZ4, ZSTD, NONE):
            raise UserError("UNKNOWN_COMPRESSION_METHOD", f"Unknown compression method 0x{method:02x} of a block")
        if max(size, data_bytes) > MAX_FRAME_BYTES or size < _HEAD.size:
            raise UserError(
                "TOO_LARGE_SIZE_COMPRESSED",
                f"A compressed block of {size} bytes with {data_bytes} bytes of data: at most {MAX_FRAME_BYTES}",
            )
        rest = head + self._read_exactly(size - _HEAD.size)
        if compute_checksum(rest) != given:
            raise UserError(
                "CHECKSUM_DOESNT_MATCH",
                f"Checksum of a compressed block doesn't match: given {given.hex()}, "
                f"computed {compute_checksum(rest).hex()}, {size} bytes",
            )
        return _decompress(method, rest[_HEAD.size :], data_bytes)

    def _read_exactly(self, size: int) -> bytes:
        """Reads exactly ``size`` bytes without allocating more than has arrived."""
        held = bytearray()
        while len(held) < size:
            data = self._stream.read(min(size - len(held), _READ_BYTES))
            if not data:
                raise UserError(
                    "CANNOT_READ_ALL_DATA", f"A compressed block is cut off: {size - len(held)} bytes are missing"
                )
            held += data
        return bytes(held)


def _decompress(method: int, data: bytes, size: int) -> bytes:
    try:
        if method == NONE:
            plain = data
        elif method == ZSTD:
            stream = zstandard.ZstdDecompressor().stream_reader(data)
            plain = stream.read(size) + stream.read(1)
        elif size > _LZ4_EXPANSION * len(data) + _LZ4_SMALL:  # LZ4 cannot hold so much: do not allocate it
            plain = b""
        else:
            plain = pa.Codec("lz4_raw").decompress(data, size, asbytes=True)
    except (OSError, zstandard.ZstdError, pa.ArrowException) as error:
        raise UserError("CANNOT_DECOMPRESS", f"Cannot decompress a block: {error}") from None
    if len(plain) != size:
        raise UserError("CANNOT_DECOMPRESS", f"A block has not the {size} bytes of data that it says it has")
    return plain


def open_compressed_blocks(stream: BinaryIO) -> BinaryIO:
    """Returns the data of a stream of frames as a buffered stream."""
    return io.BufferedReader(BlockReader(stream), _READ_BYTES)
