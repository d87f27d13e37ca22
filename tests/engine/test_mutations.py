"""Mutations of a table of one server: what they change, what they wait for, and what faults leave of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.common.errors import PandoError
from parts.format import hashed_file
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.power_cut import power_cut

CREATE = "CREATE TABLE t (p UInt8, k UInt32, v Int32) ENGINE = MergeTree PARTITION BY p ORDER BY k"
INSERT = "INSERT INTO t SELECT number % 2, number, number FROM numbers(10)"
ROWS = "SELECT k, v FROM t ORDER BY k"
FAILING = "ALTER TABLE t UPDATE v = throwIf(k = 4, 'four') WHERE 1"
NO_MERGES = " SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1"


@pytest.fixture
def table(local: Local) -> Local:
    local.run(CREATE + NO_MERGES)
    local.run(INSERT)
    return local


def rows(update: dict[int, int] | None = None, gone: frozenset[int] = frozenset()) -> list[tuple[object, ...]]:
    return [(k, (update or {}).get(k, k)) for k in range(10) if k not in gone]


def state(local: Local, id: str) -> tuple[object, ...]:
    return local.run(
        f"SELECT is_done, parts_to_do, latest_failed_part FROM system.mutations WHERE mutation_id = '{id}'"
    )[0]


def test_rows_change_and_go(table: Local) -> None:
    table.run("ALTER TABLE t UPDATE v = v * 10 WHERE k > 7, DELETE WHERE k = 3")
    assert table.run(ROWS) == rows({8: 80, 9: 90}, frozenset({3}))
    assert table.run("SELECT command, is_done FROM system.mutations") == [
        ("(UPDATE v = v * 10 WHERE k > 7)", 1),
        ("(DELETE WHERE k = 3)", 1),
    ]
    table.restart()
    assert table.run(ROWS) == rows({8: 80, 9: 90}, frozenset({3}))


def test_only_the_partition_is_changed(table: Local) -> None:
    before = table.run("SELECT name FROM system.parts WHERE active AND partition_id = '1'")
    table.run("ALTER TABLE t DELETE IN PARTITION 0 WHERE 1")
    assert table.run(ROWS) == rows(gone=frozenset(range(0, 10, 2)))
    assert table.run("SELECT name FROM system.parts WHERE active AND partition_id = '1'") == before


def test_parts_without_such_a_row_share_their_files(table: Local) -> None:
    files = inodes(table, "1_2_2_0")
    table.run("ALTER TABLE t UPDATE v = 5 WHERE k = 8")
    assert inodes(table, "1_2_2_0_3") == files
    assert not inodes(table, "0_1_1_0_3") & files


def inodes(local: Local, part: str) -> set[int]:
    ((path,),) = local.run(f"SELECT path FROM system.parts WHERE name = '{part}'")
    return {file.stat().st_ino for file in Path(str(path)).iterdir()}


def test_rows_of_later_blocks_stay(table: Local) -> None:
    table.run("ALTER TABLE t MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1")  # no merges
    with pytest.raises(PandoError, match="four"):
        table.run(FAILING)
    table.run("INSERT INTO t VALUES (0, 4, 44)")
    table.run("KILL MUTATION WHERE table = 't'")
    table.run("ALTER TABLE t UPDATE v = 1 WHERE k = 4")
    table.run("INSERT INTO t VALUES (0, 4, 45)")
    assert table.run("SELECT v FROM t WHERE k = 4 ORDER BY v") == [(1,), (1,), (45,)]


def test_one_that_fails_says_why_holds_up_later_ones_and_ends_by_kill(table: Local) -> None:
    with pytest.raises(PandoError, match="four") as caught:
        table.run(FAILING)
    assert caught.value.code == 341
    assert table.run(ROWS) == rows()
    ((id_, reason),) = table.run("SELECT mutation_id, latest_fail_reason FROM system.mutations WHERE NOT is_done")
    assert "four" in str(reason)
    with pytest.raises(PandoError, match=str(id_)):
        table.run("ALTER TABLE t UPDATE v = 7 WHERE k = 4")
    table.run("ALTER TABLE t UPDATE v = 7 WHERE k = 5 SETTINGS mutations_sync = 0")
    assert table.run(f"KILL MUTATION WHERE mutation_id = '{id_}' TEST")[0][3] == id_
    assert table.run(f"KILL MUTATION WHERE mutation_id = '{id_}'") == [
        ("waiting", "default", "t", id_, "(UPDATE v = throwIf(k = 4, 'four') WHERE 1)")
    ]
    table.run("ALTER TABLE t UPDATE v = v WHERE 0")  # waits for those before
    assert table.run(ROWS) == rows({4: 7, 5: 7})
    assert table.run("SELECT count() FROM system.mutations WHERE NOT is_done") == [(0,)]
    table.restart()
    assert table.run(ROWS) == rows({4: 7, 5: 7})


@pytest.mark.parametrize("change", ["DROP COLUMN v", "RENAME COLUMN v TO w", "MODIFY COLUMN v String"])
def test_what_one_that_is_not_done_names_stays(table: Local, change: str) -> None:
    with pytest.raises(PandoError, match="four"):
        table.run(FAILING)
    with pytest.raises(PandoError, match="mutation with ID 'mutation_") as caught:
        table.run(f"ALTER TABLE t {change}")
    assert caught.value.code == 36
    table.run("ALTER TABLE t ADD COLUMN other UInt8")
    table.run("KILL MUTATION WHERE table = 't'")
    table.run(f"ALTER TABLE t {change}")


def test_no_part_is_replaced_after_a_kill_has_answered(table: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill_before_the_commit(name: str) -> None:
        if name == "mutation.after_temporary_part":
            assert len(table.run("KILL MUTATION WHERE 1")) == 1

    with monkeypatch.context() as patch:
        patch.setattr(table.engine.services, "failpoint", kill_before_the_commit)
        with pytest.raises(PandoError, match="was killed"):
            table.run("ALTER TABLE t UPDATE v = 0 WHERE 1")
    assert table.run(ROWS) == rows()
    table.run("ALTER TABLE t UPDATE v = 1 WHERE k = 1")
    assert table.run(ROWS) == rows({1: 1})
    assert not list(table.path.glob("data/default/t/tmp_*"))


def test_merges_do_not_mix_what_has_gone_through_a_mutation_with_what_has_not(table: Local) -> None:
    table.run("INSERT INTO t VALUES (0, 4, 4), (0, 6, 6)")
    with pytest.raises(PandoError):
        table.run("ALTER TABLE t UPDATE v = throwIf(k = 4 AND v = 4, 'four') WHERE k > 3")
    table.run("INSERT INTO t VALUES (0, 20, 20)")
    table.run("OPTIMIZE TABLE t PARTITION 0 FINAL")
    table.run("KILL MUTATION WHERE 1")
    table.run("OPTIMIZE TABLE t PARTITION 0 FINAL")
    assert table.run("SELECT count() FROM system.parts WHERE active AND partition_id = '0'") == [(1,)]
    assert table.run("SELECT count(), sum(v) FROM t") == [(13, 45 + 10 + 20)]


def test_an_unfinished_one_goes_on_after_a_restart(table: Local) -> None:
    table.run("CREATE TABLE switch (off UInt8) ENGINE = MergeTree ORDER BY off")
    table.run("INSERT INTO switch VALUES (1)")
    with pytest.raises(PandoError, match="341"):
        table.run("ALTER TABLE t UPDATE v = 0 WHERE throwIf((SELECT max(off) FROM switch) = 1) = 0")
    table.run("TRUNCATE TABLE switch")
    table.restart()
    table.run("ALTER TABLE t UPDATE v = v WHERE 0")
    assert table.run(ROWS) == rows(dict.fromkeys(range(10), 0))


def test_finished_ones_are_forgotten(table: Local) -> None:
    table.run("ALTER TABLE t MODIFY SETTING finished_mutations_to_keep = 2")
    for value in range(5):
        table.run(f"ALTER TABLE t UPDATE v = {value} WHERE k = 1")
    table.engine.catalog.table("default", "t").clean_up_step()
    assert len(list(table.path.glob("data/default/t/mutation_*.txt"))) == 2
    assert table.run("SELECT count() FROM system.mutations") == [(2,)]
    table.restart()
    table.run("INSERT INTO t VALUES (0, 50, 50)")
    assert table.run("SELECT v FROM t WHERE k IN (1, 50) ORDER BY v") == [(4,), (50,)]


def test_lightweight_delete(table: Local) -> None:
    table.run("DELETE FROM t WHERE k % 3 = 0")
    left = rows(gone=frozenset({0, 3, 6, 9}))
    assert table.run(ROWS) == left
    assert table.run("SELECT count() FROM t") == [(6,)]
    assert table.run("SELECT count(), min(k), sum(v) FROM t WHERE k < 5") == [(3, 1, 7)]
    assert table.run("SELECT k FROM t WHERE k = 3") == []
    assert table.run("SELECT k FROM t WHERE k >= 3 ORDER BY k LIMIT 1") == [(4,)]
    assert table.run("SELECT sum(rows), sum(has_lightweight_delete) FROM system.parts WHERE active") == [(10, 2)]
    table.run("DELETE FROM t WHERE k = 4")
    table.run("OPTIMIZE TABLE t FINAL")
    assert table.run("SELECT sum(rows), sum(has_lightweight_delete) FROM system.parts WHERE active") == [(5, 0)]
    assert table.run(ROWS) == [row for row in left if row != (4, 4)]


def test_parameters_and_comments_in_expressions(table: Local) -> None:
    sql = "ALTER TABLE t UPDATE v = {new:Int32} -- to what\n WHERE k = {which:UInt32} -- of which"
    table.engine.execute(sql, table.session, None, {"new": "-5", "which": "2"})
    assert table.run("SELECT v FROM t WHERE k = 2") == [(-5,)]


class Faults:
    """The ``number``-th fsync fails, and those after it do not."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.has_failed = False

    def __call__(self, descriptor: int) -> None:
        self._left -= 1
        if self._left == 0:
            self.has_failed = True
            raise OSError(5, "Input/output error")
        os.fsync(descriptor)


CHANGES = {
    "update": ("ALTER TABLE t UPDATE v = 0 WHERE k < 4", rows(dict.fromkeys(range(4), 0))),
    "delete": ("ALTER TABLE t DELETE WHERE k < 4", rows(gone=frozenset(range(4)))),
    "lightweight": ("DELETE FROM t WHERE k < 4", rows(gone=frozenset(range(4)))),
}


@pytest.mark.parametrize("kind", one_in(2, [" SETTINGS min_bytes_for_wide_part = 0", ""]), ids=["wide", "compact"])
@pytest.mark.parametrize("change", one_in(3, CHANGES))
def test_an_fsync_that_fails_leaves_all_or_nothing(tmp_path: Path, change: str, kind: str) -> None:
    statement, after = CHANGES[change]
    for number in range(1, 100):
        local = Local(tmp_path / str(number))
        local.run(CREATE + kind)
        local.run(INSERT)
        faults = Faults(number)
        with hashed_file.replace_sync(faults):
            acknowledged = is_acknowledged(local, statement)
        kept = bool(local.run("SELECT 1 FROM system.mutations"))
        assert kept or not acknowledged
        local.restart()
        local.run("ALTER TABLE t UPDATE v = v WHERE 0")
        assert local.run(ROWS) == (after if kept else rows()), number
        assert not list(local.path.glob("data/default/t/tmp_*"))
        local.engine.stop()
        if not faults.has_failed:
            assert acknowledged
            return
    pytest.fail("the statement has no end")


def is_acknowledged(local: Local, statement: str) -> bool:
    try:
        local.run(statement)
    except (PandoError, OSError):
        return False
    return True


def test_a_killed_mutation_does_not_come_back_after_a_power_cut(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    local = Local(tmp_path / "one")
    local.run(CREATE)
    local.run(INSERT)
    with pytest.raises(PandoError, match="four"):
        local.run("ALTER TABLE t UPDATE v = throwIf(k = 4, 'four') - 1 WHERE 1")
    with power_cut(tmp_path / "one", tmp_path / "two"):
        local.run("KILL MUTATION WHERE 1")
    local.engine.stop()
    after = Local(tmp_path / "two")
    assert after.run("SELECT mutation_id FROM system.mutations") == []
    after.engine.stop()


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[Local]:
    """The server on what is left when the power goes after an acknowledged mutation that nobody waited for."""
    (tmp_path / "one").mkdir()
    local = Local(tmp_path / "one")
    local.run(CREATE)
    local.run(INSERT)
    with power_cut(tmp_path / "one", tmp_path / "two"):
        local.run("ALTER TABLE t UPDATE v = 0 WHERE k < 4 SETTINGS mutations_sync = 0")
    local.engine.stop()
    after = Local(tmp_path / "two")
    yield after
    after.engine.stop()


def test_an_acknowledged_mutation_outlives_a_power_cut(cut: Local) -> None:
    cut.run("ALTER TABLE t UPDATE v = v WHERE 0")
    assert cut.run(ROWS) == rows(dict.fromkeys(range(4), 0))
