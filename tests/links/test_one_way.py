"""A link from one cluster to another, both of real server processes with a ZooKeeper of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.cluster.cluster_state import load_state
from engine.cluster.replica_config import LINK_USER
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.links.linked_clusters import LinkedClusters

pytestmark = [pytest.mark.cluster, pytest.mark.long]
_numbers = iter(range(1, 1000))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedClusters]:
    found = LinkedClusters(tmp_path_factory.mktemp("clusters"), west=2, east=2)
    yield found
    found.close()


@pytest.fixture
def table(clusters: LinkedClusters) -> Iterator[str]:
    name = f"t{next(_numbers)}"
    clusters.create_table(name, "p UInt8, k UInt64, v String", "PARTITION BY p ORDER BY k")
    yield name
    for server in clusters.clients["east"]:
        server.execute(f"DROP REPLICATION LINK IF EXISTS l_{name}")
    for servers in clusters.clients.values():
        for server in servers:
            server.execute(f"DROP TABLE {name} SYNC")


def link(clusters: LinkedClusters, table: str, **settings: object) -> str:
    clusters.link(f"l_{table}", "east", table, "west", **settings)
    return f"l_{table}"


def test_rows_commands_and_their_order_arrive(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table)
    west = clusters.clients["west"]
    for number in range(6):
        west[number % 2].execute(
            f"INSERT INTO {table} SELECT {number % 3}, number, 'v' FROM numbers({number * 10}, 10)"
        )
    west[0].execute(f"ALTER TABLE {table} DELETE WHERE k % 7 = 0 SETTINGS mutations_sync = 2")
    west[1].execute(f"INSERT INTO {table} VALUES (0, 7, 'again')")
    west[0].execute(f"ALTER TABLE {table} DROP PARTITION 1")
    west[1].execute(f"INSERT INTO {table} VALUES (1, 1, 'later')")
    west[0].execute(f"ALTER TABLE {table} UPDATE v = 'w' WHERE k > 50 SETTINGS mutations_sync = 2")
    clusters.settle("east", name)
    rows = f"SELECT * FROM {table} ORDER BY p, k"
    clusters.wait(lambda: clusters.rows("east", rows) == clusters.rows("west", rows), "equal rows")
    assert [1, 1, "later"] in clusters.rows("east", rows)


def test_a_link_shows_its_state_on_every_server(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table)
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 1, 'a')")
    clusters.settle("east", name)
    sql = f"SELECT upstream_status, rows_behind, lag FROM system.replication_links WHERE name = '{name}'"
    for server in clusters.clients["east"]:
        clusters.wait(lambda server=server: server.rows(sql) == [["follow", 0, 0]], "follow")
    leaders = [server.value(f"SELECT is_leader FROM system.replication_links WHERE name = '{name}'")
               for server in clusters.clients["east"]]  # fmt: skip
    assert sorted(leaders) == [0, 1]


def test_a_row_is_there_soon_after_it_was_acknowledged(clusters: LinkedClusters, table: str) -> None:
    link(clusters, table)
    for number in range(5):
        clusters["west"].execute(f"INSERT INTO {table} VALUES (0, {number}, 'a')")
        sql = f"SELECT count() FROM {table} WHERE k = {number}"
        clusters.wait(lambda sql=sql: clusters["east"].value(sql) == 1, "the row")


def test_a_repeat_at_the_source_is_brought_once(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table)
    for _ in range(3):
        clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 1, 'a')")
    clusters.settle("east", name)
    assert clusters.rows("east", f"SELECT count() FROM {table}") == [[1]]


def test_the_leader_is_killed_and_the_other_server_goes_on(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table)
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 1, 'a')")
    clusters.settle("east", name)
    sql = f"SELECT is_leader FROM system.replication_links WHERE name = '{name}'"
    servers = clusters.clients["east"]
    leader = next(number for number, server in enumerate(servers) if server.value(sql))
    clusters.clusters["east"].kill(f"r{leader + 1}")
    try:
        clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 2, 'b')")
        other = servers[1 - leader]
        clusters.wait(lambda: other.value(f"SELECT count() FROM {table}") == 2, "the row at the other server")
    finally:
        clusters.clusters["east"].restart(f"r{leader + 1}")
    clusters.wait(lambda: servers[leader].value(f"SELECT count() FROM {table}") == 2, "the row at the killed server")


def test_the_source_is_away_and_comes_back(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table, replication_timeout=0.3)
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 1, 'a')")
    clusters.settle("east", name)
    sql = f"SELECT upstream_status, message != '', lag > 0 FROM system.replication_links WHERE name = '{name}'"
    sql += " AND is_leader"
    for number in (1, 2):
        clusters.clusters["west"].kill(f"r{number}")
    try:
        clusters.wait(
            lambda: any(each.rows(sql) == [["disconnected", 1, 1]] for each in clusters.clients["east"]), "disconnected"
        )
    finally:
        for number in (1, 2):
            clusters.clusters["west"].restart(f"r{number}")
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 2, 'b')")
    clusters.wait(lambda: clusters.rows("east", f"SELECT count() FROM {table}") == [[2]], "the row")


def test_writes_at_the_target_are_refused_by_the_links_name(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table)
    with pytest.raises(PandoError, match=name):
        clusters["east"].execute(f"INSERT INTO {table} VALUES (0, 1, 'a')")


def test_the_last_replica_of_a_target_that_is_dropped_ends_the_link(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table)
    first, second = clusters.clients["east"]
    registered = f"SELECT name FROM system.replication_links WHERE name = 'east/{name}'"
    first.execute(f"DROP TABLE {table} SYNC")
    assert clusters["west"].rows(registered) == [[f"east/{name}"]]
    second.execute(f"DROP TABLE {table} SYNC")
    assert clusters["west"].rows(registered) == []
    assert second.rows(f"SELECT name FROM system.replication_links WHERE name = '{name}'") == []
    clusters.create_table_at("east", table, "p UInt8, k UInt64, v String", "PARTITION BY p ORDER BY k")
    link(clusters, table)
    clusters["west"].execute(f"INSERT INTO {table} VALUES (1, 1, 'a')")
    clusters.settle("east", name)
    assert clusters.rows("east", f"SELECT k FROM {table}") == [[1]]


def test_the_user_of_links_reads_and_changes_nothing(clusters: LinkedClusters, table: str) -> None:
    name = link(clusters, table)
    state = load_state(clusters.clusters["west"].directory)
    assert state is not None
    client = HttpClient(port=state.replicas[0].port, user=LINK_USER, password=state.link_password)
    with client as linker:
        assert linker.rows(f"SELECT count() FROM {table}") == [[0]]
        for text in (
            f"INSERT INTO {table} VALUES (1, 1, 'a')", f"ALTER TABLE {table} DELETE WHERE 1", f"DROP TABLE {table}",
            f"ALTER TABLE {table} ADD COLUMN w UInt8", f"OPTIMIZE TABLE {table}", f"TRUNCATE TABLE {table}",
            "CREATE TABLE mine (k UInt8) ENGINE = MergeTree ORDER BY k", "CREATE DATABASE mine", "SET readonly = 0",
            f"CREATE REPLICATION LINK mine ON {table} FROM CLUSTER east", f"DROP REPLICATION LINK 'east/{name}'",
            f"SYSTEM WAIT REPLICATION LINK {name}", "SYSTEM RELOAD CONFIG",
            f"SYSTEM FORGET LINK ORIGIN 'x' ON {table} FORCE", f"SYSTEM DROP REPLICA 'r2' FROM TABLE {table}",
        ):  # fmt: skip
            with pytest.raises(PandoError) as refused:
                linker.execute(text)
            assert refused.value.code == 164, text
        shown = linker.execute("SELECT * FROM system.replication_links FORMAT JSON").text
        shown += linker.execute("SELECT * FROM system.processes FORMAT JSON").text
        assert state.link_password not in shown


def test_a_link_inside_one_cluster(clusters: LinkedClusters, table: str) -> None:
    clusters.create_table_at("west", f"{table}_copy", "p UInt8, k UInt64, v String", "PARTITION BY p ORDER BY k")
    west = clusters["west"]
    west.execute(
        f"CREATE REPLICATION LINK inner_{table} ON {table}_copy FROM CLUSTER west TABLE {table} "
        "SETTINGS start_position = 'now'"
    )
    west.execute(f"INSERT INTO {table} VALUES (0, 1, 'a'), (1, 2, 'b')")
    clusters.settle("west", f"inner_{table}")
    assert clusters.rows("west", f"SELECT k FROM {table}_copy ORDER BY k") == [[1], [2]]
    west.execute(f"DROP REPLICATION LINK inner_{table}")
    for server in clusters.clients["west"]:
        server.execute(f"DROP TABLE {table}_copy SYNC")
