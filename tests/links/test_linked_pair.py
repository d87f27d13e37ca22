"""Two clusters of real engines in one process: copies, writers on both sides, system tables, renamed tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from engine.http_client.http_client import HttpClient
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

_SECONDS = 30.0
_numbers = count(1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), west=1, east=1) as found:
        yield found


@pytest.fixture
def west(servers: dict[str, list[LinkedServer]]) -> Iterator[HttpClient]:
    with servers["west"][0].client() as client:
        yield client


@pytest.fixture
def east(servers: dict[str, list[LinkedServer]]) -> Iterator[HttpClient]:
    with servers["east"][0].client() as client:
        yield client


def make_table(servers: dict[str, list[LinkedServer]]) -> str:
    name = f"t{next(_numbers)}"
    create_table([*servers["west"], *servers["east"]], name)
    return name


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


LAST_WRITER = (
    "CREATE TABLE lww (k UInt64, v String) ENGINE = ReplicatedReplacingMergeTree('/tables/lww', '{replica}') "
    "ORDER BY k SETTINGS last_writer_wins = 1"
)


@pytest.mark.long
def test_two_clusters_agree_on_the_last_writer(west: HttpClient, east: HttpClient) -> None:
    for client in (west, east):
        client.execute(LAST_WRITER)
    for client, source in ((west, "east"), (east, "west")):
        client.execute(
            f"CREATE REPLICATION LINK lww ON lww FROM CLUSTER {source} SETTINGS two_way = 1, start_position = 'now'"
        )

    def settle() -> None:
        for _ in range(2):
            for client in (west, east):
                client.execute("SYSTEM WAIT REPLICATION LINK lww TIMEOUT 30")

    west.execute("INSERT INTO lww VALUES (1, 'west'), (2, 'west'), (3, 'west')")
    settle()
    east.execute("INSERT INTO lww VALUES (1, 'east')")
    east.execute("DELETE FROM lww WHERE k = 2")
    settle()
    for number in range(5):  # neither knows of the other's
        west.execute(f"INSERT INTO lww VALUES (4, 'west {number}')")
        east.execute(f"INSERT INTO lww VALUES (4, 'east {number}')")
    west.execute("ALTER TABLE lww UPDATE v = 'updated' WHERE k = 3")
    settle()
    query = "SELECT k, v FROM lww FINAL ORDER BY k"
    rows = west.rows(query)
    assert [row for row in rows if row[0] != 4] == [[1, "east"], [3, "updated"]]
    assert rows[-1] in ([4, "west 4"], [4, "east 4"])
    assert east.rows(query) == rows
    for client in (west, east):
        client.execute("OPTIMIZE TABLE lww FINAL")
        assert client.rows("SELECT k, v FROM lww ORDER BY k") == rows
        client.execute("DROP REPLICATION LINK lww")


def test_a_table_with_rows_is_copied_and_followed(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    """Parts that were merged and mutated, and then what comes after the place of the copy."""
    name, rows = make_table(servers), "SELECT * FROM {} ORDER BY k, v"
    for number in range(4):
        west.execute(f"INSERT INTO {name} SELECT number, 'of {number}' FROM numbers({number * 10}, 10)")
    west.execute(f"OPTIMIZE TABLE {name} FINAL")
    west.execute(f"ALTER TABLE {name} UPDATE v = 'updated' WHERE k % 7 = 0 SETTINGS mutations_sync = 1")
    east.execute(f"CREATE REPLICATION LINK c ON {name} FROM CLUSTER west")
    west.execute(f"INSERT INTO {name} VALUES (100, 'later')")
    east.execute("SYSTEM WAIT REPLICATION LINK c TIMEOUT 30")
    assert east.rows(rows.format(name)) == west.rows(rows.format(name))
    west.execute(f"ALTER TABLE {name} DELETE WHERE k < 50 SETTINGS mutations_sync = 1")
    east.execute("SYSTEM WAIT REPLICATION LINK c TIMEOUT 30")
    wait(lambda: east.rows(rows.format(name)) == [[100, "later"]], "the deletion")
    east.execute("DROP REPLICATION LINK c")


@pytest.mark.long
def test_every_field_is_shown_at_both_ends(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    name = make_table(servers)
    east.execute(f"CREATE REPLICATION LINK l ON {name} FROM CLUSTER west SETTINGS start_position = 'now'")
    west.execute(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    east.execute("SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
    position = west.value(f"SELECT currentPosition('{name}')")
    shown = (
        "SELECT name, direction, peer, peer_table, mode, state, enable_tracker, upstream_status, message, idle < 30, "
        "lag, errors, last_exception FROM system.replication_links"
    )
    as_now = [name, "async", "enabled", 1, "follow", "", 1, 0, 0, ""]
    wait(lambda: east.rows(shown) == [["l", "in", "west", *as_now]], "the link at its target")
    wait(lambda: [row[:3] for row in west.rows(shown)] == [["east/l", "out", "east"]], "the link at its source")
    ((at_source,),) = [row[7:8] for row in west.rows(shown)]
    assert at_source == "follow"
    places = "SELECT applied_position, source_position, start_position FROM system.replication_links"
    wait(lambda: east.rows(places) == [[position, position, "now"]], "the places at the target")
    zxid = str(position).partition(":")[2]
    wait(lambda: west.value("SELECT applied_position FROM system.replication_links") == zxid, "the acknowledgement")
    wait(lambda: west.value("SELECT confirmed_position FROM system.replication_links") == zxid, "the confirmation")
    counted = "SELECT rows_behind, bytes_behind, rows_applied, blocks_applied, is_leader FROM system.replication_links"
    assert east.rows(counted) == [[0, 0, 2, 1, 1]]
    given = "settings['preserve_timestamps'], settings['upstream_replica_id'], settings['two_way']"
    assert east.rows(f"SELECT {given} FROM system.replication_links") == [["1", "", "0"]]
    outbox = "SELECT last_position, blocks, bytes > 0, needed_by FROM system.link_outbox WHERE table = '{}'"
    wait(lambda: west.rows(outbox.format(name))[0][:3] == [position, 1, 1], "the block in the outbox")
    assert west.value(f"SELECT trimmed_position != '{position}' FROM system.link_outbox WHERE table = '{name}'") == 1
    east.execute("DROP REPLICATION LINK l")


def test_renamed_tables_stay_linked(servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient) -> None:
    name = make_table(servers)
    east.execute(
        f"CREATE REPLICATION LINK r ON {name} FROM CLUSTER west "
        "SETTINGS start_position = 'now', replication_timeout = 0.2"
    )
    west.execute(f"INSERT INTO {name} VALUES (1, 'a')")
    east.execute(f"RENAME TABLE {name} TO renamed")
    east.execute("SYSTEM WAIT REPLICATION LINK r TIMEOUT 30")
    assert east.value("SELECT count() FROM renamed") == 1
    west.execute(f"RENAME TABLE {name} TO elsewhere")
    west.execute("INSERT INTO elsewhere VALUES (2, 'b')")
    wait(lambda: east.value("SELECT count() FROM renamed") == 2, "the row of the renamed source")
    source = "SELECT peer_table FROM system.replication_links WHERE name = 'r'"
    wait(lambda: east.value(source) == "elsewhere", "the source's new name")
    west.execute("CREATE DATABASE other")
    west.execute("RENAME TABLE elsewhere TO other.t")
    west.execute(f"CREATE TABLE {name} AS other.t ENGINE = ReplicatedMergeTree('/tables/{name}_new', 'r1') ORDER BY k")
    west.execute("INSERT INTO other.t VALUES (3, 'c')")
    east.execute("SYSTEM WAIT REPLICATION LINK r TIMEOUT 30")
    assert east.value("SELECT count() FROM renamed") == 3
    assert "FROM CLUSTER west TABLE other.t" in east.value("SHOW CREATE REPLICATION LINK r")
    east.execute("DROP REPLICATION LINK r")
