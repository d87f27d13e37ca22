"""``last_writer_wins`` on real servers: workers, merge processes, a real ZooKeeper, and a server that is killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from tests.sql.oracle import Oracle

pytestmark = [pytest.mark.cluster, pytest.mark.long]
CREATE = (
    "CREATE TABLE {} (k UInt64, v UInt64, s String) ENGINE = ReplicatedReplacingMergeTree('/tables/{}', '{{replica}}') "
    "ORDER BY k SETTINGS last_writer_wins = 1"
)


@dataclass
class Servers:
    """Two servers, and a client of each."""

    cluster: Cluster
    clients: list[HttpClient]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    cluster = Cluster(tmp_path_factory.mktemp("west"))
    members = cluster.start(2, overrides={"workers": 1}, name="west")
    clients = [HttpClient(port=member.port, timeout_seconds=60) for member in members if member.name.startswith("r")]
    try:
        yield Servers(cluster, clients)
    finally:
        for client in clients:
            client.close()
        cluster.stop(grace_seconds=5)


def create(servers: Servers, name: str) -> None:
    for client in servers.clients:
        client.execute(CREATE.format(name, name))


def sync(servers: Servers, name: str) -> None:
    for client in servers.clients:
        client.execute(f"SYSTEM SYNC REPLICA {name}")


def read(client: HttpClient, query: str) -> list[list[str]]:
    return [line.split("\t") for line in client.execute(f"{query} FORMAT TabSeparated").text.splitlines()]


def test_statements_on_both_servers_in_turn(servers: Servers) -> None:
    create(servers, "turns")
    chance, rows = random.Random(7), dict[str, str]()
    for number in range(40):
        client, key = chance.choice(servers.clients), str(chance.randrange(5))
        if chance.random() < 0.3:
            client.execute(f"DELETE FROM turns WHERE k = {key}")
            rows.pop(key, None)
        elif chance.random() < 0.3:
            client.execute(f"ALTER TABLE turns UPDATE v = v + 1000 WHERE k = {key}")
            rows |= {key: str(int(rows[key]) + 1000)} if key in rows else {}
        else:
            client.execute(f"INSERT INTO turns VALUES ({key}, {number}, 'x')")
            rows[key] = str(number)
    sync(servers, "turns")
    for client in servers.clients:
        assert dict(read(client, "SELECT k, v FROM turns FINAL")) == rows
    servers.clients[0].execute("OPTIMIZE TABLE turns FINAL")
    sync(servers, "turns")
    for client in servers.clients:
        assert dict(read(client, "SELECT k, v FROM turns")) == rows
        ((origins, least),) = read(client, "SELECT uniqExact(_origin), min(_commit_time) > '2020-01-01' FROM turns")
        assert (origins, least) == ("1", "1")
        (origin,) = {row[0] for row in read(client, "SELECT _origin FROM turns")}
        position = client.value("SELECT currentPosition('default.turns')")
        assert str(position).partition(":")[0] == origin


def test_writers_at_once_agree_on_one_row(servers: Servers) -> None:
    """Whichever of them it is: its version is the largest on both servers, before and after a restart by force."""
    create(servers, "race")
    clients = [HttpClient(port=client.port, timeout_seconds=60) for client in servers.clients for _ in range(3)]

    def write(place: int) -> None:
        for number in range(8):
            clients[place].execute(f"INSERT INTO race VALUES (1, {place * 100 + number}, 'text')")

    try:
        with ThreadPoolExecutor(len(clients)) as threads:
            list(threads.map(write, range(len(clients))))
    finally:
        for client in clients:
            client.close()
    sync(servers, "race")
    (newest,) = read(servers.clients[0], "SELECT v FROM race ORDER BY _commit_time DESC, _origin_block DESC LIMIT 1")
    assert [read(client, "SELECT v FROM race FINAL") for client in servers.clients] == [[newest]] * 2
    servers.cluster.kill("r2")
    servers.cluster.restart("r2")
    assert read(servers.clients[1], "SELECT v FROM race FINAL") == [newest]
    servers.clients[1].execute("INSERT INTO race VALUES (1, 7777, 'text')")
    servers.clients[0].execute("OPTIMIZE TABLE race FINAL")
    sync(servers, "race")
    assert [read(client, "SELECT v FROM race") for client in servers.clients] == [[["7777"]]] * 2


def test_rows_are_clickhouses_where_it_has_the_engine(servers: Servers, oracle: Oracle) -> None:
    """With a version column and statements one after the other, ReplacingMergeTree(v) gives the same."""
    engine = "ReplicatedReplacingMergeTree('/tables/same', '{replica}', v)"
    columns = "(k UInt64, v UInt8, s String)"
    for client in servers.clients:
        client.execute(f"CREATE TABLE same {columns} ENGINE = {engine} ORDER BY k SETTINGS last_writer_wins = 1")
    oracle.query(f"CREATE TABLE same {columns} ENGINE = ReplacingMergeTree(v) ORDER BY k")
    chance = random.Random(11)
    for number in range(30):
        rows = ", ".join(
            f"({chance.randrange(6)}, {chance.randrange(4)}, 'text {number} {place}')" for place in range(3)
        )
        oracle.query(f"INSERT INTO same VALUES {rows}")
        chance.choice(servers.clients).execute(f"INSERT INTO same VALUES {rows}")
    sync(servers, "same")
    query = "SELECT * FROM same FINAL ORDER BY k"
    expected = [line.split("\t") for line in oracle.query(query).decode().splitlines()]
    assert [read(client, query) for client in servers.clients] == [expected] * 2
