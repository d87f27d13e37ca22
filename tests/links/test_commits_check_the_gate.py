"""Every commit of a replicated table checks the gate: one that moves between look and commit is never passed by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordination.nodes.gate import Bar, KeptOut
from engine.simulator.statement_costs import CountedTable
from parts.common.errors import PandoError
from tests.links.gated_table import BRING_ROWS, STATEMENTS, at_the_commit, move, prepare, state
from tests.portions import one_in

BAR = Bar("a test", KeptOut.COMMITS, reason="closed by a test")
INSERTS_BAR = Bar("a test", KeptOut.INSERTS, reason="closed by a test")


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_bar_that_comes_between_look_and_commit_refuses(table: CountedTable, name: str) -> None:
    prepare(table, name)
    before = state(table)
    seen = at_the_commit(table, lambda: move(table, lambda gate: gate.with_bar(BAR)))
    with pytest.raises(PandoError, match="closed by a test") as caught:
        table.first.sql(STATEMENTS[name])
    assert caught.value.code == 242
    assert seen, "the commit was tried"
    assert state(table) == before


@pytest.mark.parametrize("name", one_in(6, STATEMENTS))
def test_a_gate_that_moves_without_closing_lets_the_commit_pass(table: CountedTable, name: str) -> None:
    prepare(table, name)
    before = state(table)
    left = [1, 2]

    def move_twice() -> None:
        if left:
            number = left.pop()
            move(table, lambda gate: replace(gate, others={**gate.others, "later": number}))

    at_the_commit(table, move_twice)
    table.first.sql(STATEMENTS[name])
    assert not left
    assert state(table) != before


@pytest.mark.parametrize("name", one_in(3, STATEMENTS))
def test_what_a_bar_against_inserts_keeps_out(table: CountedTable, name: str) -> None:
    prepare(table, name)
    before = state(table)
    move(table, lambda gate: gate.with_bar(INSERTS_BAR))
    if name not in BRING_ROWS:
        table.first.sql(STATEMENTS[name])
        assert state(table) != before
        return
    for server in table.servers.servers[: 1 if "attach_pa" in name else 2]:  # the other has nothing detached
        with pytest.raises(PandoError, match="closed by a test"):
            server.sql(STATEMENTS[name])
    assert state(table) == before


def test_an_insert_takes_two_requests(table: CountedTable) -> None:
    """Its block number and its commit; the check of the gate is one operation of the commit."""
    asked: list[str] = []
    table.on_request = lambda kind, path: asked.append(kind)
    table.first.sql(STATEMENTS["insert"])
    assert asked == ["multi", "multi"]


def test_an_insert_repeats_its_multi_alone(table: CountedTable) -> None:
    """With the same number and the same part."""
    left = [True]

    def move_once() -> None:
        if left.pop() if left else False:
            move(table, lambda gate: replace(gate, others={**gate.others, "later": 1}))

    seen = at_the_commit(table, move_once)
    renamed: list[str] = []
    table.servers.on_failpoint = lambda node, point: renamed.append(point) if point == "insert.after_rename" else None
    before = {part.name.max_block for part in table.table.store.list_active() if part.name.partition_id == "1"}
    table.first.sql(STATEMENTS["insert"])
    after = {part.name.max_block for part in table.table.store.list_active() if part.name.partition_id == "1"}
    assert (len(seen), len(renamed)) == (2, 1)
    assert max(after) == max(before) + 1
