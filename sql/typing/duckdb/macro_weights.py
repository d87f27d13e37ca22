"""Pando's macros in DuckDB, and how large a statement gets when DuckDB writes them out in it.

An argument that a macro's body names three times is there three times, with everything in it: twenty such calls in one
another would be three billion. DuckDB cannot be interrupted while it does that, so it is foreseen: of a fragment it is
known how many words and brackets there are when all is written out (its *weight*), and how deep its own brackets are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HOLE = "\0"
"""Stands for a part in the texts around parts."""
_TOKEN = re.compile(r"'(?:[^']++|'')*+'|\"[^\"]*+\"|(pando_\w++)\(|([(\[{])|([)\]}])|(,)|(\w++|\0)")
_DEFINITION = re.compile(r"(\w+)\(([^)]*)\)\s+AS\s+(.*)", re.DOTALL)

_definitions: dict[str, tuple[tuple[str, ...], str]] = {}
_shares: dict[str, tuple[int, ...]] = {}
"""By macro: how often each of its arguments is written out."""
_CALL = re.compile(r"\b(pando_\w+|error)\(")
_raise: dict[str, bool] = {"error": True}
"""By macro: whether it raises errors, of itself or by others."""


def define_macros(*texts: str) -> tuple[str, ...]:
    """``name(a, b) AS body`` of each; a macro may use those of any module."""
    for text in texts:
        match = _DEFINITION.match(text)
        assert match is not None, text
        parameters = tuple(name.split(":=")[0].strip() for name in match.group(2).split(","))
        _definitions[match.group(1)] = (parameters, match.group(3))
    return texts


def _share(name: str) -> tuple[int, ...]:
    if name not in _shares and name in _definitions:
        parameters, body = _definitions[name]
        _shares[name] = tuple(1 for _ in parameters)  # a macro that uses itself would have no end anyway
        counts = dict.fromkeys(parameters, 0)
        for word, times, _ in _written(body):
            if word in counts:
                counts[word] += times
        _shares[name] = tuple(max(1, counts[parameter]) for parameter in parameters)
    return _shares.get(name, ())


def raises(texts: tuple[str, ...]) -> bool:
    """Whether a macro that the texts call, or DuckDB's ``error``, may raise one of Pando's errors."""
    return any(_raises(name) for text in texts for name in _CALL.findall(text))


def _raises(name: str) -> bool:
    if name not in _raise:
        if name not in _definitions:
            return False
        _raise[name] = False  # a macro that uses itself would have no end anyway
        _raise[name] = raises((_definitions[name][1],))
    return _raise[name]


def expansion_weight(texts: tuple[str, ...]) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """The weight and depth of texts around parts, and how often and how deep each part is written."""
    weight = deepest = 0
    holes: list[tuple[int, int]] = []
    for word, times, depth in _written(_HOLE.join(texts)):
        if _HOLE in word:  # inside a literal a part is no word
            holes += [(times if word == _HOLE else 0, depth)] * word.count(_HOLE)
        else:
            weight += times
            deepest = max(deepest, depth)
    return weight, deepest, tuple(holes)


def _written(sql: str) -> Iterator[tuple[str, int, int]]:
    """The words of the text, how often each is written out, and how many brackets are around it."""
    times = 1
    around: list[tuple[int, int, tuple[int, ...], int]] = []
    own: tuple[int, ...] = ()
    argument, base = 0, 1
    for match in _TOKEN.finditer(sql):
        macro, opening, closing, comma, word = match.groups()
        if macro or opening:
            around.append((times, base, own, argument))
            base, own, argument = times, _share(macro) if macro else (), 0
            times = base * (own[0] if own else 1)
        elif closing:
            if around:
                times, base, own, argument = around.pop()
        elif comma:
            argument += 1
            times = base * (own[argument] if argument < len(own) else 1)
        yield word or match.group(), times, len(around)
