"""The Keeper interface: the part of ZooKeeper that Pando uses, and the errors of its calls.

Two implementations pass one contract suite: ``KazooKeeper`` (a real ZooKeeper) and ``MemoryKeeper`` (one process, with
fault injection). All calls block and may be made from any thread.

A call succeeds, fails, or is **unknown**: :class:`KeeperConnectionLoss` means that the request was sent and the answer
never came, so it may have been carried out. After :class:`KeeperSessionExpired` every ephemeral node of the session is
gone; a new session has a new ``session_id``, and what depended on the old one must be made anew.

Watches fire once, from a thread of the client that must not block: callbacks only set events.
Source: ZooKeeper programmer's guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError

ANY_VERSION = -1
Watch = Callable[[str], None]
"""Called once with the path that changed (or, at session loss, with the watched path)."""


@dataclass(frozen=True, slots=True)
class Stat:
    """Facts about a znode; times are milliseconds since the epoch on ZooKeeper's clock."""

    version: int
    children_version: int
    created_zxid: int
    modified_zxid: int
    created_ms: int
    modified_ms: int
    ephemeral_owner: int
    data_length: int
    children_count: int


@dataclass(frozen=True, slots=True)
class Create:
    """Creates ``path``. ``sequential`` appends ZooKeeper's ten-digit counter to the name."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes ``path`` if it has this data version and no children."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class SetData:
    """Replaces the data of ``path`` if it has this data version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Fails the multi unless ``path`` exists and has this data version."""

    path: str
    version: int = ANY_VERSION


Op = Create | Delete | SetData | Check


@dataclass(frozen=True, slots=True)
class Get:
    """Reads a node's data and stat. The answer is ``None`` if there is no such node."""

    path: str


@dataclass(frozen=True, slots=True)
class Children:
    """Lists the names of a node's children, sorted. The answer is ``None`` if there is no such node."""

    path: str


Read = Get | Children
Answer = tuple[bytes, Stat] | list[str] | None


def check_not_exists(path: str) -> tuple[Op, Op]:
    """Returns operations that fail a multi with :class:`NodeExists` if ``path`` exists.

    ZooKeeper itself has no such check.
    """
    return (Create(path), Delete(path))


class KeeperError(UnavailableError):
    """Base of definite failures: the call had no effect."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__("KEEPER_EXCEPTION", f"Coordination error: {message}" + (f", path {path}" if path else ""))
        self.path = path


class NoNode(KeeperError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExists(KeeperError):
    """The node to create exists."""


class BadVersion(KeeperError):
    """The node has another data version than expected."""


class NotEmpty(KeeperError):
    """The node to delete has children."""


class KeeperUnavailable(KeeperError):
    """There is no connection; the request was not sent."""


class KeeperSessionExpired(KeeperError):
    """The session is over; its ephemeral nodes are gone. The request had no effect."""


class RequestTooLarge(KeeperError):
    """The request is larger than ZooKeeper accepts. It was not sent, and repeating it does not help."""

    def __init__(self, size_bytes: int, limit_bytes: int, operations: int, path: str) -> None:
        UnavailableError.__init__(
            self,
            "LIMIT_EXCEEDED",
            f"A request of {size_bytes} bytes ({operations} operations, the largest on {path[:200]}) is more than "
            f"ZooKeeper takes ({limit_bytes} bytes, see jute.maxbuffer); it was not sent. Do it in smaller portions",
        )
        self.path = path


class MultiFailed(ConflictError):
    """A multi had no effect because operation ``index`` failed with ``cause``; ``op`` is that operation."""

    def __init__(self, index: int, op: Op, cause: KeeperError) -> None:
        super().__init__("KEEPER_EXCEPTION", f"Transaction failed: {type(cause).__name__} in op {index} ({op})")
        self.index = index
        self.op = op
        self.cause = cause

    def __reduce__(self) -> tuple[object, ...]:
        return (MultiFailed, (self.index, self.op, self.cause))


class KeeperConnectionLoss(UnknownOutcomeError):
    """The connection went away after the request was sent: it may or may not have been carried out."""

    def __init__(self, path: str = "") -> None:
        super().__init__("KEEPER_EXCEPTION", "Coordination error: Connection loss" + (f", path {path}" if path else ""))
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (KeeperConnectionLoss, (self.path,))


class SessionState(Enum):
    """The state of a client's connection and session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """Connection lost; the session may still be alive."""
    EXPIRED = "expired"
    """The session is over (or none was ever made)."""


class Keeper(Protocol):
    """One session with ZooKeeper. Paths are relative to the client's chroot.

    A write of more than 1 MiB raises :class:`RequestTooLarge`. Errors of every call: :class:`KeeperUnavailable`,
    :class:`KeeperSessionExpired`, :class:`KeeperConnectionLoss`, and those named. Reads are retried inside for a
    bounded time and never raise :class:`KeeperConnectionLoss`.
    """

    @property
    def session_id(self) -> int:
        """The id of the session; 0 when there is none. A changed id means that ephemeral nodes were lost."""

    @property
    def session_timeout_seconds(self) -> float:
        """Seconds after which ZooKeeper ends a session that it no longer hears from."""

    @property
    def state(self) -> SessionState:
        """The state of the session."""

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        """Registers a callback for every change of state. A client thread calls it, so it must not block."""

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Returns a node's data and stat. Raises :class:`NoNode`."""

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Returns the node's stat, or ``None`` if there is no such node."""

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Returns the names of the children, sorted. Raises :class:`NoNode`."""

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Reads many nodes at once. An answer is ``None`` if there is no such node."""

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """Returns the stats of many nodes. An answer is ``None`` if there is no such node."""

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Lists the children of many nodes, each list sorted. An answer is ``None`` if there is no such node."""

    def read_many(self, reads: Sequence[Read]) -> list[Answer]:
        """Carries out the reads in this order, with as few requests as the server allows."""

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Creates a node and returns its path. Raises :class:`NoNode` (no parent), :class:`NodeExists`."""

    def create_parents(self, path: str) -> None:
        """Creates ``path`` and every missing ancestor as empty persistent nodes. Existing ones stay."""

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replaces a node's data and returns its new stat. Raises :class:`NoNode`, :class:`BadVersion`."""

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Deletes a node. Raises :class:`NoNode`, :class:`BadVersion`, :class:`NotEmpty`."""

    def delete_tree(self, path: str) -> None:
        """Deletes ``path`` and everything below it. Does nothing if the node is already gone."""

    def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        """Carries out all operations or none. Raises :class:`MultiFailed`.

        A create's result is its path, a set's its stat, others' ``None``.
        """

    def sync(self, path: str) -> None:
        """Waits until this client's server has seen everything committed before the call."""

    def close(self) -> None:
        """Ends the session; its ephemeral nodes go at once."""
