"""Bars that make commits wait: the statement goes on when the bar goes, and gives up after half a minute."""

from __future__ import annotations

from itertools import product

import pytest

from coordination.nodes.gate import Bar, KeptOut
from engine.simulator.statement_costs import CountedTable
from parts.common.errors import PandoError
from tests.links.gated_table import STATEMENTS, at_the_commit, move, prepare, state
from tests.portions import one_in

BAR = Bar("a test", KeptOut.COMMITS, waits=True, reason="closed by a test")


def close(table: CountedTable) -> None:
    move(table, lambda gate: gate.with_bar(BAR))


def open_after(table: CountedTable, seconds: float) -> list[float]:
    """Takes the bar away when so much time has passed. Returns a list with the time when it happened."""
    opened: list[float] = []
    since = table.servers.now
    step_others = table.servers.step_others

    def on_wait() -> None:
        if table.servers.now - since >= seconds and not opened:
            opened.append(table.servers.now)
            move(table, lambda gate: gate.without_bar(BAR.owner))
        step_others()

    table.servers.on_wait = on_wait
    return opened


@pytest.mark.parametrize(("name", "is_late"), one_in(9, product(STATEMENTS, [False, True])))
def test_a_statement_goes_on_when_the_bar_goes(table: CountedTable, name: str, is_late: bool) -> None:
    """The bar is there before, or it comes between look and commit."""
    prepare(table, name)
    before = state(table)
    opened = open_after(table, 5)
    if is_late:
        came: list[bool] = []

        def come() -> None:
            if not came:
                came.append(True)
                close(table)

        at_the_commit(table, come)
    else:
        close(table)
    table.first.sql(STATEMENTS[name])
    assert opened
    assert state(table) != before


def test_it_gives_up_in_the_end(table: CountedTable) -> None:
    before = state(table)
    close(table)
    started = table.servers.now
    for name in ("insert", "truncate", "update", "add_column", "commit"):
        with pytest.raises(PandoError, match="closed by a test") as caught:
            table.first.sql(STATEMENTS[name])
        assert caught.value.code == 242
    assert 5 * 30 <= table.servers.now - started < 5 * 40
    assert state(table) == before


def test_a_part_that_waits_is_not_written_anew(table: CountedTable) -> None:
    opened = open_after(table, 5)
    came: list[bool] = []

    def come() -> None:
        if not came:
            came.append(True)
            close(table)

    seen = at_the_commit(table, come)
    made: list[str] = []
    table.servers.on_failpoint = lambda node, point: made.append(point) if point == "insert.after_rename" else None
    files = {path.name: path.stat().st_ino for path in table.table.store.path.glob("*/data.bin")}
    table.first.sql(STATEMENTS["insert"])
    assert opened
    assert len(seen) == len(made) == 2
    now = {path.name: path.stat().st_ino for path in table.table.store.path.glob("*/data.bin")}
    assert files.items() <= now.items()
    assert not list(table.table.store.path.glob("tmp_*"))


def test_a_killed_statement_stops_waiting(table: CountedTable) -> None:
    close(table)
    first = table.servers.servers[0]

    def on_wait() -> None:
        for process in first.engine.processes():
            process.status.stop()

    table.servers.on_wait = on_wait
    started = table.servers.now
    with pytest.raises(PandoError):
        first.sql(STATEMENTS["insert"])
    assert table.servers.now - started < 10
