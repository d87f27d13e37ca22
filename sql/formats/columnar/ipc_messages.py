"""Checks messages of Arrow's IPC format before pyarrow reads them: their bounds and uncompressed size.

A message is ``FF FF FF FF``, the length of its metadata (int32; 0 ends the stream), the metadata (a flatbuffer) and a
body, whose length is in the metadata. A compressed buffer of the body begins with its uncompressed length (int64, -1:
stored as it is). pyarrow allocates as much as is written there, so the lengths are summed and bounded first.

Source: Apache Arrow, "Arrow Columnar Format", and the flatbuffer schemas ``Message.fbs`` and ``File.fbs``.
"""

from __future__ import annotations

import io
import struct
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus

MAX_METADATA_BYTES = 64 << 20
MAX_UNCOMPRESSED_BYTES = 1 << 30
"""Uncompressed bytes of a compressed batch. Other batches are as large as what the client sends."""
_CONTINUATION = b"\xff\xff\xff\xff"
_MAGIC = b"ARROW1"
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_READ_BYTES = 4 << 20


class _Table:
    """A flatbuffer's table: finds each field by its number."""

    def __init__(self, data: memoryview, position: int) -> None:
        self.data = data
        self.position = position
        self._vtable = position - _read_number(data, position, "<i")
        self._size = _read_number(data, self._vtable, "<H")

    def place(self, field: int) -> int | None:
        """Returns the position of a field; ``None`` if it is not set."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = _read_number(self.data, self._vtable + entry, "<H")
        return self.position + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """Returns a field's number in the given ``struct`` format; 0 if it is not set."""
        place = self.place(field)
        return 0 if place is None else _read_number(self.data, place, form)

    def table(self, field: int) -> _Table | None:
        """Returns a field that is a table."""
        place = self.place(field)
        return None if place is None else _Table(self.data, place + _read_number(self.data, place, "<I"))

    def structs(self, field: int, form: str) -> Iterator[tuple[Any, ...]]:
        """Yields the structs of a field that is a vector of them."""
        place = self.place(field)
        if place is None:
            return
        start = place + _read_number(self.data, place, "<I")
        count, width = _read_number(self.data, start, "<I"), struct.calcsize(form)
        if start + 4 + count * width > len(self.data):
            raise _malformed_error("a list that is longer than its message")
        yield from struct.iter_unpack(form, self.data[start + 4 : start + 4 + count * width])


def _read_number(data: memoryview, place: int, form: str) -> int:
    if place < 0 or place + struct.calcsize(form) > len(data):
        raise _malformed_error("metadata that point outside themselves")
    return int(struct.unpack_from(form, data, place)[0])


def _malformed_error(what: str) -> UserError:
    return UserError("INCORRECT_DATA", f"Malformed Arrow data: {what}")


def _read_root(metadata: memoryview) -> _Table:
    return _Table(metadata, _read_number(metadata, 0, "<I"))


def _read_body_size(metadata: memoryview) -> int:
    size = _read_root(metadata).number(3, "<q")
    if size < 0:
        raise _malformed_error(f"a message whose body has {size} bytes")
    return size


def _check_body(metadata: memoryview, body: memoryview, status: QueryStatus | None) -> None:
    """Raises 117 for buffers outside the body, 241 if they would become too large."""
    message = _read_root(metadata)
    kind, header = message.number(1, "<B"), message.table(2)
    if header is not None and kind == _DICTIONARY_BATCH:
        header = header.table(1)
    if header is None or kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return
    is_compressed = header.place(3) is not None
    total = 0
    for offset, length in header.structs(2, "<qq"):
        if offset < 0 or length < 0 or offset + length > len(body):
            raise _malformed_error(f"a buffer at {offset} of {length} bytes in a body of {len(body)} bytes")
        if is_compressed and length:
            plain = _read_number(body[offset : offset + length], 0, "<q")
            total += length if plain == -1 else plain
            if plain < -1 or total > MAX_UNCOMPRESSED_BYTES:
                raise UserError(
                    "MEMORY_LIMIT_EXCEEDED",
                    f"A compressed Arrow batch of {len(body)} bytes would become more than "
                    f"{MAX_UNCOMPRESSED_BYTES} bytes: send smaller batches",
                )
    if status is not None:
        with status.memory.hold(total, "decompressing an Arrow batch"):
            status.check()


class CheckedIpcStream(io.RawIOBase):
    """An IPC stream that passes on whole messages, each checked first.

    It never allocates more than has arrived.
    """

    def __init__(self, stream: BinaryIO, status: QueryStatus | None = None) -> None:
        is_there = isinstance(stream, io.BytesIO)
        self._take = _Views(stream.read()).take if is_there else partial(read_up_to, stream)
        self._status = status
        self._held: deque[memoryview] = deque()
        self._is_over = False

    def readable(self) -> bool:
        """Returns ``True``."""
        return True

    def read(self, size: int = -1) -> bytes | memoryview:
        """Returns ``size`` bytes of the messages, fewer only at the end of the stream.

        A body is not copied.
        """
        pieces, missing = [], size
        while missing and (self._held or self._next_message()):
            piece = self._held.popleft()
            if 0 < missing < len(piece):
                self._held.appendleft(piece[missing:])
                piece = piece[:missing]
            pieces.append(piece)
            missing -= len(piece) if missing > 0 else 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next_message(self) -> bool:
        if self._is_over:
            return False
        prefix = [self._take(4)]
        if prefix[0] == _CONTINUATION:
            prefix.append(self._take(4))
        head = prefix[-1]
        length = struct.unpack("<i", head)[0] if len(head) == 4 else 0
        if length == 0:  # the end, or cut off, which pyarrow reports
            self._is_over = True
            return self._hold(*prefix)
        if not 0 < length <= MAX_METADATA_BYTES:
            raise _malformed_error(f"a message with {length} bytes of metadata")
        metadata = self._take(length)
        body = memoryview(b"")
        if len(metadata) == length:
            size = _read_body_size(metadata)
            body = self._take(size)
            if len(body) == size:
                _check_body(metadata, body, self._status)
        return self._hold(*prefix, metadata, body)

    def _hold(self, *pieces: memoryview) -> bool:
        self._held.extend(piece for piece in pieces if piece)
        return bool(self._held)


def read_up_to(stream: BinaryIO, size: int, reserved_bytes: int = 1 << 30) -> memoryview:
    """Reads ``size`` bytes, or all there are.

    Memory is used for what arrives, not for what was announced. Up to ``reserved_bytes`` are reserved at once: the
    system provides their pages only as they are written.
    """
    if size <= _READ_BYTES:
        pieces = []
        while size and (data := stream.read(size)):
            pieces.append(data)
            size -= len(data)
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
    held = np.empty(min(size, reserved_bytes), np.uint8).data
    end = 0
    while end < size:
        if end == len(held):
            held = np.concatenate([held, np.empty(min(size - end, end), np.uint8)]).data
        count = stream.readinto(held[end : end + _READ_BYTES])  # type: ignore[attr-defined]
        if not count:
            break
        end += count
    return held[:end]


class _Views:
    """Takes pieces of bytes that are in memory, without a copy."""

    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)

    def take(self, size: int) -> memoryview:
        """Returns the next ``size`` bytes."""
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def check_arrow_file(data: memoryview, status: QueryStatus | None = None) -> None:
    """Checks every batch that the footer of an Arrow file names. Raises 117, 241."""
    if len(data) < 20 or data[-6:] != _MAGIC or data[:6] != _MAGIC:
        raise UserError("INCORRECT_DATA", "Not an Arrow file: it does not begin and end with ARROW1")
    length = _read_number(data, len(data) - 10, "<i")
    if not 0 < length <= min(len(data) - 20, MAX_METADATA_BYTES):
        raise _malformed_error(f"a footer of {length} bytes in a file of {len(data)}")
    footer = _read_root(data[len(data) - 10 - length : len(data) - 10])
    for field in (2, 3):
        for offset, metadata_bytes, body_bytes in footer.structs(field, "<qi4xq"):
            end = offset + metadata_bytes + body_bytes
            if offset < 0 or metadata_bytes < 8 or body_bytes < 0 or end > len(data):
                raise _malformed_error(f"a block at {offset} of {metadata_bytes} and {body_bytes} bytes")
            start = 8 if data[offset : offset + 4] == _CONTINUATION else 4
            metadata = data[offset + start : offset + metadata_bytes]
            _check_body(metadata, data[offset + metadata_bytes : end], status)
