"""Servers with HTTP interfaces in this process, replicas of one another over a ZooKeeper in memory; each has a clock of
its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.nodes.replica_activation import ReplicaAddress
from engine.cluster.cluster_state import find_free_ports
from engine.engine import Engine
from engine.environment import ServerEnvironment, make_system_services
from engine.front.http.http_server import HttpServer
from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer
from engine.interserver.replication import Replication
from engine.queries.session import Session
from engine.server.config import Config


class Replica:
    """``clock_ahead`` seconds are added to the system's time."""

    def __init__(
        self, path: Path, port: int, ensemble: MemoryEnsemble, clusters: dict[str, object], **config: object
    ) -> None:
        self.port = port
        self.clock_ahead = 0.0
        self._ensemble = ensemble
        configuration = Config.model_validate(
            {
                "path": path,
                "http_port": port,
                "interserver_http_port": 0,
                "workers": 0,
                "macros": {"replica": path.name},
                "remote_servers": clusters,
                **config,
            }
        )
        world = ServerEnvironment(
            make_services=lambda config: replace(
                make_system_services(config), clock=lambda: time.time() + self.clock_ahead
            ),
            connect=self._connect,
            has_watchdog=False,
        )
        self.engine = Engine(configuration, world)
        self.engine.start()
        self.http = HttpServer(configuration)
        self.http.start(self.engine)

    def _connect(self, config: Config, path: Path, failpoint: Callable[[str], None]) -> Replication:
        self.keeper = self._ensemble.connect()
        replication = Replication(self.keeper, InterserverClient(None, failpoint), ReplicaAddress("", 0), config.macros)
        server = InterserverServer("127.0.0.1", 0, None, replication.pin_part, replication.before_sending)
        server.start()
        replication.address = ReplicaAddress("127.0.0.1", server.port)
        replication._stops.insert(0, server.stop)
        return replication

    def run(self, sql: str, user: str = "default", **settings: int | str) -> list[tuple[object, ...]]:
        result = self.engine.execute(sql, Session(settings={**settings}, user=user))
        return [tuple(row.values()) for batch in result.batches for row in batch.to_pylist()]

    def stop(self) -> None:
        self.http.stop()
        self.engine.stop()


class Replicas:
    """``clusters`` gives the ``remote_servers`` of a number of ports, ``config`` more of the configuration of all."""

    def __init__(
        self, path: Path, count: int, clusters: Callable[[list[int]], dict[str, object]], **config: object
    ) -> None:
        ensemble = MemoryEnsemble(time.time)
        self.ports = find_free_ports(count)
        self.servers: list[Replica] = []
        for number, port in enumerate(self.ports, 1):
            self.servers.append(Replica(path / f"r{number}", port, ensemble, clusters(self.ports), **config))

    def on_all(self, sql: str) -> None:
        for server in self.servers:
            server.run(sql)

    def stop(self) -> None:
        for server in self.servers:
            server.stop()
