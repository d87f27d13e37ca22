"""How clusters are linked: one-way, two-way, chain, ring, broadcast, consolidation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Topology:
    """The links between clusters; each is (source, target)."""

    name: str
    links: tuple[tuple[str, str], ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of all links."""
    commands_from: str = ""
    """The only cluster whose clients mutate and drop; "" for none."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of all clusters, sorted."""
        return tuple(sorted({cluster for link in self.links for cluster in link}))

    def takes_writes(self, cluster: str) -> bool:
        """Tells whether clients may insert there: a target takes nothing, unless its links say so."""
        is_target = any(target == cluster for _, target in self.links)
        return not is_target or bool(self.settings.get("two_way")) or self.settings.get("preserve_timestamps") == 0

    def origins_of(self, cluster: str) -> list[str]:
        """Returns the clusters whose rows reach this one, itself included, sorted."""
        found = {cluster}
        while more := {source for source, target in self.links if target in found} - found:
            found |= more
        return sorted(found)


ONE_WAY = Topology("one-way", (("east", "west"),), commands_from="east")
TWO_WAY = Topology("two-way", (("east", "west"), ("west", "east")), {"two_way": 1})
CHAIN = Topology("chain", (("east", "west"), ("west", "north")), commands_from="east")
RING = Topology("ring", (("east", "west"), ("west", "north"), ("north", "east")), {"two_way": 1})
BROADCAST = Topology("broadcast", (("east", "west"), ("east", "north")), commands_from="east")
CONSOLIDATION = Topology("consolidation", (("east", "north"), ("west", "north")), {"preserve_timestamps": 0})
TOPOLOGIES = (ONE_WAY, TWO_WAY, CHAIN, RING, BROADCAST, CONSOLIDATION)
