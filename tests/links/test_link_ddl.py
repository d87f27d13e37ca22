"""Statements about links between two clusters of real processes, whose queries run in workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError

pytestmark = [pytest.mark.long, pytest.mark.cluster]

WAIT = "SYSTEM WAIT REPLICATION LINK {} TIMEOUT 30"
_numbers = count(1)


class TwoClusters:
    """``west`` with one server and ``east`` with two, which know each other's addresses."""

    def __init__(self, west: Cluster, east: Cluster) -> None:
        self.west, self.east = west, east
        users = {"default": {}, "linker": {"password": "right"}}
        (self.west_port,) = ports(west.start(1, overrides={"workers": 0, "users": users}, name="west"))
        url = f"http://127.0.0.1:{self.west_port}"
        clusters = {
            "west": {"urls": [url], "user": "linker", "password": "right"},
            "stranger": {"urls": [url], "user": "linker", "password": "secret-but-wrong"},
            "away": {"urls": ["http://127.0.0.1:1"]},
        }
        members = east.start(2, overrides={"workers": 1, "linked_clusters": clusters}, name="east")
        self.source = HttpClient(port=self.west_port, timeout_seconds=60)
        self.targets = [HttpClient(port=port, timeout_seconds=60) for port in ports(members)]

    def make_tables(self) -> str:
        """An empty table of one name at both clusters."""
        name = f"t{next(_numbers)}"
        for client in (self.source, *self.targets):
            client.execute(
                f"CREATE TABLE {name} (k UInt64) "
                f"ENGINE = ReplicatedMergeTree('/tables/{name}', '{{replica}}') ORDER BY k"
            )
        return name

    def close(self) -> None:
        for client in (self.source, *self.targets):
            client.close()
        self.east.stop(grace_seconds=5)
        self.west.stop(grace_seconds=5)


def ports(members: list[object]) -> list[int]:
    return [member.port for member in members if member.name.startswith("r")]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    root = tmp_path_factory.mktemp("clusters")
    made = TwoClusters(Cluster(root / "west"), Cluster(root / "east"))
    try:
        yield made
    finally:
        made.close()


def fails(client: HttpClient, text: str) -> PandoError:
    with pytest.raises(PandoError) as error:
        client.execute(text)
    return error.value


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_stale(client: HttpClient, table: str) -> bool:
    try:
        client.execute(f"SELECT * FROM {table} SETTINGS max_link_lag_seconds = 1")
    except PandoError as error:
        return error.code == 369
    return False


def test_a_link_from_its_first_to_its_last_statement(clusters: TwoClusters) -> None:
    t, (one, other) = clusters.make_tables(), clusters.targets
    one.execute(f"CREATE REPLICATION LINK l ON {t} FROM CLUSTER west SETTINGS link_quorum = 1")
    clusters.source.execute(f"INSERT INTO {t} SELECT number FROM numbers(10)")
    other.execute(WAIT.format("l"))
    for client in clusters.targets:
        assert client.value(f"SELECT sum(k) FROM {t}") == 45
    position = str(clusters.source.value(f"SELECT currentPosition('{t}')"))
    one.execute(f"SYSTEM WAIT REPLICATION LINK l POSITION '{position}' TIMEOUT 30")
    assert fails(one, f"INSERT INTO {t} VALUES (1)").code == 242

    for client in clusters.targets:  # both servers show the link, whichever runs it
        (row,) = client.rows(
            "SELECT direction, peer, state, settings['link_quorum'] FROM system.replication_links WHERE name = 'l'"
        )
        assert row == ["in", "west", "enabled", "1"]
        assert client.value("SHOW CREATE REPLICATION LINK l") == (
            f"CREATE REPLICATION LINK l\nON default.{t}\nFROM CLUSTER west TABLE default.{t}\nSETTINGS link_quorum = 1"
        )
    assert sum(int(str(client.value("SELECT is_leader FROM system.replication_links"))) for client in (one, other)) == 1
    assert clusters.source.rows("SELECT name, direction, peer, upstream_status FROM system.replication_links") == [
        ["east/l", "out", "east", "follow"]
    ]
    (origin,) = one.rows(f"SELECT position FROM system.link_positions WHERE table = '{t}' AND NOT is_own")
    assert origin == [position]
    assert clusters.source.rows(f"SELECT table, blocks FROM system.link_outbox WHERE table = '{t}'") == [[t, 1]]

    other.execute("DROP REPLICATION LINK l")
    for client in (*clusters.targets, clusters.source):
        assert client.rows("SELECT * FROM system.replication_links") == []
    one.execute(f"INSERT INTO {t} VALUES (1)")
    assert clusters.source.rows("SELECT * FROM system.link_outbox") == []


def test_a_link_waits_while_it_is_disabled(clusters: TwoClusters) -> None:
    t, (one, other) = clusters.make_tables(), clusters.targets
    one.execute(f"CREATE REPLICATION LINK IF NOT EXISTS m ON {t} FROM CLUSTER west SETTINGS enabled = 0")
    clusters.source.execute(f"INSERT INTO {t} VALUES (7)")
    error = fails(one, "SYSTEM WAIT REPLICATION LINK m TIMEOUT 1")
    assert (error.code, "(disabled)" in error.message) == (159, True)
    assert one.value(f"SELECT count() FROM {t}") == 0
    other.execute("ALTER REPLICATION LINK m ENABLE")
    one.execute(WAIT.format("m"))
    assert one.value(f"SELECT count() FROM {t}") == 1
    other.execute("DROP REPLICATION LINK m")


def test_the_source_tells_which_clusters_have_a_position(clusters: TwoClusters) -> None:
    t, (one, _), source = clusters.make_tables(), clusters.targets, clusters.source
    for client in (source, one):
        client.execute(
            f"CREATE TABLE other_{t} (k UInt64) ENGINE = ReplicatedMergeTree('/{t}', '{{replica}}') ORDER BY k"
        )
    source.execute(f"INSERT INTO {t} VALUES (1)")
    asked = f"SELECT inSyncClusters('{t}', currentPosition('{t}'))"
    assert source.value(asked) == []
    one.execute(f"CREATE REPLICATION LINK s ON {t} FROM CLUSTER west")
    one.execute(WAIT.format("s"))
    wait_for(lambda: source.value(asked) == ["east"])  # the target tells it about once a second

    position = str(source.value(f"SELECT currentPosition('{t}')"))
    one.execute("ALTER REPLICATION LINK s DISABLE")
    source.execute(f"INSERT INTO {t} VALUES (2)")
    assert source.value(asked) == []
    assert source.value(f"SELECT inSyncClusters('default.{t}', '{position}')") == ["east"]

    assert one.value(asked) == []  # the table there has no links that go out
    foreign = fails(source, f"SELECT inSyncClusters('{t}', currentPosition('other_{t}'))")
    assert (foreign.code, "the table was made anew" in foreign.message) == (36, True)
    assert fails(source, f"SELECT inSyncClusters('{t}', 'x')").code == 36
    assert fails(source, f"SELECT inSyncClusters('none', '{position}')").code == 60
    one.execute("DROP REPLICATION LINK s")


def test_a_database_is_followed(clusters: TwoClusters) -> None:
    for client in (clusters.source, *clusters.targets):
        client.execute("CREATE DATABASE shop")
    for name, engine in (("orders", "ReplicatedMergeTree('/west/orders', '{replica}')"), ("plain", "MergeTree")):
        clusters.source.execute(f"CREATE TABLE shop.{name} (k UInt64) ENGINE = {engine} ORDER BY k")
    one, other = clusters.targets
    one.execute("CREATE REPLICATION LINK shop ON DATABASE shop FROM CLUSTER west")
    message = one.value("SELECT message FROM system.replication_links WHERE name = 'shop'")
    assert str(message).startswith("Left out: plain (Only tables of Replicated engines can be linked")
    clusters.source.execute("INSERT INTO shop.orders VALUES (1), (2)")
    one.execute(WAIT.format("shop"))
    assert one.value("SELECT count() FROM shop.orders") == 2
    one.execute("DROP REPLICATION LINK shop")
    assert other.rows("SHOW REPLICATION LINKS") == []
    assert clusters.source.rows("SHOW REPLICATION LINKS") == []


@pytest.mark.parametrize(
    ("cluster", "code", "message"),
    [
        ("stranger", 516, "Authentication failed"),
        ("away", 210, "127.0.0.1:1"),
        ("nowhere", 36, "'nowhere' is not among linked_clusters"),
    ],
)
def test_a_source_that_cannot_be_asked_is_an_error_without_secrets(
    clusters: TwoClusters, cluster: str, code: int, message: str
) -> None:
    t, (one, other) = clusters.make_tables(), clusters.targets
    error = fails(one, f"CREATE REPLICATION LINK n ON {t} FROM CLUSTER {cluster}")
    assert (error.code, message in error.message) == (code, True), error.message
    assert "secret" not in error.message
    assert other.rows("SHOW REPLICATION LINKS") == []
    other.execute(f"INSERT INTO {t} VALUES (1)")


def test_metrics_and_the_status_page_name_links(clusters: TwoClusters) -> None:
    t, (one, _) = clusters.make_tables(), clusters.targets
    one.execute(f"CREATE REPLICATION LINK p ON {t} FROM CLUSTER west")
    one.execute(WAIT.format("p"))
    metrics = dict(one.rows("SELECT metric, value FROM system.metrics WHERE metric LIKE 'ReplicationLink%'"))  # type: ignore[arg-type]
    assert (metrics["ReplicationLink"], metrics["ReplicationLinkStopped"]) == (1, 0)
    one.execute("DROP REPLICATION LINK p")


def test_a_query_says_how_fresh_a_target_must_be(clusters: TwoClusters) -> None:
    t, (one, other) = clusters.make_tables(), clusters.targets
    one.execute(f"CREATE REPLICATION LINK q ON {t} FROM CLUSTER west")
    wait_for(lambda: not (is_stale(one, t) or is_stale(other, t)))
    for number in range(5):
        clusters.source.execute(f"INSERT INTO {t} VALUES ({number})")
        position = str(clusters.source.value(f"SELECT currentPosition('{t}')"))
        for client in (one, other):
            counted = f"SELECT count() FROM {t} SETTINGS link_min_position = '{position}', max_link_lag_seconds = 60"
            assert client.value(counted) == number + 1
    assert one.value(f"SELECT count() FROM {t}", settings={"link_min_position": position}) == 5
    later = f"{position.partition(':')[0]}:{int(position.partition(':')[2]) + 10**6}"
    error = fails(other, f"SELECT * FROM {t} SETTINGS link_min_position = '{later}', link_wait_timeout_ms = 50")
    assert (error.code, f"has not reached link_min_position {later}" in error.message) == (159, True)
    strange = later.replace(later[:8], "00000000", 1)
    assert fails(one, f"SELECT * FROM {t} SETTINGS link_min_position = '{strange}'").code == 36
    other.execute("ALTER REPLICATION LINK q DISABLE")
    wait_for(lambda: is_stale(other, t) and is_stale(one, t))
    assert clusters.source.value(f"SELECT count() FROM {t} SETTINGS max_link_lag_seconds = 1") == 5
    one.execute("DROP REPLICATION LINK q")
    assert one.value(f"SELECT count() FROM {t} SETTINGS max_link_lag_seconds = 1") == 5


@pytest.mark.long
def test_a_link_inside_one_cluster(clusters: TwoClusters) -> None:
    first, second, (one, other) = clusters.make_tables(), clusters.make_tables(), clusters.targets
    assert "cannot be linked to itself" in fails(one, f"CREATE REPLICATION LINK r ON {first} FROM CLUSTER east").message
    one.execute(f"CREATE REPLICATION LINK r ON {second} FROM CLUSTER east TABLE {first}")
    other.execute(f"INSERT INTO {first} VALUES (3), (4)")
    one.execute(WAIT.format("r"))
    assert other.value(f"SELECT sum(k) FROM {second}") == 7
    assert other.rows("SELECT name, direction, table FROM system.replication_links ORDER BY name") == [
        ["east/r", "out", first],
        ["r", "in", second],
    ]
    other.execute("DROP REPLICATION LINK r")
    assert one.rows("SHOW REPLICATION LINKS") == []
