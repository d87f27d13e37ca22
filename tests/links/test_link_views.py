"""``run_views = 1``: materialized views of a target see what a link brings, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.links.link_failures import FailureKind, assess_failure
from engine.interpreter.materialized_views.link_views import LinkViews
from engine.simulator.simulated_node import Crash, SimulatedNode
from engine.tables.capabilities.table_links import AppliedBatch, IncomingBatch
from parts.common.errors import PandoError
from tests.links.linked_server import LinkedServer, linked_server
from tests.links.linked_tables import LinkedTables, linked_tables

FAILPOINTS = ("stage.after_told", "link.after_views", "link.before_commit", "link.after_commit", "exchange.before")
CREATE_SUMS = (
    "CREATE TABLE {0} (k UInt64, v UInt64, blocks UInt64) "
    "ENGINE = ReplicatedSummingMergeTree('/tables/{0}', '{{replica}}') ORDER BY k"
)
CREATE_VIEW = "CREATE MATERIALIZED VIEW {} TO {} AS SELECT k, sum(v) AS v, toUInt64({}) AS blocks FROM {} GROUP BY k"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[LinkedTables]:
    with linked_tables(tmp_path, run_views=True) as made:
        made.table.servers.power_cut_rate = 1.0
        made.create_source()
        made.begin()
        for server in made.servers:
            server.sql(CREATE_SUMS.format("sums"))
            server.sql(CREATE_VIEW.format("of_costs", "sums", 1, "costs"))
            server.sql(CREATE_SUMS.format("totals"))
            server.sql(CREATE_VIEW.format("of_sums", "totals", "sum(blocks)", "sums"))
        yield made


def make_batch(tables: LinkedTables, replica: int) -> IncomingBatch:
    engine = tables.servers[replica].engine
    return replace(
        tables.batch(replica=replica), run_views=partial(LinkViews(engine), tables.table.of(tables.servers[replica]))
    )


def apply(tables: LinkedTables, replica: int = 0) -> AppliedBatch:
    return tables.apply(make_batch(tables, replica), replica)


def sums(tables: LinkedTables, replica: int, name: str = "sums") -> list[tuple[object, ...]]:
    return tables.servers[replica].sql(f"SELECT k, sum(v) FROM {name} GROUP BY k ORDER BY k")[1]


def must_show(tables: LinkedTables, wanted: list[tuple[object, ...]]) -> None:
    """On both replicas, of both views, and the queries of the links' target."""
    tables.settle()
    for replica, server in enumerate(tables.servers):
        for name in ("sums", "totals"):
            server.sql(f"SYSTEM SYNC REPLICA {name}")
            assert sums(tables, replica, name) == wanted


def test_views_see_what_a_link_brings(tables: LinkedTables) -> None:
    tables.first.sql("INSERT INTO source VALUES (1, 1, 10), (2, 2, 20)")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 5)")
    assert apply(tables).rows == 3
    must_show(tables, [(1, 15), (2, 20)])
    tables.first.sql("ALTER TABLE source DROP PARTITION 1")
    tables.first.sql("INSERT INTO source VALUES (2, 2, 7)")
    apply(tables, 1)
    tables.must_be_equal()
    must_show(tables, [(1, 15), (2, 27)])  # as after a DROP PARTITION here, which views do not see either
    assert apply(tables).rows == 0
    must_show(tables, [(1, 15), (2, 27)])


@pytest.mark.parametrize("place", FAILPOINTS)
def test_a_crash_doubles_nothing(tables: LinkedTables, place: str) -> None:
    second, hits = tables.servers[1], 0

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        nonlocal hits
        if node is second and name == place:
            hits += 1
            if hits == 1:
                node.crash_here()

    tables.first.sql("INSERT INTO source VALUES (1, 1, 10), (2, 2, 20)")
    tables.table.servers.on_failpoint = on_failpoint
    with suppress(Crash):
        apply(tables, 1)
        tables.table.work_until(lambda: not second.is_up)
    assert hits == 1
    end_well(tables)


def apply_until_done(tables: LinkedTables, replica: int) -> None:
    tables.heal()
    for _ in range(20):
        try:
            if apply(tables, replica).is_applied:
                return
        except PandoError:
            tables.heal()
    raise AssertionError("it is never applied")


def end_well(tables: LinkedTables) -> None:
    apply_until_done(tables, 0)
    tables.must_be_equal()
    must_show(tables, [(1, 10), (2, 20)])


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.EXPIRE_AFTER])
def test_a_lost_answer_doubles_nothing(tables: LinkedTables, fault: Fault) -> None:
    """Of each write to the target and to the tables of its views."""
    second, total = tables.servers[1], 0
    for place in range(1, 100):
        count = 0

        def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
            nonlocal count
            if node is second and kind in ("multi", "delete", "sync"):
                count += 1
                if count == place:  # noqa: B023
                    return fault
            return None

        tables.first.sql(f"INSERT INTO source VALUES (3, 3, {place})")
        total += place
        tables.table.servers.on_request = on_request
        with suppress(PandoError):
            apply(tables, 1)
        apply_until_done(tables, 1)
        if count < place:
            break
    must_show(tables, [(3, total)])


def test_another_commit_in_a_views_table_is_no_obstacle(tables: LinkedTables) -> None:
    """Its gate moves between look and commit: the batch is planned anew."""
    moved = False

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        nonlocal moved
        if name == "link.before_commit" and not moved:
            moved = True
            data, stat = tables.keeper.get("/tables/sums/links/gate")
            tables.keeper.set("/tables/sums/links/gate", data, stat.version)

    tables.first.sql("INSERT INTO source VALUES (1, 1, 10), (2, 2, 20)")
    tables.table.servers.on_failpoint = on_failpoint
    assert apply(tables).rows == 2
    assert moved
    must_show(tables, [(1, 10), (2, 20)])
    for name in ("sums", "totals"):
        for partition in tables.keeper.children(f"/tables/{name}/block_numbers"):
            assert tables.keeper.children(f"/tables/{name}/block_numbers/{partition}") == []


def test_a_view_may_fill_a_table_in_which_the_last_writer_wins(tables: LinkedTables) -> None:
    for server in tables.servers:
        server.sql(
            "CREATE TABLE newest (k UInt64, v UInt64) ENGINE = ReplicatedReplacingMergeTree('/tables/newest', "
            "'{replica}') ORDER BY k SETTINGS last_writer_wins = 1"
        )
        server.sql("CREATE MATERIALIZED VIEW keeping TO newest AS SELECT k, v FROM costs")
    for number in (7, 3, 5):
        tables.first.sql(f"INSERT INTO source VALUES (1, 1, {number})")
        apply(tables, number % 2)
    for server in tables.servers:
        server.sql("SYSTEM SYNC REPLICA newest")
        assert server.sql("SELECT k, v FROM newest FINAL")[1] == [(1, 5)]


def test_a_view_that_a_link_cannot_fill_pauses_it(tables: LinkedTables) -> None:
    """And a query that fails leaves nothing of the batch anywhere."""
    server = tables.first
    tables.first.sql("INSERT INTO source VALUES (1, 1, 10)")
    server.sql("CREATE TABLE plain (k UInt64) ENGINE = MergeTree ORDER BY k")
    server.sql("CREATE MATERIALIZED VIEW late TO plain AS SELECT k FROM costs")
    with pytest.raises(PandoError, match=r"cannot fill default\.plain, .* view default\.late") as found:
        apply(tables)
    assert assess_failure(None, found.value, 0).kind is FailureKind.PAUSE
    server.sql("DROP TABLE late")
    server.sql("CREATE MATERIALIZED VIEW late TO sums AS SELECT k, throwIf(v > 0) AS v FROM costs")
    with pytest.raises(PandoError, match=r"while pushing to view default\.late"):
        apply(tables)
    assert tables.rows() == [] == sums(tables, 0)
    server.sql("DROP TABLE late")
    apply(tables)
    must_show(tables, [(1, 10)])


@pytest.fixture
def east(tmp_path: Path) -> Iterator[LinkedServer]:
    with linked_server(tmp_path) as made:
        yield made


def test_a_link_that_cannot_fill_a_view_is_refused(east: LinkedServer) -> None:
    east.make_table()
    east.sql("CREATE TABLE plain (k UInt64) ENGINE = MergeTree ORDER BY k")
    east.sql("CREATE MATERIALIZED VIEW v TO plain AS SELECT k FROM orders")
    code, message = east.fails("CREATE REPLICATION LINK l ON orders FROM CLUSTER west SETTINGS run_views = 1")
    assert (code, "default.plain" in message, "default.v" in message) == (48, True, True)
    assert east.has_nothing()
    east.sql("CREATE REPLICATION LINK l ON orders FROM CLUSTER west")
    code, message = east.fails("ALTER REPLICATION LINK l MODIFY SETTING run_views = 1")
    assert (code, "default.plain" in message) == (48, True)
    east.sql("DROP TABLE v")
    east.sql("ALTER REPLICATION LINK l MODIFY SETTING run_views = 1")
