"""A link of a table, as the table's gate names it.

Both ends of a link name it in their gates, so that "linked from here on" is a moment in the order of commits::

    "links": {"west/orders": {"direction":"out","uuid":"…","peer":"<UUID of the cluster>","peer_name":"west",…}}

The source's gate also has the mode and the state of each link, with which every commit of rows is made. Keys with a
default are left out::

    "mode":"sync"       INSERTs wait for the target; "async" by default
    "state":"enabled"   whether they do now: "enabling", "enabled", "disabling"; "disabled" by default.
    "paused":true       the target has disabled the link; it is not made synchronous.
    "tracked":false     the tracker leaves the link alone (enable_tracker = 0)
    "group":"trade"     the target's gate: the transactional group of the link.
    "collecting":true   the target's gate: it takes other writes, and sends none of them back.
    "sync_tail":1024    the most bytes that the target may lack when INSERTs begin to wait for it.
    "timeout":1.0       the largest replication_timeout that the link had: four of them after its last lease, the
                        target has stopped answering reads

Unknown keys of a link are kept when the gate is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class LinkDirection(Enum):
    """The side of the link that the table is."""

    IN = "in"
    """The table is the target."""
    OUT = "out"
    """The table is the source."""


class LinkMode(Enum):
    """Whether INSERTs at the source wait for the target."""

    ASYNC = "async"
    SYNC = "sync"


class SyncState(Enum):
    """Whether INSERTs at the source are made together with the target now."""

    DISABLED = "disabled"
    """They are not."""
    ENABLING = "enabling"
    """They are not yet: the target still lacks something."""
    ENABLED = "enabled"
    """They are staged at the target, and wait until it shows them."""
    DISABLING = "disabling"
    """INSERTs are kept out until the target knows that it does not show all of them any more."""


DEFAULT_TIMEOUT_SECONDS = 1.0
DEFAULT_SYNC_TAIL_BYTES = 16 * 1024 * 1024
"""The default of the setting ``replication_timeout``."""


@dataclass(frozen=True, slots=True)
class GateLink:
    """One link of a table."""

    name: str
    """``<target cluster>/<name>`` at the source, the link's name at the target."""
    direction: LinkDirection
    uuid: str
    """Tells the link from a former one of the same name."""
    peer: str
    """UUID of the cluster at the other end."""
    peer_name: str = ""
    """The name of that cluster."""
    is_two_way: bool = False
    """At the source: the target's rows come back by another link. At the target: it takes other writes, too."""
    extra: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    """Keys of a later version."""
    mode: LinkMode = LinkMode.ASYNC
    """At the source: the mode that was asked for."""
    state: SyncState = SyncState.DISABLED
    """At the source: how far the change to that mode is."""
    is_paused: bool = False
    """At the source: the target has disabled the link, and takes nothing."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """At the source: the largest ``replication_timeout`` that the link had."""
    group: str = ""
    """At the target: the transactional group of the link; "" for none."""
    is_tracked: bool = True
    """At the source: whether the tracker may change the mode."""
    is_collecting: bool = False
    """At the target: it takes other writes, and sends none of them back."""
    sync_tail_bytes: int = DEFAULT_SYNC_TAIL_BYTES
    """At the source: the most that the target may lack when INSERTs begin to wait for it."""

    @property
    def wants_sync(self) -> bool:
        """Whether the link is to become synchronous, or to stay so."""
        return self.mode is LinkMode.SYNC and not self.is_paused

    def to_json(self) -> dict[str, Any]:
        """Returns the link as the gate's node holds it, without its name."""
        return {
            **dict(self.extra),
            "direction": self.direction.value,
            "uuid": self.uuid,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "two_way": self.is_two_way,
            **{key: value for key, (value, default) in self._modes().items() if value != default},
        }

    def _modes(self) -> dict[str, tuple[Any, Any]]:
        return {
            "mode": (self.mode.value, LinkMode.ASYNC.value),
            "state": (self.state.value, SyncState.DISABLED.value),
            "paused": (self.is_paused, False),
            "tracked": (self.is_tracked, True),
            "timeout": (self.timeout_seconds, DEFAULT_TIMEOUT_SECONDS),
            "group": (self.group, ""),
            "collecting": (self.is_collecting, False),
            "sync_tail": (self.sync_tail_bytes, DEFAULT_SYNC_TAIL_BYTES),
        }

    @classmethod
    def of(cls, name: str, document: Mapping[str, Any]) -> GateLink:
        """Reads one link. Raises ``KeyError``, ``ValueError`` and ``TypeError``."""
        rest = dict(document)
        direction, uuid, peer = LinkDirection(rest.pop("direction")), str(rest.pop("uuid")), str(rest.pop("peer"))
        peer_name, is_two_way = str(rest.pop("peer_name", "")), bool(rest.pop("two_way", False))
        mode, state = LinkMode(rest.pop("mode", "async")), SyncState(rest.pop("state", "disabled"))
        is_paused, timeout = bool(rest.pop("paused", False)), float(rest.pop("timeout", DEFAULT_TIMEOUT_SECONDS))
        group, is_tracked = str(rest.pop("group", "")), bool(rest.pop("tracked", True))
        is_collecting, tail = bool(rest.pop("collecting", False)), int(rest.pop("sync_tail", DEFAULT_SYNC_TAIL_BYTES))
        return cls(
            name, direction, uuid, peer, peer_name, is_two_way, tuple(rest.items()),
            mode, state, is_paused, timeout, group, is_tracked, is_collecting, tail,
        )  # fmt: skip
