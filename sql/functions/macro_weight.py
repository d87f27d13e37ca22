"""How large a statement gets when DuckDB writes out Pando's macros in it.

An argument that a macro's body names three times is there three times, with everything in it: twenty such calls in one
another would be three billion. DuckDB cannot be interrupted while it does that, so it is foreseen here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from parts.errors import UserError
from sql.functions.macros import MACROS
from sql.typing.fragments import MACRO, Fragment

_MOST_WEIGHT = 300_000
"""DuckDB takes some seconds for as much."""
_HOLE = "\0"
"""Stands for a part in the texts around parts."""
_TOKEN = re.compile(r"'(?:[^']++|'')*+'|\"[^\"]*+\"|(pando_\w++)\(|([(\[{])|([)\]}])|(,)|(\w++|\0)")
_LONG_ROW = 64
_DEFINITION = re.compile(r"(\w+)\(([^)]*)\)\s+AS\s+(.*)", re.DOTALL)

Shares = dict[str, tuple[int, ...]]
"""By macro: how often each of its arguments is written out."""


def shares_of(macros: Iterable[str]) -> Shares:
    """``name(a, b) AS body`` of each; a macro may use those before and after it."""
    definitions = {}
    for macro in macros:
        match = _DEFINITION.match(macro)
        assert match is not None, macro
        parameters = tuple(name.split(":=")[0].strip() for name in match.group(2).split(","))
        definitions[match.group(1)] = (parameters, match.group(3))
    shares: Shares = {}

    def share(name: str) -> tuple[int, ...]:
        if name not in shares and name in definitions:
            parameters, body = definitions[name]
            shares[name] = tuple(1 for _ in parameters)  # a macro that uses itself would have no end anyway
            for used in re.findall(r"pando_\w+", body):
                share(used)
            counts = _count(body, shares, dict.fromkeys(parameters, 0))
            shares[name] = tuple(max(1, counts[parameter]) for parameter in parameters)
        return shares.get(name, ())

    for name in definitions:
        share(name)
    return shares


def _count(body: str, shares: Shares, words: dict[str, int]) -> dict[str, int]:
    for word, times, _ in _written(body, shares):
        if word in words:
            words[word] += times
    return words


@cache
def _shares() -> Shares:
    return shares_of(MACROS)


def check_weight(sql: Fragment) -> None:
    """Raises 168 (TOO_BIG_AST) when the macros in the statement make it too large to plan."""
    if sql.traits & MACRO and measure(sql)[0] > _MOST_WEIGHT:
        raise UserError(
            "TOO_BIG_AST", "The query is too big with its functions written out: too many of them in one another"
        )


def measure(sql: Fragment) -> tuple[int, int]:
    """How many words and brackets are there when all is written out, and how deep its own brackets are."""
    for node in sql.unfinished(lambda node: node.measured is not None):
        profile = _profile if len(node.texts) < _LONG_ROW else _profile.__wrapped__
        weight, deepest, holes = profile(node.texts)
        for part, (times, depth) in zip(node.parts, holes, strict=True):
            own, levels = (part.measured or (0, 0)) if isinstance(part, Fragment) else (1, 0)
            weight += times * own
            deepest = max(deepest, depth + levels)
        node.measured = weight, deepest
    return sql.measured or (0, 0)


@lru_cache(4096)
def _profile(texts: tuple[str, ...]) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """The weight and depth of texts around parts, and how often and how deep each part is written."""
    weight = deepest = 0
    holes: list[tuple[int, int]] = []
    for word, times, depth in _written(_HOLE.join(texts), _shares()):
        if _HOLE in word:  # inside a literal a part is no word
            holes += [(times if word == _HOLE else 0, depth)] * word.count(_HOLE)
        else:
            weight += times
            deepest = max(deepest, depth)
    return weight, deepest, tuple(holes)


def _written(sql: str, shares: Shares) -> Iterable[tuple[str, int, int]]:
    """The words of the text, how often each is written out, and how many brackets are around it."""
    times = 1
    around: list[tuple[int, int, tuple[int, ...], int]] = []
    own: tuple[int, ...] = ()
    argument, base = 0, 1
    for match in _TOKEN.finditer(sql):
        macro, opening, closing, comma, word = match.groups()
        if macro or opening:
            around.append((times, base, own, argument))
            base, own, argument = times, shares.get(macro, ()) if macro else (), 0
            times = base * (own[0] if own else 1)
        elif closing:
            if around:
                times, base, own, argument = around.pop()
        elif comma:
            argument += 1
            times = base * (own[argument] if argument < len(own) else 1)
        yield word or match.group(), times, len(around)
