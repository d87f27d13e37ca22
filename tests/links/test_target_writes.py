"""The target of a one-way link takes what its source sends, ALTERs and OPTIMIZE; other writes are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.links.positions import Position
from coordination.nodes.gate import Bar, Gate, KeptOut
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.table_gate import move_gate
from engine.tables.replicated.links.batch_commit import NO_VECTOR
from parts.common.errors import PandoError
from tests.links.gated_table import BRING_ROWS, STATEMENTS
from tests.links.linked_tables import LinkedTables, linked_tables
from tests.portions import one_in

TAKEN = ("add_column", "modify_column")
OF_PARTS = ("drop_part", "detach_part")
"""Refused on every linked table: they have no place in the order of blocks."""
LINK = GateLink("orders", LinkDirection.IN, "u1", "6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10", "west")


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[LinkedTables]:
    with linked_tables(tmp_path) as made:
        made.create_source()
        made.begin()
        made.first.sql(
            "CREATE TABLE other (p UInt16, k UInt64, v UInt64) "
            "ENGINE = ReplicatedMergeTree('/tables/other', '{replica}') PARTITION BY p ORDER BY k"
        )
        made.first.sql("INSERT INTO costs SELECT number + 1, number, 0 FROM numbers(4)")
        made.first.sql("INSERT INTO other VALUES (1, 5, 0)")
        made.first.sql("ALTER TABLE costs DETACH PARTITION 4")
        made.first.sql("INSERT INTO costs SETTINGS insert_transaction = 'job' VALUES (1, 8, 0)")
        made.settle()
        yield made


def move(tables: LinkedTables, change: Callable[[Gate], Gate]) -> None:
    move_gate(tables.keeper, tables.table.table.replication.paths, change)


def link(tables: LinkedTables, **changed: object) -> None:
    move(tables, lambda gate: gate.with_link(GateLink("orders", LinkDirection.IN, "u1", LINK.peer, "west", **changed)))


@pytest.mark.parametrize("name", one_in(2, [name for name in STATEMENTS if name not in (*TAKEN, "kill_mutation")]))
def test_writes_are_refused_and_change_nothing(tables: LinkedTables, name: str) -> None:
    link(tables)
    before = tables.rows()
    expected = r"links \(orders\)" if name in OF_PARTS else "target of replication link orders from cluster west"
    with pytest.raises(PandoError, match=expected) as caught:
        tables.first.sql(STATEMENTS[name])
    assert caught.value.code == (48 if name in OF_PARTS else 242)
    tables.settle()
    assert tables.rows() == before
    assert tables.rows("other") == [(1, 5, 0)]


@pytest.mark.parametrize("name", TAKEN)
def test_alters_of_columns_are_taken(tables: LinkedTables, name: str) -> None:
    link(tables)
    tables.first.sql(STATEMENTS[name])
    tables.settle()


def test_optimize_is_taken(tables: LinkedTables) -> None:
    link(tables)
    tables.first.sql("OPTIMIZE TABLE costs FINAL")


@pytest.mark.parametrize("name", BRING_ROWS[:1])
def test_a_two_way_target_is_written(tables: LinkedTables, name: str) -> None:
    link(tables, is_two_way=True)
    tables.first.sql(STATEMENTS[name])
    assert (1, 7, 0) in tables.rows()


def test_a_source_is_written(tables: LinkedTables) -> None:
    move(tables, lambda gate: gate.with_link(GateLink("east/x", LinkDirection.OUT, "u1", LINK.peer, "east")))
    tables.first.sql(STATEMENTS["insert"])
    assert (1, 7, 0) in tables.rows()


def test_the_link_itself_writes(tables: LinkedTables) -> None:
    link(tables)
    tables.link = replace(tables.link, name=LINK.name)
    tables.first.sql("INSERT INTO source VALUES (1, 100, 0)")
    assert tables.apply().is_applied
    tables.settle()
    assert (1, 100, 0) in tables.rows()


@pytest.mark.parametrize(("keeps_out", "is_applied"), [(KeptOut.COMMITS, True), (KeptOut.ALL, False)])
def test_bars_and_batches(tables: LinkedTables, keeps_out: KeptOut, is_applied: bool) -> None:
    move(tables, lambda gate: gate.with_bar(Bar("a test", keeps_out, reason="closed by a test")))
    tables.first.sql("INSERT INTO source VALUES (1, 100, 0)")
    if is_applied:
        assert tables.apply().is_applied
    else:
        with pytest.raises(PandoError, match="closed by a test"):
            tables.apply()
        move(tables, lambda gate: gate.without_bar("a test"))
        assert tables.apply().is_applied


def test_the_gate_closes_between_look_and_commit(tables: LinkedTables) -> None:
    """The batch is not committed, and comes again."""
    tables.first.sql("INSERT INTO source VALUES (1, 100, 0)")
    bar = Bar("a test", KeptOut.ALL, reason="closed by a test")
    moved = []

    def on_failpoint(node: object, name: str) -> None:
        if name == "link.before_commit" and not moved:
            moved.append(name)
            move(tables, lambda gate: gate.with_bar(bar))

    tables.table.servers.on_failpoint = on_failpoint
    with pytest.raises(PandoError, match="closed by a test"):
        tables.apply()
    tables.settle()
    assert (1, 100, 0) not in tables.rows()
    move(tables, lambda gate: gate.without_bar("a test"))
    assert tables.apply().is_applied
    tables.settle()
    assert (1, 100, 0) in tables.rows()


def test_a_link_begins_once(tables: LinkedTables) -> None:
    """Origins that the table knows stay as they are; the table's own never gets an entry."""
    state = tables.state()
    origin = tables.origin()
    vector = state.vector.begin_with(state.vector)
    for position in (Position(origin, 40), Position(state.own, 7)):
        vector = vector.begin_at(position)
    assert tables.begin(vector)
    assert tables.begin(vector.advance(Position(origin, 50)))
    now = tables.state()
    assert [(str(p.origin), p.zxid) for p in now.vector] == [(str(origin), 40)]
    assert now.vector_version > state.vector_version > NO_VECTOR
