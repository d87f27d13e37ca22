"""Formats counts, sizes and row numbers for people."""

from __future__ import annotations

_STEPS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def format_count(count: float) -> str:
    """Returns a count such as ``1.50 million``."""
    for step, name in _STEPS:
        if count >= step:
            return f"{count / step:.2f} {name}"
    return f"{count:.0f}"


def format_bytes(size: float) -> str:
    """Returns a size such as ``1.50 MB``."""
    for step, name in _UNITS:
        if size >= step:
            return f"{size / step:.2f} {name}"
    return f"{size:.0f} B"


def format_rows(count: int) -> str:
    """Returns a number of rows such as ``1 row``."""
    return f"{count} row" if count == 1 else f"{count} rows"
