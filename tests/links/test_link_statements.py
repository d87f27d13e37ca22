"""What statements about links do, and every error: named, and leaving nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.links.link_nodes import StoredLink, change_link, require_link
from coordination.links.positions import Origin, Position
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import LinkDirection, LinkMode
from coordination.nodes.paths import TablePaths
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from engine.tables.capabilities.table_links import OutgoingLink
from engine.tables.replicated.links.source.outgoing_nodes import read_outgoing
from parts.common.errors import PandoError, UnavailableError, UserError
from tests.links.link_tables import NORTH
from tests.links.linked_server import SOURCE, LinkedServer, linked_server

CREATE = "CREATE REPLICATION LINK l ON default.orders FROM CLUSTER west TABLE db.orders"
AWAY = UnavailableError("NETWORK_ERROR", "no server of cluster 'west' answers")


@pytest.fixture
def east(tmp_path: Path) -> Iterator[LinkedServer]:
    with linked_server(tmp_path) as made:
        made.make_table()
        yield made


def test_a_link_is_made_shown_and_dropped(east: LinkedServer) -> None:
    east.sql(f"{CREATE} SETTINGS link_quorum = 3, replication_timeout = 0.5")
    (link,) = east.gate().links
    assert (link.name, link.direction, link.peer_name) == ("l", LinkDirection.IN, "west")
    registered = east.west.registered["east/l"]
    assert (registered.uuid, registered.target_cluster_name) == (link.uuid, "east")
    assert registered.target_cluster == east.cluster_uuid
    assert east.links.wakes
    assert east.sql("SHOW CREATE REPLICATION LINK l") == [
        (
            "CREATE REPLICATION LINK l\nON default.orders\nFROM CLUSTER west TABLE db.orders\n"
            "SETTINGS link_quorum = 3, replication_timeout = 0.5",
        )
    ]
    (row,) = east.sql(
        "SELECT name, direction, database, table, peer, peer_database, peer_table, mode, state, upstream_status, "
        "settings['link_quorum'], settings['enabled'], is_leader FROM system.replication_links"
    )
    assert row == (
        "l", "in", "default", "orders", "west", "db", "orders", "async", "enabled", "disconnected", "3", "1", 0,
    )  # fmt: skip
    assert [each[0] for each in east.sql("SHOW REPLICATION LINKS LIKE 'l%'")] == ["l"]
    assert east.sql("SHOW REPLICATION LINKS LIKE 'x%'") == []
    east.sql("DROP REPLICATION LINK l")
    assert east.has_nothing()
    assert east.sql("SHOW REPLICATION LINKS") == []


def test_the_shown_statement_makes_the_same_link(east: LinkedServer) -> None:
    east.sql(f"{CREATE} SETTINGS enabled = 0, two_way = 1, start_position = 'now'")
    ((text,),) = east.sql("SHOW CREATE REPLICATION LINK l")
    east.sql("DROP REPLICATION LINK l")
    east.sql(str(text))
    assert east.sql("SHOW CREATE REPLICATION LINK l") == [(text,)]
    assert east.gate().links[0].is_two_way
    assert east.sql("SELECT state, start_position FROM system.replication_links") == [("disabled", "now")]


def test_names_that_are_left_out_are_the_target_s(east: LinkedServer) -> None:
    east.sql("CREATE REPLICATION LINK l ON orders FROM CLUSTER west")
    ((text,),) = east.sql("SHOW CREATE REPLICATION LINK l")
    assert str(text).endswith("FROM CLUSTER west TABLE default.orders")


def test_if_exists(east: LinkedServer) -> None:
    east.sql(CREATE)
    assert east.fails(CREATE) == (36, "There is a link 'l' already; DROP REPLICATION LINK l ends it")
    east.sql(CREATE.replace("LINK l", "LINK IF NOT EXISTS l"))
    east.sql("DROP REPLICATION LINK l")
    code, message = east.fails("DROP REPLICATION LINK l")
    assert (code, "There is no link 'l'" in message) == (36, True)
    east.sql("DROP REPLICATION LINK IF EXISTS l")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (CREATE.replace("LINK l", "LINK `a/b`"), 36, "No link can be named 'a/b'"),
        (CREATE.replace("west", "north"), 36, "'north' is not among linked_clusters"),
        (CREATE.replace("default.orders", "default.none"), 60, "table default.none, is not on this server"),
        (CREATE.replace("default.orders", "none.orders"), 81, "none"),
        (CREATE.replace("default.orders", "system.tables"), 164, "read-only"),
        (CREATE.replace("default.orders", "plain"), 48, "default.plain is MergeTree"),
        (CREATE.replace("default.orders", "remote"), 48, "default.remote is Distributed"),
        (CREATE.replace("default.orders", "seen"), 48, "default.seen is View"),
        (f"{CREATE} SETTINGS colour = 1", 115, "Unknown setting 'colour' of a link"),
        (f"{CREATE} SETTINGS mode = 'slow'", 36, "'sync' or 'async'"),
        (f"{CREATE} SETTINGS two_way = 1, auto_bootstrap = 1", 36, "exclude each other"),
        (f"{CREATE} SETTINGS start_position = 'vector'", 36, f"needs a table that has changes of {SOURCE}"),
        (f"{CREATE} SETTINGS start_position = '{SOURCE}:101'", 36, "behind the newest change of the source, 100"),
        (
            f"{CREATE} SETTINGS start_position = '{Position(SOURCE.__class__(NORTH, 17, SOURCE.epoch), 5)}'",
            36,
            f"cluster {NORTH} instead of",
        ),
    ],
)
def test_what_cannot_be_linked_is_refused_by_name(east: LinkedServer, text: str, code: int, message: str) -> None:
    east.sql("CREATE TABLE plain (k UInt64) ENGINE = MergeTree ORDER BY k")
    east.sql("CREATE TABLE remote AS plain ENGINE = Distributed('c', default, plain)")
    east.sql("CREATE VIEW seen AS SELECT 1")
    found_code, found = east.fails(text)
    assert (found_code, message in found) == (code, True), found
    assert east.has_nothing()


def test_a_table_is_not_linked_to_itself(east: LinkedServer) -> None:
    east.west.uuid, east.west.origin = east.cluster_uuid, east.adopt("orders").own
    assert east.fails(CREATE) == (36, "Table default.orders cannot be linked to itself")
    assert east.has_nothing()


def test_a_target_with_rows_says_what_they_are(east: LinkedServer) -> None:
    east.sql("INSERT INTO orders VALUES (1), (2)")
    code, message = east.fails(CREATE)
    assert code == 36
    assert message.startswith("Table default.orders has 2 rows")
    assert "start_position = 'now'" in message
    assert east.has_nothing()
    east.sql(f"{CREATE} SETTINGS start_position = 'now'")


def test_a_second_source_is_refused_unless_both_links_let_others_write(east: LinkedServer) -> None:
    east.sql(CREATE)
    code, message = east.fails(CREATE.replace("LINK l", "LINK m").replace("db.orders", "db.more"))
    assert (code, "link 'l' lets nobody else write" in message) == (36, True)
    assert list(east.west.registered) == ["east/l"]
    east.sql("DROP REPLICATION LINK l")
    east.sql(f"{CREATE} SETTINGS preserve_timestamps = 0")
    code, message = east.fails(CREATE.replace("LINK l", "LINK m"))
    assert (code, "Link 'l' brings the changes of db.orders of cluster west" in message) == (36, True)
    more = CREATE.replace("LINK l", "LINK m").replace("db.orders", "db.more")
    east.sql(f"{more} SETTINGS preserve_timestamps = 0")
    assert [link.name for link in east.gate().links] == ["l", "m"]


@pytest.mark.parametrize("request_", ["hello", "describe", "register"])
@pytest.mark.parametrize(
    "error",
    [
        AWAY,
        UserError("AUTHENTICATION_FAILED", "linker: Authentication failed"),
        UserError("READONLY", "Cannot carry out /links/register in readonly mode"),
        UserError("NOT_IMPLEMENTED", "Only tables of Replicated engines can be linked"),
    ],
    ids=lambda error: error.name,
)
def test_a_source_that_refuses_or_is_away_leaves_nothing(east: LinkedServer, request_: str, error: PandoError) -> None:
    east.west.fails[request_] = error
    assert east.fails(CREATE) == (error.code, error.message)
    assert east.has_nothing()
    east.west.fails.clear()
    east.sql(CREATE)


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST])
def test_a_link_whose_multi_has_no_answer_is_there_or_not(east: LinkedServer, fault: Fault) -> None:
    keeper = east.engine.replication.require_keeper()
    left = [1]

    def on_request(_: object, kind: str, path: str) -> Fault | None:
        if kind != "multi" or not path.endswith("links/gate"):
            return None
        left[0] -= 1
        return fault if left[0] == 0 else None

    east.servers.on_request = on_request  # type: ignore[assignment]
    with pytest.raises(PandoError):
        east.sql(CREATE)
    east.servers.on_request = lambda *_: None
    keeper.reconnect()  # type: ignore[attr-defined]
    assert not east.west.registered
    if fault is Fault.LOSE_REQUEST:
        assert east.has_nothing()
    east.sql("DROP REPLICATION LINK IF EXISTS l")
    assert east.has_nothing()


def test_alter_changes_settings(east: LinkedServer) -> None:
    east.sql(f"{CREATE} SETTINGS link_quorum = 3")
    east.sql("ALTER REPLICATION LINK l DISABLE")
    assert east.sql("SELECT state, settings['enabled'] FROM system.replication_links") == [("disabled", "0")]
    east.sql("ALTER REPLICATION LINK l ENABLE")
    east.sql("ALTER REPLICATION LINK l MODE async")
    east.sql("ALTER REPLICATION LINK l MODIFY SETTING link_quorum = DEFAULT, replication_throttler_limit = 1000000")
    assert east.sql(
        "SELECT state, settings['link_quorum'], settings['replication_throttler_limit'] FROM system.replication_links"
    ) == [("enabled", "2", "1000000")]
    ((text,),) = east.sql("SHOW CREATE REPLICATION LINK l")
    assert str(text).endswith("SETTINGS replication_throttler_limit = 1000000, mode = 'async'") or "mode" in str(text)


def test_the_source_is_asked_for_a_mode_whatever_the_definition_has(east: LinkedServer) -> None:
    east.sql(CREATE)
    for mode in (LinkMode.ASYNC, LinkMode.SYNC, LinkMode.SYNC):
        east.sql(f"ALTER REPLICATION LINK l MODE {mode.value}")
    east.sql("ALTER REPLICATION LINK l DISABLE")
    assert east.west.modes == [(LinkMode.ASYNC, False), *2 * [(LinkMode.SYNC, False)], (None, True)]


def test_an_older_source_takes_what_it_knows(east: LinkedServer) -> None:
    east.sql(CREATE)
    east.west.fails["mode"] = UnavailableError("NOT_IMPLEMENTED", "too old")
    east.sql("ALTER REPLICATION LINK l MODE async")
    assert east.fails("ALTER REPLICATION LINK l MODE sync") == (48, "too old")
    east.west.fails["mode"] = UnavailableError("NETWORK_ERROR", "away")
    assert east.fails("ALTER REPLICATION LINK l MODE async") == (210, "away")
    east.sql("ALTER REPLICATION LINK l DISABLE")
    assert east.sql("SELECT mode, state FROM system.replication_links") == [("async", "disabled")]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("ALTER REPLICATION LINK l MODE slow", 36, "'sync' or 'async'"),
        ("ALTER REPLICATION LINK l MODIFY SETTING preserve_timestamps = 0", 36, "preserve_timestamps is fixed when"),
        ("ALTER REPLICATION LINK l MODIFY SETTING start_position = 'now'", 36, "start_position is fixed"),
        ("ALTER REPLICATION LINK l MODIFY SETTING link_quorum = 0", 69, "1 to 100"),
        ("ALTER REPLICATION LINK l MODIFY SETTING colour = DEFAULT", 115, "'colour'"),
        ("ALTER REPLICATION LINK m DISABLE", 36, "There is no link 'm' whose target is this cluster; the links are: l"),
        ("ALTER REPLICATION LINK 'north/x' DISABLE", 36, "at its target, cluster north"),
        ("SHOW CREATE REPLICATION LINK m", 36, "There is no link 'm'"),
        ("SYSTEM WAIT REPLICATION LINK m", 36, "There is no link 'm'"),
        ("DROP REPLICATION LINK 'north/x'", 36, "No table of this server keeps changes for link 'north/x'"),
    ],
)
def test_what_a_link_does_not_take_is_refused_by_name(east: LinkedServer, text: str, code: int, message: str) -> None:
    east.sql(CREATE)
    found_code, found = east.fails(text)
    assert (found_code, message in found) == (code, True), found


def test_a_link_becomes_two_way_when_its_source_knows(east: LinkedServer) -> None:
    east.sql(CREATE)
    east.west.fails["register"] = AWAY
    assert east.fails("ALTER REPLICATION LINK l MODIFY SETTING two_way = 1")[0] == AWAY.code
    assert not east.gate().links[0].is_two_way
    east.west.fails.clear()
    east.sql("ALTER REPLICATION LINK l MODIFY SETTING two_way = 1")
    assert east.gate().links[0].is_two_way
    assert east.west.registered["east/l"].is_two_way
    assert east.fails("ALTER REPLICATION LINK l MODIFY SETTING auto_bootstrap = 1")[0] == 36


def test_a_table_in_which_order_counts_does_not_become_two_way(east: LinkedServer) -> None:
    engine = "ReplicatedReplacingMergeTree('/east/last', '{replica}')"
    east.sql(f"CREATE TABLE last (k UInt64) ENGINE = {engine} ORDER BY k")
    east.adopt("last")
    create = CREATE.replace("default.orders", "default.last")
    assert east.fails(f"{create} SETTINGS two_way = 1")[0] == 36
    east.sql(create)
    code, message = east.fails("ALTER REPLICATION LINK l MODIFY SETTING two_way = 1")
    assert (code, "cannot take rows of several origins" in message) == (36, True)
    assert not east.gate("last").links[0].is_two_way
    assert not east.west.registered["east/l"].is_two_way


@pytest.mark.parametrize("drop", ["DROP TABLE shop.orders", "DROP TABLE shop.other, shop.orders", "DROP DATABASE shop"])
@pytest.mark.parametrize("is_away", [False, True])
def test_the_last_replica_of_a_target_ends_its_links(east: LinkedServer, drop: str, is_away: bool) -> None:
    east.sql("CREATE DATABASE shop")
    east.sql("CREATE TABLE shop.other (k UInt64) ENGINE = MergeTree ORDER BY k")
    for replica in ("one", "two"):
        name = "shop.orders" if replica == "two" else "spare"
        east.sql(f"CREATE TABLE {name} (k UInt64) ENGINE = ReplicatedMergeTree('/east/shop', '{replica}') ORDER BY k")
    east.sql(CREATE.replace("default.orders", "shop.orders"))
    assert list(east.west.registered) == ["east/l"]
    east.sql("DROP TABLE spare")
    assert list(east.west.registered) == ["east/l"]  # a replica is left
    if is_away:
        east.west.fails["unregister"] = AWAY
        code, message = east.fails(drop)
        assert code == 341
        assert message.endswith("When it is back, run there: DROP REPLICATION LINK 'east/l'")
    else:
        east.sql(drop)
        assert east.west.registered == {}
    assert east.sql("SELECT name FROM system.tables WHERE name = 'orders' AND database = 'shop'") == []
    keeper = east.engine.replication.require_keeper()
    assert keeper.children("/pando/links") == []


def test_detach_keeps_a_link(east: LinkedServer) -> None:
    east.sql("CREATE TABLE lines (k UInt64) ENGINE = ReplicatedMergeTree('/east/lines', 'one') ORDER BY k")
    east.sql(CREATE.replace("default.orders", "lines"))
    east.sql("DETACH TABLE lines")
    assert list(east.west.registered) == ["east/l"]
    east.sql("ATTACH TABLE lines")
    assert east.sql("SELECT table FROM system.replication_links WHERE name = 'l'") == [("lines",)]


def test_a_table_without_a_group_has_no_cut(east: LinkedServer) -> None:
    code, message = east.fails("SELECT lastCut('orders')")
    assert code == 36
    assert "in no transactional group" in message
    assert east.fails("SELECT lastCut('nothing')")[0] == 36


def test_read_only_sessions_see_links_and_change_none(east: LinkedServer) -> None:
    east.sql(CREATE)
    for text in ("SHOW REPLICATION LINKS", "SHOW CREATE REPLICATION LINK l", "SELECT * FROM system.link_positions"):
        assert east.server.sql(text, readonly=1)[1]
    for text in (CREATE, "ALTER REPLICATION LINK l DISABLE", "DROP REPLICATION LINK l"):
        with pytest.raises(PandoError) as error:
            east.server.sql(text, readonly=1)
        assert error.value.code == 164


def test_a_drop_while_the_source_is_away_says_what_to_run_there(east: LinkedServer) -> None:
    east.sql(CREATE)
    east.west.fails["unregister"] = AWAY
    code, message = east.fails("DROP REPLICATION LINK l")
    assert code == 341
    assert message.endswith("When it is back, run there: DROP REPLICATION LINK 'east/l'")
    assert not east.gate().links
    assert list(east.west.registered) == ["east/l"]


def test_a_drop_at_the_source_ends_the_keeping(east: LinkedServer) -> None:
    chosen = east.adopt("orders")
    chosen.outgoing = [OutgoingLink("north/o", "u", NORTH, "north")]
    assert east.sql("SELECT name, direction, peer, upstream_status FROM system.replication_links") == [
        ("north/o", "out", "north", "disconnected")
    ]
    east.sql("DROP REPLICATION LINK 'north/o'")
    assert chosen.outgoing == []
    east.sql("DROP REPLICATION LINK IF EXISTS 'north/o'")


def test_wait_returns_when_what_the_source_had_is_applied(east: LinkedServer) -> None:
    chosen = east.adopt("orders")
    east.sql(CREATE)
    chosen.vector = VersionVector().begin_at(Position(SOURCE, 0)).advance(Position(SOURCE, 99))
    east.links.progress["l"] = LinkProgress(UpstreamStatus.PAUSED, "column v is missing")
    code, message = east.fails("SYSTEM WAIT REPLICATION LINK l TIMEOUT 0.05")
    assert code == 159
    assert f"has not reached position {SOURCE}:100 after 0.05 seconds; it is at {SOURCE}:99 (paused)" in message
    assert message.endswith("column v is missing")
    east.sql(f"SYSTEM WAIT REPLICATION LINK l POSITION '{SOURCE}:99' TIMEOUT 0")
    chosen.vector = chosen.vector.advance(Position(SOURCE, 100))
    east.sql("SYSTEM WAIT REPLICATION LINK l TIMEOUT 0.05")
    chosen.visible = UnavailableError("TIMEOUT_EXCEEDED", "replica r2")
    code, message = east.fails("SYSTEM WAIT REPLICATION LINK l TIMEOUT 0.05")
    assert (code, f"applied position {SOURCE}:100, but not every active replica shows it" in message) == (159, True)


def test_a_copy_is_asked_for(east: LinkedServer) -> None:
    east.sql(f"{CREATE} SETTINGS enabled = 0")
    assert "is disabled, so it copies nothing" in east.fails("SYSTEM BOOTSTRAP REPLICATION LINK l")[1]
    east.sql("ALTER REPLICATION LINK l ENABLE")
    east.sql("SYSTEM BOOTSTRAP REPLICATION LINK l")
    found = require_link(east.engine.replication.require_keeper(), "l")
    assert isinstance(found, StoredLink)
    assert (found.definition.is_begun, found.definition.wants_copy) == (False, True)
    east.links.can_copy = False
    assert east.fails("SYSTEM BOOTSTRAP REPLICATION LINK l")[0] == 48


@pytest.mark.parametrize(
    ("path", "name", "state"),
    [
        ("/pando/links/l", "l", "unreadable"),
        ("/east/orders/links/in/l", "l", "unreadable"),
        ("/east/orders/links/in/l/status", "l", "enabled"),
        ("/east/orders/links/out/north.x", "", "unreadable"),
    ],
)
def test_what_cannot_be_read_of_one_link_hides_no_other(east: LinkedServer, path: str, name: str, state: str) -> None:
    east.sql(CREATE)
    east.make_table("lines")
    east.sql("CREATE REPLICATION LINK other ON lines FROM CLUSTER west TABLE db.lines")
    if "/out/" in path:
        chosen = east.adopt("orders")
        chosen.list_outgoing = lambda: read_outgoing(  # type: ignore[method-assign]
            east.engine.replication.require_keeper(), TablePaths("/east/orders")
        )
    keeper = east.engine.replication.require_keeper()
    keeper.create_parents(path)
    keeper.set(path, b'{"version":9,"kind":"table"}')
    rows = east.sql("SELECT name, state, message FROM system.replication_links ORDER BY name")
    (bad,) = [row for row in rows if "understands 1" in str(row[2])]
    assert bad[:2] == (name, state)
    assert "other" in [row[0] for row in rows]
    assert len(east.sql("SHOW REPLICATION LINKS")) == len(rows)


def test_metrics_are_told_while_zookeeper_is_away(east: LinkedServer) -> None:
    east.sql(CREATE)
    counted = "SELECT value FROM system.metrics WHERE metric = 'ReplicationLink'"
    assert east.sql(counted) == [(1,)]
    keeper = east.engine.replication.require_keeper()
    keeper.disconnect()  # type: ignore[attr-defined]
    assert east.sql(counted) == [(0,)]
    assert east.fails("SHOW REPLICATION LINKS")[0] == 999
    keeper.reconnect()  # type: ignore[attr-defined]


def test_an_origin_is_forgotten_when_it_is_gone(east: LinkedServer) -> None:
    gone = Origin(NORTH, 5, SOURCE.epoch)
    text = f"SYSTEM FORGET LINK ORIGIN '{gone}' ON orders"
    assert "no link ever brought any" in east.fails(f"{text} FORCE")[1]
    table = east.engine.catalog.table("default", "orders")
    assert table.replication is not None
    keeper, path = table.replication.require_keeper(), table.replication.paths.linked.vector
    keeper.create(path, VersionVector().begin_at(Position(gone, 9)).begin_at(Position(SOURCE, 9)).to_bytes())
    east.sql(f"{text} FORCE")
    east.sql(f"{text} FORCE")
    assert east.sql("SELECT origin, is_forgotten FROM system.link_positions") == []  # no link is there
    vector = VersionVector.parse(keeper.get(path)[0])
    assert vector.covers(Position(gone, 10**9))
    assert not vector.covers(Position(SOURCE, 10))
    own = east.engine.current_position("default", "orders").partition(":")[0]
    assert "is the table itself" in east.fails(text.replace(str(gone), own) + " FORCE")[1]
    assert east.fails("SYSTEM FORGET LINK ORIGIN 'x' ON orders FORCE")[0] == 36
    east.sql(f"{CREATE} SETTINGS start_position = 'now'")
    change_link(keeper, "l", lambda link: replace(link, source_origin=str(SOURCE)))
    assert "is the source of link 'l'" in east.fails(text.replace(str(gone), str(SOURCE)) + " FORCE")[1]


def test_positions_of_a_table_are_its_own_and_those_of_its_vector(east: LinkedServer) -> None:
    assert east.sql("SELECT * FROM system.link_positions") == []
    east.sql(CREATE)
    table = east.engine.catalog.table("default", "orders")
    assert table.replication is not None
    vector = VersionVector().begin_at(Position(SOURCE, 7)).advance(Position(SOURCE, 90))
    table.replication.require_keeper().create(table.replication.paths.linked.vector, vector.to_bytes())
    (own, other) = east.sql("SELECT database, table, origin, position, is_own, begin FROM system.link_positions")
    assert other == ("default", "orders", str(SOURCE), f"{SOURCE}:90", 0, 7)
    assert own[4] == 1
    assert str(own[3]) == east.engine.current_position("default", "orders")
