"""What was made of texts is kept within bounds."""

from __future__ import annotations

import pytest

from parts.common.lru_cache import LruCache
from sql.grammar.queries.query_parser import parse_expression, parse_expression_list
from sql.grammar.text_cache import MAX_CACHE_CHARACTERS, MAX_CACHED_TEXT_CHARACTERS, TextKey, make_text_cache


def test_a_value_is_made_once() -> None:
    made: list[str] = []
    kept: LruCache[TextKey, int] = make_text_cache(10)
    for text in ("a", "b", "a"):
        assert kept.get((text, None), lambda text=text: made.append(text) or 1) == 1  # type: ignore[misc]
    assert made == ["a", "b"]


@pytest.mark.parametrize(
    ("most", "length", "survivors"),
    [(4, 1, 4), (1000, 5000, MAX_CACHE_CHARACTERS // 5000), (1000, MAX_CACHED_TEXT_CHARACTERS + 1, 0)],
)
def test_the_longest_unused_goes(most: int, length: int, survivors: int) -> None:
    """By their number, by their characters together, and at once when one has too many."""
    kept: LruCache[TextKey, str] = make_text_cache(most)
    for number in range(300):
        kept.get(("x" * length, number), lambda: "old")
    found = [kept.get(("x" * length, number), lambda: "new") for number in reversed(range(300))]
    assert found.count("old") == survivors
    assert set(found[:survivors]) <= {"old"}


def test_large_values_count() -> None:
    kept: LruCache[TextKey, str] = make_text_cache(10, len)
    kept.get(("a", None), lambda: "v" * MAX_CACHED_TEXT_CHARACTERS)
    assert kept.get(("a", None), lambda: "new") == "new"


def test_long_expressions_are_not_kept() -> None:
    """A parameter of a query may have megabytes."""
    short, long = "[1, 2]", f"[{'1, ' * MAX_CACHED_TEXT_CHARACTERS}1]"
    assert parse_expression(short) is parse_expression(short)
    assert parse_expression_list(short) is parse_expression_list(short)
    assert parse_expression(long) is not parse_expression(long)
    assert parse_expression_list(long) is not parse_expression_list(long)
