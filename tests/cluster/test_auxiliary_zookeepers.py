"""Two real ZooKeepers and two real servers: tables of either, a conversion, and one ZooKeeper that goes away."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coordination.keeper.embedded_zookeeper import EmbeddedZooKeeper
from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.worker_count import WORKERS

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("auxiliary_zookeepers")]

TABLE = "CREATE TABLE {} (k UInt64) ENGINE = ReplicatedMergeTree('{}', '{{replica}}') ORDER BY k"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.1)


def count(client: HttpClient, table: str) -> int:
    return int(str(client.rows(f"SELECT count() FROM {table}")[0][0]))


def is_written(client: HttpClient, table: str) -> bool:
    try:
        client.execute(f"INSERT INTO {table} VALUES ({time.monotonic_ns()})")
    except PandoError as error:
        if error.code not in (242, 999, 319):
            raise
        return False
    return True


def test_two_zookeepers(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zk2") as second:
        host, port = second.hosts.split(":")
        cluster = Cluster(tmp_path / "cluster")
        overrides = {
            "zookeeper": {"session_timeout_ms": 4000},
            "auxiliary_zookeepers": {"zk2": {"nodes": [{"host": host, "port": int(port)}], "session_timeout_ms": 4000}},
            "workers": WORKERS,
            "default_replica_path": "zk2:/tables/{table}",
        }
        try:
            statuses = cluster.start(2, overrides=overrides)
            one, two = (HttpClient(port=s.port, timeout_seconds=60) for s in statuses if s.name.startswith("r"))
            for client in (one, two):
                client.execute(TABLE.format("d", "/tables/d"))
                client.execute(TABLE.format("a", "zk2:/tables/a"))
                client.execute("CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k")
                client.execute("INSERT INTO t SELECT number FROM numbers(1000)")
                client.execute("DETACH TABLE t")
                client.execute("ATTACH TABLE t AS REPLICATED")
            for table in ("d", "a", "t"):
                one.execute(f"INSERT INTO {table} VALUES (5000)")
            wait_until(lambda: [count(two, table) for table in ("d", "a", "t")] == [1, 1, 1001])
            names = one.rows("SELECT table, zookeeper_name FROM system.replicas ORDER BY table")
            assert [tuple(row) for row in names] == [("a", "zk2"), ("d", "default"), ("t", "zk2")]

            connections = one.rows("SELECT name FROM system.zookeeper_connection ORDER BY name")
            assert [row[0] for row in connections] == ["default", "zk2"]
            assert one.rows("SELECT table FROM system.detached_tables") == []

            second.kill()
            wait_until(lambda: not is_written(one, "a"))
            assert is_written(one, "d")
            assert count(one, "a") >= 1
            second.start()
            wait_until(lambda: is_written(one, "a") and is_written(two, "t"))
            wait_until(lambda: count(one, "a") == count(two, "a") and count(one, "t") == count(two, "t"))

            config = cluster.replica_directory("r1") / "config.yaml"
            command = [sys.executable, "-m", "engine.cli", "recovery", "status", "--config", str(config)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for table in ("a", "d", "t"):
                assert f"default.{table}: in order" in said, said
        finally:
            cluster.stop(grace_seconds=5)
