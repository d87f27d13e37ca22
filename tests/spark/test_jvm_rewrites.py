"""UPDATE, MERGE and DELETE of Spark, and overwriting by a condition: whole, once, and nothing of others is lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import BooleanType

from engine.http_client.http_client import HttpClient
from spark_connector import use_catalog, use_session
from tests.portions import one_in
from tests.spark.catalog import Session
from tests.spark.conftest import Pando
from tests.spark.test_jvm_read import Between
from tests.spark.test_jvm_write import VALUES, failing, keys, numbers

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

COLUMNS = "k Int64, p Int32, v Nullable(Int64), s LowCardinality(String)"
Row = tuple[int, int, int | None, str]


@pytest.fixture(scope="module")
def sql(jvm_session: SparkSession, pando: Pando) -> Session:
    return Session(jvm_session, pando)


def first_rows(count: int = 60) -> list[Row]:
    return [(k, k % 5, None if k % 7 == 0 else k * 10, f"s{k % 3}") for k in range(count)]


def new_table(sql: Session, *, engine: str = "", partition: str = "p", count: int = 60) -> str:
    table = sql.pando.new_table(COLUMNS, "k", engine=engine, partition=partition)
    values = ", ".join(str(row).replace("None", "NULL") for row in first_rows(count))
    half = values.index(", (", len(values) // 2)
    for part in (values[:half], values[half + 2 :]):
        sql.pando["r1"].execute(f"INSERT INTO {table} VALUES {part}")
    return table


def stored(sql: Session, table: str, replica: str = "r1") -> list[tuple[object, ...]]:
    return sql.server(f"SELECT k, p, v, toString(s) FROM {table} ORDER BY k, v", replica)


def on_both(sql: Session, table: str) -> list[tuple[object, ...]]:
    sql.pando.sync(table)
    first, second = (stored(sql, table, replica) for replica in ("r1", "r2"))
    assert first == second
    return first


class Meddling:
    """Carries out a statement at a server, once, when a task of Spark calls the function ``name``, which is true."""

    def __init__(self, sql: Session, flag: Path, statement: str, replica: str = "r2") -> None:
        self.name = sql.new_name()
        self.flag = flag / self.name
        port, file = sql.pando[replica].port, str(self.flag)

        def meddle(_: object) -> bool:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(file, os.O_CREAT | os.O_EXCL))
                with HttpClient(port=port, timeout_seconds=60) as client:
                    client.execute(statement)
            return True

        sql.spark.udf.register(self.name, meddle, BooleanType())

    @property
    def is_done(self) -> bool:
        return self.flag.exists()


# -- UPDATE and DELETE ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", one_in(2, ["p", "", "(p, s)"]))
def test_update(sql: Session, partition: str) -> None:
    table = new_table(sql, partition=partition)
    sql(f"UPDATE pando.default.{table} SET v = v + 1, s = 'new' WHERE k > 40 AND p IN (1, 2)")
    expected = [
        (k, p, None if v is None else v + 1, "new") if k > 40 and p in (1, 2) else (k, p, v, s)
        for k, p, v, s in first_rows()
    ]
    assert on_both(sql, table) == expected
    sql(f"UPDATE pando.default.{table} SET p = p + 1")  # all rows go to other partitions
    assert on_both(sql, table) == [(k, p + 1, v, s) for k, p, v, s in expected]


def test_partitions_without_rows_to_change_are_not_written(sql: Session) -> None:
    table = new_table(sql)
    sql.pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    sql.pando.sync(table)
    sql(f"UPDATE pando.default.{table} SET s = 'none' WHERE k = -1")
    sql(f"UPDATE pando.default.{table} SET s = 'odd' WHERE k % 5 = 3 AND length(s) = 2")  # Spark alone knows where
    parts = sql.server(f"SELECT name FROM system.parts WHERE active AND table = '{table}' ORDER BY name")
    assert [name for (name,) in parts if str(name).endswith("_1")] == [f"{p}_0_1_1" for p in (0, 1, 2, 4)]
    assert on_both(sql, table) == [(k, p, v, "odd" if p == 3 else s) for k, p, v, s in first_rows()]


@pytest.mark.parametrize(
    ("condition", "is_gone"),
    [
        ("k IN (SELECT id * 2 FROM range(20))", lambda k, v: k % 2 == 0 and k < 40),
        *one_in(4, [
            ("k % 7 = 3 AND cast(k AS string) LIKE '_%'", lambda k, v: k % 7 == 3),
            ("NOT EXISTS (SELECT 1 FROM range(10, 90) r WHERE r.id = k)", lambda k, v: k < 10),
            ("k NOT IN (SELECT id FROM range(50))", lambda k, v: k >= 50),
            ("v > (SELECT max(id) FROM range(301))", lambda k, v: v is not None and v > 300),
        ]),
    ],
)  # fmt: skip
def test_delete_by_what_the_servers_do_not_know(
    sql: Session, condition: str, is_gone: Callable[[int, int | None], bool]
) -> None:
    table = new_table(sql)
    sql(f"DELETE FROM pando.default.{table} WHERE {condition}")
    assert on_both(sql, table) == [row for row in first_rows() if not is_gone(row[0], row[2])]


@pytest.mark.long
def test_other_columns_stay_as_they_are(sql: Session) -> None:
    """In every type."""
    table = sql.pando.new_table(
        "k Int64, u Int32, " + ", ".join(f"c{i} {type_}" for i, (type_, *_) in enumerate(VALUES)), "k"
    )
    names = ", ".join(f"c{i}" for i in range(len(VALUES)))
    for place in (1, 2):
        sql(f"INSERT INTO pando.default.{table} SELECT {place}L, 0, {', '.join(values[place] for values in VALUES)}")
    before = sql.server(f"SELECT toString(({names})) FROM {table} ORDER BY k")
    sql(f"UPDATE pando.default.{table} SET u = 7 WHERE k = 1")
    sql.pando.sync(table)
    assert sql.server(f"SELECT toString(({names})) FROM {table} ORDER BY k") == before
    assert sql.server(f"SELECT u FROM {table} ORDER BY k") == [(7,), (0,)]


# -- MERGE ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", one_in(2, ["", "MergeTree"]))
def test_merge(sql: Session, engine: str) -> None:
    table = new_table(sql, engine=engine)
    catalog = "alone" if engine else "pando"
    source = "SELECT id AS k, id * 3 AS w FROM range(50, 70)"
    sql(f"""MERGE INTO {catalog}.default.{table} t USING ({source}) s ON t.k = s.k
        WHEN MATCHED AND t.p = 4 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = s.w
        WHEN NOT MATCHED AND s.k < 68 THEN INSERT (k, p, v, s) VALUES (s.k, 7, s.w, 'came')
        WHEN NOT MATCHED BY SOURCE AND t.k < 3 THEN UPDATE SET s = 'left'
        WHEN NOT MATCHED BY SOURCE AND t.k BETWEEN 10 AND 12 THEN DELETE""")
    expected: list[tuple[object, ...]] = []
    for k, p, v, s in first_rows():
        if k >= 50:
            expected += [(k, p, k * 3, s)] if p != 4 else []
        elif k < 3:
            expected.append((k, p, v, "left"))
        elif not 10 <= k <= 12:
            expected.append((k, p, v, s))
    expected += [(k, 7, k * 3, "came") for k in range(60, 68)]
    assert (stored(sql, table) if engine else on_both(sql, table)) == expected


def test_rows_are_upserted_by_their_key(sql: Session) -> None:
    table = new_table(sql, count=20)
    for turn in range(3):
        sql(f"""MERGE INTO pando.default.{table} t
            USING (SELECT id * 7 AS k, cast(id % 2 AS int) AS p, {turn}L AS v, 'up' AS s FROM range(6)) s ON t.k = s.k
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    expected = [row for row in first_rows(20) if row[0] % 7] + [(7 * n, n % 2, 2, "up") for n in range(6)]
    assert on_both(sql, table) == sorted(expected)


def test_a_row_that_is_matched_twice_is_an_error_and_nothing_changes(sql: Session) -> None:
    table = new_table(sql)
    sql.refuse(
        f"MERGE INTO pando.default.{table} t USING (SELECT 1L AS k FROM range(2)) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = 1",
        "MERGE_CARDINALITY_VIOLATION",
    )
    assert on_both(sql, table) == first_rows()
    assert sql.server(f"SELECT id FROM system.transactions WHERE table = '{table}' AND state != 'aborted'") == []


# -- what others do meanwhile -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "is_lost"),
    [
        ("INSERT INTO {} VALUES (101, 1, 1, 'x')", True),
        *one_in(6, [
            ("INSERT INTO {} VALUES (102, 2, 1, 'x')", False),
            ("DELETE FROM {} WHERE k = 11", True),
            ("ALTER TABLE {} DROP PARTITION 1", True),
            ("OPTIMIZE TABLE {} FINAL", False),
        ]),
    ],
)  # fmt: skip
def test_an_update_beside_others(sql: Session, tmp_path: Path, statement: str, is_lost: bool) -> None:
    table = new_table(sql)
    meddling = Meddling(sql, tmp_path, statement.format(table))
    update = f"UPDATE pando.default.{table} SET s = 'new' WHERE p = 1 AND {meddling.name}(k)"
    if is_lost:
        sql.refuse(
            update, r"Code: 650\. .*The table has changed since .*Nothing was committed; run the statement again"
        )
        assert meddling.is_done
        assert not sql.server(f"SELECT k FROM {table} WHERE s = 'new'")
    sql(update)  # again
    assert meddling.is_done
    others = {101, 102, 11}
    found = {row[0]: row[3] for row in on_both(sql, table)}
    assert len(found) == len(stored(sql, table))
    kept = [] if "PARTITION" in statement else [k for k, p, _, _ in first_rows() if p == 1 and k not in others]
    assert sorted(k for k, s in found.items() if s == "new" and k not in others) == kept
    assert (101 in found, 102 in found, 11 in found) == (
        "101" in statement, "102" in statement, "= 11" not in statement and "PARTITION" not in statement
    )  # fmt: skip


@pytest.mark.long
def test_a_replica_that_lags_does_not_hide_rows(sql: Session) -> None:
    """Spark looks for the rows to change in what it reads anew."""
    table = new_table(sql)
    sql.pando.sync(table)
    sql.pando["r2"].execute(f"SYSTEM STOP FETCHES {table}")
    for turn in range(8):  # each time another replica may be asked first
        sql.pando["r1"].execute(f"INSERT INTO {table} VALUES ({100 + turn}, {20 + turn}, 1, 'late')")
        sql(f"UPDATE pando.default.{table} SET v = {turn} WHERE length(s) = 4 AND k = {100 + turn}")
        assert sql.server(f"SELECT v FROM {table} WHERE k = {100 + turn}") == [(turn,)]
    sql.pando["r2"].execute(f"SYSTEM START FETCHES {table}")
    assert on_both(sql, table)[-8:] == [(100 + turn, 20 + turn, turn, "late") for turn in range(8)]


def test_a_merge_does_not_insert_a_key_that_came_meanwhile(sql: Session, tmp_path: Path) -> None:
    """Although no row of that partition was there to be replaced."""
    table = new_table(sql)
    meddling = Meddling(sql, tmp_path, f"INSERT INTO {table} VALUES (500, 9, 1, 'theirs')")
    merge = f"""MERGE INTO pando.default.{table} t
        USING (SELECT id AS k, 9 AS p, 0L AS v, 'ours' AS s FROM range(500, 501) WHERE {meddling.name}(id)) s
        ON t.k = s.k
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    sql.refuse(merge, r"Code: 650\.")
    assert on_both(sql, table) == [*first_rows(), (500, 9, 1, "theirs")]
    sql(merge)
    assert on_both(sql, table) == [*first_rows(), (500, 9, 0, "ours")]


@pytest.mark.long
def test_statements_that_run_at_once_lose_nothing_of_each_other(sql: Session) -> None:
    table = new_table(sql, partition="", count=10)

    def work(number: int) -> int:
        use_session(sql.spark)
        done = 0
        for _ in range(40):
            try:
                sql(f"UPDATE pando.default.{table} SET v = coalesce(v, 0) + 1000 WHERE k >= {number}")
                done += 1
            except Exception as error:
                if "Code: 650." not in str(error):
                    raise
            if done == 3:
                break
        return done

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [3, 3, 3]
    expected = [(k, p, (v or 0) + 3000 * min(k + 1, 3), s) for k, p, v, s in first_rows(10)]
    assert on_both(sql, table) == expected


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_task_that_fails_is_repeated_or_nothing_changes(sql: Session, tmp_path: Path) -> None:
    table = new_table(sql)

    def fail(attempts: int) -> str:
        name = sql.new_name()

        def check(k: int) -> bool:
            context = TaskContext.get()
            if k == 59 and context is not None and context.attemptNumber() < attempts:
                raise RuntimeError("this task fails")
            return True

        sql.spark.udf.register(name, check, BooleanType())
        return name

    sql.refuse(f"UPDATE pando.default.{table} SET v = 5 WHERE p = 4 AND {fail(9)}(k)", "this task fails")
    assert on_both(sql, table) == first_rows()
    sql(f"UPDATE pando.default.{table} SET v = 5 WHERE p = 4 AND {fail(1)}(k)")
    assert on_both(sql, table) == [(k, p, 5 if p == 4 else v, s) for k, p, v, s in first_rows()]


@pytest.mark.long
@pytest.mark.parametrize("lost", ["scan/begin", "insert_transaction", "COMMIT TRANSACTION"])
def test_an_answer_that_is_lost(sql: Session, lost: str) -> None:
    table = new_table(sql)
    with Between(sql.pando.urls["r1"]) as between:
        name = sql.new_name()
        use_catalog(sql.spark, between.url, name)
        sql(f"SELECT count(*) FROM {name}.default.{table}")
        between.loses, between.most_lost = lost, 3
        sql(f"UPDATE {name}.default.{table} SET v = coalesce(v, 0) + 1 WHERE p = 2")
        assert between.lost == 3
    assert on_both(sql, table) == [(k, p, (v or 0) + 1 if p == 2 else v, s) for k, p, v, s in first_rows()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "engine", "settings", "message"),
    [
        (COLUMNS, "ReplacingMergeTree", "", "it is a ReplacingMergeTree table"),
        (COLUMNS, "MergeTree", "enable_block_number_column = 1", "it keeps block numbers"),
        (f"{COLUMNS}, m Int64 MATERIALIZED k + 1", "MergeTree", "", "the column 'm' is computed"),
    ],
)
def test_tables_that_are_refused_by_name(sql: Session, columns: str, engine: str, settings: str, message: str) -> None:
    table = sql.pando.new_table(columns, "k", engine=engine, settings=settings)
    full = f"alone.default.{table}"
    sql(f"INSERT INTO {full} VALUES (1, 1, 1, ''), (2, 2, 2, '')")
    for statement, name in (
        (f"UPDATE {full} SET v = 5", "UPDATE"),
        (f"DELETE FROM {full} WHERE k % 2 = 3 AND k IN (SELECT id FROM range(3))", "DELETE"),
        (f"MERGE INTO {full} USING (SELECT 7L AS q) ON k = q WHEN MATCHED THEN DELETE", "MERGE"),
    ):
        sql.refuse(statement, rf"Code: 48\. .*{name} is not offered for default.{table}: {message}")
    sql(f"DELETE FROM {full} WHERE k = 1")
    assert keys(sql.pando, table) == [2]


# -- overwriting by a condition ---------------------------------------------------------------------------------------


def test_rows_take_the_place_of_those_of_a_condition(sql: Session) -> None:
    table = new_table(sql)
    full = f"pando.default.{table}"
    new = sql.spark.sql("SELECT id AS k, cast(id % 5 AS int) AS p, 7L AS v, 'new' AS s FROM range(100, 104)")
    new.writeTo(full).overwrite(expr("p = 1"))  # whole partitions
    rows = [row for row in first_rows() if row[1] != 1] + [(k, k % 5, 7, "new") for k in range(100, 104)]
    assert on_both(sql, table) == rows
    new.writeTo(full).overwrite(expr("v > 300"))  # NULL is not
    rows = [row for row in rows if row[2] is None or row[2] <= 300] + rows[-4:]
    assert on_both(sql, table) == sorted(rows)
    sql(f"INSERT INTO {full} REPLACE WHERE s = 'new' AND k = 100 SELECT 100L, 2, NULL, 'again'")
    rows = [row for row in rows if row[0] != 100] + [(100, 2, None, "again")]
    assert on_both(sql, table) == sorted(rows, key=lambda row: row[0])
    new.where("k < 0").writeTo(full).overwrite(expr("k > 50"))
    assert [row[0] for row in on_both(sql, table)] == [row[0] for row in rows if row[0] <= 50]
    new.writeTo(full).overwrite(expr("k = -1"))
    assert keys(sql.pando, table)[-4:] == [100, 101, 102, 103]
    sql(f"INSERT OVERWRITE {full} PARTITION (p = 2) SELECT 200L, 1L, 'two'")
    assert [row for row in on_both(sql, table) if row[1] == 2] == [(200, 2, 1, "two")]
    with pytest.raises(Exception, match=r"Code: 48\. .*Spark and the servers may differ about them"):
        new.writeTo(full).overwrite(expr("length(s) = 3"))


@pytest.mark.long
@pytest.mark.parametrize("statement", ["INSERT INTO {} VALUES (101, 1, 1, 'x')", "DELETE FROM {} WHERE k = 11"])
def test_an_overwrite_beside_others_is_behind_them(sql: Session, tmp_path: Path, statement: str) -> None:
    """They come while the rows are staged, or when the rows to keep were read: then these are read again."""
    table = new_table(sql)
    with Between(sql.pando.urls["r1"]) as between:
        name = sql.new_name()
        use_catalog(sql.spark, between.url, name)
        frame = sql.spark.sql("SELECT 300L AS k, 1 AS p, 7L AS v, 'new' AS s")
        change = statement.format(table)
        between.interrupts, between.interrupt = "COMMIT TRANSACTION", lambda: sql.pando["r1"].execute(change)
        frame.writeTo(f"{name}.default.{table}").overwrite(expr("v > 300 AND p = 1"))
    rows = [row for row in first_rows() if row[1] != 1 or row[2] is None or row[2] <= 300]
    rows = [*rows, (101, 1, 1, "x"), (300, 1, 7, "new")] if "INSERT" in statement else [*rows, (300, 1, 7, "new")]
    assert on_both(sql, table) == [row for row in rows if "INSERT" in statement or row[0] != 11]


@pytest.mark.long
def test_an_overwrite_commits_a_version_once_and_leaves_nothing_if_it_fails(sql: Session) -> None:
    table = new_table(sql)
    full = f"pando.default.{table}"
    frame = numbers(sql.spark, 60).selectExpr("k", "1 AS p", "k AS v", "s")
    with pytest.raises(Exception, match="this task fails"):
        failing(frame, 9).writeTo(full).overwrite(expr("k > 7 AND p = 1"))
    assert on_both(sql, table) == first_rows()
    for k in (1000, 2000):
        frame = sql.spark.sql(f"SELECT {k}L AS k, 1 AS p, 0L AS v, '' AS s")
        frame.writeTo(full).option("txnAppId", "a").option("txnVersion", "1").overwrite(expr("k > 7 AND p = 1"))
        frame.writeTo(full).option("token", "b").overwrite(expr("k > 7 AND p = 2"))
    assert [row[0] for row in on_both(sql, table) if row[0] > 59] == [1000, 1000]
    assert {row[0] for row in on_both(sql, table) if row[1] in (1, 2) and row[0] < 60} == {1, 2, 6, 7}


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "settings", "message"),
    [
        ("ReplacingMergeTree", "", "it is a ReplacingMergeTree table"),
        ("MergeTree", "enable_block_number_column = 1", "it keeps block numbers"),
    ],
)
def test_an_overwrite_that_keeps_rows_is_refused_where_they_cannot_be_written_anew(
    sql: Session, engine: str, settings: str, message: str
) -> None:
    table = sql.pando.new_table(COLUMNS, "k", engine=engine, partition="p", settings=settings)
    full = f"alone.default.{table}"
    sql(f"INSERT INTO {full} VALUES (1, 1, 1, ''), (2, 1, 2, '')")
    frame = sql.spark.sql("SELECT 3L AS k, 1 AS p, 0L AS v, '' AS s")
    with pytest.raises(Exception, match=rf"Code: 48\. .*default.{table}: {message}"):
        frame.writeTo(full).overwrite(expr("k = 1"))
    assert keys(sql.pando, table) == [1, 2]
    frame.writeTo(full).overwrite(expr("p = 1"))
    assert keys(sql.pando, table) == [3]
