"""The macros that the texts of types and functions use: DuckDB is given all of them before its first statement."""

from __future__ import annotations

from functools import cache

from sql.functions import arithmetic, bits_and_hashes, division, mathematics, strings, strings_search
from sql.functions.macro_weight import Shares, shares_of
from sql.typing import instant_texts, integer_texts, ranges, texts

MACROS = (
    *ranges.MACROS,
    *arithmetic.MACROS,
    *division.MACROS,
    *mathematics.MACROS,
    *integer_texts.MACROS,
    *texts.MACROS,
    *instant_texts.MACROS,
    *strings.MACROS,
    *strings_search.MACROS,
    *bits_and_hashes.MACROS,
)


@cache
def shares() -> Shares:
    """How often each macro writes its arguments out."""
    return shares_of(MACROS)
