"""Synchronous links between real engines of one process: modes, INSERTs that wait for targets, what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from engine.links.linkable_tables import require_linkable
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers
from tests.links.sync_links import find_state, make_sync_link, wait


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("sync"), west=1, east=2, north=1) as found:
        yield found


def test_an_insert_waits_for_every_replica_of_the_target(
    servers: dict[str, list[LinkedServer]],
) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "orders")
    with west.client() as source, east.client() as target, east2.client() as other:
        at_source = make_sync_link(target, source, "east", "orders", "o")
        for number in range(5):
            source.execute(f"INSERT INTO orders VALUES ({number}, 'a')")
            assert [client.value("SELECT count() FROM orders") for client in (source, target, other)] == [
                number + 1
            ] * 3
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


def test_a_replica_of_the_target_that_is_late_is_waited_for(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "tardy")
    with west.client() as source, east.client() as target, east2.client() as other:
        make_sync_link(target, source, "east", "tardy", "tardy_l")
        other.execute("SYSTEM STOP REPLICATION QUEUES tardy")
        with pytest.raises(PandoError, match="not every target shows") as caught:
            source.execute("INSERT INTO tardy SETTINGS insert_timeout = 1 VALUES (1, 'a')")
        assert caught.value.code == 319
        other.execute("SYSTEM START REPLICATION QUEUES tardy")
        source.execute("INSERT INTO tardy VALUES (1, 'a')")  # the same one waits again
        assert [client.value("SELECT count() FROM tardy") for client in (source, target, other)] == [1, 1, 1]
        target.execute("DROP REPLICATION LINK tardy_l")


def test_nothing_is_stored_while_the_target_cannot_take_it(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "refused")
    with west.client() as source, east.client() as target:
        at_source = make_sync_link(target, source, "east", "refused", "refused_l")
        west.know(west=[west.url], east=["http://127.0.0.1:9"], north=[servers["north"][0].url])
        with pytest.raises(PandoError, match=r"cannot be staged at cluster 'east'.*Nothing is stored") as caught:
            source.execute("INSERT INTO refused VALUES (1, 'a')")
        assert caught.value.name == "TOO_FEW_LIVE_REPLICAS"
        assert source.value("SELECT count() FROM refused") == 0
        began = time.monotonic()
        source.execute(f"ALTER REPLICATION LINK '{at_source}' MODE async")
        source.execute("INSERT INTO refused VALUES (1, 'a')")  # waits while the target may still answer reads
        assert time.monotonic() - began >= 4 * 0.2  # as long as four replication_timeout
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


def test_an_answer_in_time_tells_that_the_rows_are_stored(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "late")
    with west.client() as source, east.client() as target:
        make_sync_link(target, source, "east", "late", "late_l")
        tasks = [
            (each, task)
            for each in (east, east2)
            for (_, name), (_, task) in each.links._runners.items()
            if name == "late_l"
        ]
        for server, task in tasks:  # what the target is asked is answered, and nothing comes
            assert server.links._pool is not None
            server.links._pool.remove(task)
        insert = "INSERT INTO late SETTINGS insert_timeout = 0.5 VALUES (1, 'a')"
        for _ in range(2):  # a repeat waits as the original does
            with pytest.raises(PandoError, match="is decided: its rows are stored in this cluster") as caught:
                source.execute(insert)
            assert caught.value.name == "UNKNOWN_STATUS_OF_INSERT"
        source.execute("INSERT INTO late SETTINGS insert_transaction = 'job' VALUES (2, 'a')")
        for _ in range(2):
            with pytest.raises(PandoError, match="transaction 'job' is decided"):
                source.execute("COMMIT TRANSACTION 'job' ON late SETTINGS insert_timeout = 0.5")
        with pytest.raises(PandoError, match="comes to cluster 'east' later"):
            source.execute(
                "ALTER TABLE late UPDATE v = 'b' WHERE k = 1 SETTINGS mutations_sync = 3, receive_timeout = 1"
            )
        assert (source.value("SELECT count() FROM late"), target.value("SELECT count() FROM late")) == (2, 0)
        for server, task in tasks:
            assert server.links._pool is not None
            server.links._pool.add(task)
        source.execute("INSERT INTO late VALUES (1, 'a')")
        source.execute("COMMIT TRANSACTION 'job' ON late")
        source.execute("ALTER TABLE late UPDATE v = 'c' WHERE k = 2 SETTINGS mutations_sync = 3")
        assert target.value("SELECT groupArray(v) FROM (SELECT v FROM late ORDER BY k)") == ["b", "c"]
        target.execute("DROP REPLICATION LINK late_l")


def test_the_targets_of_now_get_what_is_left(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2) = servers["west"][0], servers["east"]
    create_table([west, east, east2], "moved")
    with west.client() as source, east.client() as target:
        at_source = make_sync_link(target, source, "east", "moved", "moved_l")
        services, moves = west.engine.services, iter([True])

        def failpoint(name: str) -> None:
            if name == "insert.before_commit" and next(moves, False):
                source.execute(f"ALTER REPLICATION LINK '{at_source}' MODE async")

        former, services.failpoint = services.failpoint, failpoint
        try:
            with west.client() as writer:
                writer.execute("INSERT INTO moved SETTINGS require_sync_replica = 0 VALUES (1, 'a')")
        finally:
            services.failpoint = former
        assert find_state(source, at_source) == ("async", "enabled")
        assert source.value("SELECT count() FROM moved") == 1
        keeper = west.engine.replication.require_keeper()
        log = [keeper.get(f"/tables/moved/log/{name}")[0] for name in keeper.children("/tables/moved/log")]
        assert log
        assert not any(b"sync_targets" in data for data in log)
        target.execute("DROP REPLICATION LINK moved_l")


def test_two_targets(servers: dict[str, list[LinkedServer]]) -> None:
    west, (east, east2), north = servers["west"][0], servers["east"], servers["north"][0]
    create_table([west, east, east2, north], "both")
    with west.client() as source, east.client() as target, north.client() as far:
        make_sync_link(target, source, "east", "both", "both_e")
        make_sync_link(far, source, "north", "both", "both_n")
        source.execute("INSERT INTO both SELECT number, 'x' FROM numbers(100)")
        assert [client.value("SELECT count() FROM both") for client in (target, far)] == [100, 100]
        far.execute("DROP REPLICATION LINK both_n")
        source.execute("INSERT INTO both VALUES (1000, 'x')")
        assert target.value("SELECT count() FROM both") == 101
        target.execute("DROP REPLICATION LINK both_e")


def test_the_links_of_a_database_may_be_synchronous(servers: dict[str, list[LinkedServer]]) -> None:
    west, north = servers["west"][0], servers["north"][0]
    with west.client() as source, north.client() as target:
        for client in (source, target):
            client.execute("CREATE DATABASE d")
        create_table([west, north], "d.t")
        target.execute(
            "CREATE REPLICATION LINK d ON DATABASE d FROM CLUSTER west DATABASE d SETTINGS mode = 'sync', "
            "replication_timeout = 0.2"
        )
        names = "SELECT name FROM system.replication_links WHERE database = 'd'"
        wait(lambda: source.rows(names), "the link's registration")
        at_source = str(source.value(names))
        wait(lambda: find_state(source, at_source) == ("sync", "enabled"), "the synchronous link")
        source.execute("INSERT INTO d.t VALUES (1, 'a')")
        assert target.value("SELECT count() FROM d.t") == 1
        target.execute("ALTER REPLICATION LINK d MODE async")
        wait(lambda: find_state(source, at_source) == ("async", "enabled"), "the asynchronous link")
        target.execute("DROP REPLICATION LINK d")


def test_a_link_waits_until_little_is_missing(
    servers: dict[str, list[LinkedServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    west, north = servers["west"][0], servers["north"][0]
    create_table([west, north], "tail")
    source_end = require_linkable(west.engine.catalog.table("default", "tail")).source
    asked: list[str] = []

    def measure_tail(name: str) -> int:
        asked.append(name)
        return 100

    monkeypatch.setattr(source_end, "measure_tail", measure_tail)
    with west.client() as source, north.client() as target:
        target.execute(
            "CREATE REPLICATION LINK tail ON tail FROM CLUSTER west SETTINGS start_position = 'now', mode = 'sync', "
            "replication_timeout = 0.2, link_sync_tail_bytes = 99"
        )
        wait(lambda: len(asked) >= 3, "the source to look how much is missing")
        assert find_state(source, "north/tail") == ("sync", "enabling")
        target.execute("ALTER REPLICATION LINK tail MODIFY SETTING link_sync_tail_bytes = 100")
        wait(lambda: find_state(source, "north/tail") == ("sync", "enabled"), "the synchronous link")
        target.execute("DROP REPLICATION LINK tail")
