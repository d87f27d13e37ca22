"""A long list of plain numbers or plain strings, as ``IN (…)`` and ``[…]`` have them: read as one array, not as a tree.

A million of them are one node of the tree, as in ClickHouse. A list that is short or has anything else in it is read as
any other expression.
"""

from __future__ import annotations

import re

import pyarrow as pa

from sql.dialect import TokenStream, unquote_string
from sql.syntax_tree import LiteralList

LEAST_LITERALS = 100
_AT_ONCE = 10_000
_SPACE = r"[ \t\r\n]*+"
_INTEGER = re.compile(_SPACE + r"(-?\d{1,20}+)" + _SPACE + r"([,)\]])", re.ASCII)
_REAL = re.compile(_SPACE + r"(-?\d{1,30}+(?:\.\d{0,30}+)?(?:[eE][+-]?\d{1,3}+)?)" + _SPACE + r"([,)\]])", re.ASCII)
_STRING = re.compile(_SPACE + r"('(?:[^'\\]{1,1000}+|\\.|''){0,1000}+')" + _SPACE + r"([,)\]])", re.DOTALL)


def literal_list(stream: TokenStream, closer: str) -> LiteralList | None:
    """The list up to and with its ``closer``, or ``None`` with nothing read. The opening bracket has been read."""
    for pattern, of_text, types in (
        (_INTEGER, int, (pa.int64(), pa.uint64())),
        (_REAL, float, (pa.float64(),)),
        (_STRING, unquote_string, (pa.string(),)),
    ):
        if pattern.match(stream.text, stream.position) is None:
            continue
        values, end = _read(stream, closer, pattern, of_text)
        array = _array(values, types) if len(values) >= LEAST_LITERALS else None
        if array is not None:
            stream.position = end
            return LiteralList(array)
    return None


def _read(stream: TokenStream, closer: str, pattern: re.Pattern[str], of_text: object) -> tuple[list[object], int]:
    """The values, and the place behind the closer; no values if the list has anything else in it."""
    values: list[object] = []
    text, position = stream.text, stream.position
    while (match := pattern.match(text, position)) is not None:
        values.append(of_text(match.group(1)))  # type: ignore[operator]
        position = match.end()
        if len(values) % _AT_ONCE == 0:
            stream.guard.status.check()
        if match.group(2) != ",":
            return (values, position) if match.group(2) == closer else ([], position)
    return [], position


def _array(values: list[object], types: tuple[pa.DataType, ...]) -> pa.Array | None:
    """In pieces: a conversion must not hold the interpreter for long."""
    for type_ in types:
        try:
            pieces = [pa.array(values[at : at + _AT_ONCE], type_) for at in range(0, len(values), _AT_ONCE)]
        except (pa.ArrowInvalid, OverflowError, UnicodeError):
            continue
        return pa.concat_arrays(pieces)
    return None
