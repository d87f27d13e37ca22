"""Servers of several clusters in one process: real engines and HTTP, a ZooKeeper in memory for each cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.nodes.replica_activation import ReplicaAddress
from engine.engine import Engine
from engine.environment import ServerEnvironment
from engine.front.http.http_server import HttpServer
from engine.http_client.http_client import HttpClient
from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer
from engine.interserver.replication import Replication
from engine.links.link_manager import LinkManager
from engine.server.config import Config
from engine.server.links_config import LinkedClusterConfig
from engine.tables.owned_table import OwnedTable

USER, PASSWORD = "linker", "quiet"
USERS = {
    "default": {"password": "other"},
    USER: {"password": PASSWORD},
    "jürgen": {"password": "pä$$–Ж"},
    "reader": {"password": PASSWORD, "readonly": 1},
}


class LinkedServer:
    """One server of the cluster ``name``, in a directory of its own."""

    def __init__(
        self,
        name: str,
        replica: str,
        path: Path,
        ensemble: MemoryEnsemble,
        keys: Mapping[str, Any] = MappingProxyType({}),
        **world: Any,
    ) -> None:
        """``keys`` are further ones of the configuration."""
        config = Config.model_validate(
            {
                "path": path,
                "http_port": 0,
                "listen_host": "127.0.0.1",
                "interserver_http_port": None,
                "cluster_name": name,
                "users": USERS,
                "macros": {"replica": replica},
                "background_check_bytes_per_second": 0,
                "shutdown_wait_unfinished": 2,
                **keys,
            }
        )
        self.http = HttpServer(config)
        self._ensemble = ensemble
        config = config.model_copy(update={"http_port": self.http.port})
        self.engine = Engine(config, ServerEnvironment(connect=lambda config, _, __: self._connect(config), **world))
        self.engine.start()
        self.http.start(self.engine)

    def _connect(self, config: Config) -> Replication:
        transport = InterserverClient(None)
        replication = Replication(
            self._ensemble.connect(),
            transport,
            ReplicaAddress("127.0.0.1", 0, config.http_port or 0),
            dict(config.macros),
        )
        exchange = InterserverServer(
            "127.0.0.1",
            0,
            None,
            replication.pin_part,
            replication.before_sending,
            replication.report_corruption,
            replication.part_hashes,
            replication.stage_copies,
        )
        exchange.start()
        replication.address = ReplicaAddress("127.0.0.1", exchange.port, config.http_port or 0)
        replication._stops.insert(0, exchange.stop)
        return replication

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.port}"

    @property
    def links(self) -> LinkManager:
        assert isinstance(self.engine.links, LinkManager)
        return self.engine.links

    def client(self, user: str = USER, password: str = PASSWORD) -> HttpClient:
        return HttpClient(port=self.http.port, user=user, password=password)

    def table(self, name: str = "t") -> OwnedTable:
        return self.engine.catalog.table("default", name)

    def know(self, **clusters: Sequence[str]) -> None:
        """Makes other clusters known under these names, by their servers' URLs."""
        self.engine.linked_clusters._clusters = {
            name: LinkedClusterConfig(urls=list(urls), user=USER, password=PASSWORD) for name, urls in clusters.items()
        }

    def close(self) -> None:
        self.http.stop()
        self.engine.stop()


@contextmanager
def linked_servers(
    path: Path, world: Mapping[str, Any] = MappingProxyType({}), **clusters: int
) -> Iterator[dict[str, list[LinkedServer]]]:
    """Starts so many servers of each cluster; every cluster knows all, itself too."""
    with ExitStack() as running:
        found: dict[str, list[LinkedServer]] = {}
        for name, count in clusters.items():
            ensemble = MemoryEnsemble(clock=time.time)
            found[name] = []
            for number in range(1, count + 1):
                server = LinkedServer(name, f"r{number}", path / f"{name}{number}", ensemble, **world)
                running.callback(server.close)
                found[name].append(server)
        urls = {name: [server.url for server in servers] for name, servers in found.items()}
        for servers in found.values():
            for server in servers:
                server.know(**urls)
        yield found


CREATE = (
    "CREATE TABLE {name} (k UInt64, v String) ENGINE = ReplicatedMergeTree('/tables/{name}', '{{replica}}') ORDER BY k"
)


def create_table(servers: Sequence[LinkedServer], name: str = "t") -> None:
    """Makes a replicated table on every server of a cluster."""
    for server in servers:
        with server.client() as client:
            client.execute(CREATE.format(name=name))
