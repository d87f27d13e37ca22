"""The names of the functions that exist only over a window; ``window_compiler`` compiles them."""

from __future__ import annotations

WINDOW_FUNCTIONS = (
    "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "lagInFrame",
    "leadInFrame", "nth_value",
)  # fmt: skip
