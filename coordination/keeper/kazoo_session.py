"""The ZooKeeper session of ``KazooKeeper``: the kazoo client, and how it connects and reconnects.

Invariants and threads:
- One client thread owns the socket; listeners run on it and must not block.
- After expiry the client makes a new session by itself; it shows as another ``session_id``. The first call of every
  session is a ``sync``, because a new session may meet a server that lags behind what the old one has seen.
- The chroot is made when the first session opens, however late that is.
- A client tells every server the last transaction that it has seen, and a server that has not seen it refuses the
  connection. A server that lost its data or was restored from an older snapshot would refuse for ever. So a session
  also ends when there was no connection for longer than its time-out and the reachable servers refused it. The next
  session begins as a new client's does, with no last transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient, KazooState, KeeperState
from kazoo.exceptions import NodeExistsError, SessionExpiredError, ZookeeperError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from coordination.keeper.chroot import Chroot, list_path_and_parents
from coordination.keeper.interface import KeeperSessionExpired, KeeperUnavailable, SessionState
from coordination.keeper.kazoo_handler import PollingHandler

_log = logging.getLogger("pando.keeper")
_OFFERS = 3
"""Refused offers before the session is given up: a starting server accepts connections before it serves them."""
_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}


def _quiet_client_logger() -> logging.Logger:
    """Returns a logger for kazoo that hides its warnings about every reconnection attempt."""
    logger = logging.getLogger("pando.keeper.client")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    return logger


class _ConnectingHandler(PollingHandler):
    """A handler that passes each attempt to connect through ``attempt``, on the client's thread."""

    def __init__(self, attempt: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__()
        self._attempt = attempt

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(lambda: super(_ConnectingHandler, self).create_connection(*args, **kwargs))


class KazooSession:
    """A session with the ZooKeeper at ``hosts`` (``host:port,host:port``), reopened after expiry."""

    def __init__(self, hosts: str, timeout_seconds: float, chroot: Chroot) -> None:
        """Begins to connect and does not wait (see :meth:`wait_connected`)."""
        self._chroot = chroot
        self.timeout_seconds = timeout_seconds
        self._listeners: list[Callable[[SessionState], None]] = []
        self.is_closed = False
        self._prepared_session = 0
        self._prepare_lock = threading.Lock()
        self._revive_lock = threading.Lock()
        self._suspended_at: float | None = None
        """Monotonic time at which a living session lost its connection."""
        self._offers = 0
        """Connections attempted with the session after its time-out."""
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_jitter=0.2, max_delay=1.0)
        self.client = KazooClient(
            hosts=hosts,
            timeout=timeout_seconds,
            connection_retry=retry,
            handler=_ConnectingHandler(self._attempt),
            logger=_quiet_client_logger(),
        )
        self.client.add_listener(self._on_state)
        self.client.start_async()

    @property
    def id(self) -> int:
        """The session's id; 0 when there is none."""
        return 0 if self.is_closed else int(self.client._session_id or 0)

    @property
    def state(self) -> SessionState:
        return SessionState.EXPIRED if self.is_closed else _STATES[self.client.state]

    @property
    def answer_timeout(self) -> float:
        """Seconds to wait for an answer.

        The client notices a dead connection within the session time-out; after that the answer is lost.
        """
        return self.timeout_seconds * 1.5 + 1.0

    @property
    def addresses(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.client.hosts)

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def _attempt(self, connect: Callable[[], Any]) -> Any:
        """Connects, or ends a session that reachable servers no longer accept.

        Raises ``SessionExpiredError``, as if a server had told the client that its session has ended.
        """
        since = self._suspended_at
        is_overdue = since is not None and time.monotonic() - since > self.timeout_seconds
        if is_overdue and self._offers >= _OFFERS:
            _log.warning("ZooKeeper at %s does not take the former session: a new one begins", self.addresses)
            raise SessionExpiredError
        connection = connect()
        self._offers = self._offers + 1 if is_overdue else 0
        return connection

    def _on_state(self, state: str) -> None:
        self._suspended_at = time.monotonic() if state == KazooState.SUSPENDED else None
        for listener in list(self._listeners):
            try:
                listener(_STATES[state])
            except Exception:
                _log.exception("A session listener failed")

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self.client.stop()
            self.client.close()
        except Exception as error:  # closing must not fail its caller: the session ends by its time-out instead
            _log.warning("Closing the ZooKeeper session: %s", error)

    def wait_connected(self, timeout_seconds: float) -> bool:
        """Waits for a session. Returns ``False`` if there is none in time."""
        return bool(not self.is_closed and self.client._live.wait(timeout_seconds))

    def require_connection(self, wait_seconds: float, path: str) -> None:
        """Waits for a usable session.

        Raises ``KeeperUnavailable`` when there is none in time, and ``KeeperSessionExpired`` after :meth:`close`. Both
        name ``path``.
        """
        if self.is_closed:
            raise KeeperSessionExpired("the session was closed", path)
        self._revive()
        if not self.client._live.wait(wait_seconds):
            raise KeeperUnavailable(f"no connection to ZooKeeper at {self.addresses}", path)
        if self._prepared_session != self.id:
            self._prepare(path)

    def _revive(self) -> None:
        """Restarts the client's thread, which ends for good on an answer it cannot parse."""
        if self.client._state != KeeperState.CLOSED or not self.client._connection.connection_stopped.is_set():
            return
        with self._revive_lock:
            if not self.is_closed and self.client._connection.connection_stopped.is_set():
                self.client.start_async()

    def _prepare(self, path: str) -> None:
        with self._prepare_lock:
            session = self.id
            if session in (0, self._prepared_session):
                return
            try:
                self.client.sync_async("/").get(timeout=self.answer_timeout)
                for node in list_path_and_parents(self._chroot.prefix):
                    self._make_chroot_node(node)
            except (ZookeeperError, KazooTimeoutError) as error:
                raise KeeperUnavailable(f"the new session is not usable yet ({type(error).__name__})", path) from error
            if session == self.id:
                self._prepared_session = session

    def _make_chroot_node(self, path: str) -> None:
        try:
            result = self.client.handler.async_result()
            self.client._call(CreateRequest(path, b"", OPEN_ACL_UNSAFE, 0), result)
            result.get(timeout=self.answer_timeout)
        except NodeExistsError:
            pass
