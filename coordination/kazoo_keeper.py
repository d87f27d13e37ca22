"""The Keeper over a real ZooKeeper, on the kazoo client.

Invariants and threads:
- One client thread owns the socket. Callers wait on it with a bound; watches and listeners run on client threads and
  only set events.
- **Unknown is told from failed.** A write that was handed to the client and got no answer raises
  ``KeeperConnectionLoss``; one that was never handed over raises ``KeeperUnavailable``. Reads are repeated for
  ``read_retry_seconds`` and then raise ``KeeperUnavailable``.
- After expiry the client makes a new session by itself; it shows as another ``session_id``. The first call of every
  session is a ``sync``, because a new session may meet a server that lags behind what the old one has seen.
- The chroot is prefixed here, so that it can be made when the first session opens, however late that is.
- The client wakes its thread through a socket pair that holds some 270 unread bytes, one per request: pipelines are cut
  into runs of ``PIPELINE_DEPTH``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient, KazooState, KeeperState
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.states import WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from coordination.chroot import Chroot, path_and_parents
from coordination.kazoo_answers import Watcher, definite_error, stat_of
from coordination.kazoo_handler import PollingHandler
from coordination.keeper import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    KeeperConnectionLoss,
    KeeperSessionExpired,
    KeeperUnavailable,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionState,
    SetData,
    Stat,
    Watch,
)
from coordination.packets import require_sendable, runs

PIPELINE_DEPTH = 100
_log = logging.getLogger("pando.keeper")
_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}


def _quiet_client_logger() -> logging.Logger:
    """The client reports every reconnection attempt as a warning; those are our DEBUG."""
    logger = logging.getLogger("pando.keeper.client")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    return logger


class KazooKeeper:
    """One session after another with the ZooKeeper at ``hosts`` (``host:port,host:port``)."""

    def __init__(
        self,
        hosts: str,
        session_timeout_seconds: float = 30.0,
        chroot: str = "",
        *,
        connect_timeout_seconds: float = 10.0,
        read_retry_seconds: float = 3.0,
        write_connect_wait_seconds: float = 1.0,
    ) -> None:
        """Waits up to ``connect_timeout_seconds`` for the first session and goes on without it (see ``state``)."""
        self._chroot = Chroot(chroot)
        self._session_timeout_seconds = session_timeout_seconds
        self._read_retry_seconds = read_retry_seconds
        self._write_connect_wait_seconds = write_connect_wait_seconds
        self._listeners: list[Callable[[SessionState], None]] = []
        self._closed = False
        self._prepared_session = 0
        self._prepare_lock = threading.Lock()
        self._revive_lock = threading.Lock()
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_jitter=0.2, max_delay=1.0)
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_seconds,
            connection_retry=retry,
            handler=PollingHandler(),
            logger=_quiet_client_logger(),
        )
        self._client.add_listener(self._on_state)
        self._client.start_async().wait(connect_timeout_seconds)

    # --- session -----------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return 0 if self._closed else int(self._client._session_id or 0)

    @property
    def state(self) -> SessionState:
        return SessionState.EXPIRED if self._closed else _STATES[self._client.state]

    @property
    def session_timeout_seconds(self) -> float:
        return self._session_timeout_seconds

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def _on_state(self, state: str) -> None:
        for listener in list(self._listeners):
            try:
                listener(_STATES[state])
            except Exception:
                _log.exception("A session listener failed")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:  # closing must not fail its caller: the session ends by its time-out instead
            _log.warning("Closing the ZooKeeper session: %s", error)

    def wait_connected(self, timeout_seconds: float) -> bool:
        """Waits for a session, ``False`` if there is none in time."""
        return bool(not self._closed and self._client._live.wait(timeout_seconds))

    def _require_connection(self, wait_seconds: float, path: str) -> None:
        if self._closed:
            raise KeeperSessionExpired("the session was closed", path)
        self._revive()
        if not self._client._live.wait(wait_seconds):
            raise KeeperUnavailable(f"no connection to ZooKeeper at {self._addresses()}", path)
        if self._prepared_session != self.session_id:
            self._prepare_session(path)

    def _addresses(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._client.hosts)

    def _revive(self) -> None:
        """The client's thread ends for good on an answer it cannot parse; start it again."""
        if self._client._state != KeeperState.CLOSED or not self._client._connection.connection_stopped.is_set():
            return
        with self._revive_lock:
            if not self._closed and self._client._connection.connection_stopped.is_set():
                self._client.start_async()

    def _prepare_session(self, path: str) -> None:
        with self._prepare_lock:
            session = self.session_id
            if session in (0, self._prepared_session):
                return
            try:
                self._client.sync_async("/").get(timeout=self._answer_timeout)
                for node in path_and_parents(self._chroot.prefix):
                    self._make_chroot_node(node)
            except (ZookeeperError, KazooTimeoutError) as error:
                raise KeeperUnavailable(f"the new session is not usable yet ({type(error).__name__})", path) from error
            if session == self.session_id:
                self._prepared_session = session

    def _make_chroot_node(self, path: str) -> None:
        try:
            result = self._client.handler.async_result()
            self._client._call(CreateRequest(path, b"", OPEN_ACL_UNSAFE, 0), result)
            result.get(timeout=self._answer_timeout)
        except NodeExistsError:
            pass

    # --- calling -----------------------------------------------------------------------------------------------

    @property
    def _answer_timeout(self) -> float:
        """The client notices a dead connection within the session time-out; past that the answer is lost."""
        return self._session_timeout_seconds * 1.5 + 1.0

    def _write(self, path: str, send: Callable[[], Any]) -> Any:
        self._require_connection(self._write_connect_wait_seconds, path)
        session = self.session_id
        try:
            result = send().get(timeout=self._answer_timeout)
        except (ConnectionLoss, KazooTimeoutError, OperationTimeoutError, ConnectionClosedError) as error:
            raise KeeperConnectionLoss(path) from error
        except ZookeeperError as error:
            raise definite_error(error, path) from error
        if self.session_id not in (session, 0):
            # The request slipped from the old session's queue into the new session.
            raise KeeperConnectionLoss(path)
        return result

    def _read(self, path: str, send: Callable[[], list[Any]]) -> list[Any]:
        """``send`` starts the requests; an answer is its value or its ``NoNodeError``."""
        deadline = time.monotonic() + self._read_retry_seconds
        while True:
            try:
                self._require_connection(max(0.0, deadline - time.monotonic()), path)
                return [self._answer(pending) for pending in send()]
            except (ConnectionLoss, KazooTimeoutError, OperationTimeoutError, SessionExpiredError) as error:
                if self._closed:
                    raise KeeperSessionExpired("the session was closed", path) from error
                if time.monotonic() >= deadline:
                    raise KeeperUnavailable(f"connection to {self._addresses()} lost while reading", path) from error
                time.sleep(0.01)
            except ZookeeperError as error:
                raise definite_error(error, path) from error

    def _answer(self, pending: Any) -> Any:
        try:
            return pending.get(timeout=self._answer_timeout)
        except NoNodeError as error:
            return error

    def _read_one(self, path: str, send: Callable[[], Any]) -> Any:
        answer = self._read(path, lambda: [send()])[0]
        if isinstance(answer, NoNodeError):
            raise NoNode("no node", path)
        return answer

    def _pipelined(self, paths: Sequence[str], send: Callable[[str], Any]) -> list[Any]:
        answers: list[Any] = []
        for run in runs(paths, PIPELINE_DEPTH):
            answers.extend(self._read(run[0], lambda run=run: [send(self._chroot.full(path)) for path in run]))  # type: ignore[misc]
        return answers

    def _watcher(self, path: str, watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
        return None if watch is None else Watcher(watch, path, self._chroot.stripped)

    # --- reads -------------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        watcher = self._watcher(path, watch)
        data, stat = self._read_one(path, lambda: self._client.get_async(self._chroot.full(path), watcher))
        return data, stat_of(stat)

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        watcher = self._watcher(path, watch)
        stat = self._read_one(path, lambda: self._client.exists_async(self._chroot.full(path), watcher))
        return stat_of(stat) if stat is not None else None

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        watcher = self._watcher(path, watch)
        return sorted(self._read_one(path, lambda: self._client.get_children_async(self._chroot.full(path), watcher)))

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        answers = self._pipelined(paths, self._client.get_async)
        return [None if isinstance(answer, NoNodeError) else (answer[0], stat_of(answer[1])) for answer in answers]

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        answers = self._pipelined(paths, self._client.exists_async)
        return [stat_of(answer) if answer is not None else None for answer in answers]

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        answers = self._pipelined(paths, self._client.get_children_async)
        return [None if isinstance(answer, NoNodeError) else sorted(answer) for answer in answers]

    # --- writes ------------------------------------------------------------------------------------------------

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        require_sendable([Create(path, data)], len(self._chroot))

        def send() -> Any:
            result = self._client.handler.async_result()
            flags = (1 if ephemeral else 0) | (2 if sequential else 0)
            self._client._call(CreateRequest(self._chroot.full(path), data, OPEN_ACL_UNSAFE, flags), result)
            return result

        return self._chroot.stripped(self._write(path, send))

    def create_parents(self, path: str) -> None:
        """Safe to repeat, so a lost answer is simply asked again (bounded)."""
        for node in path_and_parents(path):
            self._create_if_missing(node)

    def _create_if_missing(self, path: str) -> None:
        for attempt in range(5):
            try:
                if self.exists(path) is None:
                    self.create(path)
                return
            except NodeExists:
                return
            except KeeperConnectionLoss:
                if attempt == 4:
                    raise

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        require_sendable([SetData(path, data)], len(self._chroot))
        return stat_of(self._write(path, lambda: self._client.set_async(self._chroot.full(path), data, version)))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._write(path, lambda: self._client.delete_async(self._chroot.full(path), version))

    def delete_tree(self, path: str) -> None:
        """Level by level, pipelined; nodes that others create meanwhile are swept by another round (bounded)."""
        for _ in range(20):
            levels = self._levels(path)
            if not levels:
                return
            for level in reversed(levels):
                self._delete_quietly(level)
            if self.exists(path) is None:
                return
        raise NotEmpty("others keep creating nodes below", path)

    def _levels(self, path: str) -> list[list[str]]:
        levels: list[list[str]] = []
        level = [path] if self.exists(path) is not None else []
        while level:
            levels.append(level)
            listings = self.children_many(level)
            level = [
                f"{parent.rstrip('/')}/{name}"
                for parent, names in zip(level, listings, strict=True)
                for name in names or ()
            ]
        return levels

    def _delete_quietly(self, paths: Sequence[str]) -> None:
        for run in runs(paths, PIPELINE_DEPTH):
            self._require_connection(self._read_retry_seconds, run[0])
            for pending in [self._client.delete_async(self._chroot.full(path)) for path in run]:
                try:
                    pending.get(timeout=self._answer_timeout)
                except (NoNodeError, NotEmptyError, ConnectionLoss, KazooTimeoutError):
                    continue  # the next round looks again
                except ZookeeperError as error:
                    raise definite_error(error, run[0]) from error

    def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        if not ops:
            return []
        require_sendable(ops, len(self._chroot))

        def send() -> Any:
            transaction = self._client.transaction()
            for op in ops:
                self._add(transaction, op)
            return transaction.commit_async()

        results = self._write(ops[0].path, send)
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise MultiFailed(index, ops[index], definite_error(result, ops[index].path))
        if len(results) != len(ops) or any(isinstance(result, Exception) for result in results):
            raise KeeperConnectionLoss(ops[0].path)
        return [self._result(op, result) for op, result in zip(ops, results, strict=True)]

    def _add(self, transaction: Any, op: Op) -> None:
        path = self._chroot.full(op.path)
        match op:
            case Create():
                transaction.create(path, op.data, ephemeral=op.ephemeral, sequence=op.sequential)
            case Delete():
                transaction.delete(path, op.version)
            case SetData():
                transaction.set_data(path, op.data, op.version)
            case Check():
                transaction.check(path, op.version)

    def _result(self, op: Op, result: Any) -> str | Stat | None:
        match op:
            case Create():
                return self._chroot.stripped(result)
            case SetData():
                return stat_of(result)
            case _:
                return None

    def sync(self, path: str) -> None:
        self._read(path, lambda: [self._client.sync_async(self._chroot.full(path))])
