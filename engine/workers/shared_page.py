"""A page of memory that all processes of a server share: numbers that are read without a message.

Made in the replica process before any fork. One writer a number; eight aligned bytes, so no reader sees half of one.

===================  ==================================================================================================
written by           numbers
===================  ==================================================================================================
the replica process  ``published_from``, ``published_to`` (``publication``)
worker *w*           ``reading`` (the oldest change its snapshots may lack; ``NO_READER`` without snapshots),
                     ``beat`` (its monotonic clock, ns), ``held_bytes`` (memory), ``idle_bytes`` (of it,
                     beside the queries), ``largest_bytes`` (of its largest query), ``queries`` (running),
                     ``user_bytes`` (by user), and for each running query a place in ``running``
===================  ==================================================================================================

A place is taken by a query whose ``id`` is not 0. Times are the monotonic clock's, in ns, which all processes share.

===================  ==================================================================================================
``id``               hash of the query id; written last, cleared first
``started``          when
``working``          since when it computes; 0 while it waits for its client or for another process
``deadline``         when its ``max_execution_time`` is over; 0 for none
``told_to_end``      when a limit or KILL QUERY ended it; 0 while it may go on
``code``             of the error that ended it
``limit_bytes``      its ``max_memory_usage``; 0 for none
``held_bytes``       what is counted as its
``connection``       the slot of its client's connection, plus 1; 0 without one
===================  ==================================================================================================
"""

from __future__ import annotations

import mmap

import numpy as np

NO_READER = (1 << 64) - 1
MAX_WORKERS = 256
MAX_QUERY_IDS = 256
"""Running queries of one worker that have a place; any more are not compared with those of others, nor guarded."""

_NUMBERS = ("reading", "beat", "held_bytes", "largest_bytes", "queries", "idle_bytes")
_PLACE = (
    "id", "started", "working", "deadline", "told_to_end", "code", "limit_bytes", "held_bytes", "connection",
)  # fmt: skip
RUNNING = np.dtype([(name, np.uint64) for name in _PLACE])


class SharedPage:
    """``users`` is how many users the configuration has."""

    def __init__(self, users: int) -> None:
        width = len(_NUMBERS) + users
        memory = mmap.mmap(-1, 8 * (8 + MAX_WORKERS * width))
        numbers = np.frombuffer(memory, np.uint64)
        self._published = numbers[:2]
        workers = numbers[8:].reshape(MAX_WORKERS, width)
        self._reading = workers[:, 0]
        self.beat = workers[:, 1]
        self.held_bytes = workers[:, 2]
        self.largest_bytes = workers[:, 3]
        self.queries = workers[:, 4]
        self.idle_bytes = workers[:, 5]
        self.user_bytes = workers[:, len(_NUMBERS) :]
        places = mmap.mmap(-1, MAX_WORKERS * MAX_QUERY_IDS * RUNNING.itemsize)
        self._places = memoryview(places).cast("Q")
        self.running = np.frombuffer(places, RUNNING).reshape(MAX_WORKERS, MAX_QUERY_IDS)
        self._reading[:] = NO_READER

    @property
    def published_from(self) -> int:
        return int(self._published[0])

    @property
    def published_to(self) -> int:
        return int(self._published[1])

    def publish(self, begin: int, end: int) -> None:
        self._published[0] = begin
        self._published[1] = end

    def place(self, worker: int, index: int) -> memoryview:
        """The numbers of one place of ``running``, in its order: quicker to write so."""
        fields = RUNNING.itemsize // 8
        first = (worker * MAX_QUERY_IDS + index) * fields
        return self._places[first : first + fields]

    def set_reading(self, worker: int, change: int) -> None:
        self._reading[worker] = change

    def oldest_read(self) -> int:
        """The oldest change that any worker's snapshots may lack; ``NO_READER`` when nobody reads."""
        return int(self._reading.min())

    def clear(self, worker: int) -> None:
        """A worker that is no more holds nothing."""
        self._reading[worker] = NO_READER
        for column in (self.beat, self.held_bytes, self.largest_bytes, self.queries, self.idle_bytes):
            column[worker] = 0
        self.running[worker] = 0
        self.user_bytes[worker] = 0
