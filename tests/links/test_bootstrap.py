"""A table is copied to a link's target: what it gets, whole, and when it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.simulator.step_pool import Crash
from engine.tables.capabilities.table_links import UncoveredSchema
from engine.tables.replicated.links.bootstrap import copy_writers
from engine.tables.replicated.links.bootstrap import taker as bootstrap_taker
from parts.common.errors import ConflictError, CorruptionError, PandoError, UserError
from tests.links.bootstrap_tables import (
    PARTITIONED,
    SOURCE,
    TARGET,
    BootstrapTables,
    DirectSource,
    bootstrap_tables,
    crash_once,
    late_target,
)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[BootstrapTables]:
    with bootstrap_tables(tmp_path) as made:
        yield made


def test_an_empty_target_gets_parts_ids_vector_and_its_place(tables: BootstrapTables) -> None:
    tables.insert(1, 2)
    tables.insert(3, server=1)
    tables.insert(4, partition=2)
    tables.settle()
    tables.sql("OPTIMIZE TABLE source PARTITION 1 FINAL")
    report = tables.run()
    tables.must_be_equal()
    assert (report.rows, report.parts) == (4, 2)
    held_origin = tables.vector()
    assert [position.zxid for position in held_origin] == [report.place]
    link = tables.read_link()
    assert link.is_begun
    assert link.source_origin == str(next(iter(held_origin)).origin)
    assert not tables.gate().bars
    assert not tables.staged()
    assert not tables.staged(0)
    before = tables.rows()
    tables.insert(1, 2, table="costs")  # the client repeats an INSERT after a switch
    tables.insert(4, table="costs", partition=2)
    assert tables.rows() == before


def test_a_late_target_is_copied_anew_and_keeps_its_rows_until_then(tables: BootstrapTables) -> None:
    former = late_target(tables)
    source, shown = DirectSource(tables), []
    source.before_hold = lambda _: shown.append(tables.rows())
    report = tables.run(source, replaces=True)
    assert shown == [former, former]
    tables.must_be_equal()
    assert report.parts == 4
    assert len(source.fetched) == 2, "equal parts are linked"
    first, second = source.held
    assert first.place <= second.place == report.place
    assert tables.vector().covers(second.position)


def test_a_target_with_rows_is_refused(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.insert(7, 8, table="costs")
    tables.settle()
    with pytest.raises(UserError, match=r"has 2 rows.*SYSTEM BOOTSTRAP") as refused:
        tables.run()
    assert refused.value.name == "BAD_ARGUMENTS"
    tables.must_be([(1, 7, 7), (1, 8, 8)])
    assert not tables.gate().bars
    assert not tables.vector().entries
    tables.insert(9, table="costs")
    tables.run(replaces=True)
    tables.must_be_equal()


def test_a_link_that_has_its_place_is_copied_only_on_demand(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.run()
    with pytest.raises(ConflictError, match="has its place already"):
        tables.run()
    tables.must_be_equal()


def test_the_table_takes_no_writes_while_it_is_closed(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)

    def write(part: object) -> None:
        if tables.gate().bars:
            for statement in (
                "INSERT INTO costs VALUES (1, 5, 5)",
                "TRUNCATE TABLE costs",
                "ALTER TABLE costs ADD COLUMN w UInt8",
            ):
                with pytest.raises(PandoError, match="being copied from its source by replication link l"):
                    tables.sql(statement)
            refused.append(True)

    refused: list[bool] = []
    source.before_hold = lambda round_: write(None)
    tables.run(source)
    assert refused
    tables.must_be_equal()
    tables.insert(5, table="costs")


def test_a_copy_carries_the_alters_before_its_place(tables: BootstrapTables) -> None:
    """With replicate_ddl = 1: the stream behind the copy does not have them any more."""
    tables.change_link(settings={"replicate_ddl": True})
    tables.insert(1)
    tables.servers[0].sql("ALTER TABLE source ADD COLUMN e UInt64 DEFAULT k + 5")
    tables.settle()
    tables.run()
    tables.settle()
    assert tables.servers[1].sql("SELECT * FROM costs")[1] == tables.servers[0].sql("SELECT * FROM source")[1]
    tables.servers[0].sql("ALTER TABLE source DROP COLUMN e")
    tables.insert(2)
    tables.settle()
    tables.run(replaces=True)
    tables.settle()
    assert [name for name, _ in tables.servers[1].sql("SELECT * FROM costs")[0].columns] == ["p", "k", "v"]


def test_rows_are_written_anew_where_the_definitions_differ(
    tables: BootstrapTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_writers, "SLICE_ROWS", 1)
    monkeypatch.setattr(bootstrap_taker, "LITTLE_BYTES", 0)
    tables.insert(1, 2)
    tables.insert(3, server=1)
    tables.insert(4, partition=2)
    tables.settle()
    tables.sql("ALTER TABLE source DROP COLUMN v")
    tables.sql("ALTER TABLE source ADD COLUMN w UInt8 DEFAULT 5")
    tables.insert_values("(1, 6, 60)")
    tables.sql("ALTER TABLE costs ADD COLUMN w UInt16, ADD COLUMN x String DEFAULT 'x'")
    tables.settle()
    tables.merge()
    tables.settle()
    report = tables.run()
    wanted = sorted((p, k, 0, w, "x") for p, k, w in tables.rows("source"))
    assert [w for *_, w, _ in wanted] == [5, 5, 5, 60, 5]
    tables.must_be(wanted)
    assert report.rows == 5
    before = tables.rows()
    assert tables.keeper.children(TARGET.blocks)
    crash_once(tables, "before_commit")
    with pytest.raises(Crash):
        tables.run(replaces=True)
    tables.table.servers.on_failpoint = lambda node, name: None
    tables.start(1)
    tables.clean_up(0)
    source = DirectSource(tables)
    tables.run(source, replaces=True)
    assert not source.fetched
    tables.must_be(before)


def test_rows_that_the_target_cannot_hold_are_not_copied(tables: BootstrapTables) -> None:
    tables.sql("ALTER TABLE source ADD COLUMN w UInt8 DEFAULT 5")
    tables.insert_values("(1, 6, 6, 60)")
    tables.settle()
    with pytest.raises(UncoveredSchema, match="Column w UInt8 of the source is missing at the target") as refused:
        tables.run()
    assert refused.value.rows == 1
    tables.must_be([])
    assert not tables.gate().bars
    tables.sql("ALTER TABLE costs ADD COLUMN w UInt32")
    tables.table.work_until(lambda: "w" in tables.target().description.schema)
    tables.run()
    tables.must_be_equal()


def test_a_part_with_another_content_is_not_taken(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)
    source.change = lambda held: replace(held, parts=tuple(replace(part, content_hash="0" * 32) for part in held.parts))
    with pytest.raises(CorruptionError, match="another content"):
        tables.run(source)
    tables.must_be([])
    assert not tables.gate().bars


@pytest.mark.long
def test_the_newest_ids_travel_when_the_request_has_no_room_for_all(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    for number in range(9000):
        tables.keeper.create(SOURCE.block(f"1_{'x' * 60}{number:05d}"), b"1_0_0_0")
    tables.insert(2)
    report = tables.run()
    assert report.block_ids_left_out > 0
    tables.must_be_equal()
    ids = tables.keeper.children(TARGET.blocks)
    assert f"1_{'x' * 60}08999" in ids
    assert f"1_{'x' * 60}00000" not in ids
    assert len(ids) + report.block_ids_left_out == 9002


def test_rows_show_the_block_number_that_they_have_here(tmp_path: Path) -> None:
    with bootstrap_tables(tmp_path, rest=f"{PARTITIONED} SETTINGS enable_block_number_column = 1") as tables:
        tables.insert(5, table="costs")
        for number in range(3):
            tables.insert(number)
        tables.settle()
        tables.merge()
        tables.insert(4)
        tables.settle()
        tables.run(replaces=True)
        tables.must_be_equal()
        shown = tables.sql("SELECT k, _block_number FROM costs ORDER BY k")
        names = tables.target().store.list_active()
        numbers = {part.name.min_block for part in names}
        assert {number for _, number in shown} == numbers
        assert len({number for k, number in shown if k != 4}) == 1
        tables.merge(table="costs")
        assert tables.sql("SELECT k, _block_number FROM costs ORDER BY k") == shown
