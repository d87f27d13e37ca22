"""The fork server: a process without threads that forks workers and merge processes.

It has everything imported. The replica process forks it before it starts any thread of its own, because a process with
threads must not fork, and then asks it for workers. It ends with the replica process. A second fork server stands by.
If the first is killed, the second takes its place and forks another to stand by.

Messages: ``("fork", kind, arguments)`` with the descriptors of the child's sockets → ``("forked", pid)`` or
``("failed", text)``. At any time ``("ended", pid, status)``, with the status of ``os.waitpid``.

Invariants

- A fork server never starts a thread.
- One order is under way at a time (``_lock``), and each gets one answer. An answer that came too late is thrown away
  before the next order is sent.
- The sockets of an order belong to the child: the replica process and the fork server close their copies.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import queue
import select
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.workers.channel import Channel
from parts.common.errors import UnavailableError

logger = logging.getLogger(__name__)

Kinds = Mapping[str, Callable[..., None]]
"""By kind, the function that a child runs with the arguments of the order and its sockets."""

_FORK_SERVER = "fork server"
_FORK_SECONDS = 30.0
_SET_NAME = 15


class ForkServer:
    """The replica process's side of the fork server.

    ``on_end`` is called on a thread of this object with a child's pid and status.
    """

    def __init__(self, kinds: Kinds, close_in_children: Sequence[socket.socket] = ()) -> None:
        """Forks both servers. The process must have no thread but the calling one."""
        gc.collect()
        gc.freeze()  # the children share these pages until somebody writes to them
        kinds = {**kinds, _FORK_SERVER: lambda own: _run(Channel(own), kinds)}
        self.pid, self._channel = _start_fork_server(kinds, close_in_children)
        self._standby_pid, self._standby = _start_fork_server(kinds, [*close_in_children, self._channel.socket])
        self._lock = threading.Lock()
        self._is_ending = False
        self._answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.on_end: Callable[[int, int], None] = lambda pid, status: None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts to listen for the ends of children; required before the first :meth:`fork`."""
        self._thread = threading.Thread(target=self._listen, name="fork server", daemon=True)
        self._thread.start()

    def fork(self, kind: str, arguments: Sequence[object], sockets: Sequence[socket.socket]) -> int:
        """Forks a child and returns its pid.

        The sockets then belong to the child alone. Raises 210 if no process can be started.
        """
        try:
            with self._lock:
                while not self._answers.empty():  # the answer to an order that was given up
                    self._answers.get()
                self._channel.send(("fork", kind, tuple(arguments)), [each.fileno() for each in sockets])
                outcome, value = self._answers.get(timeout=_FORK_SECONDS)
        except (OSError, queue.Empty) as problem:
            raise UnavailableError("NETWORK_ERROR", f"No process can be started: {problem or 'no answer'}") from problem
        finally:
            for each in sockets:
                each.close()
        if outcome == "failed":
            raise UnavailableError("NETWORK_ERROR", f"No process can be started: {value}")
        return int(value)

    def stop(self) -> None:
        """Ends both fork servers and waits for them."""
        self._is_ending = True
        for channel in (self._standby, self._channel):
            channel.close()
        if self._thread is not None:
            self._thread.join(5)
        for pid in (self._standby_pid, self.pid):
            _reap(pid)

    def _listen(self) -> None:
        is_well = True
        while is_well:
            with contextlib.suppress(EOFError, OSError):
                while True:
                    message = self._channel.receive()
                    if message[0] == "ended":
                        self.on_end(message[1], message[2])
                    else:
                        self._answers.put(message)
            is_well = not self._is_ending and self._take_over()

    def _take_over(self) -> bool:
        """Makes the server that stands by the fork server; returns ``False`` if there is none."""
        if self._standby is self._channel:
            logger.error("the fork server (pid %s) ended, and so did the one that stood by: no worker that ends is "
                         "replaced; restart this server", self.pid)  # fmt: skip
            return False
        logger.error(
            "the fork server (pid %s) ended, another one (pid %s) takes its place", self.pid, self._standby_pid
        )
        self._channel.close()
        self._answers.put(("failed", "the fork server has just ended"))
        _reap(self.pid)
        self.pid, self._channel = self._standby_pid, self._standby
        threading.Thread(target=self._start_standby, name="fork server", daemon=True).start()
        return True

    def _start_standby(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._standby_pid = self.fork(_FORK_SERVER, (), [theirs])
        except UnavailableError as error:
            logger.error("no fork server stands by: %s", error)
            ours.close()
            return
        self._standby = Channel(ours)


def _start_fork_server(kinds: Kinds, close: Sequence[socket.socket]) -> tuple[int, Channel]:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        for inherited in (ours, *close):
            inherited.close()
        _run(Channel(theirs), kinds)
        os._exit(0)
    theirs.close()
    return pid, Channel(ours)


def _reap(pid: int) -> None:
    """Waits for the process, if it is a child of this one."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _run(channel: Channel, kinds: Kinds) -> None:
    set_process_name("pando forks")
    # A terminal or a service manager signals all processes; the replica process tells when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with contextlib.suppress(EOFError, OSError):
        while True:
            readable, _, _ = select.select([channel.socket.fileno(), woken], [], [])
            if woken in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
                _report_ends(channel)
            if channel.socket.fileno() in readable:
                _, kind, arguments = channel.receive()
                _fork(channel, kinds[kind], arguments, channel.take_descriptors(), (woken, wake))


def _fork(
    channel: Channel, run: Callable[..., None], arguments: tuple[Any, ...], given: list[int], own: tuple[int, int]
) -> None:
    try:
        pid = os.fork()
    except OSError as problem:
        pid = -1
        channel.send(("failed", str(problem)))
    if pid == 0:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel.socket.close()
            for descriptor in own:
                os.close(descriptor)
            run(*arguments, *(socket.socket(fileno=descriptor) for descriptor in given))
            status = 0
        except BaseException:
            logger.exception("a process of the server fails")
        finally:
            os._exit(status)
    for descriptor in given:
        os.close(descriptor)
    if pid > 0:
        channel.send(("forked", pid))


def _report_ends(channel: Channel) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            channel.send(("ended", pid, status))


def set_process_name(name: str) -> None:
    """Sets the name that ``ps`` and ``top`` show for this process."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_NAME, name.encode()[:15], 0, 0, 0)
