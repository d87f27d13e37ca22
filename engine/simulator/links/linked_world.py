"""Several clusters in one thread, with one time and a network between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engine.simulator.links.cluster_network import ClusterNetwork
from engine.simulator.links.linked_cluster import LinkedCluster
from engine.simulator.simulated_disk import SimulatedDisk
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.timeline import Timeline
from engine.simulator.trace import Trace

_SESSIONS_PER_CLUSTER = 1_000_000
_PAUSE_SECONDS = 7.0
_ROUNDS_PER_HELP = 5


class LinkedWorld:
    """The clusters of one run, by name. Must be made and used while ``disks`` record."""

    def __init__(
        self,
        root: Path,
        names: Sequence[str],
        replicas: int,
        seed: int,
        trace: Trace,
        disks: dict[Path, SimulatedDisk],
        count: Callable[[str], None],
        **settings: object,
    ) -> None:
        self.random = random.Random(seed)
        self.trace = trace
        self.timeline = Timeline()
        self.network = ClusterNetwork(self.random, count)
        self.clusters: dict[str, LinkedCluster] = {}
        self.network.clusters = self.clusters
        for number, name in enumerate(names):
            others = [other for other in names if other != name]
            cluster = LinkedCluster(
                name, others, self.network, root / name, replicas, seed * len(names) + number, trace, disks,
                self.timeline, first_session=number * _SESSIONS_PER_CLUSTER, **settings,
            )  # fmt: skip
            self.clusters[name] = cluster

    def __iter__(self) -> Iterator[SimulatedNode]:
        for cluster in self.clusters.values():
            yield from cluster

    def step_others(self) -> None:
        """Steps all tasks of nodes that are not waiting."""
        for node in list(self):
            # A node that is deeper in the stack may hold a lock of its own.
            if node.is_up and not node.is_frozen and node not in self.timeline.stack[:-1]:
                node.step_all()

    def calm(self) -> None:
        """Ends all faults of clusters and of the network between them."""
        self.network.mend()
        for cluster in self.clusters.values():
            cluster.calm()
            cluster.on_wait = self.step_others
            cluster.on_copy = lambda part, node: None

    def settle(
        self,
        is_done: Callable[[], bool],
        explain: Callable[[], str],
        rounds: int = 150,
        help_on: Callable[[], None] = lambda: None,
    ) -> None:
        """Steps all nodes until every cluster is idle and ``is_done``.

        Now and then ``help_on`` does what a person does. Raises ``AssertionError`` if that takes too many rounds.
        """
        quiet = 0  # rounds in which nothing was left to do
        for number in range(1, rounds + 1):
            if number % _ROUNDS_PER_HELP == 0:
                help_on()
            for cluster in self.clusters.values():
                for node in cluster:
                    if node.is_up:
                        self.timeline.now += _PAUSE_SECONDS
                        cluster.settle_step(node)
            idle = [cluster.is_idle() and not cluster.parts_moved() for cluster in self.clusters.values()]
            quiet = quiet + 1 if all(idle) and is_done() else 0
            if quiet >= 3:
                return
        raise AssertionError(f"the clusters do not settle: {explain()}; {[node.explain() for node in self]}")

    def end(self) -> None:
        """Crashes all nodes, which releases what they hold."""
        for cluster in self.clusters.values():
            cluster.end()
