"""A page of memory shared by all processes of a server: numbers that are read without a message.

It is made in the replica process before any fork.

Invariants

- Each number has one writer and eight aligned bytes, so no reader sees half of one.
- Two numbers may be of different moments: a reader decides nothing that needs both from one.
- The replica process writes a worker's numbers only after that worker has ended (:meth:`SharedPage.reset_worker`).

===================  ==================================================================================================
written by           numbers
===================  ==================================================================================================
the replica process  ``published_from``, ``published_to`` (``catalog_publication``),
                     ``link_start`` (``engine.links.link_start.StartState``)
worker *w*           ``reading`` (the oldest change its snapshots may lack; ``NO_READER`` without snapshots),
                     ``beat`` (its monotonic clock, ns); ``held_bytes`` (memory), ``idle_bytes`` (of it,
                     beside the queries), ``largest_bytes`` (of its largest query); ``queries`` (running),
                     ``user_bytes`` (by user); and for each running query a place in ``running``
===================  ==================================================================================================

A place is in use if its ``id`` is not 0. Times are those of the monotonic clock in nanoseconds, which all processes
share.

===================  ==================================================================================================
``id``               hash of the query id; written last, cleared first
``started``          when it began
``working``          since when it computes; 0 while it waits for its client or for another process
``deadline``         when its ``max_execution_time`` is over; 0 for none
``told_to_end``      when a limit or KILL QUERY ended it; 0 while it may go on
``code``             the code of the error that ended it
``limit_bytes``      its ``max_memory_usage``; 0 for none
``held_bytes``       the memory counted for it
``connection``       the slot of its client's connection, plus 1; 0 without one
===================  ==================================================================================================
"""

from __future__ import annotations

import mmap

import numpy as np

NO_READER = (1 << 64) - 1
MAX_WORKERS = 256
MAX_QUERY_IDS = 256
"""The running queries of one worker that have a place.

More are neither compared with those of others nor limited.
"""

_NUMBERS = ("reading", "beat", "held_bytes", "largest_bytes", "queries", "idle_bytes")
_PLACE = (
    "id", "started", "working", "deadline", "told_to_end", "code", "limit_bytes", "held_bytes", "connection",
)  # fmt: skip
RUNNING = np.dtype([(name, np.uint64) for name in _PLACE])


class SharedPage:
    """The shared page. ``users`` is the number of configured users."""

    def __init__(self, users: int) -> None:
        width = len(_NUMBERS) + users
        memory = mmap.mmap(-1, 8 * (8 + MAX_WORKERS * width))
        numbers = np.frombuffer(memory, np.uint64)
        self._published = numbers[:3]
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
        """The beginning of the published changes."""
        return int(self._published[0])

    @property
    def published_to(self) -> int:
        """The end of the published changes."""
        return int(self._published[1])

    @property
    def link_start(self) -> int:
        """The use of linked tables: ``engine.links.link_start.StartState``."""
        return int(self._published[2])

    def set_link_start(self, state: int) -> None:
        """Publishes what the server does with linked tables."""
        self._published[2] = state

    def publish(self, begin: int, end: int) -> None:
        """Publishes the range of changes to read."""
        self._published[0] = begin
        self._published[1] = end

    def place(self, worker: int, index: int) -> memoryview:
        """Returns the numbers of one place of ``running``, which is faster to write to."""
        fields = RUNNING.itemsize // 8
        first = (worker * MAX_QUERY_IDS + index) * fields
        return self._places[first : first + fields]

    def set_reading(self, worker: int, change: int) -> None:
        """Publishes the oldest change that the worker's snapshots may lack."""
        self._reading[worker] = change

    def find_oldest_read(self) -> int:
        """Returns the oldest change that any worker's snapshots may lack; ``NO_READER`` without snapshots."""
        return int(self._reading.min())

    def reset_worker(self, worker: int) -> None:
        """Resets the numbers of a worker that has ended."""
        self._reading[worker] = NO_READER
        for column in (self.beat, self.held_bytes, self.largest_bytes, self.queries, self.idle_bytes):
            column[worker] = 0
        self.running[worker] = 0
        self.user_bytes[worker] = 0
