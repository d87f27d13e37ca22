"""Waits for SIGTERM and SIGINT, the signals that ask a process to end."""

from __future__ import annotations

import os
import queue
import signal


class StopSignals:
    """Receives SIGTERM and SIGINT from its creation on; used on the main thread.

    ``is_second_final``: a second signal ends the process at once.

    A handler runs on the main thread, between two of its instructions. If that thread is just inside ``Event.wait`` it
    holds the event's lock, and ``threading.Event.set`` in the handler would wait for ever. ``SimpleQueue.put`` is
    reentrant, so handlers can call it.
    """

    def __init__(self, *, is_second_final: bool = False) -> None:
        self._is_second_final = is_second_final
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._is_asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def wait(self, seconds: float) -> bool:
        """Waits at most so many seconds; returns whether a signal came."""
        try:
            self._signals.get(timeout=seconds)
        except queue.Empty:
            return False
        return True

    def _on_signal(self, number: int, _: object) -> None:
        if self._is_asked and self._is_second_final:
            os._exit(128 + number)
        self._is_asked = True
        self._signals.put(number)
