"""A table with rows is copied to another cluster, and followed, by real server processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from parts.common.errors import PandoError, UserError
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


def fill(clusters: LinkedClusters, table: str) -> None:
    west = clusters.clients["west"]
    for number in range(6):
        west[number % 2].execute(
            f"INSERT INTO {table} SELECT {number % 3}, number, 'v' FROM numbers({number * 100}, 100)"
        )
    west[0].execute(f"OPTIMIZE TABLE {table} PARTITION 1 FINAL")
    west[0].execute(f"ALTER TABLE {table} UPDATE v = 'w' WHERE k % 2 = 0 SETTINGS mutations_sync = 2")


def must_be_equal(clusters: LinkedClusters, table: str, name: str) -> None:
    clusters.settle("east", name)
    rows = f"SELECT * FROM {table} ORDER BY p, k, v"
    wanted = clusters.rows("west", rows)
    for server in clusters.clients["east"]:
        clusters.wait(lambda server=server: server.rows(rows) == wanted, "equal rows")


def test_a_table_with_rows_is_copied_and_followed(clusters: LinkedClusters, table: str) -> None:
    fill(clusters, table)
    name = f"l_{table}"
    clusters.link(name, "east", table, "west", start_position="")
    must_be_equal(clusters, table, name)
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 7, 'later')")
    clusters["west"].execute(f"ALTER TABLE {table} DROP PARTITION 1")
    must_be_equal(clusters, table, name)


def test_the_source_goes_on_while_it_is_copied(clusters: LinkedClusters, table: str) -> None:
    fill(clusters, table)
    name, is_over = f"l_{table}", threading.Event()

    def go_on(server: int) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            client = clusters.clients["west"][server]
            client.execute(f"INSERT INTO {table} VALUES ({number % 3}, {number}, 'of {server}')")
            if number in (10, 30):  # there is no place while mutations never end
                client.execute(f"ALTER TABLE {table} DELETE WHERE k = {number} SETTINGS mutations_sync = 0")
            if number % 30 == 20 and not server:
                with suppress(UserError):  # what is to be merged was not known when the selection began
                    client.execute(f"OPTIMIZE TABLE {table} PARTITION 2")

    writers = [threading.Thread(target=go_on, args=(server,)) for server in (0, 1)]
    for writer in writers:
        writer.start()
    try:
        clusters.link(name, "east", table, "west", start_position="")
        sql = f"SELECT upstream_status FROM system.replication_links WHERE name = '{name}'"
        clusters.wait(lambda: clusters.rows("east", sql) == [["follow"]], "the copy")
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    must_be_equal(clusters, table, name)


def test_what_a_target_has_is_replaced_on_demand(clusters: LinkedClusters, table: str) -> None:
    fill(clusters, table)
    name = f"l_{table}"
    clusters["east"].execute(f"INSERT INTO {table} VALUES (9, 9, 'mine')")
    with pytest.raises(PandoError, match="has 1 rows"):
        clusters.link(name, "east", table, "west", start_position="")
    clusters.link(name, "east", table, "west")
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 7, 'later')")
    clusters.settle("east", name)
    assert clusters.rows("east", f"SELECT k FROM {table} ORDER BY k") == [[7], [9]]
    clusters["east"].execute(f"SYSTEM BOOTSTRAP REPLICATION LINK {name}")
    must_be_equal(clusters, table, name)
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 8, 'later')")
    must_be_equal(clusters, table, name)


def test_a_target_of_another_definition_gets_the_rows(clusters: LinkedClusters, table: str) -> None:
    fill(clusters, table)
    clusters["east"].execute(f"ALTER TABLE {table} ADD COLUMN more UInt8 DEFAULT 3")
    name = f"l_{table}"
    clusters.link(name, "east", table, "west", start_position="")
    clusters["west"].execute(f"INSERT INTO {table} VALUES (0, 7, 'later')")
    clusters.settle("east", name)
    rows = f"SELECT p, k, v FROM {table} ORDER BY p, k, v"
    clusters.wait(lambda: clusters.rows("east", rows) == clusters.rows("west", rows), "equal rows")
    assert clusters.rows("east", f"SELECT DISTINCT more FROM {table}") == [[3]]
