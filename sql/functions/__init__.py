"""The functions of queries, one family a module; importing this package fills the table of ``registry``."""

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
    dates,
    maps_and_tuples,
    mathematics,
    session,
    strings,
    strings_search,
    windows,
)
from sql.functions.registry import function_names, function_traits

__all__ = [
    "accurate_casts",
    "aggregates",
    "arithmetic",
    "array_values",
    "arrays",
    "bits_and_hashes",
    "comparison",
    "conditional",
    "conversions",
    "date_arithmetic",
    "dates",
    "function_names",
    "function_traits",
    "maps_and_tuples",
    "mathematics",
    "session",
    "strings",
    "strings_search",
    "windows",
]
