"""A table of one server read in the order of its blocks."""

from __future__ import annotations

import threading

import pytest

from engine.queries.session import Session
from engine.scan.stream_batches import find_batch_end
from engine.tables.capabilities.block_history import WantedBlocks
from engine.tables.merge_tree.merge_tree_table import MergeTreeTable
from parts.common.errors import PandoError
from tests.engine.conftest import Local

CREATE = """CREATE TABLE t (p UInt8, k UInt32) ENGINE = MergeTree PARTITION BY p ORDER BY k
SETTINGS enable_block_number_column = 1, old_parts_lifetime = 0"""


def table_of(local: Local) -> MergeTreeTable:
    table = local.engine.catalog.table("default", "t")
    assert isinstance(table, MergeTreeTable)
    return table


def test_a_number_that_is_not_committed_holds_the_position(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t VALUES (0, 1)")
    is_numbered, may_commit = threading.Event(), threading.Event()

    def hold_the_first(name: str) -> None:
        if name == "insert.after_rename" and not is_numbered.is_set():
            is_numbered.set()
            assert may_commit.wait(60)

    monkeypatch.setattr(local.engine.services, "failpoint", hold_the_first)
    slow = threading.Thread(target=lambda: local.engine.execute("INSERT INTO t VALUES (0, 2)", Session()))
    slow.start()
    assert is_numbered.wait(60)
    local.run("INSERT INTO t VALUES (0, 3)")
    local.run("INSERT INTO t VALUES (1, 4)")
    assert table_of(local).history().decided == {"0": 1}
    may_commit.set()
    slow.join()
    assert table_of(local).history().decided == {"0": 3, "1": 4}


def test_truncate_waits_for_who_has_a_number(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that came after the drop, with a smaller number than what was dropped, would look like a dropped one."""
    local.run(CREATE)
    is_numbered, may_commit = threading.Event(), threading.Event()

    def hold_the_first(name: str) -> None:
        if name == "insert.after_rename" and not is_numbered.is_set():
            is_numbered.set()
            assert may_commit.wait(60)

    monkeypatch.setattr(local.engine.services, "failpoint", hold_the_first)
    slow = threading.Thread(target=lambda: local.engine.execute("INSERT INTO t VALUES (0, 2)", Session()))
    slow.start()
    assert is_numbered.wait(60)
    local.run("INSERT INTO t VALUES (0, 3)")
    drop = threading.Thread(target=lambda: local.engine.execute("TRUNCATE TABLE t", Session()))
    drop.start()
    may_commit.set()
    slow.join()
    drop.join()
    dropped = table_of(local).history().dropped["0"]
    assert all(number > dropped for (number,) in local.run("SELECT _block_number FROM t"))


def test_numbers_go_on_behind_what_was_dropped_over_a_restart(local: Local) -> None:
    local.run(CREATE)
    for key in range(3):
        local.run(f"INSERT INTO t VALUES (0, {key})")
    before = table_of(local).history()
    local.run("TRUNCATE TABLE t")
    table_of(local).clean_up_step()
    local.restart()
    local.run("INSERT INTO t VALUES (0, 9)")
    after = table_of(local).history()
    assert after.identity == before.identity
    assert after.dropped == before.decided == {"0": 3}
    assert after.decided == {"0": 4}
    wanted = WantedBlocks(after.identity, (("0", 2, 4),))
    with pytest.raises(PandoError) as raised:
        table_of(local).snapshot_of_blocks(wanted)
    assert raised.value.code == 33
    local.run("DROP TABLE t")
    local.run(CREATE)
    assert table_of(local).history().identity != before.identity


def test_a_transaction_that_overwrites_comes_behind_what_it_drops(local: Local) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t VALUES (0, 1)")
    local.run("INSERT INTO t VALUES (1, 2)")
    read = table_of(local).history()
    assert read.decided == {"0": 1, "1": 2}
    local.run("INSERT INTO t SETTINGS insert_transaction = 'x' VALUES (0, 3), (1, 4)")
    assert table_of(local).history().decided == read.decided, "what is staged is not there"
    local.run("COMMIT TRANSACTION 'x' ON t OVERWRITE")
    after = table_of(local).history()
    assert after.dropped == read.decided, "it was read before, so nothing is lost"
    assert all(after.decided[name] > number for name, number in read.decided.items())
    wanted = WantedBlocks(
        after.identity, tuple((name, number, after.decided[name]) for name, number in read.decided.items())
    )
    snapshot = table_of(local).snapshot_of_blocks(wanted)
    assert sum(part.rows for part in snapshot.parts) == 2
    snapshot.release()
    late = WantedBlocks(after.identity, (("0", 0, after.decided["0"]),))
    with pytest.raises(PandoError) as raised:
        table_of(local).snapshot_of_blocks(late)
    assert raised.value.code == 33


def test_numbers_go_on_behind_a_part_that_was_broken(local: Local) -> None:
    local.run(CREATE)
    for key in range(2):
        local.run(f"INSERT INTO t VALUES (0, {key})")
    decided = table_of(local).history().decided
    broken = max(table_of(local).store.active(), key=lambda part: part.name.max_block).path
    local.engine.stop()
    (broken / "meta.bin").write_bytes(b"broken")
    local.restart()
    local.run("INSERT INTO t VALUES (0, 9)")
    assert local.value("SELECT count() FROM t") == 2
    assert table_of(local).history().decided["0"] > decided["0"]


def test_batches_end_at_blocks_and_no_partition_starves(local: Local) -> None:
    local.run(CREATE)
    for p, rows in ((0, 5), (0, 5), (1, 2), (1, 2), (0, 5), (1, 50), (2, 1)):
        local.run(f"INSERT INTO t SELECT {p}, number FROM numbers({rows})")
    expected = [
        {"0": 1, "1": 3, "2": 7},
        {"0": 4, "1": 5, "2": 7},
        {"0": 5, "1": 5, "2": 7},
        {"0": 5, "1": 6, "2": 7},
    ]
    for _ in range(2):
        decided = table_of(local).history().decided
        after: dict[str, int] = {}
        found = []
        with local.engine.catalog.table("default", "t").snapshot() as snapshot:  # type: ignore[attr-defined]
            while (end := find_batch_end(snapshot.parts, after, decided, 9)) != after:
                found.append(end)
                after = end
            assert find_batch_end(snapshot.parts, {}, decided, None) == decided
        assert found == expected
        local.run("OPTIMIZE TABLE t FINAL")
