"""Parses number literals."""

from __future__ import annotations

import math
import re

from parts.common.errors import UserError
from sql.grammar.syntax_tree import Literal

_LONGEST_NUMBER = 300
_HEX_REAL = re.compile("[.pP]")


def check_number_length(text: str) -> None:
    """Raises 62 (SYNTAX_ERROR) for a text longer than any number."""
    if len(text) > _LONGEST_NUMBER:
        raise UserError("SYNTAX_ERROR", f"Syntax error: {text[:40]}… is no number: it has {len(text)} characters")


def parse_number(text: str) -> Literal:
    """Returns a number as a literal: int if written as one and within 64 bits, else float.

    Raises 62 (SYNTAX_ERROR) for a text longer than any number, and for one out of Float64's range.
    """
    check_number_length(text)
    plain = text.replace("_", "")
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    if digits[:2].lower() in ("0x", "0b") and not _HEX_REAL.search(digits):
        value = sign * int(digits[2:], 16 if digits[1] in "xX" else 2)
    elif digits.isdecimal() and digits.isascii():
        value = sign * int(digits)
    else:
        real = _parse_float(plain)
        if math.isinf(real):
            raise UserError("SYNTAX_ERROR", f"The number {text[:40]} is out of range of Float64")
        return Literal(real, text)
    return Literal(value if -(1 << 63) <= value < (1 << 64) else float(value), text)


def _parse_float(text: str) -> float:
    """Parses a float, decimal or hexadecimal; infinity for what is larger than any Float64."""
    if text.lstrip("+-")[:2].lower() != "0x":
        return float(text)
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.inf
