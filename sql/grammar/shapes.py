"""The shape of a statement: its text without its literals.

Texts of one shape are the same tokens but for the values of literals. Only plain texts have one: what may hide a
literal, or make one of what looks like none (comments, quoted names, escapes, parameters), has none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_TEXT = 2_000
_MOST_LITERALS = 32
_SIGN = r"(?:(?<=[=<>(,])-|(?<=[=<>(,] )-|(?<= AND )-)?"
"""After a number or a name it would be a minus."""
_NUMBER = r"(?<![\w.])(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?![\w.])"
_LITERAL = re.compile(rf"({_SIGN}{_NUMBER}|'[^']*')")
_UNSURE = re.compile(r"""[\\"`$#{@\0]|--|/\*|''""")


class Shape(NamedTuple):
    """``pieces`` are what stands around the literals; ``literals`` as written."""

    pieces: tuple[str, ...]
    literals: tuple[str, ...]

    @property
    def key(self) -> str:
        """Equal for texts of one shape alone: an integer stands for integers only, a fraction for fractions, a string
        for strings."""
        key = self.pieces[0]
        for literal, piece in zip(self.literals, self.pieces[1:], strict=True):
            key += ("\0s" if literal[0] == "'" else "\0f" if "." in literal else "\0n") + piece
        return key

    def with_literals(self, literals: list[str]) -> str:
        """The text of this shape with these literals."""
        return "".join(piece + literal for piece, literal in zip(self.pieces, [*literals, ""], strict=True))


def shape_of(text: str) -> Shape | None:
    if len(text) > LONGEST_TEXT or _UNSURE.search(text):
        return None
    pieces = _LITERAL.split(text)
    if not 3 <= len(pieces) <= 2 * _MOST_LITERALS + 1:
        return None
    return Shape(tuple(pieces[::2]), tuple(pieces[1::2]))


def value_of(literal: str) -> int | float | str:
    """The value of a literal of a shape."""
    if literal[0] == "'":
        return literal[1:-1]
    return float(literal) if "." in literal else int(literal)


def marked_literals(literals: tuple[str, ...]) -> list[str]:
    """Literals of the same kinds, each different from the others: they show where each of them stands in a tree."""
    first, fraction = 10**16 + 1, 10**9 + 0.5
    return [
        f"'\x01{number}'" if text[0] == "'" else str((fraction if "." in text else first) + number)
        for number, text in enumerate(literals)
    ]
