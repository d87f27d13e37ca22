"""Compression of responses: one stream, in an encoding that the client accepts."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol

import brotli
import pyarrow as pa
import zstandard

from engine.front.compressed_blocks import BlockCompressor


class Compressor(Protocol):
    """A streaming compressor of one response; ``encoding`` is its ``Content-Encoding``."""

    encoding: str

    def compress(self, data: bytes) -> bytes:
        """Takes bytes; returns those that are ready to send."""

    def finish(self) -> bytes:
        """Returns the last bytes."""


class _Plain:
    encoding = ""

    def compress(self, data: bytes) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""


class _Stream:
    """A wrapper of the standard library's compressors."""

    def __init__(self, encoding: str, stream: Any) -> None:
        self.encoding = encoding
        self._stream = stream

    def compress(self, data: bytes) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


class _Brotli:
    encoding = "br"

    def __init__(self, level: int) -> None:
        self._stream = brotli.Compressor(quality=level)

    def compress(self, data: bytes) -> bytes:
        return self._stream.process(data)

    def finish(self) -> bytes:
        return self._stream.finish()


class _Lz4:
    encoding = "lz4"

    def __init__(self) -> None:
        self._sink = io.BytesIO()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._sink, "w"), "lz4")

    def compress(self, data: bytes) -> bytes:
        self._stream.write(data)
        return self._drain()

    def finish(self) -> bytes:
        self._sink.close = lambda: None  # type: ignore[method-assign]
        self._stream.close()
        return self._drain()

    def _drain(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


class _BlocksInEncoding:
    """ClickHouse's own frames inside an HTTP encoding."""

    def __init__(self, inner: Compressor, outer: Compressor) -> None:
        self._inner = inner
        self._outer = outer
        self.encoding = outer.encoding

    def compress(self, data: bytes) -> bytes:
        return self._outer.compress(self._inner.compress(data))

    def finish(self) -> bytes:
        return self._outer.compress(self._inner.finish()) + self._outer.finish()


_ZLIB_LEVELS, _BROTLI_LEVELS, _XZ_LEVELS, _BZ2_LEVELS = range(1, 10), range(12), range(10), range(1, 10)


def _clamp(level: int, levels: range) -> int:
    return min(max(level, levels[0]), levels[-1])


def _make_zlib(level: int, wbits: int) -> Any:
    return zlib.compressobj(_clamp(level, _ZLIB_LEVELS), wbits=wbits)


_BY_PREFERENCE: dict[str, Callable[[int], Compressor]] = {
    "zstd": lambda level: _Stream("zstd", zstandard.ZstdCompressor(level=1).compressobj()),
    "br": lambda level: _Brotli(_clamp(level, _BROTLI_LEVELS)),
    "lz4": lambda level: _Lz4(),
    "gzip": lambda level: _Stream("gzip", _make_zlib(level, zlib.MAX_WBITS | 16)),
    "deflate": lambda level: _Stream("deflate", _make_zlib(level, zlib.MAX_WBITS)),
    "xz": lambda level: _Stream("xz", lzma.LZMACompressor(preset=_clamp(level, _XZ_LEVELS))),
    "bz2": lambda level: _Stream("bz2", bz2.BZ2Compressor(_clamp(level, _BZ2_LEVELS))),
}
"""The encodings in ClickHouse's order of preference."""


def choose_compressor(accept_encoding: str, level: int, *, in_blocks: bool = False) -> Compressor:
    """Returns the first of zstd, br, lz4, gzip, deflate, xz and bz2 that the client accepts.

    ``level`` is ``http_zlib_compression_level``, for all but zstd and lz4; ``in_blocks`` is ``compress=1``.
    """
    accepted = {
        name.strip() for name, _, quality in (item.partition(";") for item in accept_encoding.split(","))
        if quality.replace(" ", "") not in ("q=0", "q=0.0")
    }  # fmt: skip
    chosen = next((make(level) for name, make in _BY_PREFERENCE.items() if name in accepted), _Plain())
    return _BlocksInEncoding(BlockCompressor(), chosen) if in_blocks else chosen
