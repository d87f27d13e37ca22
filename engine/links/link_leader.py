"""The election of the server that runs a link.

The leader holds an ephemeral node, so another server takes over when its session ends. Two servers that both believe to
lead do no harm: a batch is committed only with the vector's version that it was planned with.

Links are spread: a server waits the longer before it takes a free one, the more it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from coordination.keeper.interface import Keeper, NodeExists, NoNode
from coordination.nodes.paths import TablePaths

_SPREAD_SECONDS = 0.05
_LONGEST_SPREAD_SECONDS = 1.0
_LOOK_SECONDS = 10.0
"""A watch tells when the leader is gone; this is for watches that were lost."""


class LinkLeader:
    """One server's part in the election for one link. Used by one thread at a time."""

    def __init__(self, paths: TablePaths, link: str, server: str, wake: Callable[[], None], *, path: str = "") -> None:
        """``server`` is this server's name, for people. ``wake`` is called when the leader may be gone.

        ``path`` is another node than that of a link at its target.
        """
        self._path = path or paths.linked.leader(link)
        self._server = server
        self._wake = wake
        self._session = 0
        self._is_candidate = False
        self.is_leader = False

    def try_lead(self, keeper: Keeper, load: int) -> float:
        """Takes the lead if it is free; returns 0 if this server leads, else the seconds until the next look.

        ``load`` is the number of links that this server runs.
        """
        if self.is_leader and self._session == keeper.session_id:
            return 0.0
        self.is_leader = False
        stat = keeper.exists(self._path, lambda _: self._wake())
        if stat is not None:
            self._is_candidate = False
            if stat.ephemeral_owner != keeper.session_id:
                return _LOOK_SECONDS
        elif load and not self._is_candidate:
            self._is_candidate = True
            return min(load * _SPREAD_SECONDS, _LONGEST_SPREAD_SECONDS)
        else:
            self._is_candidate = False
            session = keeper.session_id
            try:
                keeper.create(self._path, self._server.encode(), ephemeral=True)
            except NodeExists:
                return _SPREAD_SECONDS
            except NoNode:  # the link is dropped
                return _LOOK_SECONDS
            if keeper.session_id != session:
                return _SPREAD_SECONDS
        self.is_leader, self._session = True, keeper.session_id
        return 0.0

    def resign(self, keeper: Keeper) -> None:
        """Gives the lead up, if this server has it."""
        if not self.is_leader:
            return
        self.is_leader = False
        try:
            stat = keeper.exists(self._path)
            if stat is not None and stat.ephemeral_owner == self._session:
                keeper.delete(self._path, stat.version)
        except NoNode:
            return
