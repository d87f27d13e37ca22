"""Real servers with workers that wait after their start until their links have caught up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.cluster.cluster import Cluster
from engine.cluster.linked_directories import link_directories
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError

pytestmark = [pytest.mark.cluster, pytest.mark.long]
CREATE = "CREATE TABLE t (k UInt64) ENGINE = ReplicatedMergeTree('/tables/t', '{replica}') ORDER BY k"
KEYS = {
    "workers": 1, "zookeeper": {"session_timeout_ms": 4000}, "replication_connect_quorum": 1,
    "replication_connect_timeout": 300,
}  # fmt: skip


def ask(client: HttpClient) -> int:
    """The number of rows, or minus the code of the error."""
    try:
        return int(client.value("SELECT count() FROM t"))
    except PandoError as error:
        return -error.code


def test_workers_refuse_until_the_source_is_back(tmp_path: Path) -> None:
    west, east = Cluster(tmp_path / "west"), Cluster(tmp_path / "east")
    clients = []
    try:
        for cluster, name in ((west, "west"), (east, "east")):
            members = cluster.start(1, overrides=KEYS, name=name)
            port = next(member.port for member in members if member.name == "r1")
            clients.append(HttpClient(port=port, timeout_seconds=60))
        link_directories([west.directory, east.directory])
        source, target = clients
        for client in clients:
            client.execute(CREATE)
        target.execute("CREATE REPLICATION LINK l ON t FROM CLUSTER west")
        source.execute("INSERT INTO t VALUES (1)")
        target.execute("SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
        west.kill("r1")
        east.kill("r1")
        east.restart("r1")
        for _ in range(3):
            assert ask(target) == -369
        assert target.get("/ping").status_code == 200
        assert target.get("/replicas_status").status_code == 503
        target.execute("SYSTEM SYNC REPLICA t")
        west.restart("r1")  # it has no links that come in, so it opens at once
        assert ask(source) == 1
        end = time.monotonic() + 60
        while ask(target) == -369:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ask(target) == 1
        assert target.get("/replicas_status").status_code == 200
    finally:
        for client in clients:
            client.close()
        east.stop(grace_seconds=5)
        west.stop(grace_seconds=5)
