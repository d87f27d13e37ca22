"""Derives from a LIKE pattern a range of the key, and substrings that every match contains."""

from __future__ import annotations

import re

_SHORTEST_NEEDLE = 3
_WILDCARDS = re.compile(r"\\.|[%_\\]", re.DOTALL)


def next_prefix(text: str) -> str | None:
    """Returns the least string above all that begin with ``text``; ``None`` if there is none."""
    while text:
        code = ord(text[-1])
        following = 0xE000 if code == 0xD7FF else code + 1
        if following <= 0x10FFFF:
            return text[:-1] + chr(following)
        text = text[:-1]
    return None


def find_like_needles(pattern: str) -> tuple[bytes, ...]:
    """Returns the substrings that every match of the pattern contains behind its first wildcard.

    Shorter ones than 3 bytes are left out.
    """
    _, *others = _WILDCARDS.split(pattern)
    encoded = [text.encode() for text in others]
    return tuple(needle for needle in encoded if len(needle) >= _SHORTEST_NEEDLE)
