"""Cuts a byte stream into chunks of whole rows, parses them on several threads, resizes blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import BinaryIO

import pyarrow as pa

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.common.thread_pool import POOL_THREADS, submit

CHUNK_BYTES = 2 << 20
"""Small enough to stay in the caches of a core, and for the first to be parsed while the rest still arrives."""
MAX_HEADER_BYTES = 4 << 20
MAX_ROW_BYTES = 64 << 20
"""A longer row is refused while it is read: an unclosed quote, or a bomb, must not take the server's memory."""
_CUT_MEMORY = 8
_PARSE_INLINE_BYTES = 128 << 10
_MOST_IN_FLIGHT = POOL_THREADS + 1

Cut = Callable[[bytearray], int]
Parse = Callable[[bytes, int], pa.Table]


def row_chunks(
    stream: BinaryIO, cut: Cut, status: QueryStatus | None = None, *, first: bytes = b"", size: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """Yields chunks that end where a row ends, the last one at the end of the stream.

    ``cut(data)`` returns the length of the leading whole rows of ``data``, 0 if there is none; a row ends in a line
    end. Raises 117 when a row is longer than :data:`MAX_ROW_BYTES`, before more of it is read. A long row is read in
    pieces, and not searched until a line end has come: all of it at once would hold the interpreter for a tenth of a
    second.
    """
    status = status or QueryStatus()
    rest = bytearray(first)
    wanted = size
    has_line_end = b"\n" in rest
    while True:
        # Finding the end of a long row takes several times its memory.
        with status.memory.hold(_CUT_MEMORY * wanted if wanted > size else 0, "reading a long row"):
            while len(rest) < wanted:
                status.check()
                data = stream.read(min(max(wanted - len(rest), 1 << 16), CHUNK_BYTES))
                if not data:
                    break
                has_line_end = has_line_end or b"\n" in data
                rest += data
            is_last = len(rest) < wanted
            end = cut(rest) if has_line_end and not is_last else 0
        if is_last:
            break
        if end:
            yield bytes(memoryview(rest)[:end])
            del rest[:end]
            wanted, has_line_end = size, b"\n" in rest
        else:
            wanted = next_read_size(len(rest), size)
    if rest:
        yield bytes(rest)


def next_read_size(held: int, size: int = CHUNK_BYTES) -> int:
    """Returns how many bytes to read up to when ``held`` bytes hold no whole row: twice as many.

    Raises 117 for too long a row.
    """
    if held > MAX_ROW_BYTES:
        raise UserError("INCORRECT_DATA", f"A row is longer than {MAX_ROW_BYTES} bytes (an unclosed quote?)")
    return min(max(held * 2, held + size), MAX_ROW_BYTES + 1 if held < MAX_ROW_BYTES else held + 1)


def parse_chunks(chunks: Iterable[bytes], parse: Parse, first_row: int = 1) -> Iterator[pa.Table]:
    """Yields ``parse(chunk, number of its first row)`` of every chunk, in order, several at a time.

    How many rows stand before a chunk is known only when those are parsed, and matters only to errors. So a chunk that
    fails is parsed again with its right number when its turn comes, and then raises its error. An error of ``chunks``
    itself is raised after those of the chunks before.
    """
    waiting: deque[tuple[bytes, Future[pa.Table] | None]] = deque()

    def take_first() -> pa.Table:
        nonlocal first_row
        chunk, future = waiting.popleft()
        if future is None or future.exception() is not None:
            table = parse(chunk, first_row)
        else:
            table = future.result()
        first_row += table.num_rows
        return table

    source = iter(chunks)
    try:
        while True:
            try:
                chunk = next(source, None)
            except Exception:
                while waiting:
                    take_first()
                raise
            while waiting and (chunk is None or len(waiting) >= _MOST_IN_FLIGHT or _is_done(waiting[0][1])):
                yield take_first()
            if chunk is None:
                return
            waiting.append((chunk, _start_parsing(chunk, parse, first_row)))
    finally:
        for _, future in waiting:
            if future is not None:
                future.cancel()


def _start_parsing(chunk: bytes, parse: Parse, first_row: int) -> Future[pa.Table] | None:
    """Starts parsing on another thread; ``None`` for a small chunk, which would not be worth it."""
    return submit(partial(parse, chunk, first_row)) if len(chunk) >= _PARSE_INLINE_BYTES else None


def _is_done(future: Future[pa.Table] | None) -> bool:
    return future is None or future.done()


class PrependedStream:
    """A stream of bytes that were already read, followed by the rest."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        """Returns up to ``size`` bytes, perhaps fewer."""
        if not self._first:
            return self._rest.read(size)
        end = len(self._first) if size < 0 else size
        data, self._first = self._first[:end], self._first[end:]
        return data


def strip_byte_order_mark(first: bytes) -> bytes:
    """Returns the first three bytes of a text, without the byte order mark that they may be."""
    return b"" if first == b"\xef\xbb\xbf" else first


def find_line_end(data: bytes) -> int:
    """Returns the position of the first line feed, -1 without one."""
    return data.find(b"\n")


def read_line(stream: BinaryIO, rest: bytes, end_of: Callable[[bytes], int] = find_line_end) -> tuple[bytes, bytes]:
    """Returns the first line (without its end) and what was read behind it.

    ``end_of`` finds the line feed that ends the line. Raises 117 for a line longer than :data:`MAX_HEADER_BYTES`.
    """
    while (end := end_of(rest)) < 0:
        if len(rest) > MAX_HEADER_BYTES:
            raise UserError("INCORRECT_DATA", f"The header is longer than {MAX_HEADER_BYTES} bytes")
        data = stream.read(max(1 << 16, len(rest)))
        if not data:
            return rest, b""
        rest += data
    return rest[:end], rest[end + 1 :]


def resize_blocks(tables: Iterable[pa.Table], max_rows: int, max_bytes: int = 0) -> Iterator[pa.Table]:
    """Yields the same rows in blocks of ``max_rows``, the last one shorter. No block is empty.

    A block also ends behind the table that makes it ``max_bytes`` in memory (0: any size). Where that is depends on the
    data alone, so that the same data always give the same blocks.
    """
    pending: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        pending.append(table)
        rows += table.num_rows
        size += table.nbytes
        if rows < max_rows:
            if rows and max_bytes and size >= max_bytes:
                yield _concat(pending)
                pending, rows, size = [], 0, 0
            continue
        whole = _concat(pending)
        start = 0
        while rows - start >= max_rows:
            yield whole.slice(start, max_rows)
            start += max_rows
        rows -= start
        pending = [whole.slice(start)] if rows else []
        size = pending[0].nbytes if rows else 0
    if rows:
        yield _concat(pending)


def _concat(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
