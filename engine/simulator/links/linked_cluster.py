"""One of several simulated clusters: it has a name, and knows the others by theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from coordination.nodes.replica_activation import ReplicaAddress
from engine.environment import ServerEnvironment
from engine.server.background_pool import BackgroundPool
from engine.simulator.links.cluster_network import ClusterNetwork
from engine.simulator.links.simulated_transport import SimulatedTransport
from engine.simulator.simulated_disk import SimulatedDisk
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.timeline import Timeline
from engine.simulator.trace import ClusterTrace, Trace
from engine.tables.services import TableServices


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
        self.settle_step = SimulatedServer.step_all

    def make_environment(self, server: SimulatedServer, services: TableServices) -> ServerEnvironment:
        """Returns the world of a server that starts: its requests to other clusters go through the network."""
        world = super().make_environment(server, services)
        transport = SimulatedTransport(self.network, self.name, server)
        pool = cast(BackgroundPool, server.pool)
        return replace(
            world,
            make_transport=lambda user, password, is_secure: transport,
            make_link_pool=lambda: pool,
            max_poll_seconds=0.0,
        )

    def address_of(self, server: SimulatedServer) -> ReplicaAddress:
        """Returns the addresses that other servers and clusters reach the server by."""
        port = int(server.name[1:])
        return ReplicaAddress(self.name, port, port)
