"""Parses long lists of plain numbers or strings, as in ``IN (…)`` and ``[…]``, into one array.

A million literals are one node of the tree, as in ClickHouse. A list that is short or has anything else in it is parsed
as any other expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from sql.grammar.syntax_tree import LiteralList
from sql.grammar.tokens import TokenStream, unquote_string

MIN_LIST_LITERALS = 100
_AT_ONCE = 10_000
_SPACE = r"[ \t\r\n]*+"
_END = _SPACE + r"([,)\]])"


class _LiteralKind:
    """A kind of literal: its patterns, its conversion from text, and the Arrow types to try.

    ``value`` matches one literal; ``few`` matches a short one.
    """

    def __init__(self, value: str, few: str, of_text: Callable[[str], object], *types: pa.DataType) -> None:
        self.first = re.compile(_SPACE + f"({value})" + _END, re.ASCII | re.DOTALL)
        self.many = re.compile(f"(?:{_SPACE}{few}{_SPACE},){{1,1000}}+", re.ASCII | re.DOTALL)
        self.each = re.compile(few, re.ASCII | re.DOTALL)
        self.of_text = of_text
        self.types = types


_INTEGER = r"-?\d{1,20}+"
_REAL = r"-?\d{1,30}+(?:\.\d{0,30}+)?(?:[eE][+-]?\d{1,3}+)?"
_STRING, _SHORT_STRING = (rf"'(?:[^'\\]{{1,{most}}}+|\\.|''){{0,{most}}}+'" for most in (1000, 10))
_KINDS = (
    _LiteralKind(_INTEGER, _INTEGER, int, pa.int64(), pa.uint64()),
    _LiteralKind(_REAL, _REAL, float, pa.float64()),
    _LiteralKind(_STRING, _SHORT_STRING, unquote_string, pa.string()),
)


def parse_literal_list(stream: TokenStream, closer: str) -> LiteralList | None:
    """Parses a list up to and with its ``closer``; ``None``, with nothing read, if it is not plain.

    The opening bracket has been read.
    """
    for kind in _KINDS:
        if kind.first.match(stream.text, stream.position) is None:
            continue
        values, end = _read_values(stream, closer, kind)
        array = _make_array(values, kind.types) if len(values) >= MIN_LIST_LITERALS else None
        if array is not None:
            stream.position = end
            return LiteralList(array)
    return None


def _read_values(stream: TokenStream, closer: str, kind: _LiteralKind) -> tuple[list[object], int]:
    """Returns the values and the position behind the closer; no values if the list holds anything else."""
    values: list[object] = []
    text, position = stream.text, stream.position
    while True:
        stream.guard.step()
        many = kind.many.match(text, position)
        if many is not None:
            values.extend(map(kind.of_text, kind.each.findall(many.group())))
            position = many.end()
        match = kind.first.match(text, position)
        if match is None:
            return [], position
        values.append(kind.of_text(match.group(1)))
        position = match.end()
        if match.group(2) != ",":
            return (values, position) if match.group(2) == closer else ([], position)


def _make_array(values: list[object], types: tuple[pa.DataType, ...]) -> pa.Array | None:
    """Converts the values to the first type that holds them.

    It converts in pieces: one conversion must not hold the interpreter for long.
    """
    for type_ in types:
        try:
            pieces = [pa.array(values[at : at + _AT_ONCE], type_) for at in range(0, len(values), _AT_ONCE)]
        except (pa.ArrowInvalid, OverflowError, UnicodeError):
            continue
        return pa.concat_arrays(pieces)
    return None
