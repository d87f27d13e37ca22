"""Literals split for all rows at once, against a splitter of one text at a time."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sql.formats.converters.literal_splitting import MAX_DEPTH, NotAListError, split_elements

_PIECE = re.compile(r"'(?:[^'\\]++|\\.|'')*+'|[\[({]|[\])}]|,|:|[^'\[\](){},:]++", re.DOTALL)
BRACKETS = st.sampled_from([("[]", ","), ("{}", ",:"), ("()", ",")])


def one_by_one(text: str, brackets: str, separators: str) -> list[str] | None:
    text = text.strip()
    if len(text) < 2 or text[0] + text[-1] != brackets:
        return None
    elements: list[str] = []
    depth, start, position, end = 0, 1, 1, len(text) - 1
    for match in _PIECE.finditer(text, 1, end):
        if match.start() != position:
            return None
        position, piece = match.end(), match.group()
        depth += (piece in "[({") - (piece in "])}")
        if depth < 0 or depth > MAX_DEPTH:
            return None
        if depth == 0 and piece in separators:
            if piece != (separators[len(elements) % 2 - 1] if len(separators) > 1 else separators):
                return None
            elements.append(text[start : match.start()].strip())
            start = match.end()
    if position != end or depth != 0:
        return None
    last = text[start:end].strip()
    if last or elements:
        elements.append(last)
    if brackets == "()" and elements and elements[-1] == "":
        elements.pop()
    return None if "" in elements else elements


def escapes_outside(text: str) -> bool:
    """A quote that is not in a string and that a backslash escapes (an odd number of them), which is refused."""
    return (
        re.search(r"(?<!\\)\\(?:\\\\)*'", re.sub(r"'(?:[^'\\]++|\\.|'')*+(?:'|\\?$)", "''", text, flags=re.DOTALL))
        is not None
    )


PIECES = st.sampled_from([*"[](){},:' \\\t\nax1", "''", "\\'", "'a'", "é", "\u2003", "[1, 2]", "'],'", "NULL"])
TEXTS = st.lists(PIECES, max_size=12).map("".join)
LISTS = st.tuples(st.sampled_from(["[", "{", "(", " [", "\u00a0("]), TEXTS, st.sampled_from(["]", "}", ")", "] "])).map(
    "".join
)


@pytest.mark.long
@settings(deadline=None, max_examples=500)
@given(st.lists(st.none() | TEXTS | LISTS, max_size=6), BRACKETS)
@example(["[1]", None, "[]", "[ ]", "['a''b', 'it\\'s, [x', [1,[2]]]"], ("[]", ","))
@example(["(1,)", "()", "(,)"], ("()", ","))
@example(["{'a':1,'b':{1:2}}", "{}"], ("{}", ",:"))
@example(["{'a':1,'b':2}", "{'a',2}", "{'a':1:'b',2}"], ("{}", ",:"))
@example(["[1,,2]"], ("[]", ","))
@example(["['\\\\', 1]", "[\\', 2]"], ("[]", ","))
@example(["[\\\\'],']", "[\\\\\\'],']"], ("[]", ","))
def test_all_rows_at_once_are_split_as_one_by_one(texts: list[str | None], form: tuple[str, str]) -> None:
    brackets, separators = form
    expected = [[] if text is None else one_by_one(text, brackets, separators) for text in texts]
    refused = [
        index
        for index, (text, elements) in enumerate(zip(texts, expected, strict=True))
        if elements is None or (text is not None and escapes_outside(text))
    ]
    array = pa.array(["[x", *texts, "]y"], pa.string()).slice(1, len(texts))
    if refused:
        with pytest.raises(NotAListError) as raised:
            split_elements(array, brackets, separators)
        assert raised.value.index == refused[0]
        return
    offsets, elements = split_elements(array, brackets, separators)
    assert pa.ListArray.from_arrays(pa.array(offsets), elements).to_pylist() == expected


@pytest.mark.parametrize(("depth", "is_taken"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_brackets_are_counted(depth: int, is_taken: bool) -> None:
    texts = pa.array(["[" + "(" * depth + ")" * depth + "]"])
    if is_taken:
        assert split_elements(texts, "[]", ",")[1].to_pylist() == ["(" * depth + ")" * depth]
    else:
        with pytest.raises(NotAListError):
            split_elements(texts, "[]", ",")
