"""A bounded cache in memory that drops the least recently used values first.

``functools.lru_cache`` is enough where a pure function's arguments are the key and the number of values is the only
bound. This class is for the rest: values of unequal size, values that are not kept, keys that are not the arguments.

Invariants

- At most ``most`` values are held, and at most ``most_size`` of what ``size_of`` returns for them together.
- ``make`` and the release of dropped values run without the lock, so that they may use the cache themselves.
- ``None`` is a value: :meth:`LruCache.get` returns it without making it again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """A cache limited by the number of its values and, if wanted, by their size. Any thread may use it."""

    def __init__(
        self,
        most: int | None = None,
        most_size: int | None = None,
        size_of: Callable[[Key, Value], int] = lambda key, value: 0,
        most_size_of_one: int | None = None,
    ) -> None:
        """``None`` is no limit. A value larger than ``most_size_of_one`` or ``most_size`` is not kept."""
        limits = [limit for limit in (most_size, most_size_of_one) if limit is not None]
        self._most = most
        self._most_size = most_size
        self._most_size_of_one = min(limits) if limits else None
        self._size_of = size_of
        self._lock = threading.Lock()
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.held_size = 0
        """The size of all values that are held."""
        self.hits = 0
        """How many look-ups found a value."""
        self.misses = 0
        """How many look-ups found none."""

    def find(self, key: Key) -> Value | None:
        """Returns the value and marks it as used; ``None`` if it is not held."""
        held = self._look_up(key)
        return None if held is None else held[0]

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value, made by ``make`` and kept if it is not held.

        Two threads may make a value at the same time. If ``make`` raises, nothing is kept.
        """
        held = self._look_up(key)
        if held is not None:
            return held[0]
        value = make()
        self.keep(key, value)
        return value

    def keep(self, key: Key, value: Value) -> None:
        """Keeps a value, in place of an older one of the same key."""
        size = self._size_of(key, value)
        is_too_large = self._most_size_of_one is not None and size > self._most_size_of_one
        with self._lock:
            dropped = [self._values.pop(key, None)]
            if dropped[0] is not None:
                self.held_size -= dropped[0][1]
            if not is_too_large:
                self._values[key] = value, size
                self.held_size += size
            while self._is_over():
                _, oldest = self._values.popitem(last=False)
                self.held_size -= oldest[1]
                dropped.append(oldest)

    def drop(self, key: Key) -> None:
        """Drops a value, if it is held."""
        with self._lock:
            dropped = self._values.pop(key, None)
            if dropped is not None:
                self.held_size -= dropped[1]

    def drop_all(self, matches: Callable[[Key], bool]) -> None:
        """Drops the values whose keys match. ``matches`` must not use the cache."""
        with self._lock:
            dropped = [self._values.pop(key) for key in [key for key in self._values if matches(key)]]
            self.held_size -= sum(size for _, size in dropped)

    def __contains__(self, key: Key) -> bool:
        """Returns whether the value is held now. Takes no lock, and does not mark it as used."""
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def _look_up(self, key: Key) -> tuple[Value, int] | None:
        with self._lock:
            held = self._values.get(key)
            if held is None:
                self.misses += 1
            else:
                self.hits += 1
                self._values.move_to_end(key)
            return held

    def _is_over(self) -> bool:
        return (self._most is not None and len(self._values) > self._most) or (
            self._most_size is not None and self.held_size > self._most_size
        )
