"""The shape of a statement: its text without its literals.

Texts of one shape have the same tokens but for the values of literals. Only plain texts have a shape. Texts with
comments, quoted names or escapes, which may hide a literal or look like one, have none. A parameter of a simple type
(``{name:UInt64}``) stands for a literal, if its value can be written as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

MAX_SHAPED_CHARACTERS = 2_000
_MOST_LITERALS = 32
_SIGN = r"(?:(?<=[=<>(,])-|(?<=[=<>(,] )-|(?<= AND )-)?"
"""A sign; behind a number or a name it would be an operator."""
_NUMBER = r"(?<![\w.])(?:[1-9][0-9]{18,19}|(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?)(?![\w.])"
_LITERAL = re.compile(rf"({_SIGN}{_NUMBER}|'[^']*'|{{\w+:\w+}})")
_UNSURE = re.compile(r"""[\\"`$#@\0]|--|/\*|''""")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,19})", re.ASCII)
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?", re.ASCII)
_TEXT = re.compile(r"[^'\\]+")
_PARAMETERS = {
    **{f"{sign}Int{bits}": _WHOLE for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "Float64": _FRACTION, "String": _TEXT, "Date": _TEXT, "DateTime": _TEXT,
}  # fmt: skip
"""Patterns of the parameter values that can stand as literals as they are."""


class StatementShape(NamedTuple):
    """A text split at its literals: ``pieces`` stand around them; ``literals`` are as written."""

    pieces: tuple[str, ...]
    literals: tuple[str, ...]
    parameters: tuple[tuple[int, str], ...] = ()
    """The numbers of the literals that are values of parameters, and their types."""

    @property
    def key(self) -> str:
        """The shape as a key, equal only for texts of one shape.

        An integer stands for integers only, a fraction for fractions, a string for strings.
        """
        key = self.pieces[0]
        for literal, piece in zip(self.literals, self.pieces[1:], strict=True):
            key += ("\0s" if literal[0] == "'" else "\0f" if "." in literal else "\0n") + piece
        return key + str(self.parameters) if self.parameters else key

    def with_literals(self, literals: list[str]) -> str:
        """Returns the text of this shape with these literals."""
        return "".join(piece + literal for piece, literal in zip(self.pieces, [*literals, ""], strict=True))


def find_shape(text: str, given: Mapping[str, str] | None = None) -> StatementShape | None:
    """Returns the shape of a text, if it has one; ``given`` are the values of parameters."""
    if len(text) > MAX_SHAPED_CHARACTERS or _UNSURE.search(text):
        return None
    pieces = _LITERAL.split(text)
    if not 3 <= len(pieces) <= 2 * _MOST_LITERALS + 1:
        return None
    if "{" not in text:
        return StatementShape(tuple(pieces[::2]), tuple(pieces[1::2]))
    if any("{" in piece for piece in pieces[::2]):
        return None
    parameters = []
    for number, piece in enumerate(pieces[1::2]):
        if piece[0] == "{":
            name, _, type_ = piece[1:-1].partition(":")
            literal = _to_literal((given or {}).get(name, ""), type_)
            if literal is None or pieces[2 * number].endswith("-"):
                return None
            pieces[2 * number + 1] = literal
            parameters.append((number, type_))
    return StatementShape(tuple(pieces[::2]), tuple(pieces[1::2]), tuple(parameters))


def _to_literal(value: str, type_: str) -> str | None:
    """Returns the literal with this value of a type; ``None`` if there is none for sure."""
    pattern = _PARAMETERS.get(type_)
    if pattern is None or not pattern.fullmatch(value) or not value.isprintable():
        return None
    if pattern is _TEXT:
        return f"'{value}'"
    if pattern is _WHOLE:
        bits = int(type_.lstrip("UInt"))
        least = 0 if type_[0] == "U" else -(1 << bits - 1)
        return value if least <= int(value) < least + (1 << bits) else None
    return value


def parse_literal(literal: str) -> int | float | str:
    """Returns the value of a literal of a shape."""
    if literal[0] == "'":
        return literal[1:-1]
    return float(literal) if "." in literal else int(literal)


def make_marker_literals(literals: tuple[str, ...]) -> list[str]:
    """Makes literals of the same kinds, all different.

    They show where each of them ends up in a tree.
    """
    first, fraction = 10**16 + 1, 10**9 + 0.5
    return [
        f"'\x01{number}'" if text[0] == "'" else str((fraction if "." in text else first) + number)
        for number, text in enumerate(literals)
    ]
