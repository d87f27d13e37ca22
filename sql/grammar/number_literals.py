"""The value of a number in a query."""

from __future__ import annotations

import math

from parts.errors import UserError
from sql.grammar.syntax_tree import Literal

_LONGEST_NUMBER = 300


def check_number_length(text: str) -> None:
    """Raises 62 for what is longer than any number."""
    if len(text) > _LONGEST_NUMBER:
        raise UserError("SYNTAX_ERROR", f"Syntax error: {text[:40]}… is no number: it has {len(text)} characters")


def number_literal(text: str) -> Literal:
    """The value of a number: int if it is written as one and fits 64 bits, else float.

    Raises 62 for what is longer than any number.
    """
    check_number_length(text)
    plain = text.replace("_", "")
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    if digits[:2].lower() in ("0x", "0b"):
        value = sign * int(digits[2:], 16 if digits[1] in "xX" else 2)
    elif digits.isdecimal() and digits.isascii():
        value = sign * int(digits)
    else:
        real = float(plain)
        if math.isinf(real):
            raise UserError("SYNTAX_ERROR", f"The number {text[:40]} is out of range of Float64")
        return Literal(real, text)
    return Literal(value if -(1 << 63) <= value < (1 << 64) else float(value), text)
