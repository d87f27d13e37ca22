"""Pando's DuckDB macros, and the size of a statement after DuckDB has expanded them.

DuckDB repeats a macro's argument wherever the body names it, with everything in it. Twenty nested calls of a macro that
names its argument three times would expand to three billion. DuckDB cannot be interrupted meanwhile, so the size is
predicted. Each fragment knows its *weight*, the number of words and brackets after expansion, and the depth of its own
brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HOLE = "\0"
"""Stands for a part in the texts around parts."""
_TOKEN = re.compile(r"'(?:[^']++|'')*+'|\"[^\"]*+\"|(pando_\w++)\(|([(\[{])|([)\]}])|(,)|(\w++|\0)")
_DEFINITION = re.compile(r"(\w+)\(([^)]*)\)\s+AS\s+(.*)", re.DOTALL)

_definitions: dict[str, tuple[tuple[str, ...], str]] = {}
_repetitions: dict[str, tuple[int, ...]] = {}
"""By macro: how often each of its arguments is repeated."""
_CALL = re.compile(r"\b(pando_\w+|error)\(")
_raising: dict[str, bool] = {"error": True}
"""By macro: whether it raises errors, itself or through other macros."""


def define_macros(*texts: str) -> tuple[str, ...]:
    """Registers definitions ``name(a, b) AS body``, and returns them.

    A macro may use those of any module.
    """
    for text in texts:
        match = _DEFINITION.match(text)
        assert match is not None, text
        parameters = tuple(name.split(":=")[0].strip() for name in match.group(2).split(","))
        _definitions[match.group(1)] = (parameters, match.group(3))
    return texts


def _argument_repetitions(name: str) -> tuple[int, ...]:
    if name not in _repetitions and name in _definitions:
        parameters, body = _definitions[name]
        _repetitions[name] = tuple(1 for _ in parameters)  # ends the recursion of a macro that uses itself
        counts = dict.fromkeys(parameters, 0)
        for word, times, _ in _expanded_words(body):
            if word in counts:
                counts[word] += times
        _repetitions[name] = tuple(max(1, counts[parameter]) for parameter in parameters)
    return _repetitions.get(name, ())


def raises(texts: tuple[str, ...]) -> bool:
    """Tells whether the texts call ``error``, or a macro that may raise an error."""
    return any(_macro_raises(name) for text in texts for name in _CALL.findall(text))


def _macro_raises(name: str) -> bool:
    if name not in _raising:
        if name not in _definitions:
            return False
        _raising[name] = False  # ends the recursion of a macro that uses itself
        _raising[name] = raises((_definitions[name][1],))
    return _raising[name]


def expansion_weight(texts: tuple[str, ...]) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Returns weight and depth of texts around parts, and how often and how deep each part is."""
    weight = deepest = 0
    holes: list[tuple[int, int]] = []
    for word, times, depth in _expanded_words(_HOLE.join(texts)):
        if _HOLE in word:  # a part inside a literal does not count as a word
            holes += [(times if word == _HOLE else 0, depth)] * word.count(_HOLE)
        else:
            weight += times
            deepest = max(deepest, depth)
    return weight, deepest, tuple(holes)


def _expanded_words(sql: str) -> Iterator[tuple[str, int, int]]:
    """Yields the words of the text, how often each is repeated, and its depth in brackets."""
    times = 1
    around: list[tuple[int, int, tuple[int, ...], int]] = []
    own: tuple[int, ...] = ()
    argument, base = 0, 1
    for match in _TOKEN.finditer(sql):
        macro, opening, closing, comma, word = match.groups()
        if macro or opening:
            around.append((times, base, own, argument))
            base, own, argument = times, _argument_repetitions(macro) if macro else (), 0
            times = base * (own[0] if own else 1)
        elif closing:
            if around:
                times, base, own, argument = around.pop()
        elif comma:
            argument += 1
            times = base * (own[argument] if argument < len(own) else 1)
        yield word or match.group(), times, len(around)
