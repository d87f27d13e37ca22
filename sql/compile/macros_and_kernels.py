"""All DuckDB macros and kernels of types and functions, and the limit on macro expansion.

DuckDB gets all kernels before its first statement, and a macro before the first statement that names it: defining all
macros takes as long as starting DuckDB.
"""

from __future__ import annotations

import re

from parts.common.errors import UserError
from sql.aggregates import list_kernels
from sql.functions.conversions import reinterpretation
from sql.functions.dates import date_arithmetic
from sql.functions.encodings import byte_codes
from sql.functions.hashes import integer_hashes, value_hashes
from sql.functions.json import json_elements
from sql.functions.numbers import arithmetic, division, mathematics, readable_numbers
from sql.functions.strings import basic_strings, case_kernels, concatenation, search
from sql.typing import uuid_order
from sql.typing.duckdb.sql_fragments import MACRO, Fragment
from sql.typing.texts import address_columns, instant_texts, integer_texts, usual_address_texts, value_texts
from sql.typing.times import date_ranges, zone_offset_tables

_MAX_WEIGHT = 300_000
"""DuckDB takes some seconds to plan a statement of this weight."""

_NAME = re.compile(r"\bpando_\w+")
_DEFINITIONS = (
    *date_ranges.MACROS,
    *uuid_order.MACROS,
    *arithmetic.MACROS,
    *division.MACROS,
    *date_arithmetic.MACROS,
    *mathematics.MACROS,
    *integer_texts.MACROS,
    *value_texts.MACROS,
    *instant_texts.MACROS,
    *basic_strings.MACROS,
    *byte_codes.MACROS,
    *concatenation.MACROS,
    *search.MACROS,
    *json_elements.MACROS,
    *integer_hashes.MACROS,
    *readable_numbers.MACROS,
)

MACROS = {definition.partition("(")[0]: definition for definition in _DEFINITIONS}
"""The definitions of all macros, by name."""

KERNELS = (
    *case_kernels.KERNELS,
    *usual_address_texts.KERNELS,
    *address_columns.KERNELS,
    *zone_offset_tables.KERNELS,
    *integer_hashes.KERNELS,
    *value_hashes.KERNELS,
    *reinterpretation.KERNELS,
    *mathematics.KERNELS,
    *list_kernels.KERNELS,
)


def find_macro_names(sql: str) -> set[str]:
    """Returns the names of the macros that a statement, or the body of a macro, may use."""
    return {name for name in _NAME.findall(sql) if name in MACROS}


def check_macro_weight(sql: Fragment) -> None:
    """Raises 168 (TOO_BIG_AST) if macro expansion makes the statement too large to plan."""
    if sql.traits & MACRO and sql.weight > _MAX_WEIGHT:
        raise UserError(
            "TOO_BIG_AST", "The query is too big with its functions written out: too many of them in one another"
        )
