"""Starts, watches and replaces the workers of a server, in the replica process.

A worker is replaced if it ends unexpectedly, or if its threads do not run for long. Its resources are released, and the
dispatcher answers the clients that wait for it.

Invariants

- A number has one worker at a time. Its successor starts after the resources of the former one were released and its
  numbers in the shared page were reset.
- A worker gets connections only while it is open, and no new one once it is to end.
- ``_workers`` and ``_statuses`` change under ``_lock``, which nobody holds while waiting for a process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine.queries.context import Row
from engine.queries.process_list import OtherProcess, Process
from engine.workers.call_handlers import SharedServices, WorkerCalls
from engine.workers.channel import Channel, serve_calls
from engine.workers.connections.dispatcher import ConnectionDispatcher
from engine.workers.fork_server import ForkServer
from engine.workers.query_bounds import Bounds, EndReason, WorkerEndResponses
from engine.workers.shared_page import SharedPage
from parts.common.errors import PandoError
from parts.common.process_memory import get_held_bytes

logger = logging.getLogger(__name__)

_QUESTION_SECONDS = 2.0
_WATCH_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_READY_SECONDS = 60.0
_SHORT_LIFE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 10.0
_LAST_WORDS_SECONDS = 10.0


@dataclass(eq=False)
class WorkerHandle:
    """One worker. Implements ``connections.dispatcher.WorkerEndpoint``."""

    number: int
    pid: int
    door_socket: socket.socket
    control: Channel
    questions: Channel
    calls: WorkerCalls
    started: float
    is_open: bool = False
    """Whether it takes connections."""
    status: int | None = None
    """The status of ``os.waitpid``."""
    is_ready: threading.Event = field(default_factory=threading.Event)
    has_ended: threading.Event = field(default_factory=threading.Event)
    asking: threading.Lock = field(default_factory=threading.Lock)
    owed: int = 0
    """The number of answers that nobody waited for."""
    processes: Sequence[Mapping[str, Any]] = ()
    """The worker's queries as last reported; a worker that does not answer still runs them."""
    end_reason: EndReason | None = None
    """The reason why the watch ended it."""

    @property
    def name(self) -> str:
        """The name for messages."""
        return f"worker {self.number}"

    def ask(self, name: str, *arguments: object, seconds: float = _QUESTION_SECONDS) -> Any:
        """Asks the worker a question.

        Raises ``OSError`` or ``EOFError`` if it does not answer in time, or has ended.
        """
        with self.asking:
            self.questions.socket.settimeout(seconds)
            self.questions.send((name, arguments))
            self.owed += 1
            while self.owed:
                is_well, answer = self.questions.receive()
                self.owed -= 1
        if not is_well:
            raise answer
        return answer


class WorkerPool:
    """The ``count`` workers of a server. A worker without a heartbeat for ``stuck_seconds`` is ended."""

    def __init__(
        self,
        count: int,
        fork_server: ForkServer,
        page: SharedPage,
        shared: SharedServices,
        bounds: Bounds,
        stuck_seconds: float,
    ) -> None:
        self._count = count
        self._bounds = bounds
        self._fork_server = fork_server
        self._page = page
        self._shared = shared
        self._stuck_seconds = stuck_seconds
        self._workers: dict[int, WorkerHandle] = {}
        self._statuses: dict[int, int] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._failures = 0
        self._restarts: Counter[int] = Counter()
        self.door: ConnectionDispatcher | None = None
        fork_server.on_end = self._on_child_end

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Forks the workers; they get ready by themselves."""
        for number in range(self._count):
            self._start_worker(number)

    def open(self, door: ConnectionDispatcher) -> None:
        """Lets connections come: returns when a worker takes them. Watches the workers from now on."""
        self.door = door
        workers = self.list_workers()
        for worker in workers:
            worker.is_ready.wait(_READY_SECONDS)
            self._open_worker(worker)
        threading.Thread(target=self._watch, name="worker watch", daemon=True).start()

    def list_workers(self) -> list[WorkerHandle]:
        """Returns the current workers."""
        with self._lock:
            return list(self._workers.values())

    def stop(self, seconds: float) -> None:
        """Ends the workers; kills those that still run after ``seconds``.

        Before :meth:`open` they have no queries but wait for a start that failed, so they are killed at once.
        """
        self._ending.set()
        workers = self.list_workers()
        if self.door is None:
            for worker in workers:
                _kill(worker.pid)
        for worker in workers:
            worker.is_open = False
            with contextlib.suppress(OSError, EOFError):
                worker.ask("drain")
        deadline = time.monotonic() + seconds + _LAST_WORDS_SECONDS
        for worker in workers:
            if not worker.has_ended.wait(max(0.0, deadline - time.monotonic())):
                logger.warning("%s (pid %s) does not end, it is killed", worker.name, worker.pid)
                _kill(worker.pid)
                worker.has_ended.wait(_QUESTION_SECONDS)

    # -- queries of workers ----------------------------------------------------------------------------------------

    def processes(self) -> Iterable[Process]:
        """Yields the queries that run in workers."""
        for worker in self.list_workers():
            told = self._ask(worker, "processes")
            worker.processes = worker.processes if told is None else told
            for facts in worker.processes:
                yield OtherProcess(facts, partial(self._kill_query, worker))

    def _kill_query(self, worker: WorkerHandle, query_id: str) -> None:
        if self._bounds.kill(worker.number, query_id, time.monotonic_ns()):
            self._ask(worker, "kill", query_id)

    def rows(self) -> list[Row]:
        """Returns the rows of ``system.workers``."""
        now = time.monotonic()
        return [
            (
                worker.number,
                worker.pid,
                "ending" if self._ending.is_set() else "open" if worker.is_open else "starting",
                now - worker.started,
                self.door.connections(worker) if self.door is not None else 0,
                int(self._page.queries[worker.number]),
                int(self._page.held_bytes[worker.number]),
                self._restarts[worker.number],
            )
            for worker in self.list_workers()
        ]

    def _ask(self, worker: WorkerHandle, name: str, *arguments: object) -> Any:
        """Asks the worker; returns ``None`` if it does not answer."""
        try:
            return worker.ask(name, *arguments)
        except (OSError, EOFError, PandoError) as problem:
            logger.info("%s does not answer: %r", worker.name, problem)
            return None

    # -- one worker ---------------------------------------------------------------------------------------------------

    def _start_worker(self, number: int) -> None:
        """Forks a worker. Raises 210 if no process can be started."""
        pairs = [socket.socketpair(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET), socket.socketpair()]
        (control, _), (door, _), (questions, _) = pairs
        self._page.beat[number] = int(time.monotonic() * 1e9)
        pid = self._fork_server.fork("worker", (number,), [theirs for _, theirs in pairs])
        worker = WorkerHandle(
            number,
            pid,
            door,
            Channel(control),
            Channel(questions),
            WorkerCalls(self._shared, str(pid)),
            time.monotonic(),
        )
        with self._lock:
            self._workers[number] = worker
        threading.Thread(target=self._listen, args=(worker,), name=f"{worker.name} control", daemon=True).start()

    def _listen(self, worker: WorkerHandle) -> None:
        """Receives the worker's messages until its end; serves the channels that it opens in threads."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = worker.control.receive()
                if message[0] == "channel":
                    (descriptor,) = worker.control.take_descriptors()
                    channel = Channel(socket.socket(fileno=descriptor))
                    name = f"{worker.name} call"
                    threading.Thread(target=serve_calls, args=(channel, worker.calls), name=name, daemon=True).start()
                elif message[0] == "ready":
                    worker.is_ready.set()
                    if self.door is not None:
                        self._open_worker(worker)
                elif message[0] == "retire":
                    worker.is_open = False
                    self._ask(worker, "drain")
        self._end(worker)

    def _open_worker(self, worker: WorkerHandle) -> None:
        with self._lock:
            is_new = worker.is_ready.is_set() and not worker.is_open and not worker.has_ended.is_set()
            worker.is_open = worker.is_open or is_new
        if is_new and self.door is not None:
            self.door.add(worker)

    def _end(self, worker: WorkerHandle) -> None:
        """Cleans up after a worker's end, and replaces it."""
        worker.is_open = False
        end_reason, responses = worker.end_reason, WorkerEndResponses()
        if end_reason is not None:
            responses = self._bounds.make_responses(worker.number, end_reason, time.monotonic_ns())
        self._bounds.forget(worker.number)
        self._page.reset_worker(worker.number)
        reason = self._describe_end(worker) if end_reason is None else f"{end_reason.reason} and was ended"
        worker.is_ready.set()
        if not self._ending.is_set():
            logger.error("%s (pid %s) %s", worker.name, worker.pid, reason)
        if self.door is not None:
            self.door.take_over_connections(worker, reason, responses)
        for channel in (worker.control, worker.questions):
            channel.close()
        worker.has_ended.set()
        if self._ending.is_set():
            return
        worker.calls.release_worker()
        self._replace(worker)

    def _replace(self, worker: WorkerHandle) -> None:
        has_failed = worker.end_reason is None and time.monotonic() - worker.started < _SHORT_LIFE_SECONDS
        self._failures = self._failures + 1 if has_failed else 0
        pause = min(0.1 * 2**self._failures - 0.1, _LONGEST_PAUSE_SECONDS) if self._failures else 0.0
        while not self._ending.wait(pause):
            try:
                self._start_worker(worker.number)
                self._restarts[worker.number] += 1
                return
            except PandoError as error:
                logger.error("%s cannot be replaced: %s", worker.name, error)
                pause = _LONGEST_PAUSE_SECONDS / 5

    def _on_child_end(self, pid: int, status: int) -> None:
        with self._lock:
            self._statuses[pid] = status

    def _describe_end(self, worker: WorkerHandle) -> str:
        for _ in range(100):
            with self._lock:
                status = self._statuses.pop(worker.pid, None)
            if status is not None:
                return describe_exit_status(status)
            time.sleep(0.005)
        return "ended"

    # -- the watch ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        next_beats = 0.0
        while not self._ending.wait(_LOOK_SECONDS):
            if time.monotonic() >= next_beats:
                next_beats = time.monotonic() + _WATCH_SECONDS
                self._end_stuck()
            self._enforce_bounds()

    def _enforce_bounds(self) -> None:
        workers = {worker.number: worker for worker in self.list_workers() if worker.end_reason is None}
        held = {number: get_held_bytes(worker.pid) for number, worker in workers.items()}
        for number, end_reason in self._bounds.select_workers_to_end(held, time.monotonic_ns()).items():
            worker = workers[number]
            logger.error("%s (pid %s) %s: it is ended", worker.name, worker.pid, end_reason.reason)
            worker.end_reason = end_reason
            _kill(worker.pid)

    def _end_stuck(self) -> None:
        now = time.monotonic()
        for worker in self.list_workers():
            beat = int(self._page.beat[worker.number]) / 1e9
            if now - beat > self._stuck_seconds and not worker.has_ended.is_set():
                logger.error("%s (pid %s) gave its threads no turn for %.0f s, it is killed", worker.name,
                             worker.pid, now - beat)  # fmt: skip
                _kill(worker.pid)


def describe_exit_status(status: int) -> str:
    """Describes how a process ended, from a status of ``os.waitpid``."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"ended (signal {number}, {signal.Signals(number).name})"
    return f"ended (exit code {os.WEXITSTATUS(status)})"


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
