"""The macros and kernels that types and functions use: DuckDB is given all of them before its first statement."""

from __future__ import annotations

from parts.errors import UserError
from sql.functions import (
    arithmetic,
    bits_and_hashes,
    collected_lists,
    division,
    mathematics,
    strings,
    strings_codes,
    strings_search,
)
from sql.typing import (
    instant_texts,
    integer_texts,
    plain_texts,
    ranges,
    scanned_addresses,
    text_kernels,
    texts,
    zone_tables,
)
from sql.typing.fragments import MACRO, Fragment

_MOST_WEIGHT = 300_000
"""DuckDB takes some seconds for as much."""

MACROS = (
    *ranges.MACROS,
    *arithmetic.MACROS,
    *division.MACROS,
    *mathematics.MACROS,
    *integer_texts.MACROS,
    *texts.MACROS,
    *instant_texts.MACROS,
    *strings.MACROS,
    *strings_codes.MACROS,
    *strings_search.MACROS,
    *bits_and_hashes.MACROS,
)

KERNELS = (
    *text_kernels.KERNELS,
    *plain_texts.KERNELS,
    *scanned_addresses.KERNELS,
    *zone_tables.KERNELS,
    *bits_and_hashes.KERNELS,
    *mathematics.KERNELS,
    *collected_lists.KERNELS,
)


def check_weight(sql: Fragment) -> None:
    """Raises 168 (TOO_BIG_AST) when the macros in the statement make it too large to plan."""
    if sql.traits & MACRO and sql.weight > _MOST_WEIGHT:
        raise UserError(
            "TOO_BIG_AST", "The query is too big with its functions written out: too many of them in one another"
        )
