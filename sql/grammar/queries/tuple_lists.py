"""Parses long lists of tuples, ``IN ((1, 'a'), (2, 'b'), …)``, into columns.

The values are whole numbers and strings, and all tuples have the types of the first. A list that is short or has
anything else in it (NULL, a fraction, a call) is parsed as any other expression.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from sql.grammar.queries.literal_lists import MIN_LIST_LITERALS
from sql.grammar.syntax_tree import LiteralList
from sql.grammar.tokens import TokenStream, unquote_string

_AT_ONCE = 1000
_SPACE = r"[ \t\r\n]*+"
_TEXT = r"'(?:[^'\\]{1,1000}+|\\.|''){0,1000}+'"
_WHOLE = r"-?\d{1,18}+"
_VALUE = rf"{_SPACE}({_TEXT}|{_WHOLE}){_SPACE}"
_FIRST = re.compile(rf"{_SPACE}\({_VALUE}(?:,{_VALUE}){{1,15}}+\)", re.ASCII | re.DOTALL)
_EACH = re.compile(rf"{_TEXT}|{_WHOLE}", re.ASCII | re.DOTALL)


def parse_tuple_list(stream: TokenStream) -> LiteralList | None:
    """Parses a list up to and with its ``)``; ``None``, with nothing read, if it is not plain.

    The opening bracket has been read.
    """
    first = _FIRST.match(stream.text, stream.position)
    if first is None:
        return None
    kinds = tuple([literal[0] == "'" for literal in _EACH.findall(first.group())])
    pattern, position, pieces = _row_pattern(kinds), stream.position, []
    rows: list[tuple[str, ...]] = []
    while (match := pattern.match(stream.text, position)) is not None:
        rows.append(match.groups())
        position = match.end()
        is_last = rows[-1][-1] == ")"
        if is_last or len(rows) == _AT_ONCE:
            stream.guard.status.check()
            pieces.append(_make_columns(rows, kinds))
            rows = []
        if is_last:
            break
    else:
        return None
    columns = pa.concat_arrays(pieces)
    if len(columns) < MIN_LIST_LITERALS:
        return None
    stream.position = position
    return LiteralList(columns)


@lru_cache(maxsize=64)
def _row_pattern(kinds: tuple[bool, ...]) -> re.Pattern[str]:
    """Returns a pattern for one tuple: a group for each value and one for the mark behind it.

    ``kinds`` says which values are strings.
    """
    values = ",".join(f"{_SPACE}({_TEXT if is_text else _WHOLE}){_SPACE}" for is_text in kinds)
    return re.compile(rf"{_SPACE}\({values}\){_SPACE}([,)])", re.ASCII | re.DOTALL)


def _make_columns(rows: list[tuple[str, ...]], kinds: tuple[bool, ...]) -> pa.StructArray:
    columns = [
        pa.array(list(map(unquote_string, texts)), pa.string())
        if is_text
        else pa.array(list(map(int, texts)), pa.int64())
        for is_text, texts in zip(kinds, zip(*rows, strict=True), strict=False)
    ]
    return pa.StructArray.from_arrays(columns, [str(number) for number in range(1, len(columns) + 1)])
