"""Synchronous links between real engines of one process: modes, INSERTs that wait for targets, what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

_SECONDS = 20.0


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("sync"), west=1, east=2, north=1) as found:
        yield found


def find_state(client: HttpClient, name: str) -> tuple[str, str]:
    mode, state = client.value(
        f"SELECT mode || ' ' || state FROM system.replication_links WHERE name = '{name}'"
    ).split()
    return mode, state


def link(target: HttpClient, source: HttpClient, cluster: str, table: str, name: str) -> str:
    """Makes a synchronous link, and returns its name at the source when it is enabled."""
    target.execute(
        f"CREATE REPLICATION LINK {name} ON {table} FROM CLUSTER west SETTINGS start_position = 'now', mode = 'sync', "
        "replication_timeout = 0.2"
    )
    wait(lambda: find_state(source, f"{cluster}/{name}") == ("sync", "enabled"), "the synchronous link")
    return f"{cluster}/{name}"


def test_an_insert_is_answered_when_every_replica_of_the_target_shows_it(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "orders")
    with west.client() as source, east.client() as target, east2.client() as other:
        at_source = link(target, source, "east", "orders", "o")
        for number in range(5):
            source.execute(f"INSERT INTO orders VALUES ({number}, 'a')")
            assert [client.value("SELECT count() FROM orders") for client in (source, target, other)] == [number + 1] * 3
        wait(lambda: find_state(target, "o") == ("sync", "enabled"), "the state at the target")
        assert "mode = 'sync'" in target.value("SHOW CREATE REPLICATION LINK o")
        source.execute(f"ALTER REPLICATION LINK '{at_source}' MODE async")
        wait(lambda: find_state(source, at_source) == ("async", "enabled"), "the asynchronous link")
        wait(lambda: find_state(target, "o")[0] == "async", "the mode at the target")
        target.execute("ALTER REPLICATION LINK o MODE sync")
        wait(lambda: find_state(source, at_source) == ("sync", "enabled"), "the link, again")
        target.execute("DROP REPLICATION LINK o")
        source.execute("INSERT INTO orders VALUES (9, 'a')")
        assert source.value("SELECT count() FROM orders") == 6


def test_nothing_is_stored_while_the_target_cannot_take_it(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "refused")
    with west.client() as source, east.client() as target:
        at_source = link(target, source, "east", "refused", "refused_l")
        west.know(west=[west.url], east=["http://127.0.0.1:9"], north=[servers["north"][0].url])
        with pytest.raises(PandoError, match="cannot be staged at cluster 'east'.*Nothing is stored") as caught:
            source.execute("INSERT INTO refused VALUES (1, 'a')")
        assert caught.value.name == "TOO_FEW_LIVE_REPLICAS"
        assert source.value("SELECT count() FROM refused") == 0
        source.execute(f"ALTER REPLICATION LINK '{at_source}' MODE async")
        source.execute("INSERT INTO refused VALUES (1, 'a')")  # waits while the target may still answer reads
        assert source.value("SELECT count() FROM refused") == 1
        source.execute(f"ALTER REPLICATION LINK '{at_source}' MODE sync")
        with pytest.raises(PandoError, match=f"{at_source} is enabling"):
            source.execute("INSERT INTO refused VALUES (2, 'a')")
        source.execute("INSERT INTO refused SETTINGS require_sync_replica = 0 VALUES (3, 'a')")
        assert source.value("SELECT count() FROM refused") == 2
        west.know(west=[west.url], east=[east.url, east2.url], north=[servers["north"][0].url])
        wait(lambda: find_state(source, at_source) == ("sync", "enabled"), "the link, again")
        assert target.value("SELECT count() FROM refused") == 2
        target.execute("DROP REPLICATION LINK refused_l")


def test_an_unknown_target_cannot_be_synchronous(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "unknown")
    urls = {name: [each.url for each in found] for name, found in servers.items()}
    west.know(west=urls["west"])
    try:
        with east.client() as target, pytest.raises(PandoError, match="which its servers do not know"):
            target.execute("CREATE REPLICATION LINK u ON unknown FROM CLUSTER west SETTINGS mode = 'sync'")
    finally:
        west.know(**urls)
    with east.client() as target:
        assert target.value("SELECT count() FROM system.replication_links WHERE name = 'u'") == 0


def test_two_targets(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2), north = servers["west"][0], servers["east"], servers["north"][0]
    create_table([west, east, east2, north], "both")
    with west.client() as source, east.client() as target, north.client() as far:
        link(target, source, "east", "both", "both_e")
        link(far, source, "north", "both", "both_n")
        source.execute("INSERT INTO both SELECT number, 'x' FROM numbers(100)")
        assert [client.value("SELECT count() FROM both") for client in (target, far)] == [100, 100]
        far.execute("DROP REPLICATION LINK both_n")
        source.execute("INSERT INTO both VALUES (1000, 'x')")
        assert target.value("SELECT count() FROM both") == 101
        target.execute("DROP REPLICATION LINK both_e")
