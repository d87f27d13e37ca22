"""Notes what the targets of a table's links have acknowledged, in the links' nodes.

A node is written at most once a second, and only when a position has moved or the last noted heartbeat is old.
Positions never go back, whichever server is asked.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from coordination.keeper.interface import BadVersion, Keeper, NoNode
from coordination.links.positions import Origin
from coordination.links.tracker.tracker_options import read_tracker_options
from engine.tables.capabilities.table_links import ChangesRequest
from engine.tables.replicated.links.source.outgoing_nodes import decode_outgoing, encode_outgoing, find_outgoing_path
from engine.tables.replicated.replica_state import ReplicaState

_WRITE_SECONDS = 1.0
_HEARTBEAT_SECONDS = 10.0
_TRACKED_HEARTBEAT_SECONDS = 0.9
"""For tables whose links the tracker observes: it judges their targets by these nodes."""


@dataclass(frozen=True, slots=True)
class _Noted:
    uuid: str
    trim: int
    applied: int
    at: float


class LinkProgress:
    """The progress of links that asked this server. Thread-safe."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._noted: dict[str, _Noted] = {}
        """What this server wrote last, by link."""
        self._zookeeper_ahead_ms = 0
        """How far ZooKeeper's clock was ahead of this server's at the last write."""

    @property
    def is_tracked(self) -> bool:
        """Whether the tracker observes the table's links."""
        gate = self._state.gate.gate
        return gate is not None and read_tracker_options(gate).is_enabled

    def read_clock_ms(self) -> int:
        """Returns ZooKeeper's time, which the commits have, as far as it is known: else this server's."""
        return int(self._state.services.clock() * 1000) + self._zookeeper_ahead_ms

    def note(self, keeper: Keeper, request: ChangesRequest, own: Origin) -> None:
        """Notes what a request acknowledges: its heartbeat, its place, and what may be trimmed."""
        services, applied = self._state.services, request.vector.applied(own)
        now = services.monotonic()
        new = _Noted(request.uuid, min(request.trim, applied), applied, now)
        with self._lock:
            known = self._noted.get(request.link)
            if known is not None and known.uuid == request.uuid:
                has_moved = (new.trim, new.applied) > (known.trim, known.applied)
                idle = _TRACKED_HEARTBEAT_SECONDS if self.is_tracked else _HEARTBEAT_SECONDS
                if now - known.at < (_WRITE_SECONDS if has_moved else idle):
                    return
            self._noted[request.link] = new
        self._write(keeper, request.link, new)

    def _write(self, keeper: Keeper, name: str, new: _Noted) -> None:
        path = find_outgoing_path(self._state.paths, name)
        answer = keeper.get_many([path])[0]
        link = decode_outgoing(answer[0]) if answer is not None else None
        if answer is None or link is None or link.uuid != new.uuid:
            return
        later = replace(
            link,
            trim=max(link.trim, new.trim),
            applied=max(link.applied, new.applied),
            last_heartbeat_ms=max(link.last_heartbeat_ms, self.read_clock_ms()),
        )
        try:
            written = keeper.set(path, encode_outgoing(later), answer[1].version)
            self._zookeeper_ahead_ms = written.modified_ms - int(self._state.services.clock() * 1000)
        except (BadVersion, NoNode):  # another server notes the same link, or it was dropped
            return
