"""Imports all families of functions, which fills the table of ``registry``."""

from __future__ import annotations

from sql.aggregates import aggregate_functions, chosen_values
from sql.functions.arrays import array_reductions, array_search, arrays, higher_order
from sql.functions.conversions import accurate_casts, conversion_functions, reinterpretation
from sql.functions.dates import clock_and_date_construction, date_arithmetic, date_parts, date_truncation
from sql.functions.encodings import byte_codes
from sql.functions.hashes import integer_hashes, value_hashes
from sql.functions.introspection import block_rows, session_values, sleep
from sql.functions.json import json_elements, json_typed_extraction
from sql.functions.logic import comparison, conditionals
from sql.functions.maps_and_tuples import maps_and_tuples
from sql.functions.numbers import arithmetic, division, mathematics, readable_numbers
from sql.functions.strings import (
    basic_strings,
    concatenation,
    regular_expressions,
    search,
    splitting,
    token_search,
)

FUNCTION_FAMILIES = (
    accurate_casts,
    aggregate_functions,
    arithmetic,
    array_reductions,
    array_search,
    arrays,
    integer_hashes,
    chosen_values,
    comparison,
    conditionals,
    conversion_functions,
    date_arithmetic,
    date_parts,
    date_truncation,
    clock_and_date_construction,
    division,
    value_hashes,
    json_elements,
    json_typed_extraction,
    higher_order,
    maps_and_tuples,
    mathematics,
    sleep,
    readable_numbers,
    regular_expressions,
    reinterpretation,
    block_rows,
    session_values,
    basic_strings,
    byte_codes,
    concatenation,
    search,
    splitting,
    token_search,
)
