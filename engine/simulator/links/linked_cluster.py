"""One of several simulated clusters: it has a name, and knows the others by theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.simulator.links.cluster_network import ClusterNetwork
from engine.simulator.simulated_clocks import Timeline
from engine.simulator.simulated_disk import SimulatedDisk
from engine.simulator.simulated_servers import SimulatedServers
from engine.simulator.trace import ClusterTrace, Trace


class LinkedCluster(SimulatedServers):
    """The servers of one cluster, with a ZooKeeper and clocks of their own."""

    def __init__(
        self,
        name: str,
        others: Sequence[str],
        network: ClusterNetwork,
        root: Path,
        replicas: int,
        seed: int,
        trace: Trace,
        disks: dict[Path, SimulatedDisk],
        timeline: Timeline,
        first_session: int = 0,
        **settings: object,
    ) -> None:
        self.name = name
        self.network = network
        urls = {other: [f"http://{other}:{number}" for number in range(1, replicas + 1)] for other in others}
        config = {"cluster_name": name, "linked_clusters": {other: {"urls": urls[other]} for other in others}}
        root.mkdir()
        super().__init__(
            root, replicas, seed, ClusterTrace(trace, name), disks,
            timeline=timeline, first_session=first_session, config_of=lambda node: dict(config), **settings,
        )  # fmt: skip
