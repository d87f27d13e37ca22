"""A page of memory that all processes of a server share: numbers that are read without a message.

Made in the replica process before any fork. One writer a number; eight aligned bytes, so no reader sees half of one.

===================  ==================================================================================================
written by           numbers
===================  ==================================================================================================
the replica process  ``published_from``, ``published_to`` (``publication``)
worker *w*           ``reading`` (the oldest change its snapshots may lack; ``NOBODY`` without snapshots), ``beat`` (its
                     monotonic clock, ns), ``held_bytes`` (memory), ``largest_bytes`` (of its largest query),
                     ``queries`` (running), ``ids`` (hashes of the query ids running), ``user_bytes`` (by user)
===================  ==================================================================================================
"""

from __future__ import annotations

import mmap

import numpy as np

NOBODY = (1 << 64) - 1
MOST_WORKERS = 256
MOST_IDS = 256
"""Query ids of one worker that are compared with those of the others; any more are not."""

_NUMBERS = ("reading", "beat", "held_bytes", "largest_bytes", "queries")


class SharedPage:
    """``users`` is how many users the configuration has."""

    def __init__(self, users: int) -> None:
        width = len(_NUMBERS) + MOST_IDS + users
        memory = mmap.mmap(-1, 8 * (8 + MOST_WORKERS * width))
        numbers = np.frombuffer(memory, np.uint64)
        self._published = numbers[:2]
        workers = numbers[8:].reshape(MOST_WORKERS, width)
        self._reading = workers[:, 0]
        self.beat = workers[:, 1]
        self.held_bytes = workers[:, 2]
        self.largest_bytes = workers[:, 3]
        self.queries = workers[:, 4]
        self.ids = workers[:, len(_NUMBERS) : len(_NUMBERS) + MOST_IDS]
        self.user_bytes = workers[:, len(_NUMBERS) + MOST_IDS :]
        self._reading[:] = NOBODY

    @property
    def published_from(self) -> int:
        return int(self._published[0])

    @property
    def published_to(self) -> int:
        return int(self._published[1])

    def publish(self, begin: int, end: int) -> None:
        self._published[0] = begin
        self._published[1] = end

    def set_reading(self, worker: int, change: int) -> None:
        self._reading[worker] = change

    def oldest_read(self) -> int:
        """The oldest change that any worker's snapshots may lack; ``NOBODY`` when nobody reads."""
        return int(self._reading.min())

    def clear(self, worker: int) -> None:
        """A worker that is no more holds nothing."""
        self._reading[worker] = NOBODY
        for column in (self.beat, self.held_bytes, self.largest_bytes, self.queries):
            column[worker] = 0
        self.ids[worker] = 0
        self.user_bytes[worker] = 0
