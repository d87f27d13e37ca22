"""Mutations of many parts, and many mutations of few parts: each part is looked at about once, and rewritten once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tables.merge_tree.merge_tree_table import MergeTreeTable
from tests.engine.conftest import Local
from tests.work import calls_of

_KEEP_APART = "SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1, number_of_mutations_to_throw = 0"


def _table(local: Local, parts: int, *, is_idle: bool = True) -> MergeTreeTable:
    """Its mutations are carried out by who calls ``step``: it has no tasks."""
    local.run(f"CREATE TABLE t (k UInt64, v UInt64) ENGINE = MergeTree ORDER BY k {_KEEP_APART}")
    for number in range(parts):
        local.run(f"INSERT INTO t VALUES ({number}, 0)")
    table = local.engine.catalog.table("default", "t")
    assert isinstance(table, MergeTreeTable)
    for pool, task in table._tasks if is_idle else ():
        pool.remove(task)
    return table


def _carry_out(table: MergeTreeTable) -> None:
    while table._mutations.step() is not None:
        pass


def test_an_update_looks_at_all_parts_as_often_however_many_they_are(local: Local) -> None:
    table = _table(local, 12)
    local.run("ALTER TABLE t UPDATE v = 1 WHERE 1 SETTINGS mutations_sync = 0")
    made = calls_of(lambda: _carry_out(table))
    assert made["parts.store.parts_in_memory.PartsInMemory.active"] <= 6
    assert made["engine.tables.merge_tree.kept_mutations.select_pending"] <= 4 * 12
    assert local.run("SELECT sum(v), count() FROM t") == [(12, 12)]
    assert local.value("SELECT is_done FROM system.mutations") == 1


def test_mutations_that_wait_together_rewrite_a_part_once(local: Local) -> None:
    table = _table(local, 3)
    for _ in range(20):
        local.run("ALTER TABLE t UPDATE v = v + 1 WHERE 1 SETTINGS mutations_sync = 0")
    made = calls_of(lambda: _carry_out(table))
    assert made["engine.tables.merges.mutation_execution.mutate_to_temporary"] == 3
    assert made["parts.merge.part_rewriting.rewrite_columns"] == 3
    looks = sum(count for name, count in made.items() if ".is_killed.<locals>.<genexpr>" in name)
    assert looks <= 3 * 20  # not all mutations once for each
    assert local.run("SELECT DISTINCT v FROM t") == [(20,)]
    assert local.run("SELECT sum(is_done), count() FROM system.mutations") == [(20, 20)]


def test_of_mutations_that_wait_together_the_one_that_fails_is_named(local: Local) -> None:
    table = _table(local, 2)
    for number in range(9):
        value = "v + 1" if number != 5 else "throwIf(k = 1) + v + 100"
        local.run(f"ALTER TABLE t UPDATE v = {value} WHERE 1 SETTINGS mutations_sync = 0")
    while table._mutations.step() == 0.0:
        pass
    assert local.run("SELECT k, v FROM t ORDER BY k") == [(0, 108), (1, 5)]
    shown = local.run("SELECT mutation_id, is_done, latest_failed_part FROM system.mutations")
    assert shown[:5] == [(f"mutation_{number}.txt", 1, "") for number in range(3, 8)]
    assert shown[5] == ("mutation_8.txt", 0, "all_2_2_0_7")
    local.run("KILL MUTATION WHERE mutation_id = 'mutation_8.txt'")
    _carry_out(table)
    assert local.run("SELECT k, v FROM t ORDER BY k") == [(0, 108), (1, 8)]
    assert local.value("SELECT min(is_done) FROM system.mutations") == 1


def test_parts_and_mutations_that_come_meanwhile_are_not_forgotten(local: Local) -> None:
    table = _table(local, 3)
    local.run("ALTER TABLE t UPDATE v = 1 WHERE 1 SETTINGS mutations_sync = 0")
    assert table._mutations.step() == 0.0
    local.run("INSERT INTO t VALUES (100, 7)")
    local.run("ALTER TABLE t UPDATE v = v + 10 WHERE 1 SETTINGS mutations_sync = 0")
    local.run("ALTER TABLE t DROP PART 'all_2_2_0'")
    _carry_out(table)
    assert local.run("SELECT k, v FROM t ORDER BY k") == [(0, 11), (2, 11), (100, 17)]


def test_who_waits_for_a_mutation_hears_of_its_end_at_once(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.tables.merge_tree.local_mutations._POLL_SECONDS", 3600.0)
    _table(local, 3, is_idle=False)
    local.run("ALTER TABLE t UPDATE v = 1 WHERE 1 SETTINGS mutations_sync = 1")
    assert local.value("SELECT sum(v) FROM t") == 3


def test_a_clean_up_before_the_table_knows_its_numbers_does_nothing(tmp_path: Path) -> None:
    """A task of it may run while the table starts."""
    local = Local(tmp_path / "data")
    try:
        table = _table(local, 1)
        table.numbers.restart_above(0)
        table._mutations.clean_up()
    finally:
        local.engine.stop()
