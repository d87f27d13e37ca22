"""Encode one buffer through a chain of methods, and undo a stored chain.

The codes of the methods are in the package docstring.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import zstandard

from parts.format.codecs import transforms
from parts.format.file_names import FIRST_VERSION

LZ4 = 0x01
ZSTD = 0x02
DELTA = 0x10
DOUBLE_DELTA = 0x20
SPLIT = 0x30
NARROW = 0x40
NARROW_END = 0x68
SCALE = 0x70
_TOO_SMALL_TO_ENCODE = 64
_local = threading.local()
Stored = Any
"""An Arrow buffer or a NumPy array: whatever has the buffer protocol."""


class ChainError(Exception):
    """A stored chain or its bytes are invalid. The caller adds the place."""


@dataclass(frozen=True, slots=True)
class BufferKind:
    """The content of a buffer: values or other data.

    ``integers`` is ``"signed"``, ``"unsigned"`` or ``""`` (floats, text, bits). ``is_values`` distinguishes a column's
    values, which Delta is meant for, from lengths, bitmaps and dictionary indices.
    """

    log2_width: int = 0
    integers: str = ""
    is_values: bool = False


class Encoder(Protocol):
    """Encodes the buffers of a column, frame after frame."""

    @property
    def version(self) -> tuple[int, int]:
        """The first format version of parts (``parts.format.part_files``) that allows what was encoded so far."""

    def encode(self, raw: pa.Buffer, kind: BufferKind, position: int) -> tuple[bytes, Stored]:
        """Returns the chain and the stored bytes of the frame's buffer number ``position``."""


@dataclass(frozen=True)
class Codec:
    """A parsed ``CODEC(…)``.

    ``transforms`` are method bytes 0x10… and 0x20…; ``compressor`` is ``""`` (NONE), ``"LZ4"``, ``"LZ4HC"`` or
    ``"ZSTD"``.
    """

    text: str
    transforms: tuple[int, ...] = ()
    compressor: str = "LZ4"
    level: int = 0

    @property
    def version(self) -> tuple[int, int]:
        return FIRST_VERSION

    def encode(self, raw: pa.Buffer, kind: BufferKind, position: int = 0) -> tuple[bytes, Stored]:
        """Returns the chain and the stored bytes of one buffer. ``position`` is ignored."""
        if raw.size < _TOO_SMALL_TO_ENCODE or (not self.compressor and not self.transforms):
            return b"", raw
        chain = bytearray()
        current: Stored = raw
        if kind.is_values and self.transforms:
            current = self._transform(raw, kind, chain)
        elif kind.integers:
            narrowed = transforms.narrow_encode(
                np.frombuffer(raw, np.uint8), kind.log2_width, kind.integers == "signed"
            )
            if narrowed is not None:
                current = narrowed[0]
                chain.append(NARROW + 8 * kind.log2_width + narrowed[1])
        compressed = self._compress(current)
        if compressed is not None:
            current = compressed
            chain.append(ZSTD if self.compressor == "ZSTD" else LZ4)
        return bytes(chain), current

    def _transform(self, raw: pa.Buffer, kind: BufferKind, chain: bytearray) -> np.ndarray:
        current = np.frombuffer(raw, np.uint8)
        if kind.log2_width == transforms.DECIMAL_LOG2:
            low = transforms.narrow_decimals(current)
            if low is not None:
                current = low
                chain.append(NARROW + 8 * transforms.DECIMAL_LOG2 + 3)
        for method in self.transforms:
            step = transforms.delta_encode if method < DOUBLE_DELTA else transforms.double_delta_encode
            current = step(current, method & 0x0F)
            chain.append(method)
        return current

    def _compress(self, data: Stored) -> pa.Buffer | None:
        size = memoryview(data).nbytes
        if not self.compressor or size < _TOO_SMALL_TO_ENCODE:
            return None
        if self.compressor == "ZSTD":
            stored = compress_zstd(data, self.level)
            return stored if stored.size < size else None
        stored = _lz4(self.level if self.compressor == "LZ4HC" else None).compress(pa.py_buffer(data))
        limit = size if self.compressor == "LZ4HC" else size - size // 8
        return stored if stored.size < limit else None


def compress_zstd(data: Stored, level: int) -> pa.Buffer:
    """Returns one Zstandard frame."""
    return pa.py_buffer(_zstd_compressor(level).compress(data))


def decode_chain(chain: bytes, stored: pa.Buffer, raw_size: int) -> pa.Buffer:
    """Returns the raw buffer. Raises :class:`ChainError` for bytes that no encoder writes."""
    if not chain:
        if stored.size != raw_size:
            raise ChainError(f"a plain buffer of {raw_size} bytes is stored as {stored.size}")
        return stored
    try:
        return _decode(chain, stored, raw_size)
    except (ValueError, OSError, pa.ArrowException, zstandard.ZstdError, KeyError, IndexError) as error:
        raise ChainError(f"method chain {chain.hex()} cannot be undone: {error}") from error


def _decode(chain: bytes, stored: pa.Buffer, raw_size: int) -> pa.Buffer:
    sizes = [raw_size]
    for method in chain[:-1]:
        if NARROW <= method < NARROW_END:
            sizes.append(transforms.compute_narrow_size((method - NARROW) >> 3, method & 7, sizes[-1]))
        else:
            sizes.append(sizes[-1])
    current: Stored = stored
    for method, size in zip(reversed(chain), reversed(sizes), strict=True):
        current = _undo(method, current, size)
    result = current if isinstance(current, pa.Buffer) else pa.py_buffer(current)
    if result.size != raw_size:
        raise ChainError(f"{result.size} bytes came out instead of {raw_size}")
    return result


def _undo(method: int, data: Stored, size: int) -> Stored:
    if method == LZ4:
        return _lz4(None).decompress(data, size)
    if method == ZSTD:
        return pa.py_buffer(_zstd_decompressor().decompress(data, max_output_size=size))
    array = np.frombuffer(data, np.uint8)
    if NARROW <= method < NARROW_END:
        return transforms.narrow_decode(array, (method - NARROW) >> 3, method & 7, size)
    if method & 0xF0 == DELTA:
        return transforms.delta_decode(array, method & 0x0F)
    if method & 0xF0 == DOUBLE_DELTA:
        return transforms.double_delta_decode(array, method & 0x0F)
    if method & 0xF0 == SPLIT:
        return transforms.split_decode(array, method & 0x0F)
    if method & 0xF0 == SCALE:
        return transforms.scale_decode(array, method & 0x0F)
    raise ChainError(f"unknown method {method:#x}")


def _lz4(level: int | None) -> pa.Codec:
    """Returns this thread's codec object. The objects are cheap to use but not to make."""
    cache: dict[int | None, pa.Codec] = _local.__dict__.setdefault("lz4", {})
    if level not in cache:
        cache[level] = pa.Codec("lz4_raw", compression_level=level) if level is not None else pa.Codec("lz4_raw")
    return cache[level]


def _zstd_compressor(level: int) -> zstandard.ZstdCompressor:
    cache: dict[int, zstandard.ZstdCompressor] = _local.__dict__.setdefault("zstd", {})
    if level not in cache:
        cache[level] = zstandard.ZstdCompressor(level=level)
    return cache[level]


def _zstd_decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "unzstd"):
        _local.unzstd = zstandard.ZstdDecompressor()
    return _local.unzstd
