"""A bounded cache of values made from texts, such as syntax trees.

Long texts are not cached: a few of them would fill the memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MAX_CACHED_TEXT_CHARACTERS = 10_000
MAX_CACHE_CHARACTERS = 1 << 18
"""Characters of all texts in one cache. A tree takes some hundred bytes for each."""
Value = TypeVar("Value")


class TextCache(Generic[Value]):
    """A cache by text that drops the least recently used value. Any thread may use it.

    It holds at most ``most`` values. ``size`` returns how many characters a value counts beside its text.
    """

    def __init__(self, most: int, size: Callable[[Value], int] = lambda _: 0) -> None:
        self._most = most
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, Hashable], tuple[Value, int]] = OrderedDict()
        self._held = 0

    def get(self, key: tuple[str, Hashable], make: Callable[[], Value]) -> Value:
        """Returns the value for the key, made by ``make`` if it is not cached.

        The key is the text, and whatever else decides the value.
        """
        with self._lock:
            known = self._values.get(key)
            if known is not None:
                self._values.move_to_end(key)
                return known[0]
        value = make()
        characters = len(key[0]) + self._size(value)
        if characters <= MAX_CACHED_TEXT_CHARACTERS:
            with self._lock:
                self._keep(key, value, characters)
        return value

    def _keep(self, key: tuple[str, Hashable], value: Value, characters: int) -> None:
        if key in self._values:
            return
        self._values[key] = value, characters
        self._held += characters
        while len(self._values) > self._most or self._held > MAX_CACHE_CHARACTERS:
            _, (_, dropped) = self._values.popitem(last=False)
            self._held -= dropped
