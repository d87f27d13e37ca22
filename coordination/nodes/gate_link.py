"""A link of a table, as the table's gate names it.

Both ends of a link name it in their gates, so that "linked from here on" is a moment in the order of commits::

    "links": {"west/orders": {"direction":"out","uuid":"…","peer":"<UUID of the cluster>","peer_name":"west",…}}

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
    group: str = ""
    """The transactional group of the link, at its target; "" for none."""
    extra: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    """Keys of a later version."""

    def to_json(self) -> dict[str, Any]:
        """Returns the link as the gate's node holds it, without its name."""
        return {
            **dict(self.extra),
            "direction": self.direction.value,
            "uuid": self.uuid,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "two_way": self.is_two_way,
            **({"group": self.group} if self.group else {}),
        }

    @classmethod
    def of(cls, name: str, document: Mapping[str, Any]) -> GateLink:
        """Reads one link. Raises ``KeyError``, ``ValueError`` and ``TypeError``."""
        rest = dict(document)
        direction, uuid, peer = LinkDirection(rest.pop("direction")), str(rest.pop("uuid")), str(rest.pop("peer"))
        peer_name, is_two_way = str(rest.pop("peer_name", "")), bool(rest.pop("two_way", False))
        group = str(rest.pop("group", ""))
        return cls(name, direction, uuid, peer, peer_name, is_two_way, group, tuple(rest.items()))
