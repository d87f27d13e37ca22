"""The grammar of TabSeparated: where rows end, and what pyarrow must not take for an end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from parts.common.errors import UserError
from sql.formats.text.csv_grammar import empty_row_error, has_empty_lines
from sql.grammar.text_escapes import (
    has_pattern,
)

_ESCAPED_BREAK = re.compile(rb"(?<!\\)((?:\\\\)*+)\\([\n\t\r])")
_BREAK_LETTERS = {b"\n": b"n", b"\t": b"t", b"\r": b"r"}


def cut_tsv(data: bytearray) -> int:
    end = data.rfind(b"\n")
    while end > 0 and _ends_in_backslash(data, end):
        end = data.rfind(b"\n", 0, end)
    return end + 1


def find_tsv_line_end(data: bytes) -> int:
    """Returns where the first line feed is that no backslash escapes; -1 if there is none."""
    end = data.find(b"\n")
    while end > 0 and _ends_in_backslash(data, end):
        end = data.find(b"\n", end + 1)
    return end


def _ends_in_backslash(data: bytes | bytearray, end: int) -> bool:
    count = 0
    while count < end and data[end - 1 - count] == 0x5C:
        count += 1
    return count % 2 == 1


def clean_tsv(chunk: bytes) -> bytes:
    """Escapes what pyarrow would take for the end of a row or field but TSV does not."""
    data = np.frombuffer(chunk, np.uint8)
    if any(has_pattern(data, b"\\" + mark) for mark in _BREAK_LETTERS):
        chunk = _ESCAPED_BREAK.sub(lambda match: match.group(1) + b"\\" + _BREAK_LETTERS[match.group(2)], chunk)
    return chunk.replace(b"\r", b"\\r") if b"\r" in chunk else chunk


def refuse_carriage_returns(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the chunks; raises 117 if the first row ends in a carriage return."""
    first = next(chunks, b"")
    end = first.find(b"\n")
    if end > 0 and first[end - 1] == 0x0D:
        raise UserError(
            "INCORRECT_DATA",
            "There is a carriage return (\\r) at the end of the first row: TabSeparated has Unix line ends. "
            "Convert the file, or write \\r where it belongs to a value",
        )
    if first:
        yield first
    yield from chunks


def check_tsv(chunk: bytes, first_row: int, width: int) -> None:
    if width > 1 and has_empty_lines(chunk):
        lines = chunk.split(b"\n")
        empty = lines.index(b"")
        if empty < len(lines) - 1:
            raise empty_row_error(first_row + empty, width)
