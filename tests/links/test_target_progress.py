"""How far the replicas of a target are: what the source need not keep any more, and what is visible everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.tables.replicated.links.log_mark import LogMark
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus
from tests.links.linked_tables import LinkedTables, linked_tables
from tests.links.test_batch_execution import HeldFetches


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[LinkedTables]:
    with linked_tables(tmp_path) as made:
        made.create_source()
        made.begin()
        yield made


def trim(tables: LinkedTables, copies: int = 2) -> int:
    with tables.first.acting():
        return tables.target().find_trim_position(tables.origin(), copies)


def applied(tables: LinkedTables) -> int:
    return tables.state().vector.applied(tables.origin())


def insert(tables: LinkedTables, key: int) -> int:
    tables.first.sql(f"INSERT INTO source VALUES (1, {key}, 0)")
    tables.apply()
    return applied(tables)


def test_the_trim_position_waits_for_enough_copies(tables: LinkedTables) -> None:
    fetches = HeldFetches(tables, 1)
    first = insert(tables, 1)
    tables.settle()
    assert trim(tables) == first
    fetches.held = {"1_1_1_0"}
    second = insert(tables, 2)
    tables.table.work_until(lambda: fetches.failures > 2)
    assert trim(tables) == first
    assert trim(tables, copies=1) == second
    third = insert(tables, 3)
    assert trim(tables) == first
    fetches.held.clear()
    tables.settle()
    assert [trim(tables) for _ in range(3)][-1] == third


def test_a_replica_that_is_away_holds_it_back(tables: LinkedTables) -> None:
    """It has not pulled; of two replicas two must have the parts."""
    first = insert(tables, 1)
    tables.settle()
    assert trim(tables) == first
    tables.servers[1].crash()
    insert(tables, 2)
    tables.table.work_until(lambda: len(tables.rows()) == 2)
    assert trim(tables) == first
    tables.heal()
    tables.settle()
    assert trim(tables) == applied(tables)


def test_a_merge_in_the_queue_does_not_hold_it_back(tables: LinkedTables) -> None:
    for key in (1, 2):
        insert(tables, key)
    tables.settle()
    tables.servers[1].sql("SYSTEM STOP MERGES costs")
    tables.first.sql("OPTIMIZE TABLE costs FINAL")
    assert tables.table.of(tables.servers[1]).replication.queue.list_entries()
    last = insert(tables, 3)
    tables.table.work_until(lambda: len(tables.rows(replica=1)) == 3)
    assert trim(tables) == last


def test_its_cost_does_not_grow(tables: LinkedTables) -> None:
    for key in range(30):
        insert(tables, key)
    tables.settle()
    with tables.table.measure_cost() as few:
        trim(tables)
    for key in range(30, 90):
        insert(tables, key)
    tables.settle()
    with tables.table.measure_cost() as many:
        trim(tables)
    assert many.requests <= few.requests + 2


def test_visible_is_visible_on_all_active_replicas(tables: LinkedTables) -> None:
    fetches = HeldFetches(tables, 1)
    fetches.held = {"1_0_0_0"}
    insert(tables, 1)
    with (
        pytest.raises(PandoError, match=r"replicas r2 of .* do not show yet") as caught,
        tables.first.acting(),
    ):
        tables.target().wait_until_visible(2.0, QueryStatus())
    assert caught.value.code == 159
    fetches.held.clear()
    tables.table.servers.on_wait = tables.table.servers.step_others
    with tables.first.acting():
        tables.target().wait_until_visible(100.0, QueryStatus())
    assert tables.rows(replica=1) == [(1, 1, 0)]
    tables.first.sql("ALTER TABLE source UPDATE v = 7 WHERE 1", mutations_sync=0)
    tables.apply()
    with tables.first.acting():
        tables.target().wait_until_visible(100.0, QueryStatus())
    assert tables.rows() == tables.rows(replica=1) == [(1, 1, 7)]


def test_a_mark_looks_at_what_the_queue_had(tables: LinkedTables) -> None:
    """What comes behind the mark does not hold it back."""
    fetches = HeldFetches(tables, 1)
    fetches.held = {"1_0_0_0", "1_1_1_0"}
    insert(tables, 1)
    tables.table.work_until(lambda: fetches.failures > 1)
    mark = LogMark(tables.keeper, tables.table.table.replication.paths)
    assert mark.find_past(tables.keeper, ["r1", "r2"]) == {"r1"}
    insert(tables, 2)
    fetches.held = {"1_1_1_0"}
    tables.table.work_until(lambda: len(tables.rows(replica=1)) == 1)
    assert mark.find_past(tables.keeper, ["r1", "r2"]) == {"r1", "r2"}
