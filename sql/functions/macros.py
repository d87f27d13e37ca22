"""The macros and kernels that types and functions use.

DuckDB is given all kernels before its first statement, and a macro before the first statement that names it: to define
all of them takes it as long as to start.
"""

from __future__ import annotations

import re

from parts.errors import UserError
from sql.functions import (
    arithmetic,
    bits_and_hashes,
    collected_lists,
    date_arithmetic,
    division,
    hashes,
    json_texts,
    mathematics,
    readable,
    reinterpretations,
    strings,
    strings_codes,
    strings_made,
    strings_search,
)
from sql.typing import (
    instant_texts,
    integer_texts,
    order_keys,
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

_NAME = re.compile(r"\bpando_\w+")
_DEFINITIONS = (
    *ranges.MACROS,
    *order_keys.MACROS,
    *arithmetic.MACROS,
    *division.MACROS,
    *date_arithmetic.MACROS,
    *mathematics.MACROS,
    *integer_texts.MACROS,
    *texts.MACROS,
    *instant_texts.MACROS,
    *strings.MACROS,
    *strings_codes.MACROS,
    *strings_made.MACROS,
    *strings_search.MACROS,
    *json_texts.MACROS,
    *bits_and_hashes.MACROS,
    *readable.MACROS,
)

MACROS = {definition.partition("(")[0]: definition for definition in _DEFINITIONS}
"""By name."""

KERNELS = (
    *text_kernels.KERNELS,
    *plain_texts.KERNELS,
    *scanned_addresses.KERNELS,
    *zone_tables.KERNELS,
    *bits_and_hashes.KERNELS,
    *hashes.KERNELS,
    *reinterpretations.KERNELS,
    *mathematics.KERNELS,
    *collected_lists.KERNELS,
)


def macros_in(sql: str) -> set[str]:
    """The names of the macros that a statement, or the body of a macro, may use."""
    return {name for name in _NAME.findall(sql) if name in MACROS}


def check_weight(sql: Fragment) -> None:
    """Raises 168 (TOO_BIG_AST) when the macros in the statement make it too large to plan."""
    if sql.traits & MACRO and sql.weight > _MOST_WEIGHT:
        raise UserError(
            "TOO_BIG_AST", "The query is too big with its functions written out: too many of them in one another"
        )
