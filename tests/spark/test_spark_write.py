"""Writing by Spark: every row once, whatever is repeated; wrong frames refused before anything is written."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from spark_connector.python_source.insert_blocks import cut_blocks
from tests.portions import one_in
from tests.spark.conftest import Pando, load, rows, save
from tests.spark.failing import FailingDataSource

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("id AS k", "cast(id AS string) AS s")


def counted(pando: Pando, table: str) -> Sequence[tuple[object, ...]]:
    """(rows, distinct keys) on each replica."""
    pando.sync(table)
    return [rows(client, f"SELECT count(), uniqExact(k) FROM {table}")[0] for client in pando.clients.values()]


def test_rows_go_in_blocks_to_every_replica(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    save(numbers(spark, 10_000), pando.options(table, batch_rows="2000", insert_quorum="2"))
    assert counted(pando, table) == [(10_000, 10_000)] * 2
    assert pando.value(f"SELECT sum(k) = sum(toUInt32(s)) FROM {table}") == 1


@pytest.mark.long
def test_a_task_that_fails_after_its_insert_is_repeated(pando: Pando, python_session: SparkSession) -> None:
    python_session.dataSource.register(FailingDataSource)
    for engine in ("", "MergeTree"):
        table = pando.new_table("k UInt32, s String", "k", engine=engine)
        options = pando.options(table, batch_rows="1000", url=pando.urls["r1"])
        numbers(python_session, 5000).write.format("pando_failing").options(**options).mode("append").save()
        assert rows(pando["r1"], f"SELECT count(), uniqExact(k) FROM {table}") == [(5000, 5000)]


def shuffled_at_the_second_attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As after a shuffle whose blocks arrive in another order."""
    context = TaskContext.get()
    assert context is not None
    table = pa.Table.from_batches(batches)
    yield from (table.take(list(range(table.num_rows))[::-1]) if context.attemptNumber() else table).to_batches()


@pytest.mark.long
def test_a_repeated_task_whose_rows_come_in_another_order(pando: Pando, python_session: SparkSession) -> None:
    python_session.dataSource.register(FailingDataSource)
    frame = numbers(python_session, 6000).mapInArrow(
        shuffled_at_the_second_attempt, "k LONG NOT NULL, s STRING NOT NULL"
    )
    table = pando.new_table("k UInt32, s String", "k PARTITION BY k % 3")
    frame.write.format("pando_failing").options(**pando.options(table, batch_rows="1000")).mode("append").save()
    assert counted(pando, table) == [(6000, 6000)] * 2


@pytest.mark.long
def test_a_job_is_one_writer_among_others(pando: Pando, spark: SparkSession) -> None:
    """All its rows have the time of its commit: they win over earlier rows, and lose to later ones."""
    name = f"w{uuid.uuid4().hex}"
    for client in pando.clients.values():
        client.execute(
            f"CREATE TABLE {name} (k UInt32, s String) ENGINE = ReplicatedReplacingMergeTree('/tables/{name}', "
            "'{replica}') ORDER BY k SETTINGS last_writer_wins = 1"
        )
    pando["r1"].execute(f"INSERT INTO {name} VALUES (1, 'early'), (2000, 'early')")
    save(numbers(spark, 1000), pando.options(name))
    pando["r2"].execute(f"INSERT INTO {name} VALUES (2, 'late')")
    pando.sync(name)
    for server in ("r1", "r2"):
        assert rows(pando[server], f"SELECT count(), uniqExact(_commit_time) FROM {name} FINAL") == [(1001, 3)]
        found = rows(pando[server], f"SELECT s FROM {name} FINAL WHERE k IN (1, 2, 2000) ORDER BY k")
        assert found == [("1",), ("late",), ("early",)]


def test_a_dead_server_is_passed_over(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    options = pando.options(table, url=f"http://127.0.0.1:1,{pando.urls['r2']}")
    save(numbers(spark, 1000), options)
    assert load(spark, options).count() == 1000


def test_values_of_every_type(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table(
        "k UInt64, i8 Int8, u8 UInt8, f Float32, b Bool, dec Decimal(10, 2), s String, lc LowCardinality(String), "
        "fs FixedString(4), d Date, dt DateTime, dt64 DateTime64(3, 'Asia/Tokyo'), e Enum8('a' = 1, 'b' = 2), uu UUID, "
        "ip IPv4, ip6 IPv6, n Nullable(Int32), a Array(UInt16), m Map(String, UInt32), tp Tuple(x Int8, y String), "
        "dflt UInt8 DEFAULT 42, gone Nullable(String)",
        "k",
    )
    frame = spark.sql(
        "SELECT 18446744073709551615BD k, -5 i8, 200 u8, 1.5D f, true b, 12.34BD dec, 'zoë' s, 'low' lc, 'ab' fs, "
        "DATE'2020-01-02' d, TIMESTAMP'2020-01-02 03:04:05' dt, TIMESTAMP'2020-01-02 03:04:05.123' dt64, 'b' e, "
        "'61f0c404-5cb3-11e7-907b-a6006ad3dba0' uu, '1.2.3.4' ip, '2001:db8::1' ip6, CAST(NULL AS INT) n, "
        "array(1, 65535) a, map('q', 4000000000) m, named_struct('x', -3, 'y', 'yy') tp"
    )
    save(frame, pando.options(table))
    pando.sync(table)
    utc = datetime.UTC
    row = load(spark, pando.options(table)).collect()[0].asDict(recursive=True)
    assert row.pop("dt").astimezone(utc) == datetime.datetime(2020, 1, 2, 8, 4, 5, tzinfo=utc)
    assert row.pop("dt64").astimezone(utc) == datetime.datetime(2020, 1, 2, 8, 4, 5, 123000, tzinfo=utc)
    assert row == {
        "k": Decimal(18446744073709551615), "i8": -5, "u8": 200, "f": 1.5, "b": True, "dec": Decimal("12.34"),
        "s": "zoë", "lc": "low", "fs": "ab", "d": datetime.date(2020, 1, 2), "e": "b",
        "uu": "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "ip": "1.2.3.4", "ip6": "2001:db8::1", "n": None,
        "a": [1, 65535], "m": {"q": 4000000000}, "tp": {"x": -3, "y": "yy"}, "dflt": 42, "gone": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("select", "message"),
    one_in(
        4,
        [
            ("1 k", "lacks columns of .* that have no DEFAULT: s"),
            ("1 k, 's' s, 2 extra", "has a column 'extra' that .* lacks"),
            ("1 K, 's' s", "has a column 'K' that .* lacks.*maybe k"),
            ("1 k, 's' s, 3 mat", "is MATERIALIZED and cannot be written"),
            ("1 k, 2 s", "Column 's' is int in the data frame and String in the table"),
            ("1 k, 's' s, TIMESTAMP_NTZ'2020-01-01 00:00:00' t", "has no time zone"),
            ("1 k, CAST(NULL AS STRING) s", "Column 's' of type String cannot hold NULL"),
            ("-1 k, 's' s", "Column 'k' of type UInt32 cannot hold a value: Integer value -1 not in range"),
            (
                "1 k, 's' s, TIMESTAMP'2024-01-01 00:00:00.5' t",
                "Column 't' of type Nullable.DateTime. cannot hold .*finer",
            ),
            ("1 k, 's' s, 'z' e", r"Code: \d+\. DB::Exception: .*e Enum8"),
        ],
    ),
)
@pytest.mark.long
def test_what_does_not_fit_is_refused(pando: Pando, spark: SparkSession, select: str, message: str) -> None:
    table = refusing_table(pando)
    with pytest.raises(Exception, match=message) as refused:
        save(spark.sql(f"SELECT {select}"), pando.options(table))
    assert "Traceback" not in str(refused.value)
    assert pando.value(f"SELECT count() FROM {table}") == 0


_refusing: dict[int, str] = {}


def refusing_table(pando: Pando) -> str:
    """One table for all the frames that it refuses."""
    columns = "k UInt32, s String, t Nullable(DateTime), e Enum8('a' = 1) DEFAULT 'a', mat UInt8 MATERIALIZED 1"
    if id(pando) not in _refusing:
        _refusing[id(pando)] = pando.new_table(columns, "k")
    return _refusing[id(pando)]


def test_nulls_become_defaults_on_request(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String DEFAULT 'was null'", "k")
    options = pando.options(table, **{"setting.input_format_null_as_default": "1"})
    save(spark.sql("SELECT 1 k, CAST(NULL AS STRING) s"), options)
    pando.sync(table)
    assert rows(pando["r1"], f"SELECT k, s FROM {table}") == [(1, "was null")]


@pytest.mark.long
def test_settings_and_modes_are_checked(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    with pytest.raises(Exception, match=r"Code: 115\. .*no_such_setting.*\(UNKNOWN_SETTING\)"):
        save(numbers(spark, 1), pando.options(table, **{"setting.no_such_setting": "1"}))
    with pytest.raises(Exception, match="TOO_FEW_LIVE_REPLICAS"):
        save(numbers(spark, 1), pando.options(table, insert_quorum="3", retries="0"))
    alone = pando.new_table("k UInt32, s String", "k", engine="MergeTree")
    with pytest.raises(Exception, match=r"names 2 servers, but .* is a MergeTree table"):
        save(numbers(spark, 1), pando.options(alone))


@pytest.mark.long
def test_sql_inserts_into_a_catalog_table(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    options = ", ".join(f"{name} '{value}'" for name, value in pando.options(table).items())
    spark.sql(f"CREATE TABLE written_by_sql USING pando OPTIONS ({options})")
    try:
        spark.sql("INSERT INTO written_by_sql VALUES (1, 'one'), (2, 'two')")
        pando.sync(table)
        assert spark.sql("SELECT k, s FROM written_by_sql ORDER BY k").collect() == [(1, "one"), (2, "two")]
    finally:
        spark.sql("DROP TABLE written_by_sql")


def test_a_stream_writes_every_batch_once(pando: Pando, spark: SparkSession, tmp_path: Path) -> None:
    """The second run starts from a checkpoint that does not know of the commit, as after a crash."""
    table = pando.new_table("k UInt32, s String", "k")
    numbers(spark, 1000).write.parquet(str(tmp_path / "in"))
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        stream = spark.readStream.schema("k LONG, s STRING").parquet(str(tmp_path / "in")).writeStream.format("pando")
        query = stream.options(**pando.options(table, checkpointLocation=str(checkpoint)))
        running = query.trigger(availableNow=True).start()
        try:
            assert running.awaitTermination(300), running.lastProgress
        finally:
            running.stop()

    run()
    assert counted(pando, table) == [(1000, 1000)] * 2
    commits = [file for file in (checkpoint / "commits").iterdir() if "0" in file.name]
    assert commits
    for file in commits:
        file.unlink()
    run()
    assert counted(pando, table) == [(1000, 1000)] * 2


def test_blocks_are_cut_at_fixed_rows() -> None:
    def sizes(lengths: Sequence[int], max_rows: int, max_bytes: int = 1 << 30) -> list[int]:
        batches, start = [], 0
        for length in lengths:
            batches.append(pa.record_batch({"k": pa.array(range(start, start + length), pa.int64())}))
            start += length
        blocks = list(cut_blocks(batches, max_rows, max_bytes))
        assert [key for block in blocks for key in block["k"].to_pylist()] == list(range(start))
        return [block.num_rows for block in blocks]

    assert sizes([7, 7, 7], 5) == [5, 5, 5, 5, 1]
    assert sizes([2, 3, 5, 1], 5) == [5, 5, 1]
    assert sizes([], 5) == []
    assert sizes([10, 10, 10], 1000, max_bytes=100) == [20, 10]
