"""ZooKeeper's semantics in one process, with faults on demand, for tests and simulation.

A :class:`MemoryEnsemble` is the server: one tree (``memory_tree``), one transaction counter (zxid), several sessions.
``ensemble.faults`` is asked for a fault at every request. ``disconnect``, ``expire`` and ``lag`` cause one directly.

A *lagging* server is an old copy of the tree. It never shows less than its client has seen, and catches up at a
``sync`` and at any answered write, also a failed one. After a lost answer a client may come to a server without its own
write. A new session never begins in the past (``KazooKeeper`` syncs it).

The thread that causes an event calls watches and listeners, after it has released the ensemble's lock. Source:
ZooKeeper programmer's guide; the contract suite compares the two implementations.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from coordination.keeper.chroot import Chroot, list_path_and_parents
from coordination.keeper.interface import (
    ANY_VERSION,
    Answer,
    Children,
    Create,
    Delete,
    Get,
    KeeperConnectionLoss,
    KeeperError,
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
from coordination.keeper.memory_tree import Node, Snapshot, Tree, TreeTransaction, answer_of, node_stat
from coordination.keeper.request_limits import require_request_fits


class Fault(Enum):
    """A fault of one request."""

    LOSE_REQUEST = "lost before it was applied"
    LOSE_ANSWER = "applied, the answer was lost"
    EXPIRE = "the session expires before the request"
    EXPIRE_AFTER = "applied, then the answer is lost and the session expires"
    LAG = "the client's server falls behind from here on"


FaultSource = Callable[[int, str, str], Fault | None]
"""(session id, kind of request: read | create | set | delete | multi | sync, first path) → what goes wrong."""


class MemoryEnsemble:
    """The server side. ``clock`` (seconds) stamps the nodes; sessions are numbered after ``last_session``."""

    def __init__(self, clock: Callable[[], float], last_session: int = 0) -> None:
        self.clock = clock
        self.faults: FaultSource | None = None
        self.requests = 0
        """Requests served so far, a pipeline counting once per path."""
        self.lock = threading.RLock()
        self.zxid = 0
        self.tree: Tree = {"/": Node(b"", 0, 0, 0, 0, 0, 0, 0, 0, frozenset())}
        self._last_session = last_session
        self._keepers: list[MemoryKeeper] = []

    def connect(self, chroot: str = "") -> MemoryKeeper:
        """Returns a connected client whose chroot exists."""
        keeper = MemoryKeeper(self, chroot)
        self._keepers.append(keeper)
        keeper.reconnect()
        for node in list_path_and_parents(chroot) if chroot else ():
            if node not in self.tree:
                self.run(keeper.session_id, [Create(node)])
        return keeper

    def new_session(self) -> int:
        with self.lock:
            self._last_session += 1
            return self._last_session

    def run(self, session: int, ops: Sequence[Op]) -> list[str | Stat | None]:
        """Carries out all operations or none. Fires the watches of every session afterwards."""
        with self.lock:
            self.zxid += 1
            transaction = TreeTransaction(self.tree, self.zxid, int(self.clock() * 1000), session)
            results = []
            for index, op in enumerate(ops):
                try:
                    results.append(transaction.apply(op))
                except KeeperError as error:
                    raise MultiFailed(index, op, error) from error
            transaction.commit()
            fired = [watch for keeper in self._keepers for watch in keeper.take_watches(transaction)]
        for watch, path in fired:
            watch(path)
        return results

    def end_session(self, session: int) -> None:
        """Deletes the session's ephemeral nodes."""
        with self.lock:
            for path in [path for path, node in self.tree.items() if node.owner == session]:
                self.run(session, [Delete(path)])

    def snapshot(self) -> Snapshot:
        """Returns a copy of the tree and of the transaction counter."""
        with self.lock:
            return Snapshot(dict(self.tree), self.zxid)

    def restore(self, snapshot: Snapshot) -> list[int]:
        """Restores a snapshot and expires every client's session. Returns the sessions that own its nodes."""
        with self.lock:
            self.tree, self.zxid = dict(snapshot.tree), snapshot.zxid
        for keeper in list(self._keepers):
            keeper.lose_session()
        return sorted({node.owner for node in snapshot.tree.values()} - {0})


class MemoryKeeper:
    """A client of a :class:`MemoryEnsemble`; implements the ``Keeper`` protocol."""

    def __init__(self, ensemble: MemoryEnsemble, chroot: str = "") -> None:
        self._ensemble = ensemble
        self._chroot = Chroot(chroot)
        self._session = 0
        self._state = SessionState.EXPIRED
        self._closed = False
        self._listeners: list[Callable[[SessionState], None]] = []
        self._data_watches: dict[str, list[tuple[Watch, str]]] = {}
        self._child_watches: dict[str, list[tuple[Watch, str]]] = {}
        self._past: Tree | None = None
        """The tree that a lagging server shows."""
        self._seen: Tree | None = None
        """While disconnected: the oldest tree that the next server may show."""

    # --- session and faults ------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return self._session

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def is_lagging(self) -> bool:
        """Whether this client's server shows an older tree."""
        return self._past is not None

    @property
    def session_timeout_seconds(self) -> float:
        return 1.0

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def _change(self, state: SessionState) -> None:
        if state is self._state:
            return
        self._state = state
        for listener in list(self._listeners):
            listener(state)

    def disconnect(self) -> None:
        """The connection goes; the session lives on until :meth:`reconnect` or :meth:`expire`."""
        with self._ensemble.lock:
            self._seen = dict(self._tree)
        self._change(SessionState.SUSPENDED)
        self._drop_watches()

    def expire(self) -> None:
        """The session ends with its ephemerals; :meth:`reconnect` makes a new one."""
        if self._session:
            self._ensemble.end_session(self._session)
        self.lose_session()

    def lose_session(self) -> None:
        """Loses the session without deleting its ephemeral nodes."""
        self._session = 0
        self._change(SessionState.EXPIRED)
        self._drop_watches()

    def reconnect(self, *, lagging: bool = False) -> None:
        """Connects to an up-to-date server or, with ``lagging``, to one that shows what this client last saw."""
        if self._closed:
            raise KeeperSessionExpired("the session was closed")
        if not self._session:
            self._session = self._ensemble.new_session()
            lagging = False
        if self._state is not SessionState.CONNECTED and lagging:
            self._past = self._seen
        elif not lagging:
            self.catch_up()
        self._seen = None
        self._change(SessionState.CONNECTED)

    def lag(self) -> None:
        """Freezes what this client's server shows, until a ``sync`` or a write of this client."""
        with self._ensemble.lock:
            if self._past is None:
                self._past = dict(self._ensemble.tree)

    def catch_up(self) -> None:
        """Ends the server's lag. Fires the watches set on the past for what has changed since."""
        with self._ensemble.lock:
            past, self._past = self._past, None
            if past is None:
                return
            now = self._ensemble.tree
            tables = ((self._data_watches, "modified_zxid"), (self._child_watches, "children_version"))
            fired = [
                watch
                for table, fact in tables
                for path in list(table)
                if getattr(past.get(path), fact, None) != getattr(now.get(path), fact, None)
                for watch in table.pop(path)
            ]
        for watch, path in fired:
            watch(path)

    def close(self) -> None:
        self.expire()
        self._closed = True

    def _drop_watches(self) -> None:
        """Ends all watches. Each is called with the path it watched."""
        with self._ensemble.lock:
            fired = [pair for table in (self._data_watches, self._child_watches) for w in table.values() for pair in w]
            self._data_watches, self._child_watches = {}, {}
        for watch, path in fired:
            watch(path)

    def take_watches(self, transaction: TreeTransaction) -> list[tuple[Watch, str]]:
        """Removes and returns the watches that a transaction fires. The ensemble calls it under its lock."""
        fired: list[tuple[Watch, str]] = []
        for path in (*transaction.created_events, *transaction.data_events):
            fired.extend(self._data_watches.pop(path, ()))
        for path in transaction.child_events:
            fired.extend(self._child_watches.pop(path, ()))
        return fired

    def _enter(self, kind: str, path: str) -> Fault | None:
        """Counts the request, applies a fault that comes before it, and returns one that comes after."""
        if self._closed:
            raise KeeperSessionExpired("the session was closed", path)
        if self._state is not SessionState.CONNECTED:
            raise KeeperUnavailable("no connection", path)
        self._ensemble.requests += 1
        fault = self._ensemble.faults(self._session, kind, path) if self._ensemble.faults else None
        if self._state is not SessionState.CONNECTED:
            raise KeeperUnavailable("no connection", path)
        if fault is Fault.EXPIRE:
            self.expire()
            raise KeeperSessionExpired("session expired", path)
        if fault is Fault.LAG:
            self.lag()
            return None
        if kind in ("read", "sync"):
            if fault is None:
                return None
            self.disconnect()
            raise KeeperUnavailable("connection lost while reading", path)
        if fault is Fault.LOSE_REQUEST:
            self.disconnect()
            raise KeeperConnectionLoss(path)
        return fault

    def _leave(self, fault: Fault | None, path: str, seen: Tree | None) -> None:
        """Applies a fault that comes after the request. ``seen``: the tree as it was before the write."""
        if fault is Fault.LOSE_ANSWER:
            self.disconnect()
            self._seen = seen
            raise KeeperConnectionLoss(path)
        if fault is Fault.EXPIRE_AFTER:
            self.expire()
            raise KeeperConnectionLoss(path)
        self.catch_up()

    @property
    def _tree(self) -> Tree:
        return self._past if self._past is not None else self._ensemble.tree

    # --- reads -------------------------------------------------------------------------------------------------

    def _watch(self, watches: dict[str, list[tuple[Watch, str]]], path: str, watch: Watch | None) -> None:
        if watch is not None:
            watches.setdefault(self._chroot.add_prefix(path), []).append((watch, path))

    def _peek(self, path: str) -> Node | None:
        self._enter("read", path)
        return self._tree.get(self._chroot.add_prefix(path))

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        with self._ensemble.lock:
            node = self._peek(path)
            if node is None:
                raise NoNode("no node", path)
            self._watch(self._data_watches, path, watch)
            return node.data, node_stat(node)

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        with self._ensemble.lock:
            node = self._peek(path)
            self._watch(self._data_watches, path, watch)
            return node_stat(node) if node is not None else None

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        with self._ensemble.lock:
            node = self._peek(path)
            if node is None:
                raise NoNode("no node", path)
            self._watch(self._child_watches, path, watch)
            return sorted(node.children)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return self.read_many(list(map(Get, paths)))  # type: ignore[return-value]

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        return [self.exists(path) for path in paths]

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return self.read_many(list(map(Children, paths)))  # type: ignore[return-value]

    def read_many(self, reads: Sequence[Read]) -> list[Answer]:
        with self._ensemble.lock:
            return [answer_of(read, self._peek(read.path)) for read in reads]

    def sync(self, path: str) -> None:
        self._enter("sync", path)
        self.catch_up()

    # --- writes ------------------------------------------------------------------------------------------------

    def _write(self, kind: str, ops: Sequence[Op]) -> list[str | Stat | None]:
        path = ops[0].path
        require_request_fits(ops, len(self._chroot))
        fault = self._enter(kind, path)
        full = [replace(op, path=self._chroot.add_prefix(op.path)) for op in ops] if len(self._chroot) else ops
        seen = dict(self._tree) if fault is Fault.LOSE_ANSWER else None
        try:
            results = self._ensemble.run(self._session, full)
        except MultiFailed as error:
            self._leave(fault, path, seen)
            error.cause.path = self._chroot.strip_prefix(error.cause.path)
            raise MultiFailed(error.index, ops[error.index], error.cause) from error
        self._leave(fault, path, seen)
        return [self._chroot.strip_prefix(result) if isinstance(result, str) else result for result in results]

    def _single(self, kind: str, op: Op) -> str | Stat | None:
        try:
            return self._write(kind, [op])[0]
        except MultiFailed as error:
            raise error.cause from error

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        created = self._single("create", Create(path, data, ephemeral, sequential))
        assert isinstance(created, str)
        return created

    def create_parents(self, path: str) -> None:
        for node in list_path_and_parents(path):
            if self.exists(node) is None:
                with contextlib.suppress(NodeExists):
                    self.create(node)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = self._single("set", SetData(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._single("delete", Delete(path, version))

    def delete_tree(self, path: str) -> None:
        for _ in range(20):
            try:
                names = self.children(path)
                for name in names:
                    self.delete_tree(f"{path.rstrip('/')}/{name}")
                self.delete(path)
                return
            except NoNode:
                return
            except NotEmpty:
                continue
        raise NotEmpty("others keep creating nodes below", path)

    def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        return self._write("multi", ops) if ops else []
