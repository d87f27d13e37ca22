"""Names of the functions that exist only over a window.

``sql.compile.expressions.window_functions`` compiles them.
"""

from __future__ import annotations

WINDOW_FUNCTIONS = (
    "row_number", "rank", "dense_rank", "denseRank", "percent_rank", "percentRank", "cume_dist", "ntile", "lag", "lead",
    "lagInFrame", "leadInFrame", "nth_value",
)  # fmt: skip
_ANY_CASE = {name for name in WINDOW_FUNCTIONS if name.islower()} - {"cume_dist"} | {"first_value", "last_value"}


def canonical_window_function_name(name: str) -> str:
    """Returns the spelling above of a case-insensitive name; other names unchanged."""
    return name.lower() if name.lower() in _ANY_CASE else name
