"""Facts about a regular expression before it runs: is it a plain text, what does each match contain.

Looking for a text costs DuckDB a quarter of running an expression. Python's parser reads the expression. If it cannot,
or might read it differently from RE2, nothing is known about the expression.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import string_literal

_CHANGING_FLAGS = re.IGNORECASE | re.VERBOSE
_UNLIKE = re.compile(r"\[[:.=]|\\[pPQECzAZ]|\{,")
"""Syntax that Python and RE2 read differently."""


class PatternFacts(NamedTuple):
    """The facts about one expression.

    ``literal``: the only text that the expression matches, if there is just one and there are no groups. ``needed``: a
    text that every match contains.
    """

    groups: int
    matches_empty: bool
    literal: str | None = None
    needed: str = ""


@lru_cache(1024)
def analyze_pattern(pattern: str) -> PatternFacts:
    """Returns the facts about a regular expression; unknown ones keep their defaults."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
            tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return PatternFacts(pattern.count("(") - pattern.count("\\(") - pattern.count("(?:"), False)
    groups, is_empty = compiled.groups, compiled.match("") is not None
    if _UNLIKE.search(pattern) or compiled.flags & _CHANGING_FLAGS:
        return PatternFacts(groups, is_empty)
    runs = list(_needed_texts(tree))
    if tree and all(code is codes.LITERAL for code, _ in tree):
        return PatternFacts(groups, is_empty, runs[0], runs[0])
    return PatternFacts(groups, is_empty, None, max(runs, key=len, default=""))


def _needed_texts(tree: Iterable[tuple[Any, Any]]) -> Iterable[str]:
    """Yields the texts that every match contains."""
    run = ""
    for code, value in tree:
        if code is codes.LITERAL:
            run += chr(value)
            continue
        if run:
            yield run
            run = ""
        if code is codes.SUBPATTERN and not value[1] & _CHANGING_FLAGS:
            yield from _needed_texts(value[3])
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[0] > 0:
            yield from _needed_texts(value[2])
    if run:
        yield run


def skip_impossible_matches(pattern: str, value: Fragment, matched: Fragment, otherwise: Fragment) -> Fragment:
    """Returns SQL that runs ``matched`` only on texts that can match, else ``otherwise``."""
    needed = analyze_pattern(pattern).needed
    if not needed or "\0" in needed:
        return matched
    template = "(CASE WHEN contains({}, {}) THEN {} ELSE {} END)"
    return fragment(template, value, string_literal(needed), matched, otherwise)
