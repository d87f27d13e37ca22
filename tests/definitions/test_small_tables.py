"""Memory, Null, Log, TinyLog and StripeLog: answers and refusals are ClickHouse's, and rows last as long as theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.scan.leases import LeaseBook, ScanOpening
from engine.tables.merge_tree.local_table import LocalTable
from engine.tables.statement_options import OptimizeOptions
from parts.common.errors import PandoError
from tests.definitions.conftest import Both
from tests.engine.conftest import Local
from tests.power_cut import power_cut

LOGS = ("Log", "TinyLog", "StripeLog")
KEEPING = (*LOGS, "Memory")


@pytest.mark.parametrize("engine", KEEPING)
def test_rows_come_in_the_order_they_went(both: Both, engine: str) -> None:
    both.compare(
        f"""
        SET max_threads = 1;
        CREATE TABLE t (a Int32, b String DEFAULT toString(a), c UInt8 MATERIALIZED 7, d ALIAS a + 1) ENGINE = {engine};
        INSERT INTO t (a) VALUES (3), (2);
        INSERT INTO t VALUES (1, 'one');
        INSERT INTO t (a) SELECT number * 7 % 10 FROM numbers(10);
        SELECT * FROM t;
        SELECT a, b, c, d FROM t WHERE a > 2 LIMIT 2, 3;
        SELECT b, sum(a) FROM t GROUP BY b ORDER BY b;
        SHOW CREATE TABLE t;
        CREATE TABLE u AS t;
        INSERT INTO u SELECT a, b FROM t WHERE a < 5;
        SELECT * FROM u;
        SELECT name, engine, partition_key, sorting_key, primary_key, parts, engine_full
        FROM system.tables WHERE database = currentDatabase() ORDER BY name;
        SELECT name, type, default_kind, position
        FROM system.columns WHERE database = currentDatabase() AND table = 't';
        TRUNCATE TABLE t;
        SELECT count() FROM t;
        RENAME TABLE u TO v;
        SELECT count(), min(a) FROM v;
        SELECT count() FROM u;
        EXISTS TABLE v;
        DROP TABLE v;
        EXISTS TABLE v;
        SELECT count() FROM system.parts WHERE database = currentDatabase()
        """
    )


@pytest.mark.parametrize("engine", [*KEEPING, "Null"])
def test_what_they_refuse(both: Both, engine: str) -> None:
    both.compare(
        f"""
        CREATE TABLE t1 (a Int32) ENGINE = {engine}(1);
        CREATE TABLE t1 (a Int32) ENGINE = {engine} ORDER BY a;
        CREATE TABLE t1 (a Int32) ENGINE = {engine} PARTITION BY a;
        CREATE TABLE t1 (a Int32, INDEX i a TYPE minmax) ENGINE = {engine};
        CREATE TABLE t (a Int32, b String) ENGINE = {engine};
        INSERT INTO t VALUES (1, 'x');
        SELECT * FROM t;
        SELECT * FROM t FINAL;
        SELECT * FROM t SAMPLE 0.1;
        SELECT * FROM t PREWHERE a = 1;
        SELECT _part FROM t;
        OPTIMIZE TABLE t;
        ALTER TABLE t DROP PARTITION tuple();
        ALTER TABLE t FREEZE;
        ALTER TABLE t ADD COLUMN c Int8;
        ALTER TABLE t ADD INDEX i a TYPE minmax;
        ALTER TABLE t RENAME COLUMN b TO e;
        ALTER TABLE t COMMENT COLUMN a 'about a';
        ALTER TABLE t MODIFY COLUMN a COMMENT 'more about a';
        ALTER TABLE t MODIFY COMMENT 'about t';
        ALTER TABLE t DROP COLUMN b;
        SHOW CREATE TABLE t;
        TRUNCATE TABLE t
        """
    )


def test_the_limits_of_memory(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE wrong (a UInt32) ENGINE = Memory SETTINGS max_rows_to_keep = 10, min_rows_to_keep = 100;
        CREATE TABLE wrong (a UInt32) ENGINE = Memory SETTINGS index_granularity = 10;
        CREATE TABLE t (a UInt32) ENGINE = Memory SETTINGS min_rows_to_keep = 10, max_rows_to_keep = 100;
        INSERT INTO t SELECT number FROM numbers(50);
        INSERT INTO t SELECT number + 50 FROM numbers(50);
        SELECT min(a), count() FROM t;
        INSERT INTO t SELECT number + 100 FROM numbers(30);
        SELECT min(a), count() FROM t;
        INSERT INTO t SELECT number FROM numbers(1000);
        SELECT min(a), count() FROM t;
        ALTER TABLE t MODIFY SETTING max_rows_to_keep = 20;
        ALTER TABLE t MODIFY SETTING something = 20;
        INSERT INTO t VALUES (7);
        SELECT min(a), count() FROM t;
        INSERT INTO t SELECT 8 FROM numbers(10);
        SELECT min(a), count() FROM t;
        SHOW CREATE TABLE t
        """
    )


def test_rows_of_memory_change(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE t (a Int32, b String DEFAULT 'b') ENGINE = Memory;
        INSERT INTO t (a) SELECT number FROM numbers(5);
        INSERT INTO t (a) SELECT number FROM numbers(10, 5);
        ALTER TABLE t DELETE WHERE a % 2 = 1;
        ALTER TABLE t UPDATE b = toString(a) WHERE a > 3;
        SELECT * FROM t ORDER BY a;
        DELETE FROM t WHERE a = 2;
        CREATE TABLE l (a Int32) ENGINE = Log;
        ALTER TABLE l DELETE WHERE 1;
        ALTER TABLE l UPDATE a = 1 WHERE 1;
        DELETE FROM l WHERE 1
        """
    )


@pytest.mark.long
def test_order_outlives_merges(local: Local) -> None:
    for engine in KEEPING:
        local.run(f"CREATE TABLE t_{engine} (n UInt64) ENGINE = {engine}")
        first = 0
        for size in (70_000, 1, 3, 200, 1, 1, 90_000, *[1] * 60):
            local.run(f"INSERT INTO t_{engine} SELECT number + {first} FROM numbers({size})")
            first += size
        table = local.engine.catalog.table("default", f"t_{engine}")
        assert isinstance(table, LocalTable)
        table._merges.optimize(OptimizeOptions(final=True))
        assert [row for (row,) in local.run(f"SELECT n FROM t_{engine}")] == list(range(first))
        table.clean_up_step()
        assert [part.name for part, _ in table.store.list_parts()] == [part.name for part in table.store.list_active()]


def test_logs_survive_a_restart_and_memory_does_not(local: Local) -> None:
    for engine in (*KEEPING, "Null"):
        local.run(f"CREATE TABLE t_{engine} (n UInt64) ENGINE = {engine}")
        local.run(f"INSERT INTO t_{engine} VALUES (1), (2)")
    local.restart()
    for engine in (*KEEPING, "Null"):
        assert local.value(f"SELECT count() FROM t_{engine}") == (2 if engine in LOGS else 0), engine
        local.run(f"INSERT INTO t_{engine} VALUES (3)")
    assert local.value("SELECT count() FROM t_Memory") == 1


def test_memory_is_forgotten_when_it_is_detached(local: Local) -> None:
    local.run("CREATE TABLE t (n UInt64) ENGINE = Memory")
    local.run("INSERT INTO t VALUES (1)")
    local.run("DETACH TABLE t")
    local.run("ATTACH TABLE t")
    assert local.value("SELECT count() FROM t") == 0
    assert not list((local.path / "data").rglob("t/*"))


def test_the_power_goes_behind_an_insert(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    local = Local(tmp_path / "one")
    with power_cut(tmp_path / "one", tmp_path / "two"):
        for engine in KEEPING:
            local.run(f"CREATE TABLE t_{engine} (n UInt64) ENGINE = {engine}")
            local.run(f"INSERT INTO t_{engine} VALUES (1), (2)")
    local.engine.stop()
    local = Local(tmp_path / "two")
    for engine in KEEPING:
        assert local.value(f"SELECT count() FROM t_{engine}") == (2 if engine in LOGS else 0), engine
    local.engine.stop()


@pytest.mark.parametrize("engine", LOGS)
def test_an_interrupted_insert_leaves_nothing(local: Local, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    local.run(f"CREATE TABLE t (n UInt64) ENGINE = {engine}")
    local.run("INSERT INTO t VALUES (1)")
    with pytest.raises(PandoError):
        local.run("INSERT INTO t SELECT throwIf(number = 90000) FROM numbers(100000) SETTINGS max_block_size = 1000")
    with pytest.raises(PandoError):
        local.run("INSERT INTO t FORMAT TSV", b"2\n3\nx\n")

    def die(name: str) -> None:
        raise KeyboardInterrupt(name)

    with monkeypatch.context() as patch:
        patch.setattr(local.engine.services, "failpoint", die)
        with pytest.raises(KeyboardInterrupt):
            local.run("INSERT INTO t VALUES (4)")
    assert local.run("SELECT n FROM t") == [(1,)]
    local.restart()
    assert local.run("SELECT n FROM t") == [(1,)]
    names = [entry.name for entry in local.engine.catalog.table("default", "t").store.path.iterdir()]
    assert not [name for name in names if name.startswith("tmp_")]


@pytest.mark.parametrize("engine", [*KEEPING, "Null"])
def test_nothing_expires(both: Both, engine: str) -> None:
    """36 for a TTL of the table and of a column; none is half made."""
    both.compare(
        f"""
        CREATE TABLE t (d Date) ENGINE = {engine} TTL d + INTERVAL 1 DAY;
        CREATE TABLE t (d Date, a UInt8 TTL d + INTERVAL 1 DAY) ENGINE = {engine};
        EXISTS TABLE t
        """
    )


def test_tables_without_parts_take_no_transactions_and_leave_no_files(local: Local) -> None:
    local.run("CREATE TABLE source (a Int32) ENGINE = Memory")
    for create in ("VIEW v AS SELECT a FROM source", "TABLE m (a Int32) ENGINE = Merge(default, 's.*')"):
        local.run(f"CREATE {create}")
    local.run("CREATE TABLE n (a Int32) ENGINE = Null")
    for name in "vmn":
        table = local.engine.catalog.table("default", name)
        assert table.store is None
        assert table.definition.data_path.exists() is (name == "n")
        with pytest.raises(PandoError, match="doesn't support transactions") as raised:
            local.run(f"COMMIT TRANSACTION 'x' ON {name}")
        assert raised.value.code == 48
    assert local.run("SELECT * FROM system.transactions") == []
    path = local.engine.catalog.table("default", "n").definition.data_path
    local.run("DROP TABLE n")
    assert not path.exists()


def test_all_reads_of_a_scan_of_null_agree(local: Local) -> None:
    local.run("CREATE TABLE n (a Int32) ENGINE = Null")
    table, book = local.engine.catalog.table("default", "n"), LeaseBook(local.engine.services.monotonic)
    for _ in range(2):  # the second read finds the record of the first
        with book.hold_lease(table, ScanOpening("scan")) as lease:
            assert list(lease.parts) == []
        assert book.release(table, "scan")
