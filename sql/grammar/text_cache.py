"""Caches of values made from texts, such as syntax trees.

Long texts are not cached: a few of them would fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from parts.common.lru_cache import LruCache

MAX_CACHED_TEXT_CHARACTERS = 10_000
MAX_CACHE_CHARACTERS = 1 << 18
"""Characters of all texts in one cache. A tree takes some hundred bytes for each."""
TextKey = tuple[str, Hashable]
"""The text, and whatever else decides the value."""
Value = TypeVar("Value")


def make_text_cache(most: int, size: Callable[[Value], int] = lambda _: 0) -> LruCache[TextKey, Value]:
    """Returns a cache of at most ``most`` values by text.

    ``size`` returns how many characters a value counts beside its text.
    """
    return LruCache(
        most,
        MAX_CACHE_CHARACTERS,
        size_of=lambda key, value: len(key[0]) + size(value),
        most_size_of_one=MAX_CACHED_TEXT_CHARACTERS,
    )
