"""Where every client's connection stands, in memory that the door shares with its workers.

A worker that was killed cannot say what it owed its clients. So it notes the state of each of its connections *before*
it goes on, one byte a slot, and the door reads it when the worker is no more::

    FREE ──door passes──► PASSED ──worker takes──► IDLE ──first bytes──► ASKED ─(─► BEGUN ─)─► ANSWERED ──► IDLE
                                                     any ──worker──► CLOSED ──door──► FREE

Between the note and the act itself a worker may die as well. ``received`` and ``written`` settle that: the bytes that
had gone through the workers when the connection was idle last, to be compared with what the kernel counted.

Invariants:
- made before any fork, never resized; a slot is the door's while FREE or PASSED, its worker's until it reports it.
- one writer a slot at a time; a state is one byte and a count eight aligned ones, so no reader sees half of one.
"""

from __future__ import annotations

import enum
import mmap


class State(enum.IntEnum):
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
    """``states``, ``received`` and ``written`` by slot, of ``slots`` connections at most."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        aligned = -(-slots // 8) * 8
        shared = memoryview(mmap.mmap(-1, aligned + 16 * slots))  # anonymous and shared: forks see the same
        self.states = shared[:slots]
        self.received = shared[aligned : aligned + 8 * slots].cast("Q")
        self.written = shared[aligned + 8 * slots :].cast("Q")

    def clear(self, slot: int) -> None:
        """For a connection nothing has gone through yet."""
        self.received[slot] = self.written[slot] = 0
        self.states[slot] = State.PASSED
