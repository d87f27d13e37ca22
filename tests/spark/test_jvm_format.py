"""The format ``pando`` in a session with the jar: rows go through the JVM, with the answers of Python workers."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_connector import use_catalog, use_session
from tests.spark.conftest import Pando, enter, load, save
from tests.spark.test_jvm_read import plan
from tests.spark.test_spark_stream import KEPT, insert

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_the_word_pando_means_the_jvm_where_its_jar_is(
    pando: Pando, python_session: SparkSession, jvm_session: SparkSession
) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    numbers = jvm_session.range(1000).selectExpr("id AS k", "CAST(id AS STRING) AS s")
    save(numbers, pando.options(table))
    pando.sync(table)
    ours, theirs = (load(session, pando.options(table)) for session in (jvm_session, python_session))
    assert "BatchScan pando default" in plan(ours)
    assert "BatchScan pando default" not in plan(theirs)
    assert ours.where("k < 7").count() == theirs.where("k < 7").count() == 7
    assert ours.schema == theirs.schema
    assert sorted(ours.collect()) == sorted(theirs.collect())


def test_natural_columns_are_written_by_the_jvm(pando: Pando, jvm_session: SparkSession) -> None:
    table, name = pando.new_table("k UInt32, s String", "k"), "written_inside"
    options = f"url '{','.join(pando.urls.values())}', table '{table}'"
    jvm_session.sql(f"CREATE TABLE {name} USING pando OPTIONS ({options})")
    try:
        explained = jvm_session.sql(f"EXPLAIN INSERT INTO {name} VALUES (1, 'a')").collect()[0][0]
        assert "PandoWrite" in explained
        jvm_session.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    finally:
        jvm_session.sql(f"DROP TABLE {name}")
    save(jvm_session.sql("SELECT CAST(2 AS TINYINT) AS k, 'b' AS s"), pando.options(table))  # by Python workers
    pando.sync(table)
    assert load(jvm_session, pando.options(table)).orderBy("k").collect() == [(1, "a"), (2, "b")]


def test_a_table_of_sparks_catalog_is_used_without_the_jar_too(
    pando: Pando, python_session: SparkSession, jvm_session: SparkSession
) -> None:
    table, name = pando.new_table("k UInt32", "k"), "of_both_sides"
    jvm_session.sql(f"CREATE TABLE {name} USING pando OPTIONS (url '{','.join(pando.urls.values())}', table '{table}')")
    try:
        jvm_session.sql(f"INSERT INTO {name} VALUES (1)")
        enter(python_session)
        python_session.sql(f"INSERT INTO {name} VALUES (2)")
        pando.sync(table)
        frame = python_session.table(name)
        assert "BatchScan pando default" not in plan(frame)
        assert sorted(frame.collect()) == [(1,), (2,)]
    finally:
        python_session.sql(f"DROP TABLE {name}")


def test_nanoseconds_as_numbers_are_written_by_python_workers(pando: Pando, jvm_session: SparkSession) -> None:
    options = pando.options(pando.new_table("t DateTime64(9)", "t"), nanoseconds="long")
    save(jvm_session.sql("SELECT 1700000000123456789L AS t"), options)
    pando.sync(options["table"])
    assert load(jvm_session, options).collect() == [(1700000000123456789,)]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("1L k, CAST(NULL AS STRING) s", "Column 's' of type String cannot hold NULL"),
        ("-1L k, 's' s", r"Code: 321\. .*Column 'k' of type UInt32 cannot hold -1"),
        ("1L k, 's' s, 2 extra", "has a column 'extra' that .* lacks"),
        ("1L k", "lacks columns of .* that have no DEFAULT: s"),
    ],
)
def test_what_does_not_fit_is_refused(pando: Pando, jvm_session: SparkSession, select: str, message: str) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    with pytest.raises(Exception, match=message) as refused:
        save(jvm_session.sql(f"SELECT {select}"), pando.options(table))
    assert "Traceback" not in str(refused.value)
    assert pando.value(f"SELECT count() FROM {table}") == 0


def test_a_job_overwrites_partitions_and_commits_once(pando: Pando, jvm_session: SparkSession) -> None:
    table = pando.new_table("k UInt32, v Int64", "k", partition="intDiv(k, 10)")

    def write(select: str, mode: str, **more: str) -> list[tuple[int, int]]:
        save(jvm_session.sql(select), pando.options(table, **more), mode)
        pando.sync(table)
        return [tuple(row) for row in load(jvm_session, pando.options(table)).orderBy("k").collect()]

    assert write("SELECT id AS k, 1L AS v FROM range(5, 15)", "overwrite") == [(k, 1) for k in range(5, 15)]
    replaced = write("SELECT 3L AS k, 2L AS v", "overwrite", overwriteMode="partitions")
    assert replaced == [(3, 2), *((k, 1) for k in range(10, 15))]
    for _ in range(2):
        last = write("SELECT 4L AS k, 3L AS v", "append", txnAppId="job", txnVersion="1")
    assert last == [(3, 2), (4, 3), *((k, 1) for k in range(10, 15))]


def test_a_checkpoint_goes_on_on_the_other_side(
    pando: Pando, python_session: SparkSession, jvm_session: SparkSession, tmp_path: Path
) -> None:
    source = pando.new_table("p UInt8, k UInt32", "k", settings=KEPT, partition="p")
    target = pando.new_table("p UInt8, k UInt32", "k")
    for turn, session in enumerate((python_session, jvm_session, python_session, jvm_session)):
        enter(session)
        insert(pando, source, 100 * turn, 100)
        pando.sync(source)
        stream = session.readStream.format("pando").options(**pando.options(source, maxRowsPerTrigger="30")).load()
        writer = stream.writeStream.format("pando").options(**pando.options(target))
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        pando.sync(target)
        assert pando.value(f"SELECT (count(), sum(k)) FROM {target}") == {
            "1": 100 * (turn + 1), "2": sum(range(100 * (turn + 1)))
        }  # fmt: skip


@pytest.mark.long
def test_tables_of_the_catalog_are_streams(pando: Pando, jvm_session: SparkSession, tmp_path: Path) -> None:
    use_catalog(jvm_session, ",".join(pando.urls.values()), "streams")
    source = pando.new_table("p UInt8, k UInt32", "k", settings=KEPT, partition="p")
    target = pando.new_table("p UInt8, k UInt32", "k")
    insert(pando, source, 0, 1000)
    pando.sync(source)
    stream = jvm_session.readStream.table(f"streams.default.{source}").where("k < 700")
    for checkpoint in ("a", "b"):
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        assert writer.toTable(f"streams.default.{target}").awaitTermination(300)
    pando.sync(target)
    assert pando.value(f"SELECT countIf(k < 700) + 10000 * countIf(k >= 700) FROM {target}") == 1400
    narrow = stream.selectExpr("p", "CAST(k AS INT) AS k").writeStream.option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(StreamingQueryException, match=r"Code: 53\. .*The columns of the stream .*name and cast them"):
        narrow.toTable(f"streams.default.{target}").awaitTermination(300)


@pytest.mark.long
def test_threads_of_a_session_read_and_write(pando: Pando, jvm_session: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    options = pando.options(table)

    def work(number: int) -> str:
        use_session(jvm_session)
        rows = jvm_session.range(10 * number, 10 * number + 10).selectExpr("id AS k", "'x' AS s")
        rows.write.format("pando").options(**options).mode("append").save()
        frame = jvm_session.read.format("pando").options(**options).load()
        twice = frame.join(frame.withColumnRenamed("s", "t"), "k")
        assert twice.count() % 10 == 0
        return plan(frame)

    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(work, range(8)))
    assert all("BatchScan pando default" in text for text in plans)
    pando.sync(table)
    assert pando.value(f"SELECT (count(), sum(k)) FROM {table}") == {"1": 80, "2": sum(range(80))}


@pytest.mark.long
def test_a_session_is_ready_at_once(pando: Pando, jvm_session: SparkSession) -> None:
    """In a process of its own, which has no session yet."""
    table = pando.new_table("k UInt32", "k")
    pando["r1"].execute(f"INSERT INTO {table} SELECT number FROM numbers(7)")
    pando.sync(table)
    program = (
        "from spark_connector import session\n"
        f"spark = session({','.join(pando.urls.values())!r}, master='local[1]', partitions='3')\n"
        f"print('found', spark.table('pando.default.{table}').count(), end=' ')\n"
        f"print(spark.read.format('pando').option('table', '{table}').load().rdd.getNumPartitions())\n"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert "found 7 3" in made.stdout, made.stderr[-3000:]
