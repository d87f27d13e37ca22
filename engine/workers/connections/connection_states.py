"""The state of every client connection, in memory shared by the dispatcher and the workers.

A worker that was killed cannot tell what its clients still waited for. Therefore it records the state of each of its
connections *before* it acts, one byte for each slot. The dispatcher reads the state after the worker's end::

    FREE ──dispatcher passes──► PASSED ──worker takes──► IDLE ──first bytes──► ASKED ─(─► BEGUN ─)─► ANSWERED ──► IDLE
                                                           any ──worker──► CLOSED ──dispatcher──► FREE

A short request is stored as it came. If its worker is ended because of another query, another worker can repeat the
request, but only if it is known to change nothing (``may_repeat``).

A worker may also die between recording a state and acting. ``received`` and ``written`` settle that case. They are the
bytes that the workers had read and written when the connection was last idle, to be compared with the kernel's counts.

Invariants:

- The memory is made before any fork and never resized. A slot is the dispatcher's while FREE or PASSED, and its
  worker's until the worker reports it.
- Each slot has one writer at a time. A state is one byte and a count eight aligned bytes, so no reader sees half of
  one.
"""

from __future__ import annotations

import enum
import mmap

KEPT_BYTES = 4096
"""A longer request is not stored."""


class ConnectionState(enum.IntEnum):
    """The states of a connection."""

    FREE = 0
    PASSED = 1
    """On its way to a worker, which has not taken it yet."""
    IDLE = 2
    """No request is in progress, and the kernel has all of the last answer."""
    ASKED = 3
    """Bytes of a request are read; nothing of its answer is written."""
    BEGUN = 4
    """The head of the answer has begun and goes on: a status line, and lines of progress."""
    ANSWERED = 5
    """The head is written; the body is not complete."""
    CLOSED = 6


class ConnectionStates:
    """The shared arrays ``states``, ``received``, ``written`` and ``may_repeat``, indexed by slot."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        aligned = -(-slots // 8) * 8
        shared = memoryview(
            mmap.mmap(-1, 2 * aligned + 24 * slots)
        )  # anonymous and shared: forked processes see the same memory
        self.states = shared[:slots]
        self.may_repeat = shared[aligned : aligned + slots]
        numbers = shared[2 * aligned :].cast("Q")
        self.received = numbers[:slots]
        self.written = numbers[slots : 2 * slots]
        self._lengths = numbers[2 * slots :]
        self._kept = memoryview(mmap.mmap(-1, slots * KEPT_BYTES))

    def reset(self, slot: int) -> None:
        """Resets a slot for a new connection."""
        self.received[slot] = self.written[slot] = 0
        self.drop_request(slot)
        self.states[slot] = ConnectionState.PASSED

    def store_request(self, slot: int, data: bytes) -> None:
        """Stores the next bytes of the request."""
        length = self._lengths[slot]
        end = length + len(data)
        if end <= KEPT_BYTES:
            first = slot * KEPT_BYTES
            self._kept[first + length : first + end] = data
        self._lengths[slot] = end

    def drop_request(self, slot: int) -> None:
        """Drops the stored request: it is answered, or cannot be repeated."""
        self.may_repeat[slot] = 0
        self._lengths[slot] = 0

    def get_request(self, slot: int) -> bytes:
        """Returns the whole request if it may be repeated; otherwise empty."""
        first, length = slot * KEPT_BYTES, self._lengths[slot]
        is_there = self.may_repeat[slot] and length <= KEPT_BYTES
        return bytes(self._kept[first : first + length]) if is_there else b""
