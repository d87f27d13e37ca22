"""Convert the kazoo client's stats, errors and watch events to those of the ``Keeper`` interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.protocol.states import WatchedEvent, ZnodeStat

from coordination.keeper.interface import (
    BadVersion,
    KeeperError,
    KeeperSessionExpired,
    KeeperUnavailable,
    NodeExists,
    NoNode,
    NotEmpty,
    Stat,
    Watch,
)


@dataclass(frozen=True, slots=True)
class WatchCallback:
    """A watch as kazoo calls it.

    kazoo keeps watchers in sets. Equal callbacks count as one there, so asking repeatedly does not pile them up.
    """

    watch: Watch
    path: str
    stripped: Callable[[str], str]

    def __call__(self, event: WatchedEvent) -> None:
        self.watch(self.stripped(event.path) if event.path else self.path)


def convert_stat(stat: ZnodeStat) -> Stat:
    return Stat(
        version=stat.version,
        children_version=stat.cversion,
        created_zxid=stat.czxid,
        modified_zxid=stat.mzxid,
        created_ms=stat.ctime,
        modified_ms=stat.mtime,
        ephemeral_owner=stat.ephemeralOwner,
        data_length=stat.dataLength,
        children_count=stat.numChildren,
    )


def convert_error(error: Exception, path: str) -> KeeperError:
    """Converts an error answered by ZooKeeper. Such a request certainly had no effect."""
    match error:
        case NoNodeError():
            return NoNode("no node", path)
        case NodeExistsError():
            return NodeExists("node exists", path)
        case BadVersionError():
            return BadVersion("bad version", path)
        case NotEmptyError():
            return NotEmpty("not empty", path)
        case SessionExpiredError() | SessionMovedError():
            return KeeperSessionExpired("session expired", path)
        case AuthFailedError():
            return KeeperUnavailable("authentication failed", path)
        case _:
            return KeeperError(f"{type(error).__name__}: {error}", path)
