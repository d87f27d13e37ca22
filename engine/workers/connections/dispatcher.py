"""Accepts client connections in the replica process, and passes each to a worker.

A connection whose first request is for a status page (``/ping``) is served here, whatever the workers do. Any other
goes to the worker with the fewest connections, and nothing of it is read before. The dispatcher keeps a duplicate of
each connection until its worker reports the connection's end. So when a worker ends, no client waits in vain.
Connections between two requests go to another worker, requests without an answer get an error, and connections with a
partial answer are closed.

Invariants:

- Everything but the public methods runs on the dispatcher's own thread, and the public methods hand their work to it.
- A slot is free, or belongs to exactly one connection. A connection is with one worker, or waits for one and is retried
  every few milliseconds.
- Nothing is accepted before the first worker is added: clients wait in the kernel's queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from engine.front.http.connection import UNLIMITED_SECONDS
from engine.front.http.error_responses import get_http_status
from engine.front.http.listener import Listener, ThrottledLog, get_max_connections
from engine.front.http.routes import Application
from engine.server.config import Config
from engine.workers.connections.connection_states import ConnectionState, ConnectionStates
from engine.workers.connections.first_bytes import FirstBytesWaiter
from engine.workers.connections.orphaned_connections import FinalResponses, OrphanAction, choose_action
from engine.workers.connections.receiver import MAX_SLOTS_PER_MESSAGE, SLOT_BYTES
from engine.workers.connections.status_page_server import StatusPageServer
from engine.workers.query_bounds import WorkerEndResponses
from parts.common.errors import PandoError, UnavailableError
from sql.settings.session_settings import make_settings

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0
"""How long a connection waits for a worker if there is none; a new worker usually starts sooner."""
_RETRY_SECONDS = 0.01
_STUCK_SECONDS = 0.1
_LAST_ANSWERS_SECONDS = 2.0


class WorkerEndpoint(Protocol):
    """A worker, as the dispatcher sees it."""

    @property
    def name(self) -> str:
        """The name of the worker, for messages."""

    @property
    def door_socket(self) -> socket.socket:
        """The replica process's end of the socket to the worker, SOCK_SEQPACKET."""

    @property
    def is_open(self) -> bool:
        """Tells whether the worker takes new connections."""


@dataclass(eq=False)
class _WorkerConnections:
    """A worker's connections."""

    endpoint: WorkerEndpoint
    slots: set[int] = field(default_factory=set)
    turn: int = 0
    last_slot: int = 0
    last_passed: float = 0.0
    is_gone: bool = False

    def is_stuck(self, states: ConnectionStates, now: float) -> bool:
        """Tells whether the worker has not taken a connection that was passed some time ago."""
        is_waiting = self.last_slot in self.slots and states.states[self.last_slot] == ConnectionState.PASSED
        return is_waiting and now - self.last_passed > _STUCK_SECONDS


@dataclass(eq=False)
class _ClientConnection:
    """A client's connection."""

    connection: socket.socket
    slot: int
    deadline: float = 0.0
    refused: set[int] = field(default_factory=set)
    """The workers that returned it untaken, by ``id``."""
    repeated: bytes = b""
    """A request that the worker must answer first."""


class ConnectionDispatcher:
    """The dispatcher of one server.

    ``pages`` serves status pages; ``endpoints`` returns the current workers. It is called on the dispatcher's thread,
    so it must not wait for a thread that calls the dispatcher.
    """

    def __init__(
        self,
        listening: socket.socket,
        config: Config,
        states: ConnectionStates,
        endpoints: Callable[[], Sequence[WorkerEndpoint]],
        pages: Application,
    ) -> None:
        self._socket = listening
        self._states = states
        self._endpoints = endpoints
        self._most = min(get_max_connections(config.max_connections), states.slots)
        limits = make_settings(config.profile("default"), config.timezone)
        self._receive_seconds = limits.http_receive_timeout or UNLIMITED_SECONDS
        self._make_page_server = lambda: StatusPageServer(config, pages, self._final_responses.close_after_drain)
        self._free = list(reversed(range(states.slots)))
        self._clients: dict[int, _ClientConnection] = {}
        self._workers: dict[int, _WorkerConnections] = {}
        self._waiting: list[_ClientConnection] = []
        self._retry: asyncio.TimerHandle | None = None
        self._turn = 0
        self._listener: Listener | None = None
        self._is_closing = False
        self._log = ThrottledLog()
        self._has_started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="front door", daemon=True)

    # -- from any thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread; returns when it runs."""
        self._thread.start()
        self._has_started.wait()

    def connections(self, endpoint: WorkerEndpoint) -> int:
        """Returns the number of the worker's connections."""
        worker = self._workers.get(id(endpoint))
        return len(worker.slots) if worker is not None else 0

    def add(self, endpoint: WorkerEndpoint) -> None:
        """Adds a worker that is ready. After the first one, connections are accepted."""
        self._on_loop(self._add, endpoint)

    def take_over_connections(
        self, endpoint: WorkerEndpoint, reason: str, responses: WorkerEndResponses | None = None
    ) -> None:
        """Moves, answers or closes the connections of a worker that has ended, before its socket is closed.

        ``reason`` says what it did: "ended (signal 9)". ``responses`` is given if it was ended because of a query.
        """
        self._on_loop(self._take_over, endpoint, reason, responses or WorkerEndResponses())

    def stop_accepting(self) -> None:
        """Closes the listening socket and unread connections. Workers keep theirs."""
        self._on_loop(self._stop_accepting)

    def stop(self) -> None:
        """Closes what is left, after the workers have ended."""
        if self._thread.is_alive():
            self.stop_accepting()
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()
        self._socket.close()

    def _on_loop(self, function: Callable[..., None], *arguments: object) -> None:
        """Runs the function on the dispatcher's thread; returns or raises when it is done."""
        if not self._thread.is_alive():
            return
        done: Future[None] = Future()

        def run() -> None:
            try:
                function(*arguments)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        self._loop.call_soon_threadsafe(run)
        while not done.done() and self._thread.is_alive():
            with contextlib.suppress(TimeoutError):
                done.result(0.1)
        if done.done():
            done.result()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._final_responses = FinalResponses()
        self._page_server = self._make_page_server()
        self._first_bytes = FirstBytesWaiter(self._receive_seconds, self._page_server.serve, self._admit)
        self._has_started.set()
        await self._end.wait()
        deadline = self._loop.time() + _LAST_ANSWERS_SECONDS
        while self._page_server and self._loop.time() < deadline:
            await asyncio.sleep(_RETRY_SECONDS)
        for worker in self._workers.values():
            self._forget(worker)
        for client in list(self._clients.values()):
            self._close(client)
        while self._final_responses and self._loop.time() < deadline:
            await asyncio.sleep(_RETRY_SECONDS)
        self._final_responses.close()

    def _stop_accepting(self) -> None:
        self._is_closing = True
        if self._listener is not None:
            self._listener.close()
        self._first_bytes.close()
        self._page_server.close_idle()

    def _count(self) -> int:
        return len(self._first_bytes) + len(self._page_server) + len(self._clients) + len(self._final_responses)

    # -- new connections ----------------------------------------------------------------------------------------------

    def _admit(self, connection: socket.socket) -> None:
        client = _ClientConnection(connection, self._free.pop())
        self._clients[client.slot] = client
        self._states.reset(client.slot)
        self._assign(client)

    def _assign(self, client: _ClientConnection) -> None:
        client.deadline = self._loop.time() + _PATIENCE_SECONDS
        self._states.states[client.slot] = ConnectionState.PASSED
        if self._is_closing:
            self._refuse(client)
        elif not self._pass_to_worker(client):
            self._waiting.append(client)
            self._retry = self._retry or self._loop.call_later(_RETRY_SECONDS, self._retry_waiting)

    def _pass_to_worker(self, client: _ClientConnection) -> bool:
        """Passes the connection to the worker with the fewest connections that takes it; in turn among equals."""
        now = self._loop.time()
        open_now = {id(endpoint) for endpoint in self._endpoints() if endpoint.is_open}
        able = [
            each
            for key, each in self._workers.items()
            if key in open_now and not each.is_gone and key not in client.refused
        ]
        able.sort(key=lambda each: (each.is_stuck(self._states, now), len(each.slots), each.turn))
        for worker in able:
            try:
                socket.send_fds(
                    worker.endpoint.door_socket,
                    [client.slot.to_bytes(SLOT_BYTES, "little"), client.repeated],
                    [client.connection.fileno()],
                )
            except OSError as error:  # its socket is full, or it has ended
                self._log(f"{worker.endpoint.name} takes no connection for now: {error}")
                continue
            if not worker.is_stuck(self._states, now):
                worker.last_slot, worker.last_passed = client.slot, now
            self._turn += 1
            worker.turn = self._turn
            worker.slots.add(client.slot)
            return True
        return False

    def _retry_waiting(self) -> None:
        self._retry = None
        waiting, self._waiting = self._waiting, []
        now = self._loop.time()
        for client in waiting:
            if self._pass_to_worker(client):
                continue
            if self._is_closing or now >= client.deadline:
                self._refuse(client)
            else:
                self._waiting.append(client)
        if self._waiting:
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._retry_waiting)

    def _refuse(self, client: _ClientConnection) -> None:
        if not _has_bytes(client.connection):
            self._close(client)
            return
        reason = "The server is stopping" if self._is_closing else "No worker process is running now"
        self._answer(client, 503, UnavailableError("NETWORK_ERROR", f"{reason}; retry"))

    # -- workers ------------------------------------------------------------------------------------------------------

    def _add(self, endpoint: WorkerEndpoint) -> None:
        worker = self._workers[id(endpoint)] = _WorkerConnections(endpoint)
        endpoint.door_socket.setblocking(False)
        self._loop.add_reader(endpoint.door_socket.fileno(), self._read_reports, worker)
        self._retry_waiting()
        if self._listener is None and not self._is_closing:
            self._listener = Listener(self._socket, self._first_bytes.add, self._count, self._most)

    def _read_reports(self, worker: _WorkerConnections) -> None:
        """Takes back all slots that the worker has reported."""
        while not worker.is_gone:
            try:
                data = worker.endpoint.door_socket.recv(SLOT_BYTES * MAX_SLOTS_PER_MESSAGE)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            if not data:
                self._forget(worker)
            for (slot,) in struct.iter_unpack("<I", data):
                if slot in worker.slots:
                    self._take_back(worker, self._clients[slot])

    def _forget(self, worker: _WorkerConnections) -> None:
        """Stops passing connections to the worker and reading its reports."""
        if not worker.is_gone:
            worker.is_gone = True
            self._loop.remove_reader(worker.endpoint.door_socket.fileno())

    def _take_back(self, worker: _WorkerConnections, client: _ClientConnection) -> None:
        worker.slots.discard(client.slot)
        if self._states.states[client.slot] == ConnectionState.PASSED:
            client.refused.add(id(worker.endpoint))
        else:
            client.repeated = b""
        if choose_action(self._states, client.slot, client.connection) is OrphanAction.MOVE:
            self._assign(client)
        else:
            self._close(client)

    def _take_over(self, endpoint: WorkerEndpoint, reason: str, responses: WorkerEndResponses) -> None:
        worker = self._workers.pop(id(endpoint), None)
        if worker is None:
            return
        self._read_reports(worker)
        self._forget(worker)
        actions = {slot: self._choose_action(slot, responses) for slot in worker.slots}
        for slot, what in actions.items():
            client = self._clients[slot]
            if what is OrphanAction.MOVE or what is OrphanAction.REPEAT:
                self._assign(client)
            elif what is OrphanAction.CUT:
                self._close(client)
            else:
                error = responses.errors.get(slot) or _make_lost_error(reason)
                status = get_http_status(error) if slot in responses.errors else 500
                self._answer(client, status, error, in_head=what is OrphanAction.END_HEAD)
        if actions:
            counts = Counter(what.value for what in actions.values())
            told = "; ".join(f"{count}: {what}" for what, count in counts.items())
            logger.warning("%s %s; of its %d connections %s", endpoint.name, reason, len(actions), told)

    def _choose_action(self, slot: int, responses: WorkerEndResponses) -> OrphanAction:
        client = self._clients[slot]
        what = choose_action(self._states, slot, client.connection)
        if self._states.states[slot] == ConnectionState.PASSED:  # including a request that it may have to repeat
            return what
        may_repeat = what is OrphanAction.ANSWER and responses.repeats and slot not in responses.errors
        client.repeated = self._states.get_request(slot) if may_repeat else b""
        return OrphanAction.REPEAT if client.repeated else what

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _answer(self, client: _ClientConnection, status: int, error: PandoError, *, in_head: bool = False) -> None:
        self._final_responses.send_error(client.connection, status, error, in_head=in_head)
        self._free_slot(client)

    def _close(self, client: _ClientConnection) -> None:
        client.connection.close()
        self._free_slot(client)

    def _free_slot(self, client: _ClientConnection) -> None:
        del self._clients[client.slot]
        self._states.states[client.slot] = ConnectionState.FREE
        self._free.append(client.slot)


def _make_lost_error(reason: str) -> PandoError:
    problem = (
        f"The worker process that ran the query {reason}; an INSERT may or may not have been stored: "
        "repeat it unchanged, it will be deduplicated"
    )
    return UnavailableError("NETWORK_ERROR", problem)


def _has_bytes(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
