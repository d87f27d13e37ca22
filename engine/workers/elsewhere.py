"""What a worker knows of the statements in other workers, from the shared page."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np
import xxhash

from engine.elsewhere import Elsewhere
from engine.workers.shared_page import MOST_IDS, SharedPage


class OtherWorkers(Elsewhere):
    """Of worker number ``own`` of ``workers``; ``users`` are the configured ones, in order."""

    def __init__(self, page: SharedPage, own: int, workers: int, users: Sequence[str]) -> None:
        self._page = page
        self._ids = page.ids[:workers]
        self._own = own
        self._users = {name: index for index, name in enumerate(users)}
        self._places: dict[str, int] = {}
        self._free = list(range(MOST_IDS))
        self._lock = threading.RLock()  # as that of the list of processes

    def queries(self) -> int:
        return self._others(self._page.queries)

    def set_queries(self, count: int) -> None:
        self._page.queries[self._own] = count

    def claim(self, query_id: str) -> bool:
        number = xxhash.xxh3_64_intdigest(query_id.encode()) or 1
        with self._lock:
            if not self._free:
                return True
            place = self._free.pop()
            self._places[query_id] = place
        # Noted before the look at the others: of two that begin at once at least one sees the other.
        self._ids[self._own, place] = number
        if np.count_nonzero(self._ids == number) == 1:
            return True
        self.release(query_id)
        return False

    def release(self, query_id: str) -> None:
        with self._lock:
            place = self._places.pop(query_id, None)
            if place is not None:
                self._ids[self._own, place] = 0
                self._free.append(place)

    def held_bytes(self) -> int:
        return self._others(self._page.held_bytes)

    def user_bytes(self, user: str) -> int:
        index = self._users.get(user)
        return 0 if index is None else self._others(self._page.user_bytes[:, index])

    def set_bytes(self, held: int, largest: int, by_user: Mapping[str, int]) -> None:
        self._page.held_bytes[self._own] = held
        self._page.largest_bytes[self._own] = largest
        for name, size in by_user.items():
            if name in self._users:
                self._page.user_bytes[self._own, self._users[name]] = size

    def has_largest(self) -> bool:
        return bool(self._page.largest_bytes[self._own] >= self._page.largest_bytes.max())

    def _others(self, numbers: np.ndarray) -> int:
        return int(numbers.sum()) - int(numbers[self._own])
