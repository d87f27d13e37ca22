"""A Keeper over a real ZooKeeper, using the kazoo client.

Invariants and threads:
- One client thread owns the socket. Callers wait on it with a bound; watches and listeners run on client threads and
  only set events.
- **Unknown is told from failed.** A write that was handed to the client and got no answer raises
  ``KeeperConnectionLoss``; one that was never handed over raises ``KeeperUnavailable``. Reads are repeated for
  ``read_retry_seconds`` and then raise ``KeeperUnavailable``.
- :mod:`coordination.keeper.kazoo_session` opens and reopens the session. The chroot is prefixed here.
- The client wakes its thread through a socket pair that holds some 270 unread bytes, one per request: pipelines are cut
  into runs of ``PIPELINE_DEPTH``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import GetChildren, GetData
from kazoo.protocol.states import WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE

from coordination.keeper.chroot import Chroot, list_path_and_parents
from coordination.keeper.interface import (
    ANY_VERSION,
    Answer,
    Check,
    Children,
    Create,
    Delete,
    Get,
    KeeperConnectionLoss,
    KeeperSessionExpired,
    KeeperUnavailable,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Read,
    SessionState,
    SetData,
    Stat,
    Watch,
)
from coordination.keeper.kazoo_conversion import WatchCallback, convert_error, convert_stat
from coordination.keeper.kazoo_multi_read import LEAST_TOGETHER, MOST_TOGETHER, MultiRead, MultiReadSupport
from coordination.keeper.kazoo_session import KazooSession
from coordination.keeper.request_limits import require_request_fits, split_into_chunks

PIPELINE_DEPTH = 100
_OPERATIONS: dict[type[Read], type[GetData | GetChildren]] = {Get: GetData, Children: GetChildren}


class KazooKeeper:
    """A client of the ZooKeeper at ``hosts`` (``host:port,host:port``).

    It opens a new session after expiry.
    """

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
        """Connects to ZooKeeper.

        Waits up to ``connect_timeout_seconds`` for the first session and goes on without it (see ``state``).
        """
        self._chroot = Chroot(chroot)
        self._read_retry_seconds = read_retry_seconds
        self._write_connect_wait_seconds = write_connect_wait_seconds
        self._session = KazooSession(hosts, session_timeout_seconds, self._chroot)
        self._client = self._session.client
        self._multi_reads = MultiReadSupport()
        self._session.wait_connected(connect_timeout_seconds)

    # --- session -----------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return self._session.id

    @property
    def state(self) -> SessionState:
        return self._session.state

    @property
    def session_timeout_seconds(self) -> float:
        return self._session.timeout_seconds

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._session.add_listener(listener)

    def close(self) -> None:
        self._session.close()

    def wait_connected(self, timeout_seconds: float) -> bool:
        """Waits for a session. Returns ``False`` if there is none in time."""
        return self._session.wait_connected(timeout_seconds)

    # --- calling -----------------------------------------------------------------------------------------------

    def _write(self, path: str, send: Callable[[], Any]) -> Any:
        self._session.require_connection(self._write_connect_wait_seconds, path)
        session = self.session_id
        try:
            result = send().get(timeout=self._session.answer_timeout)
        except (ConnectionLoss, KazooTimeoutError, OperationTimeoutError, ConnectionClosedError) as error:
            raise KeeperConnectionLoss(path) from error
        except ZookeeperError as error:
            raise convert_error(error, path) from error
        if self.session_id not in (session, 0):
            # The request slipped from the old session's queue into the new session.
            raise KeeperConnectionLoss(path)
        return result

    def _read(self, path: str, send: Callable[[], list[Any]]) -> list[Any]:
        """Sends the requests that ``send`` starts, and repeats them until ``read_retry_seconds`` have passed.

        An answer is a value or a ``NoNodeError``.
        """
        deadline = time.monotonic() + self._read_retry_seconds
        while True:
            try:
                self._session.require_connection(max(0.0, deadline - time.monotonic()), path)
                return [self._answer(pending) for pending in send()]
            except (ConnectionLoss, KazooTimeoutError, OperationTimeoutError, SessionExpiredError) as error:
                if self._session.is_closed:
                    raise KeeperSessionExpired("the session was closed", path) from error
                if time.monotonic() >= deadline:
                    addresses = self._session.addresses
                    raise KeeperUnavailable(f"connection to {addresses} lost while reading", path) from error
                time.sleep(0.01)
            except ZookeeperError as error:
                raise convert_error(error, path) from error

    def _answer(self, pending: Any) -> Any:
        try:
            return pending.get(timeout=self._session.answer_timeout)
        except NoNodeError as error:
            return error

    def _read_one(self, path: str, send: Callable[[], Any]) -> Any:
        answer = self._read(path, lambda: [send()])[0]
        if isinstance(answer, NoNodeError):
            raise NoNode("no node", path)
        return answer

    def _pipelined(self, requests: Sequence[tuple[str, Callable[[str], Any]]]) -> list[Any]:
        """Sends many reads before waiting for their answers.

        A request is a path and the function that sends it.
        """
        answers: list[Any] = []
        for run in split_into_chunks(requests, PIPELINE_DEPTH):
            answers.extend(
                self._read(run[0][0], lambda run=run: [send(self._chroot.add_prefix(path)) for path, send in run])  # type: ignore[misc]
            )
        return answers

    def _read_many(self, reads: Sequence[Read], least_together: int) -> list[Any]:
        """Reads many nodes, a few hundred per request if the server supports that."""
        senders = {Get: self._client.get_async, Children: self._client.get_children_async}
        answers: list[Any] = []
        for run in split_into_chunks(reads, MOST_TOGETHER):
            together = self._together(run) if len(run) >= least_together else None
            answers += (
                self._pipelined([(read.path, senders[type(read)]) for read in run]) if together is None else together
            )
        return answers

    def _together(self, reads: Sequence[Read]) -> list[Any] | None:
        """Reads the nodes with one request. Returns ``None`` if they must be read one by one.

        Reading one by one also reports what is wrong, and retries.
        """
        if not self._multi_reads.is_worth_trying:
            return None
        operations = [_OPERATIONS[type(read)](self._chroot.add_prefix(read.path), None) for read in reads]
        try:
            self._session.require_connection(self._read_retry_seconds, reads[0].path)
            pending = self._client.handler.async_result()
            self._client._call(MultiRead(operations), pending)
            answers: list[Any] = pending.get(timeout=self._session.answer_timeout)
        except (ZookeeperError, KazooTimeoutError, OperationTimeoutError) as error:
            self._multi_reads.record_failure(is_refusal=isinstance(error, UnimplementedError))
            return None
        self._multi_reads.record_success()
        is_whole = len(answers) == len(operations) and all(
            isinstance(answer, NoNodeError) or not isinstance(answer, Exception) for answer in answers
        )
        return answers if is_whole else None

    def _watcher(self, path: str, watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
        return None if watch is None else WatchCallback(watch, path, self._chroot.strip_prefix)

    # --- reads -------------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        watcher = self._watcher(path, watch)
        data, stat = self._read_one(path, lambda: self._client.get_async(self._chroot.add_prefix(path), watcher))
        return data, convert_stat(stat)

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        watcher = self._watcher(path, watch)
        stat = self._read_one(path, lambda: self._client.exists_async(self._chroot.add_prefix(path), watcher))
        return convert_stat(stat) if stat is not None else None

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        watcher = self._watcher(path, watch)
        return sorted(
            self._read_one(path, lambda: self._client.get_children_async(self._chroot.add_prefix(path), watcher))
        )

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return list(map(_content, self._read_many(list(map(Get, paths)), LEAST_TOGETHER)))

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        if len(paths) >= LEAST_TOGETHER:  # there is no such operation in a multiRead
            return [None if answer is None else answer[1] for answer in self.get_many(paths)]
        answers = self._pipelined([(path, self._client.exists_async) for path in paths])
        return [convert_stat(answer) if answer is not None else None for answer in answers]

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return list(map(_names, self._read_many(list(map(Children, paths)), LEAST_TOGETHER)))

    def read_many(self, reads: Sequence[Read]) -> list[Answer]:
        answers = self._read_many(reads, least_together=2)
        return [_content(a) if isinstance(read, Get) else _names(a) for read, a in zip(reads, answers, strict=True)]

    # --- writes ------------------------------------------------------------------------------------------------

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        require_request_fits([Create(path, data)], len(self._chroot))

        def send() -> Any:
            result = self._client.handler.async_result()
            flags = (1 if ephemeral else 0) | (2 if sequential else 0)
            self._client._call(CreateRequest(self._chroot.add_prefix(path), data, OPEN_ACL_UNSAFE, flags), result)
            return result

        return self._chroot.strip_prefix(self._write(path, send))

    def create_parents(self, path: str) -> None:
        """Creates the missing nodes. Repeats a create whose answer was lost, a bounded number of times."""
        for node in list_path_and_parents(path):
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
        require_request_fits([SetData(path, data)], len(self._chroot))
        return convert_stat(
            self._write(path, lambda: self._client.set_async(self._chroot.add_prefix(path), data, version))
        )

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._write(path, lambda: self._client.delete_async(self._chroot.add_prefix(path), version))

    def delete_tree(self, path: str) -> None:
        """Deletes level by level, pipelined.

        Another round deletes nodes that others create meanwhile (bounded).
        """
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
        for run in split_into_chunks(paths, PIPELINE_DEPTH):
            self._session.require_connection(self._read_retry_seconds, run[0])
            for pending in [self._client.delete_async(self._chroot.add_prefix(path)) for path in run]:
                try:
                    pending.get(timeout=self._session.answer_timeout)
                except (NoNodeError, NotEmptyError, ConnectionLoss, KazooTimeoutError):
                    continue  # the next round looks again
                except ZookeeperError as error:
                    raise convert_error(error, run[0]) from error

    def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        if not ops:
            return []
        require_request_fits(ops, len(self._chroot))

        def send() -> Any:
            transaction = self._client.transaction()
            for op in ops:
                self._add(transaction, op)
            return transaction.commit_async()

        results = self._write(ops[0].path, send)
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise MultiFailed(index, ops[index], convert_error(result, ops[index].path))
        if len(results) != len(ops) or any(isinstance(result, Exception) for result in results):
            raise KeeperConnectionLoss(ops[0].path)
        return [self._result(op, result) for op, result in zip(ops, results, strict=True)]

    def _add(self, transaction: Any, op: Op) -> None:
        path = self._chroot.add_prefix(op.path)
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
                return self._chroot.strip_prefix(result)
            case SetData():
                return convert_stat(result)
            case _:
                return None

    def sync(self, path: str) -> None:
        self._read(path, lambda: [self._client.sync_async(self._chroot.add_prefix(path))])


def _content(answer: Any) -> tuple[bytes, Stat] | None:
    return None if isinstance(answer, NoNodeError) else (answer[0], convert_stat(answer[1]))


def _names(answer: Any) -> list[str] | None:
    return None if isinstance(answer, NoNodeError) else sorted(answer)
