"""What is known of a regular expression holds of it."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from sql.functions.strings.pattern_analysis import analyze_pattern
from sql.functions.strings.string_kernels import ilike_test

_NEEDED = {
    "abc": "abc", "a(b)c": "a", "(ab)c": "ab", "x+yz": "yz", "(foo)+bar.*": "foo", "a?bc": "bc", "a|b": "",
    "[a-b]cd": "cd",
    "(?i)abc": "", "(?i:abc)d": "d", "a{2}bcd": "bcd", "(a|b)cd": "cd", r"\d+ms": "ms", r"a\.b": "a.b", "": "",
    "[[:alpha:]]x": "", r"\pLx": "", "(?=a)bc": "bc", "(?x) a b": "", r"\Qa\E": "", "^abc$": "abc", "é+x": "é",
    "a*": "",
}  # fmt: skip


@pytest.mark.parametrize("pattern", _NEEDED)
def test_a_text_that_every_match_holds(pattern: str) -> None:
    found = analyze_pattern(pattern).needed
    wanted = _NEEDED[pattern]
    assert len(found) == len(wanted)
    assert found in pattern.replace("\\.", ".")
    assert bool(found) == bool(wanted)


def test_expressions_that_are_texts() -> None:
    texts = {"abc": "abc", r"a\.b": "a.b", "a": "a", r"\(": "("}
    assert {pattern: analyze_pattern(pattern).literal for pattern in texts} == texts
    for pattern in ("", "a.", "(a)", "a*", "(?i)a", "^a", "a|b", "[ab]", "(", r"\d"):
        assert analyze_pattern(pattern).literal is None


def test_groups_and_empty_matches() -> None:
    for pattern in ("(a)(?:b)(c)", "a", "(?P<n>a)", "(a)|(b)"):
        assert analyze_pattern(pattern).groups == re.compile(pattern).groups
    assert analyze_pattern("a*").matches_empty
    assert not analyze_pattern("a").matches_empty
    assert analyze_pattern("(((").groups == 3


def test_letters_that_equal_those_of_ascii_but_for_their_case() -> None:
    """As in ClickHouse, which does not look at them where it only searches."""
    texts = pa.array(["\u212a", "x\u212a", "\u0130", "x\u017f", "axK", None])
    expected = {
        "%k%": [0, 0, 0, 0, 1, None], "k": [1, 0, 0, 0, 0, None], "_K": [0, 1, 0, 0, 0, None],
        "%i%": [0, 0, 0, 0, 0, None], "_s": [0, 0, 0, 1, 0, None], "%A_k%": [0, 0, 0, 0, 1, None],
    }  # fmt: skip
    assert {pattern: ilike_test(pattern)(texts).to_pylist() for pattern in expected} == expected
