"""The body of a request as a blocking stream: written by the event loop, read by the query's thread.

Invariants of :class:`BodyPipe`:

- It holds at most ``limit`` bytes plus the chunk that passed it; beyond that the client has to wait.
- ``put``, ``finish`` and ``abort`` are called on the event loop; ``readinto`` on one other thread.
- After ``abort`` reading raises ``CancelledError``; if the client sends nothing for ``timeout_seconds``, 209.
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
    """A bounded pipe from the event loop to a thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit: int = PIPE_BYTES, timeout_seconds: float = 300.0
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._timeout_seconds = timeout_seconds
        self._changed = threading.Condition()
        self._has_space = asyncio.Event()
        self._chunks: deque[memoryview] = deque()
        self._held_bytes = 0
        self._is_finished = False
        self._is_aborted = False
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        """Context manager entered while the reader waits for the client."""

    async def put(self, chunk: bytes) -> None:
        """Adds a chunk; waits while the pipe is full."""
        if not chunk:
            return
        with self._changed:
            self._chunks.append(memoryview(chunk))
            self._held_bytes += len(chunk)
            self._changed.notify()
            is_full = self._held_bytes > self._limit
            if is_full:
                self._has_space.clear()
        if is_full:
            await self._has_space.wait()

    def finish(self) -> None:
        """Ends the body."""
        with self._changed:
            self._is_finished = True
            self._changed.notify()

    def abort(self) -> None:
        """Makes reading raise ``CancelledError``."""
        with self._changed:
            self._is_aborted = True
            self._changed.notify()
        self._has_space.set()

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copies available bytes; waits for at least one. Raises 209 (SOCKET_TIMEOUT), ``CancelledError``."""
        with self._changed:
            is_ready = self._can_return() or self._wait()
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
                self._loop.call_soon_threadsafe(self._has_space.set)
            return copied

    def _can_return(self) -> bool:
        return bool(self._chunks) or self._is_finished or self._is_aborted

    def _wait(self) -> bool:
        with self.waiting():
            return self._changed.wait_for(self._can_return, self._timeout_seconds)


class _DecompressedStream(io.RawIOBase):
    """A decompressed stream that converts any decompressor's failure to 271 (CANNOT_DECOMPRESS)."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copies the next decompressed bytes."""
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
    """A decompressor of concatenated zlib streams, or of raw deflate, which some clients send."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: Any = None

    def read(self, size: int) -> bytes:
        """Returns at most ``size`` decompressed bytes; none at the end."""
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
    """A decompressor of concatenated xz streams, with a memory limit that suffices for the usual levels."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: lzma.LZMADecompressor | None = None

    def read(self, size: int) -> bytes:
        """Returns at most ``size`` decompressed bytes; none at the end."""
        while True:
            decoder = self._decoder
            if decoder is None or decoder.eof:
                compressed = self._skip_padding(decoder.unused_data) if decoder else self._stream.read(_READ_BYTES)
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

    def _skip_padding(self, data: bytes) -> bytes:
        """Returns the bytes after a stream, without zero padding."""
        while not (rest := data.lstrip(b"\0")):
            data = self._stream.read(_READ_BYTES)
            if not data:
                return b""
        return rest


def open_decompressed(stream: BinaryIO, encoding: str) -> BinaryIO:
    """Returns the body without its ``Content-Encoding``. Raises 36 (BAD_ARGUMENTS) for an unknown one."""
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
    return io.BufferedReader(_DecompressedStream(source, encoding), _READ_BYTES)


class JoinedStream(io.RawIOBase):
    """A stream of the bytes ``head``, followed by another stream."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copies the next bytes."""
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
    """Returns a stream of ``head`` followed by ``rest``."""
    return io.BufferedReader(JoinedStream(head, rest), _READ_BYTES) if head else rest


def read_some(stream: BinaryIO, size: int) -> bytes:
    """Returns at least one byte unless at the end; does not wait for ``size``."""
    read1 = getattr(stream, "read1", stream.read)
    return read1(size)


def read_up_to(stream: BinaryIO, most: int) -> bytes:
    """Reads at most ``most`` bytes, in pieces.

    A single large read would make a decompressing stream allocate ``most`` bytes at once.
    """
    pieces: list[bytes] = []
    while most > 0 and (piece := stream.read(min(most, _READ_BYTES))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)
