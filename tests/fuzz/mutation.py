"""Statements changed at random: by their grammar (arguments, groups), by tokens, by characters.

Every function takes its randomness; equal seeds give equal texts.
"""

from __future__ import annotations

import itertools
import re
from random import Random

_TOKEN = re.compile(
    r"\s+|'(?:[^'\\]|\\.|'')*'|`[^`]*`|\"[^\"]*\"|\w+(?:\.\d+)?|<=>|::|->|<=|>=|<>|!=|==|\|\||.", re.DOTALL
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_LONGEST = 20_000

_HOSTILE = r"""
0 1 -1 255 256 -129 65536 2147483648 -2147483649 9223372036854775807 9223372036854775808 18446744073709551615
18446744073709551616 -9223372036854775808 1e308 1e-320 1e400 -0.0 0.1 nan inf -inf NULL true '' '\0' '0' 'abc' '%'
'Foo/Bar' 'UTC' 'Europe/Berlin' '2020-02-30' '9999-99-99' 'Array(Array(Int8))' 'Nullable(Array(Int8))'
'Decimal(76,76)' 'day' '(a+)+$' '[' '\\' 'ünï' () [] [[]] [NULL] (1,) (NULL,'a') {} {x:UInt8} * t.* number 1000000000
-1000000000 toDecimal32(1,2) toDate('2020-01-01') now() INTERVAL x->x 1000000000000 [1,2,3] (1,'a')
[]::Array(String) map('a',1) 0xff 0b1 1_000 .5 5. _part @ # -- /* $$ ; , . :: ? : $tag$ ''
"""
HOSTILE = [
    *_HOSTILE.split(), "INTERVAL '' DAY", "INTERVAL 1 MONTH", "INTERVAL '1 day'", "CAST(1 AS Decimal(38,38))", "' '",
    "(SELECT 1)", "(SELECT 1, 2)", "(SELECT 1 WHERE 0)", "((SELECT 1))", "'1969-12-31 23:59:59'", "\U0001f600",
]  # fmt: skip
_WORDS = """
SELECT FROM WHERE PREWHERE GROUP BY HAVING ORDER LIMIT OFFSET UNION ALL DISTINCT INTERSECT EXCEPT JOIN LEFT ANY ASOF ON
USING ARRAY FINAL SAMPLE WITH TOTALS ROLLUP CUBE AS AND OR NOT IN LIKE BETWEEN IS NULL CASE WHEN THEN ELSE END CAST
INTERVAL DAY OVER PARTITION ROWS QUALIFY WINDOW FILTER SETTINGS FORMAT DESC NULLS FIRST TIES APPLY REPLACE COLUMNS
EXISTS ENGINE PRIMARY KEY DEFAULT CODEC TTL VALUES
"""
WORDS = _WORDS.split()


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def spans(parts: list[str]) -> list[tuple[int, int]]:
    """Where arguments stand: between brackets and commas, with whole groups inside."""
    found: list[tuple[int, int]] = []
    starts: list[int] = [0]
    for position, part in enumerate(parts):
        if part in _OPENING:
            starts.append(position + 1)
        elif part == "," or part in _CLOSING:
            if starts[-1] < position:
                found.append((starts[-1], position))
            starts[-1] = position + 1
            if part in _CLOSING and len(starts) > 1:
                starts.pop()
    if starts[-1] < len(parts):
        found.append((starts[-1], len(parts)))
    return found


_CLAUSE_WORDS = """
SELECT FROM WHERE PREWHERE GROUP BY HAVING ORDER LIMIT OFFSET UNION ALL EXCEPT INTERSECT DISTINCT JOIN ON USING WITH
SETTINGS FORMAT AS QUALIFY VALUES INTO ENGINE CREATE TABLE INSERT DESCRIBE EXPLAIN SHOW SYSTEM DROP
"""
_CLAUSES = frozenset(_CLAUSE_WORDS.split())


def place(parts: list[str], random: Random) -> tuple[int, int]:
    """Where an argument stands, or a clause's contents: of nine in ten without the words of clauses around it."""
    start, end = random.choice(spans(parts) or [(0, len(parts))])
    if random.random() < 0.1:
        return start, end
    words = [at for at in range(start, end) if parts[at].upper() in _CLAUSES]
    edges = [start - 1, *words, end]
    runs = [(low + 1, high) for low, high in itertools.pairwise(edges) if "".join(parts[low + 1 : high]).strip()]
    low, high = random.choice(runs or [(start, end)])
    while low < high - 1 and parts[low].isspace():
        low += 1
    while low < high - 1 and parts[high - 1].isspace():
        high -= 1
    return low, high


def _many(random: Random) -> int:
    """How often something is repeated or put around itself: very often is rare, because it takes long to parse."""
    return 400 if random.random() < 0.2 else 40 if random.random() < 0.4 else 8


class Mutator:
    """``corpus`` are statements that are understood; ``functions`` names to call."""

    def __init__(self, corpus: list[str], functions: list[str]) -> None:
        self._corpus = corpus
        self._functions = functions

    def statement(self, random: Random) -> str:
        parts = tokens(random.choice(self._corpus))
        if random.random() < 0.1:
            parts = [*tokens("SELECT "), *self._call(random, 3)]
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            change = random.choice(_CHANGES)
            parts = change(self, parts, random)
        text = "".join(parts)[:_LONGEST]
        return _other_characters(text, random) if random.random() < 0.1 else text

    def lightly_changed(self, text: str, random: Random) -> str:
        """One change, of those mostly that leave a statement one."""
        change = random.choice(_GENTLE_CHANGES if random.random() < 0.75 else _CHANGES)
        return "".join(change(self, tokens(text), random))[:_LONGEST]

    # by grammar

    def new_argument(self, parts: list[str], random: Random) -> list[str]:
        start, end = place(parts, random)
        return [*parts[:start], *self._value(random), *parts[end:]]

    def wrapped(self, parts: list[str], random: Random) -> list[str]:
        start, end = place(parts, random)
        inner = parts[start:end]
        more = [",", *self._value(random)] if random.random() < 0.4 else []
        call = [random.choice(self._functions), "(", *inner, *more, ")"]
        for _ in range(random.choice((0, 0, 0, 0, 2, 2, _many(random)))):
            call = [call[0], "(", *call[2:-1], ")"] if len(call) > 3000 else [random.choice(["(", "abs(", "["]), *call]
            call.append("]" if call[0] == "[" else ")")
        return [*parts[:start], *call, *parts[end:]]

    def other_function(self, parts: list[str], random: Random) -> list[str]:
        calls = [at for at in range(len(parts) - 1) if parts[at + 1] == "(" and parts[at][0].isalpha()]
        if not calls:
            return parts
        at = random.choice(calls)
        return [*parts[:at], random.choice(self._functions), *parts[at + 1 :]]

    def repeated(self, parts: list[str], random: Random) -> list[str]:
        start, end = place(parts, random)
        joint = random.choice([",", ",", "+", " AND ", " OR ", " || ", " UNION ALL "])
        times = random.choice((1, 1, 2, 2, 5, _many(random)))
        return [*parts[:end], *((joint, *parts[start:end]) * times)[: _LONGEST // 4], *parts[end:]]

    def _value(self, random: Random) -> list[str]:
        kind = random.random()
        if kind < 0.4:
            return [random.choice(HOSTILE)]
        if kind < 0.6:
            return self._call(random, 2)
        parts = tokens(random.choice(self._corpus))
        start, end = place(parts, random)
        return parts[start:end] if kind < 0.95 else tokens(random.choice(self._corpus))

    def _call(self, random: Random, depth: int) -> list[str]:
        args: list[str] = []
        for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4))):
            args += [",", *(self._call(random, depth - 1) if depth and random.random() < 0.4 else self._value(random))]
        return [random.choice(self._functions), "(", *args[1:], ")"]

    # by tokens

    def without_token(self, parts: list[str], random: Random) -> list[str]:
        at = random.randrange(len(parts) + 1)
        return [*parts[:at], *parts[at + random.choice((1, 1, 2, 5)) :]]

    def doubled_token(self, parts: list[str], random: Random) -> list[str]:
        at = random.randrange(len(parts) + 1)
        return [*parts[:at], *parts[at : at + 1] * 2, *parts[at:]]

    def other_token(self, parts: list[str], random: Random) -> list[str]:
        at = random.randrange(len(parts) + 1)
        new = random.choice(
            (random.choice(HOSTILE), random.choice(WORDS), random.choice(tokens(random.choice(self._corpus))))
        )
        keep = random.random() < 0.5
        return [*parts[:at], " ", new, " ", *parts[at + (0 if keep else 1) :]]

    def swapped(self, parts: list[str], random: Random) -> list[str]:
        if len(parts) < 2:
            return parts
        one, two = random.randrange(len(parts)), random.randrange(len(parts))
        parts = list(parts)
        parts[one], parts[two] = parts[two], parts[one]
        return parts

    def spliced(self, parts: list[str], random: Random) -> list[str]:
        other = tokens(random.choice(self._corpus))
        return [*parts[: random.randrange(len(parts) + 1)], " ", *other[random.randrange(len(other) + 1) :]]


_CHANGES = (
    Mutator.new_argument, Mutator.new_argument, Mutator.new_argument, Mutator.wrapped, Mutator.wrapped,
    Mutator.other_function, Mutator.other_function, Mutator.repeated, Mutator.without_token, Mutator.doubled_token,
    Mutator.other_token, Mutator.other_token, Mutator.swapped, Mutator.spliced,
)  # fmt: skip
_GENTLE_CHANGES = (Mutator.new_argument, Mutator.wrapped, Mutator.other_function, Mutator.repeated)


def _other_characters(text: str, random: Random) -> str:
    characters = list(text)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(characters) + 1)
        new = random.choice(("", chr(random.randrange(128)), chr(random.randrange(0x10000)), "\udc80", "\0", "'", "\\"))
        characters[at : at + random.choice((0, 1, 1))] = list(new)
    return "".join(characters)
