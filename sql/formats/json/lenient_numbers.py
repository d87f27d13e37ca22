"""Rewrites numbers that ClickHouse reads but JSON forbids: ``.1``, ``1.``, ``+1`` and ``01``."""

from __future__ import annotations

import re

_IS_MAYBE_THERE = re.compile(r"[:,\[]\s*+(?:\+|-?(?:\.|0)\d|-?\d++\.(?!\d))")
_STRING_OR_NUMBER = re.compile(
    r'"(?:[^"\\]++|\\.)*+"|(?<![\w.+-])([+-]?)(?:(\d++)(?:\.(\d*+))?+|\.(\d++))((?:[eE][+-]?\d++)?+)(?![\w.+-])',
    re.ASCII | re.DOTALL,
)


def normalize_numbers(text: str) -> str:
    """Returns the text with these numbers as ``0.1``, ``1.0``, ``1`` and ``1``: an integer has no point.

    Most texts have none and are returned as they are.
    """
    if _IS_MAYBE_THERE.search(text) is None:
        return text
    return _STRING_OR_NUMBER.sub(_normalize_number, text)


def _normalize_number(match: re.Match[str]) -> str:
    sign, whole, behind, alone, exponent = match.groups()
    if sign is None:
        return match.group()
    digits = (whole or "").lstrip("0") or "0"
    fraction = alone if behind is None else behind or "0"
    return ("-" if sign == "-" else "") + digits + (f".{fraction}" if fraction else "") + exponent
