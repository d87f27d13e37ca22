"""Two shards of two replicas, as real servers: answers equal ClickHouse's of one table, whoever dies."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chdb.session import Session as Oracle

from engine.cluster.cluster import Cluster
from engine.cluster.cluster_state import is_port_free
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.worker_count import WORKERS

pytestmark = [pytest.mark.long, pytest.mark.cluster]

COLUMNS = (
    "k UInt64, i Int16, s String, n Nullable(Int64), f Float64, d DateTime('UTC'), t DateTime64(3, 'UTC'), "
    "day Date, day32 Date32, low LowCardinality(Nullable(String)), a Array(Nullable(UInt8)), "
    "e Enum8('x' = 1, 'y' = 2), "
    "m Decimal(18, 4), u UUID, ip IPv4, six IPv6, fixed FixedString(4), p Tuple(a UInt8, b String), b Bool, "
    "mp Map(String, UInt16), f32 Float32"
)
ROWS = (
    "SELECT number, number % 13, concat('s', toString(number % 11)), if(number % 5 = 0, NULL, number), number / 4, "
    "toDateTime(1700000000 + number, 'UTC'), toDateTime64(number / 8, 3, 'UTC'), toDate(number), toDate32(number), "
    "if(number % 3 = 0, NULL, toString(number % 7)), [toUInt8(number % 4), NULL], if(number % 2 = 0, 'x', 'y'), "
    "toDecimal64(number / 16, 4), toUUID(concat('00000000-0000-0000-0000-', leftPad(toString(number), 12, '0'))), "
    "toIPv4(concat('10.0.0.', toString(number % 256))), toIPv6('::1'), toFixedString(toString(number % 1000), 4), "
    "tuple(toUInt8(number % 3), 'b'), number % 2 = 0, map('a', toUInt16(number % 9)), toFloat32(number / 3) "
    "FROM numbers(20000)"
)
QUERIES = [
    "SELECT * FROM d WHERE k < 20 ORDER BY k",
    "SELECT count(), sum(k), min(t), max(m), avg(f), any(b) < 2 FROM d",
    "SELECT low, count(), avg(n), max(u), min(ip), sum(f32) > 0 FROM d GROUP BY low ORDER BY low",
    "SELECT e, day, count() FROM d WHERE k BETWEEN 100 AND 130 GROUP BY e, day ORDER BY day LIMIT 5",
    "SELECT k, p, fixed, mp, a FROM d ORDER BY k DESC LIMIT 3",
    "SELECT uniqExact(s), quantileExact(0.9)(k) FROM d WHERE i > 5",
    "SELECT DISTINCT i, e FROM d ORDER BY i, e LIMIT 8",
    "SELECT count() FROM d AS l GLOBAL JOIN d AS r ON l.k = r.k + 1 WHERE r.i = 3",
    "SELECT count() FROM d WHERE k GLOBAL IN (SELECT k * 2 FROM d)",
    "SELECT p.b, count() FROM d WHERE day32 > '1975-01-01' GROUP BY p.b",
]


class Shards:
    """``r1`` and ``r2`` are one shard, ``r3`` and ``r4`` the other."""

    def __init__(self, directory: Path) -> None:
        ports = _consecutive_ports(4)
        shards = [
            {"replicas": [{"host": "127.0.0.1", "port": port, "user": "ada", "password": "hidden"} for port in pair]}
            for pair in (ports[:2], ports[2:])
        ]
        dead = [{"replicas": [{"host": "127.0.0.1", "port": 1}]}]
        self.cluster = Cluster(directory)
        overrides = {
            "workers": WORKERS,
            "zookeeper": {"session_timeout_ms": 4000},
            "users": {"default": {}, "ada": {"password": "hidden"}, "reader": {"readonly": 1}},
            "remote_servers": {
                "hits": shards,
                "half": shards[:1] + dead,
                "reading": [{"replicas": [{"host": "127.0.0.1", "port": ports[2], "user": "reader"}]}],
            },
        }
        self.cluster.start(4, first_http_port=ports[0], overrides=overrides)
        self.clients = [HttpClient(port=port, timeout_seconds=60) for port in ports]
        for number, client in enumerate(self.clients):
            shard = number // 2
            client.execute(
                f"CREATE TABLE t ({COLUMNS}) ENGINE = ReplicatedMergeTree('/t/{shard}', 'r{number}') ORDER BY k"
            )
            client.execute("CREATE TABLE d AS t ENGINE = Distributed(hits, default, t, k)")
            client.execute("CREATE TABLE half AS t ENGINE = Distributed(half, default, t, k)")

    def text(self, query: str, server: int = 0) -> str:
        return self.clients[server].execute(f"{query} FORMAT JSONCompactEachRow").text

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.cluster.stop(grace_seconds=5)


def _consecutive_ports(count: int) -> list[int]:
    while True:
        first = random.randint(20_000, 32_000)
        if all(is_port_free(first + number) for number in range(count)):
            return list(range(first, first + count))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    running = Shards(tmp_path_factory.mktemp("shards"))
    running.clients[0].execute(f"INSERT INTO d {ROWS}")
    for client in running.clients:
        client.execute("SYSTEM SYNC REPLICA t")
    yield running
    running.close()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    session = Oracle()
    session.query("DROP DATABASE IF EXISTS shards_of_servers")
    session.query("CREATE DATABASE shards_of_servers")
    session.query(f"CREATE TABLE shards_of_servers.d ({COLUMNS}) ENGINE = MergeTree ORDER BY k")
    session.query(f"INSERT INTO shards_of_servers.d {ROWS}")
    yield session
    session.query("DROP DATABASE shards_of_servers")
    session.close()


@pytest.mark.parametrize("query", QUERIES)
def test_the_same_as_clickhouse(shards: Shards, oracle: Oracle, query: str) -> None:
    oracle.query("USE shards_of_servers")
    expected = oracle.query(query, "JSONCompactEachRow").data()
    assert shards.text(query, 0) == expected
    assert shards.text(query, 2) == expected
    assert shards.text(query.replace("FROM d", "FROM cluster('hits', default.t)"), 1).count("\n") == expected.count(
        "\n"
    )


def test_rows_lie_where_their_key_says(shards: Shards) -> None:
    assert shards.text("SELECT count(), sum(k % 2) FROM t", 1) == "[10000, 0]\n"
    assert shards.text("SELECT count(), sum(k % 2) FROM t", 3) == "[10000, 10000]\n"


def test_no_password_is_shown(shards: Shards) -> None:
    tables = "SELECT * FROM system.clusters", "SELECT * FROM system.tables WHERE name = 'd'", "SHOW CREATE TABLE d"
    assert all("hidden" not in shards.text(query) for query in tables[:2])
    assert "hidden" not in shards.clients[0].execute(tables[2]).text
    rows = shards.clients[0].rows("SELECT shard_num, replica_num, is_local FROM system.clusters WHERE cluster = 'hits'")
    assert rows == [[1, 1, 1], [1, 2, 0], [2, 1, 0], [2, 2, 0]]


def test_a_user_who_may_only_read_is_enough_to_read(shards: Shards) -> None:
    assert shards.text("SELECT count(), min(k) FROM cluster('reading', default.t)") == "[10000, 1]\n"
    shards.clients[0].execute("CREATE TABLE reading AS t ENGINE = Distributed(reading, default, t)")
    with pytest.raises(PandoError) as caught:
        shards.clients[0].execute("INSERT INTO reading (k) VALUES (1)")
    assert caught.value.code == 164


def test_a_shard_that_is_gone(shards: Shards) -> None:
    with pytest.raises(PandoError) as caught:
        shards.text("SELECT count() FROM half")
    assert caught.value.code == 279
    assert "127.0.0.1:1" in caught.value.message
    assert shards.text("SELECT count() FROM half SETTINGS skip_unavailable_shards = 1") == "[10000]\n"
    only = "SELECT count() FROM half WHERE k = 4 SETTINGS optimize_skip_unused_shards = 1"
    assert shards.text(only) == "[1]\n"


def test_an_insert_that_failed_half_way_is_repeated(shards: Shards) -> None:
    for client in shards.clients:
        client.execute(
            "CREATE TABLE w (k UInt64) ENGINE = ReplicatedMergeTree('/w/{shard}', '{replica}') ORDER BY k".replace(
                "{shard}", str(shards.clients.index(client) // 2)
            )
        )
        client.execute("CREATE TABLE dw AS w ENGINE = Distributed(hits, default, w, k)")
    shards.cluster.kill("r3")
    shards.cluster.kill("r4")
    rows = "INSERT INTO dw SELECT number FROM numbers(1000)"
    with pytest.raises(PandoError) as caught:
        shards.clients[0].execute(rows)
    assert caught.value.code == 279
    assert "shard 2" in caught.value.message
    assert shards.text("SELECT count() FROM w") == "[500]\n"
    shards.cluster.restart("r3")
    shards.clients[0].execute(rows)
    shards.clients[1].execute(rows)
    assert shards.text("SELECT count(), uniqExact(k) FROM dw") == "[1000, 1000]\n"
    shards.cluster.restart("r4")


def test_a_replica_dies(shards: Shards, oracle: Oracle) -> None:
    """The other one of its shard answers, and takes rows."""
    shards.cluster.kill("r4")
    oracle.query("USE shards_of_servers")
    for query in QUERIES[:4]:
        expected = oracle.query(query, "JSONCompactEachRow").data()
        for _ in range(2):  # each of the replicas has its turn
            assert shards.text(query, 0) == expected
    errors = "SELECT sum(errors_count) > 0 FROM system.clusters WHERE cluster = 'hits' AND replica_num = 2"
    if WORKERS == 0:  # else another worker may have met it
        assert shards.text(errors) == "[1]\n"
    shards.cluster.restart("r4")


def test_a_replica_hangs(shards: Shards) -> None:
    """It takes connections and says nothing: the other one answers, soon."""
    (hanging,) = [status for status in shards.cluster.status() if status.name == "r4"]
    os.kill(hanging.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        for _ in range(4):
            assert shards.text("SELECT count() FROM d") == "[20000]\n"
        assert time.monotonic() - begun < 20
    finally:
        os.kill(hanging.pid, signal.SIGCONT)


def test_a_query_that_is_killed_ends_on_the_shards(shards: Shards) -> None:
    endless = "SELECT sum(c) FROM cluster('hits', view(SELECT count() AS c FROM numbers(1000000000000)))"
    running = "SELECT count() FROM system.processes WHERE query LIKE '%1000000000000%' AND query NOT LIKE '%processes%'"

    def ask() -> None:
        with pytest.raises(PandoError) as caught:
            shards.clients[0].execute(endless, query_id="endless")
        codes.append(caught.value.code)

    codes: list[int] = []
    asking = threading.Thread(target=ask)
    asking.start()
    others = shards.clients[2:]
    _wait(lambda: sum(client.value(running) for client in others) == 1)
    shards.clients[0].kill("endless")
    asking.join(30)
    assert codes == [394]
    _wait(lambda: sum(client.value(running) for client in others) == 0)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
