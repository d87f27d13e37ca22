"""How clusters are linked: one-way, two-way, chain, ring, broadcast, consolidation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

NAMES = ("east", "west", "north", "south", "centre")


@dataclass(frozen=True)
class Topology:
    """The links between clusters; each is (source, target)."""

    name: str
    links: tuple[tuple[str, str], ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of all links."""
    commands_from: str = ""
    """The only cluster whose clients mutate and drop; "" for none."""
    is_commanded: bool = False
    """Whether that cluster commands rows which others insert (the table's setting ``commands_from``)."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of all clusters."""
        return tuple(dict.fromkeys(cluster for link in self.links for cluster in link))

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


def make_topologies(count: int) -> tuple[Topology, ...]:
    """Returns the topologies of so many clusters, 2 to 5."""
    first, *others = names = NAMES[:count]
    last = names[-1]
    row = tuple(pairwise(names))
    if count == 2:
        both = (*row, (last, first))
        return Topology("one-way", row, commands_from=first), Topology("two-way", both, {"two_way": 1})
    return (
        Topology("chain", row, commands_from=first),
        Topology("ring", (*row, (last, first)), {"two_way": 1}),
        Topology("broadcast", tuple((first, other) for other in others), commands_from=first),
        Topology("consolidation", tuple((other, first) for other in others), {"preserve_timestamps": 0}),
    )


TOPOLOGIES = (*make_topologies(2), *make_topologies(3))
ONE_WAY, TWO_WAY, CHAIN, RING, BROADCAST, CONSOLIDATION = TOPOLOGIES
COMMANDED = tuple(
    replace(each, name=f"{each.name}, commanded", commands_from=NAMES[0], is_commanded=True) for each in (TWO_WAY, RING)
)
"""Tables that all clusters write, and one commands."""
