"""The tables that a simulated switch moves: one, or those of a transactional group.

A link has the name of its table; of one table alone it is ``l``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from coordination.links.switching.lineage import Lineage
from coordination.links.switching.switching_gate import FORK_OWNER
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import CommitKind, Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.paths import TablePaths
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.simulated_servers import SimulatedServer

GROUP = "g"
_CREATE = (
    "CREATE REPLICATION LINK {link} ON {table} FROM CLUSTER {source} SETTINGS start_position = 'now', "
    "replication_timeout = 5, link_batch_delay_ms = 0"
)
Row = tuple[str, int]
"""A table and a key."""


@dataclass(frozen=True)
class SwitchedTables:
    """The tables of one run, and what the gates of clusters say of them."""

    world: LinkedWorld
    names: tuple[str, ...] = ("t",)

    @property
    def is_group(self) -> bool:
        """Whether they are in a transactional group."""
        return len(self.names) > 1

    @property
    def title(self) -> str:
        """How statements name what is switched over."""
        return f"REPLICATION LINK GROUP {GROUP}" if self.is_group else "REPLICATION LINK l"

    def pick_link(self) -> str:
        """Returns the link of some table."""
        return self.world.random.choice(self.names) if self.is_group else "l"

    def list_statements(self, source: str, mode: str) -> list[str]:
        """Returns the statements that make a cluster follow another one."""
        with_mode = f", mode = '{mode}'" if mode else ""
        links = {name if self.is_group else "l": name for name in self.names}
        made = [_CREATE.format(link=link, table=name, source=source) + with_mode for link, name in links.items()]
        return [*made, f"CREATE REPLICATION LINK GROUP {GROUP} ({', '.join(links)})"] if self.is_group else made

    # -- gates --------------------------------------------------------------------------------------------------------

    def gate(self, cluster: str, name: str = "") -> Gate:
        """Returns the gate of a table, by default of the first one."""
        return Gate.parse(self.world.clusters[cluster].ensemble.tree[_paths(name or self.names[0]).gate].data)

    def gates(self, cluster: str) -> Iterator[tuple[str, Gate]]:
        """Yields the gates of all tables of a cluster."""
        return ((name, self.gate(cluster, name)) for name in self.names)

    def list_open(self) -> list[str]:
        """Returns the clusters of which some table takes writes."""
        return [
            cluster
            for cluster in self.world.clusters
            if any(gate.find_bar(CommitKind.ROWS) is None for _, gate in self.gates(cluster))
        ]

    def vector(self, cluster: str, name: str) -> VersionVector:
        """Returns the vector of a table."""
        node = self.world.clusters[cluster].ensemble.tree.get(_paths(name).linked.vector)
        return VersionVector.parse(node.data) if node is not None else VersionVector()

    def newest_fork(self, cluster: str) -> int:
        """Returns the time at which the cluster became a source; 0 if it did not."""
        gate = self.gate(cluster)
        forks = Lineage.read(gate).forks
        return max((fork.made_ms for fork in forks if str(fork.by.epoch) == gate.epoch), default=0)

    def must_rejoin(self, cluster: str) -> bool:
        """Tells whether a table of the cluster follows no source, or met a fork that it does not follow."""
        return any(
            not gate.links_of(LinkDirection.IN) or any(bar.owner == FORK_OWNER for bar in gate.bars)
            for _, gate in self.gates(cluster)
        )

    # -- rows ---------------------------------------------------------------------------------------------------------

    def read(self, server: SimulatedServer) -> list[Row]:
        """Returns the rows of all tables, sorted. Raises 369 (ALL_REPLICAS_ARE_STALE) where no cut is shown."""
        if not self.is_group:
            keys = server.keys()
            return [("t", key) for key in keys]
        text = " UNION ALL ".join(f"SELECT '{name}' AS name, k FROM {name}" for name in self.names)
        return sorted(cast("list[Row]", server.sql(text)[1]))

    def read_parts(self, server: SimulatedServer) -> list[Row]:
        """Returns the rows of the active parts of all tables, sorted, whatever a group shows."""
        rows: list[Row] = []
        with server.acting():
            for table in server.tables:
                with table.store.snapshot() as snapshot:
                    batches = [batch for part in snapshot.parts for batch in part.read(["k"])]
                rows += [(table.definition.name, key) for batch in batches for key in batch.column(0).to_pylist()]
        return sorted(rows)


def _paths(name: str) -> TablePaths:
    return TablePaths(f"/tables/{name}")
