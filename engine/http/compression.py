"""Compression of answers: one stream of gzip, deflate, zstd or LZ4 frame over the whole answer."""

from __future__ import annotations

import io
import zlib
from typing import Protocol

import pyarrow as pa
import zstandard


class Compressor(Protocol):
    encoding: str

    def compress(self, data: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


class _Plain:
    encoding = ""

    def compress(self, data: bytes) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""


class _Zlib:
    def __init__(self, encoding: str, level: int) -> None:
        self.encoding = encoding
        self._stream = zlib.compressobj(level, wbits=zlib.MAX_WBITS | (16 if encoding == "gzip" else 0))

    def compress(self, data: bytes) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


class _Zstd:
    encoding = "zstd"

    def __init__(self) -> None:
        self._stream = zstandard.ZstdCompressor(level=1).compressobj()

    def compress(self, data: bytes) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


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


def choose_compressor(accept_encoding: str, level: int) -> Compressor:
    """The first of zstd, lz4, gzip and deflate that the client accepts."""
    accepted = {
        name.strip() for name, _, quality in (item.partition(";") for item in accept_encoding.split(","))
        if quality.replace(" ", "") not in ("q=0", "q=0.0")
    }  # fmt: skip
    if "zstd" in accepted:
        return _Zstd()
    if "lz4" in accepted:
        return _Lz4()
    for encoding in ("gzip", "deflate"):
        if encoding in accepted:
            return _Zlib(encoding, min(max(level, 1), 9))
    return _Plain()
