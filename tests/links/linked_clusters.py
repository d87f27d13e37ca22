"""Clusters of real server processes that know each other, each with a ZooKeeper of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from engine.cluster.cluster import Cluster
from engine.cluster.linked_directories import link_directories
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.worker_count import WORKERS

WAIT_SECONDS = 60.0


class LinkedClusters:
    """So many servers of each cluster, with a client for each; ``clients["west"][0]`` is west's first server."""

    def __init__(self, directory: Path, **sizes: int) -> None:
        self._stack = ExitStack()
        self.clusters: dict[str, Cluster] = {}
        self.clients: dict[str, list[HttpClient]] = {}
        overrides = {
            "zookeeper": {"session_timeout_ms": 4000}, "logger": {"level": "information"}, "workers": WORKERS,
            "users": {"default": {}, "reader": {"readonly": 1}},
        }  # fmt: skip
        try:
            for name, size in sizes.items():
                cluster = self.clusters[name] = Cluster(directory / name)
                self._stack.callback(cluster.stop, grace_seconds=5)
                cluster.start(size, overrides=overrides, name=name)
                self.clients[name] = self._connect(cluster)
            link_directories([cluster.directory for cluster in self.clusters.values()])
        except BaseException:
            self.close()
            raise

    def _connect(self, cluster: Cluster) -> list[HttpClient]:
        replicas = [status for status in cluster.status() if status.name.startswith("r")]
        clients = [HttpClient(port=status.port, timeout_seconds=60) for status in replicas]
        for client in clients:
            self._stack.callback(client.close)
        return clients

    def close(self) -> None:
        self._stack.close()

    def __getitem__(self, name: str) -> HttpClient:
        """The cluster's first server."""
        return self.clients[name][0]

    def create_table(
        self, table: str, columns: str = "k UInt64, v String", rest: str = "ORDER BY k", engine: str = "MergeTree"
    ) -> None:
        """Makes a replicated table on every server of every cluster."""
        for name in self.clients:
            self.create_table_at(name, table, columns, rest, engine)

    def create_table_at(
        self, name: str, table: str, columns: str = "k UInt64, v String", rest: str = "ORDER BY k",
        engine: str = "MergeTree",
    ) -> None:  # fmt: skip
        for client in self.clients[name]:
            client.execute(
                f"CREATE TABLE {table} ({columns}) ENGINE = Replicated{engine}('/tables/{table}', '{{replica}}') {rest}"
            )

    def link(self, name: str, target: str, table: str, source: str, **settings: object) -> None:
        """Links the table of this name, from the first to the second cluster."""
        given = {"start_position": "now", **settings}
        text = ", ".join(f"{key} = {value!r}" for key, value in given.items())
        self[target].execute(f"CREATE REPLICATION LINK {name} ON {table} FROM CLUSTER {source} SETTINGS {text}")

    def settle(self, target: str, *links: str) -> None:
        """Until the target shows on all its replicas what the sources of the links have now."""
        for link in links:
            self[target].execute(f"SYSTEM WAIT REPLICATION LINK {link} TIMEOUT 30")

    def rows(self, name: str, sql: str) -> list[list[object]]:
        """The same rows from each server of the cluster."""
        found = [client.rows(sql) for client in self.clients[name]]
        assert all(rows == found[0] for rows in found), (name, found)
        return found[0]

    def wait(self, condition: Callable[[], object], what: str) -> None:
        deadline, last = time.monotonic() + WAIT_SECONDS, ""
        while True:
            try:
                if condition():
                    return
            except (PandoError, AssertionError) as error:
                last = str(error)
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what} ({last}): {self.explain()}")
            time.sleep(0.05)

    def explain(self) -> object:
        found = {}
        for name, clients in self.clients.items():
            try:
                found[name] = clients[0].rows(
                    "SELECT name, direction, upstream_status, message, last_exception FROM system.replication_links"
                )
            except PandoError as error:
                found[name] = [[str(error)]]
        return found
