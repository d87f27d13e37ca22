"""All families of functions: importing this module fills the table of ``registry``."""

from __future__ import annotations

from sql.functions import (
    accurate_casts,
    aggregates,
    arithmetic,
    array_values,
    arrays,
    bits_and_hashes,
    comparison,
    conditional,
    conversions,
    date_arithmetic,
    date_parts,
    date_truncation,
    dates,
    division,
    json_texts,
    lambdas,
    maps_and_tuples,
    mathematics,
    regular_expressions,
    session,
    strings,
    strings_codes,
    strings_made,
    strings_search,
    strings_split,
)
from sql.functions.registry import function_names, function_traits

FAMILIES = (
    accurate_casts,
    aggregates,
    arithmetic,
    array_values,
    arrays,
    bits_and_hashes,
    comparison,
    conditional,
    conversions,
    date_arithmetic,
    date_parts,
    date_truncation,
    dates,
    division,
    json_texts,
    lambdas,
    maps_and_tuples,
    mathematics,
    regular_expressions,
    session,
    strings,
    strings_codes,
    strings_made,
    strings_search,
    strings_split,
)

__all__ = ["FAMILIES", "function_names", "function_traits"]
