"""Blanks around the fields of CSV, against the regular expression that walks through them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sql.formats.text.csv_grammar import _find_valid_quotes, _Grammar, _Marks, make_csv_rules
from tests.sql.oracle import columns_of, read

PIECES = st.sampled_from([b" ", b"\t", b",", b"\n", b"\r\n", b'"', b'""', b"a", b'"x, "', b";", b" \n"])


@pytest.mark.long
@settings(deadline=None, max_examples=500)
@given(st.lists(PIECES, max_size=12).map(b"".join), st.sampled_from([",", ";", "\t", " "]))
@example(b' 1 ,"a ""b"" , " \t\r\n \t\n, "x"', ",")
def test_all_are_taken_off_at_once(chunk: bytes, delimiter: str) -> None:
    trim = _Grammar.of(delimiter).trim
    quotes = _find_valid_quotes(np.frombuffer(chunk, np.uint8), _Marks.of(delimiter))
    if quotes is not None and len(quotes) % 2 == 0:
        expected = trim.sub(lambda match: match.group(1) or match.group(2) or b"", chunk)
        assert make_csv_rules(delimiter).clean(chunk) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_values(end: str) -> None:
    body = end.join(['1, "a, "\t', " 2 ,b c ", "3,", '4 , " ""d"""', ""])
    rows = read(body.encode(), columns_of({"n": "UInt8", "s": "String"}), "CSV").to_pylist()
    assert rows == [
        {"n": 1, "s": "a, "},
        {"n": 2, "s": "b c"},
        {"n": 3, "s": None},
        {"n": 4, "s": ' "d"'},
    ]
