"""The body of a request as a blocking stream: fed by the event loop, read by the thread that runs the query.

Invariants of :class:`BodyPipe`:
- At most ``limit`` bytes, and the chunk that passed it, are held; the client is made to wait beyond that.
- ``put``, ``finish`` and ``abort`` are called on the event loop; ``readinto`` on one other thread.
- After ``abort`` reading raises ``CancelledError``; a client that sends nothing for ``timeout`` seconds is 209.
"""

from __future__ import annotations

import asyncio
import io
import lzma
import threading
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO

import pyarrow as pa

from parts.common.errors import CancelledError, UserError

PIPE_BYTES = 8 << 20
_READ_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 128 << 20


class BodyPipe(io.RawIOBase):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit: int = PIPE_BYTES, timeout_seconds: float = 300.0
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._timeout_seconds = timeout_seconds
        self._changed = threading.Condition()
        self._room = asyncio.Event()
        self._chunks: deque[memoryview] = deque()
        self._held_bytes = 0
        self._is_finished = False
        self._is_aborted = False
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while the reader waits for the client."""

    async def put(self, chunk: bytes) -> None:
        """Waits while the pipe is full."""
        if not chunk:
            return
        with self._changed:
            self._chunks.append(memoryview(chunk))
            self._held_bytes += len(chunk)
            self._changed.notify()
            is_full = self._held_bytes > self._limit
            if is_full:
                self._room.clear()
        if is_full:
            await self._room.wait()

    def finish(self) -> None:
        with self._changed:
            self._is_finished = True
            self._changed.notify()

    def abort(self) -> None:
        with self._changed:
            self._is_aborted = True
            self._changed.notify()
        self._room.set()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._changed:
            is_ready = self._has_news() or self._wait()
            if self._is_aborted:
                raise CancelledError("The client closed the connection before the end of its data")
            if not is_ready:
                raise UserError("SOCKET_TIMEOUT", f"The client sent no data for {self._timeout_seconds:g} s")
            if not self._chunks:
                return 0
            view = memoryview(buffer).cast("B")
            copied = 0
            while self._chunks and copied < len(view):
                head = self._chunks[0]
                size = min(len(head), len(view) - copied)
                view[copied : copied + size] = head[:size]
                copied += size
                if size == len(head):
                    self._chunks.popleft()
                else:
                    self._chunks[0] = head[size:]
            was_full = self._held_bytes > self._limit
            self._held_bytes -= copied
            if was_full and self._held_bytes <= self._limit:
                self._loop.call_soon_threadsafe(self._room.set)
            return copied

    def _has_news(self) -> bool:
        return bool(self._chunks) or self._is_finished or self._is_aborted

    def _wait(self) -> bool:
        with self.waiting():
            return self._changed.wait_for(self._has_news, self._timeout_seconds)


class _Decompressed(io.RawIOBase):
    """Names the failure of a decompressor, whichever it is."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._stream.read(min(len(view), _READ_BYTES))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise UserError(
                "CANNOT_DECOMPRESS", f"Cannot decompress the request body (Content-Encoding: {self._encoding}): {error}"
            ) from None
        view[: len(data)] = data
        return len(data)


class _Deflate:
    """zlib streams, one behind the other; raw deflate too, which some clients send under the same name."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: Any = None

    def read(self, size: int) -> bytes:
        while True:
            decoder = self._decoder
            if decoder is None or decoder.eof:
                compressed = (decoder.unused_data if decoder else b"") + self._stream.read(_READ_BYTES)
                if not compressed:
                    return b""
                decoder = self._decoder = zlib.decompressobj(_window_bits(compressed))
            else:
                compressed = decoder.unconsumed_tail or self._stream.read(_READ_BYTES)
                if not compressed:
                    raise zlib.error("the stream is cut off")
            data = decoder.decompress(compressed, size)
            if data:
                return data


def _window_bits(compressed: bytes) -> int:
    is_zlib = len(compressed) > 1 and compressed[0] & 15 == 8 and int.from_bytes(compressed[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS


class _Xz:
    """xz streams, one behind the other; none may ask for more memory than its decoder needs for the usual levels."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: lzma.LZMADecompressor | None = None

    def read(self, size: int) -> bytes:
        while True:
            decoder = self._decoder
            if decoder is None or decoder.eof:
                compressed = self._between(decoder.unused_data) if decoder else self._stream.read(_READ_BYTES)
                if not compressed:
                    return b""
                decoder = self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
            else:
                compressed = self._stream.read(_READ_BYTES) if decoder.needs_input else b""
                if not compressed and decoder.needs_input:
                    raise lzma.LZMAError("the stream is cut off")
            data = decoder.decompress(compressed, size)
            if data:
                return data

    def _between(self, data: bytes) -> bytes:
        """What follows a stream, without the zeros that may pad it."""
        while not (rest := data.lstrip(b"\0")):
            data = self._stream.read(_READ_BYTES)
            if not data:
                return b""
        return rest


def open_decompressed(stream: BinaryIO, encoding: str) -> BinaryIO:
    """The stream behind a ``Content-Encoding``. Raises 36 for one that is not known."""
    if encoding in ("", "identity"):
        return stream
    if encoding == "deflate":
        source: Any = _Deflate(stream)
    elif encoding == "xz":
        source = _Xz(stream)
    elif encoding in ("gzip", "zstd", "lz4", "br", "bz2"):
        source = pa.CompressedInputStream(pa.PythonFile(stream, "r"), {"br": "brotli"}.get(encoding, encoding))
    else:
        raise UserError(
            "BAD_ARGUMENTS", f"Unknown Content-Encoding {encoding!r}; known: gzip, deflate, zstd, lz4, br, bz2, xz"
        )
    return io.BufferedReader(_Decompressed(source, encoding), _READ_BYTES)


class JoinedStream(io.RawIOBase):
    """First these bytes, then that stream."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._head:
            size = min(len(view), len(self._head))
            view[:size] = self._head[:size]
            self._head = self._head[size:]
            return size
        if isinstance(self._rest, io.BufferedIOBase):
            return self._rest.readinto1(view)  # straight from the pipe into the reader's memory
        data = self._rest.read(min(len(view), _READ_BYTES))
        view[: len(data)] = data
        return len(data)


def join_head(head: bytes, rest: BinaryIO) -> BinaryIO:
    return io.BufferedReader(JoinedStream(head, rest), _READ_BYTES) if head else rest


def read_some(stream: BinaryIO, size: int) -> bytes:
    """At least one byte unless at the end; does not wait for ``size``."""
    read1 = getattr(stream, "read1", stream.read)
    return read1(size)


def read_up_to(stream: BinaryIO, most: int) -> bytes:
    """In pieces, because a decompressing stream sets aside at once what is asked for: ``most`` may be any number."""
    pieces: list[bytes] = []
    while most > 0 and (piece := stream.read(min(most, _READ_BYTES))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)
