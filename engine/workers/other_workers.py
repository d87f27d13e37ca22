"""Publishes a worker's statements and memory, and reads those of other workers, in the shared page.

Invariants

- A worker writes only its own row and its own places of the page, so no reader needs a lock.
- A place belongs to one query from :meth:`OtherWorkers.claim_query_id` to ``release_query_id``. Its id is written last
  and cleared first. After that the query's :class:`PageWitness` writes to a list of its own, because the place may
  already be another query's.
- Of two workers that claim one id at once at least one is refused: each publishes before it looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
import xxhash

from engine.queries.other_processes import OtherProcesses
from engine.workers.shared_page import MAX_QUERY_IDS, RUNNING, SharedPage
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus, Witness

assert RUNNING.names is not None
_ID, _WORKING, _TOLD_TO_END, _CODE, _HELD_BYTES, _CONNECTION = map(
    RUNNING.names.index, ("id", "working", "told_to_end", "code", "held_bytes", "connection")
)
_ENDLESS_SECONDS = 1e9
"""A time limit of this many seconds is none."""


class OtherWorkers(OtherProcesses):
    """The other workers, as worker number ``own`` of ``workers`` sees them.

    ``users`` are the configured users, in order.
    """

    def __init__(self, page: SharedPage, own: int, workers: int, users: Sequence[str]) -> None:
        self._page = page
        self._ids = page.running["id"][:workers]
        self._own = own
        self._users = {name: index for index, name in enumerate(users)}
        self._places: dict[str, int] = {}
        self._witnesses: dict[str, PageWitness] = {}
        self._free = list(range(MAX_QUERY_IDS))
        self._lock = threading.RLock()  # reentrant, like the lock of the process list

    def count_queries(self) -> int:
        """Returns how many queries other workers run."""
        return self._others(self._page.queries)

    def publish_query_count(self, count: int) -> None:
        """Publishes how many queries this worker runs."""
        self._page.queries[self._own] = count

    def claim_query_id(self, query_id: str, status: QueryStatus | None = None) -> bool:
        """Publishes a query's id; returns ``False`` if another worker runs a query with this id."""
        number = hash_query_id(query_id)
        with self._lock:
            if not self._free:
                return True
            place = self._free.pop()
            self._places[query_id] = place
            witness = self._witnesses[query_id] = PageWitness(self._page.place(self._own, place))
        witness.begin(number, status)
        # Published before looking at the others: of two queries that begin at once, at least one sees the other.
        if np.count_nonzero(self._ids == number) == 1:
            if status is not None:
                status.witness = witness
            return True
        self.release_query_id(query_id)
        return False

    def release_query_id(self, query_id: str) -> None:
        """Withdraws a query's id."""
        with self._lock:
            place = self._places.pop(query_id, None)
            if place is not None:
                self._witnesses.pop(query_id).end()
                self._ids[self._own, place] = 0
                self._free.append(place)

    def read_held_bytes(self) -> int:
        """Returns the memory of other workers' queries."""
        return self._others(self._page.held_bytes)

    def read_user_bytes(self, user: str) -> int:
        """Returns the memory of the user's queries in other workers."""
        index = self._users.get(user)
        return 0 if index is None else self._others(self._page.user_bytes[:, index])

    def publish_idle_bytes(self, size_bytes: int) -> None:
        """Publishes this worker's memory beside its queries."""
        self._page.idle_bytes[self._own] = size_bytes

    def publish_statement_bytes(self, held: int, largest: int, by_user: Mapping[str, int]) -> None:
        """Publishes the memory of this worker's queries."""
        self._page.held_bytes[self._own] = held
        self._page.largest_bytes[self._own] = largest
        for name, size in by_user.items():
            if name in self._users:
                self._page.user_bytes[self._own, self._users[name]] = size

    def has_largest(self) -> bool:
        """Tells whether this worker runs the largest query of all."""
        return bool(self._page.largest_bytes[self._own] >= self._page.largest_bytes.max())

    def _others(self, numbers: np.ndarray) -> int:
        return int(numbers.sum()) - int(numbers[self._own])


def hash_query_id(query_id: str) -> int:
    """Returns the hash of a query id, which is never 0."""
    return xxhash.xxh3_64_intdigest(query_id.encode()) or 1


class PageWitness(Witness):
    """The entry of one query in the shared page, until :meth:`end`: then the place may be another query's."""

    def __init__(self, place: memoryview) -> None:
        self._place: memoryview | list[int] = place

    def end(self) -> None:
        """Detaches from the page, so that a late KILL is written nowhere."""
        self._place = [1] * len(self._place)

    def begin(self, number: int, status: QueryStatus | None) -> None:
        """Writes the query's beginning and limits."""
        now = time.monotonic_ns()
        seconds = status.max_execution_seconds if status is not None else 0
        limit_bytes = status.memory.limit_bytes if status is not None else 0
        began = int(status.began * 1e9) if status is not None and status.began else now
        ends = began + int(seconds * 1e9) if 0 < seconds < _ENDLESS_SECONDS else 0
        for field, value in enumerate((began, now, ends, 0, 0, limit_bytes, 0, 0), 1):
            self._place[field] = value
        self._place[_ID] = number

    def record_work(self) -> None:
        """Records that the query computes."""
        self._place[_WORKING] = time.monotonic_ns()

    def record_wait(self) -> None:
        """Records that the query waits for its client or another process."""
        self._place[_WORKING] = 0

    def record_handover(self) -> None:
        """Records that the client has a piece of the result.

        A query that serves a connection reports its own waits instead.
        """
        if not self._place[_CONNECTION]:
            self.record_wait()

    def record_end_request(self, reason: PandoError) -> None:
        """Records that the query was told to end, and why."""
        if not self._place[_TOLD_TO_END]:
            self._place[_CODE] = reason.code
            self._place[_TOLD_TO_END] = time.monotonic_ns()

    def record_memory(self, size_bytes: int) -> None:
        """Records the query's memory."""
        self._place[_HELD_BYTES] = size_bytes

    def record_connection(self, connection: int) -> None:
        """Records the slot of the query's connection."""
        self._place[_CONNECTION] = connection + 1
