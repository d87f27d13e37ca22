"""Links of databases: missing tables are made, each table has a link, and what cannot be linked is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coordination.links.link_names import DatabaseLink, find_link_name
from engine.links.databases.database_links import STEP_SECONDS, DatabaseLinks, adopt_definition
from engine.remote.linked_cluster import LinkableTable
from engine.tables.capabilities.table_links import OutgoingLink, SourceTable
from parts.common.errors import UnavailableError, UserError
from sql.definitions.definition_text import render_create
from tests.links.linked_server import LinkedServer, linked_server

CREATE = "CREATE REPLICATION LINK d ON DATABASE default FROM CLUSTER west DATABASE db"


@pytest.fixture
def east(tmp_path: Path) -> Iterator[LinkedServer]:
    with linked_server(tmp_path) as made:
        yield made


def step(east: LinkedServer, *made: str) -> None:
    """Gives tables that were made ends of links, and looks at the source once more."""
    for name in made:
        east.adopt(name)
    with east.server.acting():
        assert DatabaseLinks(east.engine).run_once() == STEP_SECONDS


def members(east: LinkedServer) -> list[tuple[object, ...]]:
    return east.sql(
        "SELECT name, table, state FROM system.replication_links WHERE database_link = 'd' AND direction = 'in' "
        "ORDER BY name"
    )


def message(east: LinkedServer) -> str:
    ((found,),) = east.sql("SELECT message FROM system.replication_links WHERE name = 'd'")
    return str(found)


def test_tables_are_made_and_linked_now_and_later(east: LinkedServer) -> None:
    east.west.add_table("orders")
    east.west.add_table("plain", "Only tables of Replicated engines can be linked, and db.plain is MergeTree")
    east.sql(f"{CREATE} SETTINGS link_quorum = 1")
    step(east, "orders")
    assert members(east) == [("d.orders", "orders", "enabled")]
    assert "plain (Only tables of Replicated engines can be linked" in message(east)
    assert message(east).startswith("Left out: ")
    assert east.sql("SELECT zookeeper_path FROM system.replicas WHERE table = 'orders'") == [
        ("/clickhouse/tables/default/orders/1",)
    ]
    east.west.add_table("a b")
    step(east)
    step(east, "a b")
    assert members(east) == [("d.a%20b", "a b", "enabled"), ("d.orders", "orders", "enabled")]
    assert sorted(east.west.registered) == ["east/d.a%20b", "east/d.orders"]
    assert east.sql("SHOW CREATE REPLICATION LINK d") == [
        ("CREATE REPLICATION LINK d\nON DATABASE default\nFROM CLUSTER west DATABASE db\nSETTINGS link_quorum = 1",)
    ]


def test_a_table_that_cannot_be_linked_yet_is_named(east: LinkedServer) -> None:
    east.sql("CREATE TABLE orders (k UInt64) ENGINE = MergeTree ORDER BY k")
    east.west.add_table("orders")
    east.sql(CREATE)
    assert message(east).startswith("Not linked yet: orders (Only tables of Replicated engines can be linked")


def test_a_change_is_that_of_all_tables(east: LinkedServer) -> None:
    for name in ("orders", "lines"):
        east.west.add_table(name)
    east.sql(CREATE)
    step(east, "orders", "lines")
    east.sql("ALTER REPLICATION LINK d DISABLE")
    assert [state for *_, state in members(east)] == ["disabled", "disabled"]
    east.west.add_table("late")
    east.sql("ALTER REPLICATION LINK d ENABLE")
    east.sql("ALTER REPLICATION LINK d MODIFY SETTING link_quorum = 5")
    step(east)
    step(east, "late")
    assert east.sql("SELECT settings['link_quorum'] FROM system.replication_links") == [("5",)] * 4
    assert [state for *_, state in members(east)] == ["enabled"] * 3
    assert east.fails("ALTER REPLICATION LINK d MODIFY SETTING preserve_timestamps = 0")[0] == 36


def test_a_change_that_fails_at_one_table_is_that_of_the_others(east: LinkedServer) -> None:
    for name in ("items", "orders"):
        east.west.add_table(name)
    east.sql(CREATE)
    step(east, "items", "orders")
    refused = UnavailableError("NETWORK_ERROR", "away")
    register = east.west.register

    def refuse(database: str, table: str, link: OutgoingLink) -> SourceTable:
        if table == "items":
            raise refused
        return register(database, table, link)

    east.west.register = refuse  # type: ignore[method-assign]
    code, found = east.fails("ALTER REPLICATION LINK d MODIFY SETTING two_way = 1")
    assert (code, "1 of 2 links failed, repeat the statement: d.items: away" in found) == (341, True)
    assert [link.is_two_way for link in east.gate("orders", "/clickhouse/tables/default/orders/1").links] == [True]
    east.west.register = register  # type: ignore[method-assign]
    east.sql("ALTER REPLICATION LINK d MODIFY SETTING two_way = 1")
    assert [link.is_two_way for link in east.gate("items", "/clickhouse/tables/default/items/1").links] == [True]


def test_a_link_whose_source_goes_away_while_it_is_made_is_there(east: LinkedServer) -> None:
    asked: list[str] = []
    list_tables = east.west.list_tables

    def go_away(database: str) -> Sequence[LinkableTable]:
        asked.append(database)
        if len(asked) == 2:
            raise UnavailableError("NETWORK_ERROR", "away")
        return list_tables(database)

    east.west.list_tables = go_away  # type: ignore[method-assign]
    east.west.add_table("orders")
    east.sql(CREATE)
    step(east)
    step(east, "orders")
    assert members(east) == [("d.orders", "orders", "enabled")]


def test_a_drop_takes_all_links(east: LinkedServer) -> None:
    for name in ("orders", "lines"):
        east.west.add_table(name)
    east.sql(CREATE)
    step(east, "orders", "lines")
    code, found = east.fails("DROP REPLICATION LINK `d.orders`")
    assert (code, "belongs to the link 'd' of a database" in found) == (36, True)
    east.sql("DROP REPLICATION LINK d")
    assert east.sql("SHOW REPLICATION LINKS") == []
    assert east.west.registered == {}
    assert {each[0] for each in east.sql("SHOW TABLES")} == {"orders", "lines", "t"}


def test_a_drop_while_the_source_is_away_says_what_to_run_there(east: LinkedServer) -> None:
    east.west.add_table("orders")
    east.sql(CREATE)
    step(east, "orders")
    east.west.fails["unregister"] = UnavailableError("NETWORK_ERROR", "away")
    code, found = east.fails("DROP REPLICATION LINK d")
    assert (code, "DROP REPLICATION LINK 'east/d.orders'" in found) == (341, True)
    assert east.sql("SHOW REPLICATION LINKS") == []


def test_a_source_that_is_away_is_told_and_healed(east: LinkedServer) -> None:
    east.sql(CREATE)
    east.west.fails["tables"] = UnavailableError("NETWORK_ERROR", "no server of cluster 'west' answers")
    step(east)
    status = "SELECT upstream_status, message FROM system.replication_links WHERE name = 'd'"
    assert east.sql(status) == [("disconnected", "no server of cluster 'west' answers")]
    east.west.fails.clear()
    step(east)
    assert east.sql(status) == [("follow", "")]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (CREATE.replace("default", "none"), 81, "none"),
        (CREATE.replace("default", "system"), 164, "read-only"),
        (CREATE.replace("west", "north"), 36, "'north' is not among linked_clusters"),
        (f"{CREATE} SETTINGS start_position = '11111111-1111-4111-8111-111111111111.7.1-0000000000000007:1'", 36,
         "is a position of one table"),
        (CREATE.replace("LINK d", "LINK `d/e`"), 36, "No link can be named"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(east: LinkedServer, text: str, code: int, message: str) -> None:
    found_code, found = east.fails(text)
    assert (found_code, message in found) == (code, True), found
    assert east.sql("SHOW REPLICATION LINKS") == []


def test_two_links_of_one_pair_and_a_name_twice_are_refused(east: LinkedServer) -> None:
    east.sql(CREATE)
    east.sql(CREATE.replace("LINK d", "LINK IF NOT EXISTS d"))
    assert "There is a link 'd' already" in east.fails(CREATE)[1]
    assert "Link 'd' is of the same two databases" in east.fails(CREATE.replace("LINK d", "LINK e"))[1]
    east.west.uuid = east.cluster_uuid
    assert (
        "cannot be linked to itself" in east.fails("CREATE REPLICATION LINK f ON DATABASE default FROM CLUSTER west")[1]
    )
    found = find_link_name(east.engine.replication.require_keeper(), "d")
    assert isinstance(found, DatabaseLink)


def test_a_definition_is_adopted_as_data() -> None:
    made = adopt_definition(
        "CREATE TABLE db.t (k UInt64, v UInt8) ENGINE = ReplicatedReplacingMergeTree('/west/{shard}', 'r1', v)"
        " PARTITION BY k % 7 ORDER BY k SETTINGS index_granularity = 1024",
        "mine",
        "u",
    )
    assert render_create(made, in_one_line=True) == (
        "CREATE TABLE IF NOT EXISTS mine.u (`k` UInt64, `v` UInt8) ENGINE = ReplicatedReplacingMergeTree(v) "
        "PARTITION BY k % 7 ORDER BY k SETTINGS index_granularity = 1024"
    )


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE db.t",
        "CREATE TABLE db.t (k UInt64) ENGINE = MergeTree ORDER BY k",
        "CREATE VIEW db.t AS SELECT 1",
        "CREATE TABLE db.t ENGINE = ReplicatedMergeTree ORDER BY k AS SELECT 1 AS k",
        "CREATE DATABASE d",
    ],
)
def test_nothing_but_the_definition_of_a_replicated_table_is_taken(text: str) -> None:
    with pytest.raises(UserError, match="definition of a"):
        adopt_definition(text, "default", "t")


def test_a_source_that_sends_something_else_harms_nothing(east: LinkedServer) -> None:
    east.west.tables = [LinkableTable("odd", "DROP TABLE orders", "")]
    east.make_table()
    east.sql(CREATE)
    assert message(east).startswith("Not linked yet: odd (Not the definition of a Replicated table")
    assert east.sql("SHOW TABLES") == [("orders",), ("t",)]
