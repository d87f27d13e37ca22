"""The macros that the texts of types and functions use: DuckDB is given all of them before its first statement."""

from __future__ import annotations

from sql.functions import arithmetic, bits_and_hashes, division, mathematics, strings, strings_search
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
