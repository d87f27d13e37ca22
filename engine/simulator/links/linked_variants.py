"""What happens to linked clusters besides changes: copies, ALTERs, lost disks, short outboxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.simulator.links.cluster_work import LinkWeights
from engine.simulator.links.topology import Topology


@dataclass(frozen=True)
class LinkedVariant:
    """A kind of run, in any topology that :meth:`fits`."""

    name: str
    weights: LinkWeights = field(default_factory=LinkWeights)
    quorum: tuple[int | str, ...] = (0, 0, 0, 2)
    """The quorums of INSERTs to draw from."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of the tables, beside those of all runs."""
    begins_with_rows: bool = False
    """Whether the tables have rows when their links are made, which copy them."""
    copies: bool = False
    """Whether links copy their sources anew, and a target's table is lost."""
    may_stop: bool = False
    """Whether a link may find that its source has given up what it needs; then its source is copied."""
    needs_one_writer: bool = False
    """Whether it makes sense only where clients write to one cluster."""

    def fits(self, topology: Topology) -> bool:
        """Tells whether the topology keeps its promises in such a run.

        A table of several sources is not copied: none of them has what the others brought. Where several clusters
        write, each of them has something that no other one keeps when outboxes are short.
        """
        if self.needs_one_writer and not topology.commands_from:
            return False
        return not self.copies or topology.settings.get("preserve_timestamps") != 0

    def link_settings(self, topology: Topology, seed: int) -> dict[str, object]:
        """Returns settings of all links of the run."""
        found: dict[str, object] = {}
        if self.weights.alter and topology.commands_from:
            found["replicate_ddl"] = seed % 2
        if self.may_stop and self.needs_one_writer:
            found["auto_bootstrap"] = seed // 2 % 2
        return found


PLAIN = LinkedVariant("changes alone")
COPIES = LinkedVariant("tables are copied", begins_with_rows=True, copies=True, may_stop=True)
ALTERS = LinkedVariant("columns come and go", LinkWeights(alter=1.0), copies=True, may_stop=True)
LOSSES = LinkedVariant("one disk of a cluster is lost", LinkWeights(wipe=1, restart=6, end_zombies=2), (2,))
BOUNDS = LinkedVariant(
    "outboxes are short",
    settings={
        "link_log_min_seconds_to_retain": 0,
        "link_log_max_seconds_to_retain": 0,
        "link_log_max_bytes_to_retain": 3000,
    },
    may_stop=True,
    needs_one_writer=True,
)
COMMANDS = LinkedVariant("commands are frequent", LinkWeights(update=6, delete=4, drop_partition=1.5))
COMMANDS_AND_LOSSES = LinkedVariant(
    "commands are frequent, and a disk is lost",
    LinkWeights(update=6, delete=4, drop_partition=1.5, wipe=1, restart=6, end_zombies=2),
    (2,),
)
"""Two for tables that one cluster commands (``topology.COMMANDED``)."""
VARIANTS = (PLAIN, COPIES, ALTERS, LOSSES, BOUNDS)


def choose_variant(seed: int, topology: Topology) -> LinkedVariant:
    """Returns the variant of a seed; seeds of one topology go through all of them."""
    variant = VARIANTS[seed // 12 % len(VARIANTS)]
    return variant if variant.fits(topology) else PLAIN
