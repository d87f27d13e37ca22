"""The copy of a table with more parts than a request names is committed by a list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.links.batches.batch_plan import BatchLimits
from coordination.log.entry_list import count_pieces, list_name
from coordination.log.log_entry import LogEntry
from coordination.nodes.gate import Bar, KeptOut
from coordination.nodes.list_nodes import complete_entry
from coordination.nodes.table_gate import move_gate
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.replicated.links.bootstrap.commit import ReadyCopies
from engine.tables.replicated.links.bootstrap.copies import Copy
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from tests.links.bootstrap_tables import TARGET, BootstrapTables, DirectSource, bootstrap_tables

TINY = BatchLimits(0, 0, entry_bytes=600)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[BootstrapTables]:
    with bootstrap_tables(tmp_path) as made:
        for number in range(2):
            limit(made, number)
        yield made


def limit(tables: BootstrapTables, number: int) -> None:
    tables.target(number).links.bootstrap.taker._commit.limits = TINY


def insert_parts(tables: BootstrapTables) -> None:
    for number in range(6):
        tables.insert(number, partition=1 + number % 2)
    tables.settle()


def list_entries(tables: BootstrapTables) -> list[LogEntry]:
    return [LogEntry.parse(tables.keeper.get(f"{TARGET.log}/{name}")[0]) for name in tables.keeper.children(TARGET.log)]


def list_lists(tables: BootstrapTables) -> list[str]:
    return tables.keeper.children(TARGET.linked.lists)


def test_parts_that_no_entry_names_come_by_a_list(tables: BootstrapTables) -> None:
    tables.insert(77, table="costs", server=1)
    tables.settle()
    insert_parts(tables)
    report = tables.run(replaces=True)
    assert (report.parts, report.block_ids_left_out) == (6, 0)
    last = list_entries(tables)[-1]
    assert list_name(last) == list_lists(tables)[0]
    assert not last.replace_parts
    tables.must_be_equal()
    assert len(tables.keeper.children(TARGET.blocks)) == 6  # the target's own id went with its row
    tables.insert(9, table="costs", server=1)
    tables.settle()


@pytest.mark.parametrize("failpoint", ["bootstrap.before_commit", "bootstrap.after_commit", "exchange.before"])
def test_a_crash_leaves_all_or_nothing(tables: BootstrapTables, failpoint: str) -> None:
    insert_parts(tables)
    taker, hits = tables.servers[1], 0

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        nonlocal hits
        if node is taker and name == failpoint:
            hits += 1
            if hits == 1:
                node.crash_here()

    tables.table.servers.on_failpoint = on_failpoint
    with suppress(Crash):
        tables.run()
        tables.table.work_until(lambda: not taker.is_up)
    assert hits == 1
    tables.start(1)
    limit(tables, 1)
    tables.clean_up()
    if not tables.read_link().is_begun:
        assert tables.rows() == []
        tables.run()
    tables.must_be_equal()
    assert len(list_lists(tables)) == 1


def test_a_list_of_a_commit_that_failed_is_removed(tables: BootstrapTables) -> None:
    """By the next attempt, if the answer of the commit was lost."""
    insert_parts(tables)
    taker = tables.servers[1]
    is_lost = False

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        nonlocal is_lost
        if node is taker and kind == "multi" and path == TARGET.log_prefix and not is_lost:
            is_lost = True
            return Fault.LOSE_REQUEST
        return None

    tables.table.servers.on_request = on_request
    with pytest.raises(PandoError):
        tables.run()
    assert is_lost
    (former,) = list_lists(tables)
    taker.keeper.reconnect()
    tables.table.work_until(lambda: tables.target().replication.problem() is None)
    tables.settle()
    tables.clean_up()
    tables.run()
    assert former not in list_lists(tables)
    tables.must_be_equal()
    assert len(list_lists(tables)) == 1


@pytest.mark.long
def test_ten_thousand_parts_take_a_small_request(tables: BootstrapTables) -> None:
    """Their copies are not made: the commit names them alone."""
    commit = tables.target().links.bootstrap.taker._commit
    commit.limits = BatchLimits(0, 0)
    insert_parts(tables)
    with tables.servers[1].acting():
        held = DirectSource(tables).hold(QueryStatus())
        bar = Bar(f"bootstrap of link {tables.link.uuid}", KeptOut.ALL)
        with tables.target().state.hold_write_access() as (keeper, _):
            move_gate(keeper, TARGET, lambda gate: gate.with_bar(bar))
        closed = commit.read_closed(tables.link, bar)
        parts = [PartName("1", number, number, 0) for number in range(10_000)]
        copies = {part: [Copy(f"{part}-{'c' * 32}", "1", "c" * 32, 1, 10)] for part in parts}
        commit.commit(tables.link, bar, closed, ReadyCopies(replace(held, block_ids=()), copies, "bootstrap-x-1", True))
    last = list_entries(tables)[-1]
    assert len(last.to_bytes()) < 1000
    assert tables.read_link().is_begun
    whole = complete_entry(tables.keeper, TARGET, last)
    assert len(whole.replace_parts) == 10_000
    assert len({part.part for part in whole.replace_parts}) == 10_000
    assert count_pieces(last) > 2
