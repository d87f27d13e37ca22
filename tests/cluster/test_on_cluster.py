"""ON CLUSTER on servers as ``pando cluster start`` makes them, whose statements come through workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.engine.front.asking import wait_for

pytestmark = [pytest.mark.long, pytest.mark.cluster]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("on_cluster"))
    overrides = {
        "workers": 1,
        "zookeeper": {"session_timeout_ms": 4000},
        "users": {"default": {}, "r": {"readonly": 1}},
    }
    running.start(2, overrides=overrides)
    yield running
    running.stop(grace_seconds=5)


def _clients(cluster: Cluster) -> list[HttpClient]:
    return [HttpClient(port=member.http_port, timeout_seconds=60) for member in cluster.status() if member.http_port]


def test_a_table_on_all_replicas(cluster: Cluster) -> None:
    first, second = _clients(cluster)
    answer = first.rows(
        "CREATE TABLE a ON CLUSTER default (k UInt64, v UInt64) "
        "ENGINE = ReplicatedMergeTree('/tables/{shard}/{table}', '{replica}') ORDER BY k"
    )
    assert [row[2:5] for row in answer] == [[0, "", 1], [0, "", 0]]
    first.execute("INSERT INTO a VALUES (1, 1)")
    second.execute("SYSTEM SYNC REPLICA a")
    second.rows("ALTER TABLE a ON CLUSTER '{cluster}' UPDATE v = v + 1 WHERE 1 SETTINGS mutations_sync = 2")
    assert first.rows("SELECT v FROM a") == second.rows("SELECT v FROM a") == [[2]]
    with pytest.raises(PandoError) as caught:
        first.execute("CREATE TABLE a ON CLUSTER default (k UInt64) ENGINE = Memory")
    assert caught.value.code == 57
    assert first.rows("SELECT count() FROM system.distributed_ddl_queue") == [[6]]
    with pytest.raises(PandoError) as caught:
        HttpClient(port=first.port, user="r").execute("DROP TABLE a ON CLUSTER default")
    assert caught.value.code == 164


def test_workers_read_replicas_that_are_not_behind(cluster: Cluster) -> None:
    """A page of the door, and a call to the replica process, tell how far behind the replicas are."""
    first, second = _clients(cluster)
    first.execute(
        "CREATE TABLE r ON CLUSTER default (k UInt64) ENGINE = ReplicatedMergeTree('/tables/r', '{replica}') ORDER BY k"
    )
    assert second.get("/replicas_status?delays=1").json()["default.r"] == 0.0
    first.execute("INSERT INTO r VALUES (1)")
    strict = {"fallback_to_stale_replicas_for_distributed_queries": 0, "prefer_localhost_replica": 0}
    second.execute("SYSTEM SYNC REPLICA r")
    assert first.rows("SELECT count() FROM cluster('default', default.r)", settings=strict) == [[1]]
    first.execute("DROP TABLE r ON CLUSTER default")


def test_a_server_that_is_down_does_it_when_it_is_back(cluster: Cluster) -> None:
    first, second = _clients(cluster)
    first.execute("CREATE TABLE b ON CLUSTER default (k UInt64) ENGINE = MergeTree ORDER BY k")
    cluster.kill("r2")
    answer = first.rows(
        "RENAME TABLE b TO e ON CLUSTER default",
        settings={"distributed_ddl_task_timeout": 1, "distributed_ddl_output_mode": "null_status_on_timeout"},
    )
    assert [row[2] for row in answer] == [0, None]
    first.execute(
        "CREATE VIEW v ON CLUSTER default AS SELECT count() AS c FROM e", settings={"distributed_ddl_task_timeout": 0}
    )
    cluster.restart("r2")
    wait_for(lambda: second.rows("EXISTS TABLE v") == [[1]], 30)
    assert second.rows("SELECT c FROM v") == [[0]]
    wait_for(lambda: first.rows("SELECT max(status != 'Finished') FROM system.distributed_ddl_queue") == [[0]], 30)
    first.execute("DROP TABLE v, e ON CLUSTER default")
    assert second.rows("SELECT name FROM system.tables WHERE name IN ('v', 'e', 'b')") == []
