"""Where every client's connection stands, in memory that the door shares with its workers.

A worker that was killed cannot say what it owed its clients. So it notes the state of each of its connections *before*
it goes on, one byte a slot, and the door reads it when the worker is no more::

    FREE ──door passes──► PASSED ──worker takes──► IDLE ──first bytes──► ASKED ─(─► BEGUN ─)─► ANSWERED ──► IDLE
                                                     any ──worker──► CLOSED ──door──► FREE

A short request is kept as it came, so that it can be asked again in another worker when its own is ended for another
query's sake: only once its query is known to change nothing (``may_repeat``).

Between the note and the act itself a worker may die as well. ``received`` and ``written`` settle that: the bytes that
had gone through the workers when the connection was idle last, to be compared with what the kernel counted.

Invariants:
- made before any fork, never resized; a slot is the door's while FREE or PASSED, its worker's until it reports it.
- one writer a slot at a time; a state is one byte and a count eight aligned ones, so no reader sees half of one.
"""

from __future__ import annotations

import enum
import mmap

KEPT_BYTES = 4096
"""A longer request is not kept."""


class ConnectionState(enum.IntEnum):
    FREE = 0
    PASSED = 1
    """On its way to a worker, which has not taken it."""
    IDLE = 2
    """No request is in progress, and all of the last answer is with the kernel."""
    ASKED = 3
    """Bytes of a request are read, nothing of its answer is written."""
    BEGUN = 4
    """The head of the answer has begun and goes on: a status line, and lines of progress."""
    ANSWERED = 5
    """The head is written, the body is not complete."""
    CLOSED = 6


class ConnectionStates:
    """``states``, ``received``, ``written`` and ``may_repeat`` by slot, of ``slots`` connections at most."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        aligned = -(-slots // 8) * 8
        shared = memoryview(mmap.mmap(-1, 2 * aligned + 24 * slots))  # anonymous and shared: forks see the same
        self.states = shared[:slots]
        self.may_repeat = shared[aligned : aligned + slots]
        numbers = shared[2 * aligned :].cast("Q")
        self.received = numbers[:slots]
        self.written = numbers[slots : 2 * slots]
        self._lengths = numbers[2 * slots :]
        self._kept = memoryview(mmap.mmap(-1, slots * KEPT_BYTES))

    def clear(self, slot: int) -> None:
        """For a connection nothing has gone through yet."""
        self.received[slot] = self.written[slot] = 0
        self.forget(slot)
        self.states[slot] = ConnectionState.PASSED

    def keep(self, slot: int, data: bytes) -> None:
        """``data`` is the next of the request."""
        length = self._lengths[slot]
        end = length + len(data)
        if end <= KEPT_BYTES:
            first = slot * KEPT_BYTES
            self._kept[first + length : first + end] = data
        self._lengths[slot] = end

    def forget(self, slot: int) -> None:
        """The request is answered, or is none that could be repeated."""
        self.may_repeat[slot] = 0
        self._lengths[slot] = 0

    def kept(self, slot: int) -> bytes:
        """The whole request, if it may be repeated; else nothing."""
        first, length = slot * KEPT_BYTES, self._lengths[slot]
        is_there = self.may_repeat[slot] and length <= KEPT_BYTES
        return bytes(self._kept[first : first + length]) if is_there else b""
