"""Replicas that are far behind are passed over by queries over shards; priorities; rows for every replica."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.remote.replica_delays import parse_delays
from parts.common.errors import PandoError
from tests.engine.distributed.replicas import Replica, Replicas
from tests.engine.front.asking import wait_for

_LATE_SECONDS = 1000.0


def _clusters(ports: list[int]) -> dict[str, object]:
    replicas = [{"host": "127.0.0.1", "port": port} for port in ports]
    written_by_all = {"shard": {"replica": replicas[1:]}}
    preferred = [{**replica, "priority": 3 - number} for number, replica in enumerate(replicas[1:])]
    return {
        "one": [{"replicas": replicas[1:]}],
        "own": [{"replicas": replicas}],
        "single": [{"replicas": replicas[1:2]}],
        "every": written_by_all,
        "preferred": {"shard": [{"internal_replication": True, "replica": preferred}]},
    }


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    """Three of one table; the first asks the two others as the cluster ``one``."""
    running = Replicas(tmp_path, 3, _clusters)
    running.on_all("CREATE TABLE t (k UInt64) ENGINE = ReplicatedMergeTree('/t', '{replica}') ORDER BY k")
    yield running
    running.stop()


def _stop_fetches(replicas: Replicas, server: Replica, rows: int = 1) -> None:
    """The server knows of the next rows, and lacks them."""
    server.run("SYSTEM STOP FETCHES t")
    replicas.servers[0].run(f"INSERT INTO t SELECT number FROM numbers({rows})")
    server.run("SYSTEM SYNC REPLICA t PULL")


def _counts(replicas: Replicas, cluster: str, **settings: int) -> set[object]:
    """The answers to some equal queries of the first server."""
    asker = replicas.servers[0]
    asker.run(f"CREATE TABLE IF NOT EXISTS d_{cluster} AS t ENGINE = Distributed({cluster}, default, t)")
    return {asker.run(f"SELECT count() FROM d_{cluster}", **settings)[0][0] for _ in range(4)}


def test_a_stale_replica_is_passed_over(replicas: Replicas) -> None:
    late = replicas.servers[1]
    _stop_fetches(replicas, late)
    replicas.servers[2].run("SYSTEM SYNC REPLICA t")
    late.clock_ahead = _LATE_SECONDS
    assert _counts(replicas, "one") == {1}
    assert _counts(replicas, "one", max_replica_delay_for_distributed_queries=0) == {0, 1}
    assert _counts(replicas, "one", max_replica_delay_for_distributed_queries=2000) == {0, 1}


def test_a_replica_that_catches_up_is_read_again(replicas: Replicas) -> None:
    late = replicas.servers[1]
    _stop_fetches(replicas, late)
    replicas.servers[2].run("SYSTEM SYNC REPLICA t")
    late.clock_ahead = _LATE_SECONDS
    refusal = {"fallback_to_stale_replicas_for_distributed_queries": 0}
    with pytest.raises(PandoError, match=r"is 10\d\d s behind") as caught:
        _counts(replicas, "single", **refusal)
    assert caught.value.code == 369
    late.run("SYSTEM START FETCHES t")
    late.run("SYSTEM SYNC REPLICA t")
    replicas.servers[0].engine.remote.forget_delays()
    assert _counts(replicas, "single", **refusal) == {1}


def test_the_least_stale_is_read_where_all_are(replicas: Replicas) -> None:
    _, late, later = replicas.servers
    _stop_fetches(replicas, later)
    late.run("SYSTEM SYNC REPLICA t")
    _stop_fetches(replicas, late, rows=7)
    late.clock_ahead, later.clock_ahead = _LATE_SECONDS, 2 * _LATE_SECONDS
    assert _counts(replicas, "one") == {1}
    with pytest.raises(PandoError) as caught:
        _counts(replicas, "one", fallback_to_stale_replicas_for_distributed_queries=0)
    assert caught.value.code == 369
    assert str(replicas.ports[1]) in caught.value.message
    assert str(replicas.ports[2]) in caught.value.message


def test_the_replica_of_this_server_may_be_stale_too(replicas: Replicas) -> None:
    own, *others = replicas.servers
    own.run("SYSTEM STOP FETCHES t")
    others[0].run("INSERT INTO t VALUES (1)")
    others[1].run("SYSTEM SYNC REPLICA t")
    own.run("SYSTEM SYNC REPLICA t PULL")
    assert _counts(replicas, "own") == {0}  # without network
    own.clock_ahead = _LATE_SECONDS
    own.engine.remote.forget_delays()
    assert _counts(replicas, "own") == {1}
    assert own.run("SELECT count() FROM t") == [(0,)]


def test_a_replica_that_cannot_read_its_log_falls_behind(replicas: Replicas) -> None:
    """It lacks what it has not heard of; that its queue is empty proves nothing."""
    table = replicas.servers[1].engine.catalog.table("default", "t")
    assert table.replication is not None
    assert table.replication.delay_seconds() == 0
    replicas.servers[1].run("SYSTEM STOP PULLING REPLICATION LOG t")
    replicas.servers[0].run("INSERT INTO t VALUES (1)")
    wait_for(lambda: not table.log_pull._is_watching)  # type: ignore[attr-defined]
    table.log_pull._followed_at -= 500  # type: ignore[attr-defined]
    assert 500 <= table.replication.delay_seconds() < 560
    replicas.servers[1].run("SYSTEM START PULLING REPLICATION LOG t")
    wait_for(lambda: table.replication.delay_seconds() == 0)


def test_the_page_of_delays(replicas: Replicas) -> None:
    late = replicas.servers[1]
    _stop_fetches(replicas, late)
    late.clock_ahead = _LATE_SECONDS
    with urllib.request.urlopen(f"http://127.0.0.1:{late.port}/replicas_status?delays=1") as answer:
        told = json.loads(answer.read())
    assert list(told) == ["default.t"]
    assert _LATE_SECONDS - 1 <= told["default.t"] <= _LATE_SECONDS + 60


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b'{"d.t": 3, "d.u": null}', {"d.t": 3.0, "d.u": math.inf}),
        (b"Ok.\n", {}),  # of a server that does not tell
        (b"[1]", {}),
        (b'{"d.t": "x", "d.u": true}', {}),
    ],
)
def test_delays_are_read(page: bytes, expected: dict[str, float]) -> None:
    assert parse_delays(page) == expected


def test_priorities(replicas: Replicas) -> None:
    """The third server has the lower number."""
    _stop_fetches(replicas, replicas.servers[1])
    replicas.servers[2].run("SYSTEM SYNC REPLICA t")
    assert _counts(replicas, "preferred") == {1}


def test_without_internal_replication_each_replica_is_sent_the_rows(replicas: Replicas) -> None:
    replicas.on_all(
        "CREATE TABLE p (k UInt64) ENGINE = MergeTree ORDER BY k SETTINGS non_replicated_deduplication_window = 10"
    )
    first, *others = replicas.servers
    first.run("CREATE TABLE every AS p ENGINE = Distributed(every, default, p)")
    first.run("CREATE TABLE one AS p ENGINE = Distributed(one, default, p)")
    first.run("INSERT INTO every VALUES (1), (2)")
    assert [server.run("SELECT count() FROM p") for server in others] == [[(2,)], [(2,)]]
    first.run("INSERT INTO one VALUES (3)")
    assert sorted(server.run("SELECT count() FROM p") for server in others) == [[(2,)], [(3,)]]
    rows = first.run("SELECT cluster, internal_replication FROM system.clusters WHERE replica_num = 1 ORDER BY cluster")
    assert rows == [("every", 0), ("one", 1), ("own", 1), ("preferred", 1), ("single", 1)]
    # An INSERT that one replica did not take fails, and brings the rows where they are missing when it is repeated.
    others[1].run("RENAME TABLE p TO away")
    with pytest.raises(PandoError):
        first.run("INSERT INTO every VALUES (4)")
    others[1].run("RENAME TABLE away TO p")
    first.run("INSERT INTO every VALUES (4)")
    assert [server.run("SELECT count() FROM p WHERE k = 4") for server in others] == [[(1,)], [(1,)]]
