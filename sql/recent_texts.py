"""What was made of the last texts, by text. Long texts are not kept: a few of them would fill the memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_LONGEST_TEXT = 10_000
Value = TypeVar("Value")


class RecentTexts(Generic[Value]):
    """The longest unused is dropped first. Any thread may use it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, Hashable], Value] = OrderedDict()

    def get(self, key: tuple[str, Hashable], make: Callable[[], Value]) -> Value:
        """The value of this text and of what else decides it."""
        with self._lock:
            known = self._values.get(key)
            if known is not None:
                self._values.move_to_end(key)
                return known
        value = make()
        if len(key[0]) <= _LONGEST_TEXT:
            with self._lock:
                self._values[key] = value
                if len(self._values) > self._most:
                    self._values.popitem(last=False)
        return value
