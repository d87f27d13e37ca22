"""A byte stream cut into chunks of whole rows, and tables put together into blocks of the asked size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa

from parts.errors import UserError

CHUNK_BYTES = 16 << 20
MAX_ROW_BYTES = 1 << 30

Cut = Callable[[bytes], int]


def row_chunks(stream: BinaryIO, cut: Cut, *, first: bytes = b"", size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Chunks that end where a row ends, the last one at the end of the stream.

    ``cut(data)`` gives the length of the leading whole rows of ``data``, 0 if there is none.
    """
    rest = first
    wanted = size
    while True:
        data = stream.read(max(wanted - len(rest), 1 << 16))
        if not data:
            break
        rest += data
        if len(rest) < wanted:
            continue
        end = cut(rest)
        if end:
            yield rest[:end]
            rest, wanted = rest[end:], size
        elif len(rest) > MAX_ROW_BYTES:
            raise UserError("INCORRECT_DATA", f"A row is longer than {MAX_ROW_BYTES} bytes (an unclosed quote?)")
        else:
            wanted = max(wanted * 2, len(rest) + size)
    if rest:
        yield rest


def read_line(stream: BinaryIO, rest: bytes) -> tuple[bytes, bytes]:
    """The first line (without its end) and what was read behind it."""
    while b"\n" not in rest:
        data = stream.read(1 << 16)
        if not data:
            return rest, b""
        rest += data
        if len(rest) > MAX_ROW_BYTES:
            raise UserError("INCORRECT_DATA", f"The header is longer than {MAX_ROW_BYTES} bytes")
    line, _, behind = rest.partition(b"\n")
    return line, behind


def blocks_of(tables: Iterable[pa.Table], max_rows: int) -> Iterator[pa.Table]:
    """The same rows in blocks of ``max_rows``, the last one shorter. Never an empty block."""
    pending: list[pa.Table] = []
    rows = 0
    for table in tables:
        pending.append(table)
        rows += table.num_rows
        if rows < max_rows:
            continue
        whole = _concat(pending)
        start = 0
        while rows - start >= max_rows:
            yield whole.slice(start, max_rows)
            start += max_rows
        rows -= start
        pending = [whole.slice(start)] if rows else []
    if rows:
        yield _concat(pending)


def _concat(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
