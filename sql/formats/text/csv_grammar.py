"""CSV's grammar: where rows may be cut, which quotes count, and which data are refused.

As in ClickHouse a quote counts only where a field begins (blanks before it are skipped): ``12" pipe`` is a text with a
quote in it. Behind the closing quote there may only be blanks. A row ends in a line feed, perhaps with a carriage
return before it.

NumPy looks at all quotes at once. If the odd ones begin fields and the even ones end them, a line end is outside quotes
where an even number of quotes stands before it. Only data with a quote elsewhere are walked field by field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from parts.common.errors import UserError
from sql.grammar.text_escapes import has_pattern, shorten_for_message

_CUT_TAIL_BYTES = 64 << 10
_MOST_BLANKS = 64
_QUOTE, _LINE_FEED, _RETURN = 34, 10, 13


@dataclass(frozen=True)
class CsvRules:
    """The rules of CSV with one delimiter.

    ``cut`` and ``clean`` are those of ``delimited_reader``'s dialects.
    """

    cut: Callable[[bytearray], int]
    clean: Callable[[bytes], bytes]
    line_end: Callable[[bytes], int]
    """Returns the position of the line feed that ends the first row, -1 if it is missing; quoted ones do not count."""
    check: Callable[[bytes, int, int], None]
    """``check(chunk, number of its first row, fields of a row)`` raises 27 or 117 for rows that are not CSV."""


@cache
def make_csv_rules(delimiter: str) -> CsvRules:
    """Makes the rules for a delimiter."""
    marks = _Marks.of(delimiter)
    grammar = _Grammar.of(delimiter)

    def cut(data: bytearray) -> int:
        if b'"' not in data:
            return data.rfind(b"\n") + 1
        buffer = np.frombuffer(data, np.uint8)
        quotes = _find_valid_quotes(buffer, marks)
        if quotes is None:
            match = grammar.rows_to_cut.match(data)
            return match.end() if match else 0
        return _find_last_line_end(buffer, quotes)

    def line_end(data: bytes) -> int:
        match = grammar.row_to_cut.match(data)
        return match.end() - 1 if match else -1

    def clean(chunk: bytes) -> bytes:
        """Removes blanks around fields that are not quoted."""
        if not _has_blanks_at_edges(chunk, marks):
            return chunk
        buffer = np.frombuffer(chunk, np.uint8)
        quotes = _find_valid_quotes(buffer, marks)
        if quotes is None:
            return grammar.trim.sub(lambda match: match.group(1) or match.group(2) or b"", chunk)
        return _remove_blanks_at_edges(buffer, quotes, marks)

    def check(chunk: bytes, first_row: int, width: int) -> None:
        _check(chunk, first_row, width, marks, grammar)

    return CsvRules(cut, clean, line_end, check)


# Marks ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Marks:
    """Bytes with a meaning: ``begins`` are those before a field, ``ends`` those behind one."""

    blanks: bytes
    is_blank: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @staticmethod
    def of(delimiter: str) -> _Marks:
        """Returns the marks for a delimiter."""
        is_blank, begins, ends = (np.zeros(256, bool) for _ in range(3))
        blanks = bytes(mark for mark in b" \t" if mark != ord(delimiter))
        is_blank[list(blanks)] = True
        begins[[ord(delimiter), _LINE_FEED]] = True
        ends[[ord(delimiter), _LINE_FEED, _RETURN]] = True
        return _Marks(blanks, is_blank, begins, ends)


def _find_valid_quotes(buffer: np.ndarray, marks: _Marks) -> np.ndarray | None:
    """Returns the positions of all quotes if each begins or ends a field or is doubled; else ``None``."""
    quotes = np.flatnonzero(buffer == _QUOTE)
    opening, closing = quotes[0::2], quotes[1::2]
    is_doubled = np.zeros(len(opening), bool)
    is_doubled[1:] = opening[1:] == closing[: len(opening) - 1] + 1
    before = _skip_blanks(buffer, opening[~is_doubled] - 1, -1, marks)
    is_last = np.ones(len(closing), bool)
    is_last[: len(opening) - 1] = ~is_doubled[1:][: len(closing)]
    behind = _skip_blanks(buffer, closing[is_last] + 1, 1, marks)
    if not ((before < 0) | marks.begins[buffer[np.maximum(before, 0)]]).all():
        return None
    is_end = behind >= len(buffer)
    return quotes if (is_end | marks.ends[buffer[np.minimum(behind, len(buffer) - 1)]]).all() else None


def _skip_blanks(buffer: np.ndarray, places: np.ndarray, step: int, marks: _Marks) -> np.ndarray:
    """Moves the positions over the blanks they stand on; outside of the buffer if nothing else is there."""
    for _ in range(_MOST_BLANKS):
        is_inside = (places >= 0) & (places < len(buffer))
        on_blank = is_inside & marks.is_blank[buffer[np.clip(places, 0, len(buffer) - 1)]]
        if not on_blank.any():
            break
        places = places + step * on_blank
    return places


def _find_last_line_end(buffer: np.ndarray, quotes: np.ndarray) -> int:
    """Returns the position behind the last line end outside quotes; 0 if there is none."""
    tail_bytes = _CUT_TAIL_BYTES
    while True:
        start = max(0, len(buffer) - tail_bytes)
        lines = start + np.flatnonzero(buffer[start:] == _LINE_FEED)
        whole = lines[_is_outside(lines, quotes)]
        if len(whole) or not start:
            return int(whole[-1]) + 1 if len(whole) else 0
        tail_bytes *= 8


def _is_outside(places: np.ndarray, quotes: np.ndarray) -> np.ndarray:
    return np.searchsorted(quotes, places) % 2 == 0


def _has_blanks_at_edges(chunk: bytes, marks: _Marks) -> bool:
    """Returns whether a blank stands beside a delimiter or a line end."""
    buffer = np.frombuffer(chunk, np.uint8)
    places = np.concatenate([np.flatnonzero(buffer == mark) for mark in marks.blanks])
    if not len(places):
        return False
    before = marks.ends[buffer[np.maximum(places - 1, 0)]] | (places == 0)
    behind = marks.ends[buffer[np.minimum(places + 1, len(buffer) - 1)]] | (places == len(buffer) - 1)
    return bool((before | behind).any())


def _remove_blanks_at_edges(buffer: np.ndarray, quotes: np.ndarray, marks: _Marks) -> bytes:
    places = np.flatnonzero(marks.is_blank[buffer])
    if len(quotes):
        places = places[_is_outside(places, quotes)]
    begins, ends = places[np.diff(places, prepend=-2) != 1], places[np.diff(places, append=-2) != 1] + 1
    behind = np.append(buffer, [_LINE_FEED, _LINE_FEED])  # the data end like a row
    is_return = (behind[ends] == _RETURN) & (behind[ends + 1] == _LINE_FEED)
    at_edge = (begins == 0) | marks.begins[buffer[begins - 1]] | marks.begins[behind[ends]] | is_return
    is_kept = np.ones(len(buffer), bool)
    is_kept[places[np.repeat(at_edge, ends - begins)]] = False
    return buffer[is_kept].tobytes()


# Walking --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Grammar:
    """Patterns of rows.

    The rows to cut may have anything behind a closing quote, so that what is refused there is a whole row.
    """

    row_to_cut: re.Pattern[bytes]
    rows_to_cut: re.Pattern[bytes]
    row: re.Pattern[bytes]
    rows: re.Pattern[bytes]
    last_row: re.Pattern[bytes]
    trim: re.Pattern[bytes]

    @staticmethod
    def of(delimiter: str) -> _Grammar:
        """Returns the patterns for a delimiter."""
        comma = re.escape(delimiter.encode())
        blank = rb"[ \t]" if delimiter not in " \t" else (rb"\t" if delimiter == " " else rb" ")
        quoted = rb'"(?:[^"]++|"")*+"'
        bare = rb'(?!%b*+")(?:[^%b\n\r]++|\r(?=\n))*+' % (blank, comma)
        strict = rb"(?:%b*+%b%b*+(?=%b|\r?\n|\Z)|%b)" % (blank, quoted, blank, comma, bare)
        loose = rb'(?:%b*+%b[^%b\n]*+|(?!%b*+")[^%b\n]*+)' % (blank, quoted, comma, blank, comma)
        loose_row = rb"%b(?:%b%b)*+\n" % (loose, comma, loose)
        strict_row = rb"%b(?:%b%b)*+" % (strict, comma, strict)
        trim = rb"((?:^|(?<=[%b\n]))%b)|%b++(?=%b|\r?\n|\Z)|(?:^|(?<=[%b\n]))%b++(%b)?" % (
            comma, quoted, blank, comma, comma, blank, quoted,
        )  # fmt: skip
        patterns = (
            loose_row, b"(?:%b)*+" % loose_row, rb"%b\r?+\n" % strict_row, rb"(?:%b\r?+\n)*+" % strict_row,
            rb"%b\Z" % strict_row, trim,
        )  # fmt: skip
        return _Grammar(*map(re.compile, patterns))


# Checks ---------------------------------------------------------------------------------------------------------------


def _check(chunk: bytes, first_row: int, width: int, marks: _Marks, grammar: _Grammar) -> None:
    buffer = np.frombuffer(chunk, np.uint8)
    quotes = _find_valid_quotes(buffer, marks) if b'"' in chunk else np.zeros(0, np.int64)
    if quotes is None:
        _check_by_walking(chunk, first_row, width, grammar)
        return
    if len(quotes) % 2:
        raise _unclosed_quote_error(_find_row(int(quotes[-1]), buffer, quotes, first_row))
    if b"\r" in chunk:
        returns = np.flatnonzero(buffer == _RETURN)
        is_alone = (returns == len(buffer) - 1) | (buffer[np.minimum(returns + 1, len(buffer) - 1)] != _LINE_FEED)
        alone = returns[is_alone]
        alone = alone[_is_outside(alone, quotes)]
        if len(alone):
            raise _lone_return_error(_find_row(int(alone[0]), buffer, quotes, first_row))
    if width > 1 and has_empty_lines(chunk):
        lines = np.flatnonzero(buffer == _LINE_FEED)
        lines = lines[_is_outside(lines, quotes)]
        lengths = np.diff(lines, prepend=-1) - 1
        lengths -= (lengths > 0) & (buffer[lines - 1] == _RETURN)
        empty = np.flatnonzero(lengths == 0)
        if len(empty):
            raise empty_row_error(first_row + int(empty[0]), width)


def _check_by_walking(chunk: bytes, first_row: int, width: int, grammar: _Grammar) -> None:
    match = grammar.rows.match(chunk)
    end = match.end() if match else 0
    if end < len(chunk) and not grammar.last_row.match(chunk, end):
        row = first_row + sum(1 for _ in grammar.row.finditer(chunk, 0, end))
        whole = grammar.row_to_cut.match(chunk + b"\n", end)
        if whole is None:
            raise _unclosed_quote_error(row)
        bad = whole.group().rstrip(b"\r\n")
        if b"\r" in bad and b'"' not in bad:
            raise _lone_return_error(row)
        raise UserError(
            "INCORRECT_DATA",
            "Cannot parse CSV: expected the delimiter or the end of the row behind a closing quote (a quote inside "
            f"quotes is doubled): {shorten_for_message(bad.decode('utf-8', 'replace'))!r}: (at row {row})",
        )
    if width > 1 and has_empty_lines(chunk):
        for number, row_match in enumerate(grammar.row.finditer(chunk, 0, end)):
            if not row_match.group().strip(b"\r\n"):
                raise empty_row_error(first_row + number, width)


def has_empty_lines(chunk: bytes) -> bool:
    """Returns whether there may be an empty line; it may also be inside quotes."""
    data = np.frombuffer(chunk, np.uint8)
    return chunk[:1] == b"\n" or chunk[:2] == b"\r\n" or has_pattern(data, b"\n\n") or has_pattern(data, b"\n\r\n")


def empty_row_error(row: int, width: int) -> UserError:
    """Returns the error 27 for an empty line where fields are expected."""
    return UserError(
        "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
        f"Cannot parse input: expected {width} fields, the line is empty: (at row {row})",
    )


def _find_row(place: int, buffer: np.ndarray, quotes: np.ndarray, first_row: int) -> int:
    lines = np.flatnonzero(buffer[:place] == _LINE_FEED)
    return first_row + int(_is_outside(lines, quotes).sum())


def _unclosed_quote_error(row: int) -> UserError:
    return UserError(
        "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
        f"Cannot parse input: expected a closing quote in CSV data: (at row {row})",
    )


def _lone_return_error(row: int) -> UserError:
    return UserError(
        "INCORRECT_DATA",
        "Cannot parse CSV: a carriage return outside quotes without a line feed behind it: a row ends in \\n or "
        f"\\r\\n, and a value with a carriage return is quoted: (at row {row})",
    )
