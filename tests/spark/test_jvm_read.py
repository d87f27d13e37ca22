"""Reads by the JVM: the same rows, types and errors as by Python, one state a query, from any replica."""

from __future__ import annotations

import http.client
import itertools
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr

from parts.common.errors import UserError
from spark_connector import configure, use_session
from spark_connector.jvm import jar
from spark_connector.jvm.jar import add_jar
from tests.spark.conftest import SECRET, Pando, first_line, load, rows
from tests.spark.test_spark_read import EVERY_TYPE, ROW
from tests.spark.test_spark_scans import fill, free_port

METRICS = ("receivedBytes", "waitingMilliseconds", "readGranules", "prunedGranules")

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def spark(jvm_session: SparkSession) -> SparkSession:
    return jvm_session


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture(scope="module")
def every_type(pando: Pando) -> str:
    table = pando.new_table(f"{EVERY_TYPE}, mt Map(String, Tuple(p Array(Nullable(Date)), q UInt64))", "k")
    pando["r1"].execute(f"INSERT INTO {table} FORMAT JSONEachRow {ROW}")
    pando["r1"].execute(f"INSERT INTO {table} (mt) VALUES (map('a', ([NULL, '2020-02-03'], 7)))")
    pando.sync(table)
    return table


@pytest.fixture(scope="module")
def table(pando: Pando) -> str:
    name = pando.new_table("k UInt32, s String", "k", settings="old_parts_lifetime = 0")
    fill(pando, name, rows=40_000)
    pando.sync(name)
    return name


def test_every_type_is_read_as_by_python(
    pando: Pando, spark: SparkSession, python_session: SparkSession, every_type: str
) -> None:
    options = pando.options(every_type)
    ours, theirs = load(spark, options), load(python_session, options)
    assert ours.schema == theirs.schema
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))
    assert "BatchScan pando" in plan(ours)
    assert ours.select("tp.y").where("y != ''").collect() == [("yy",)]


@pytest.mark.long
def test_options_and_nanoseconds(
    pando: Pando, spark: SparkSession, python_session: SparkSession, every_type: str
) -> None:
    narrow = load(spark, pando.options(every_type, columns="s, mat", filter="s != '' -- not the default"))
    assert narrow.collect() == [("zoë", 7)]
    fine = pando.new_table("t DateTime64(9), `a,b` UInt8", "tuple()")
    pando["r1"].execute(f"INSERT INTO {fine} VALUES ('1969-12-31 23:59:59.999999001', 1)")
    pando.sync(fine)
    with pytest.raises(Exception, match="'nanoseconds' set to 'long'"):
        load(spark, pando.options(fine)).collect()
    for choice in ("long", "string", "truncate"):
        options = pando.options(fine, nanoseconds=choice)
        ours, theirs = load(spark, options), load(python_session, options)
        assert (ours.schema, ours.collect()) == (theirs.schema, theirs.collect())
    for name in ("lz4", "zstd", "none"):
        packed = load(spark, pando.options(every_type, columns="s,k", compression=name))
        assert packed.where("s = 'zoë'").count() == len(packed.where("length(s) > 1").collect()) == 1


@pytest.mark.long
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_repeated_texts_and_decimals_are_read_as_by_python(
    pando: Pando, spark: SparkSession, python_session: SparkSession, compression: str
) -> None:
    """Merged parts have dictionaries in some of their frames; new ones have none, and lack columns that came later."""
    table = pando.new_table(
        "k UInt32, few String, one String, some Nullable(String), many String, lc LowCardinality(Nullable(String)), "
        "d Decimal(18, 3), dn Nullable(Decimal(9, 9)), wide Decimal(19, 2), a Array(Decimal(5, 1)), "
        "u UInt64, un Nullable(UInt64), huge Nullable(Decimal(38, 3)), au Array(UInt64)",
        "k",
    )
    select = (
        "SELECT number AS k, ['', 'ä', 'zoë'][k % 3 + 1], 'same', if(k % 5 = 0, NULL, toString(k % 7)), "
        "toString(sipHash64(k)), if(k % 4 = 0, NULL, toString(k % 6)), toDecimal64(k, 3) - 500.125, "
        "if(k % 6 = 0, NULL, toDecimal32((k % 100) / 1000, 9)), k * 1000000000000.5, [k % 9, 0.5], "
        "multiIf(k % 3 = 0, k, k % 3 = 1, toUInt64(18446744073709551615 - k), "
        "toUInt64(1000000000000000000 + k % 5 - 2)), "
        "if(k % 7 = 0, NULL, toUInt64(bitShiftLeft(toUInt64(1), k % 64) - k % 2)), "
        "if(k % 8 = 0, NULL, toDecimal128(concat(if(k % 2 = 0, '-', ''), repeat('9', k % 35), '.125'), 3)), "
        "[toUInt64(k), 18446744073709551615]"
    )
    pando["r1"].execute(f"INSERT INTO {table} {select} FROM numbers(50000)")
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    pando["r1"].execute(f"INSERT INTO {table} {select} FROM numbers(60000, 9000)")
    pando["r1"].execute(f"ALTER TABLE {table} ADD COLUMN later Decimal(4, 1) DEFAULT k % 10")
    pando["r1"].execute(f"DELETE FROM {table} WHERE k % 11 = 0")
    pando.sync(table)
    for columns in ("", "few,one,some,d", "later,few,dn", "u,huge"):
        for more in ({"partitions": "1"}, {"partitions": "3", "filter": "few != 'ä' AND d > 0"}):
            options = pando.options(table, compression=compression, **more)
            options |= {"columns": columns} if columns else {}
            ours, theirs = load(spark, options), load(python_session, options)
            assert ours.count() == theirs.count() > 30_000
            assert not ours.exceptAll(theirs).take(1)


def test_what_python_reads_is_left_to_it(pando: Pando, spark: SparkSession, every_type: str) -> None:
    url = pando.urls["r1"]
    assert load(spark, {"url": url, "query": "SELECT 1 AS a"}).collect() == [(1,)]
    reader = spark.read.format("pando").options(**pando.options(every_type))
    wide = reader.schema("u8 BIGINT, fs BINARY").load()
    assert (200, bytearray(b"ab\0\0")) in wide.collect()
    own = spark.read.format("pando").options(**pando.options(every_type)).schema("s STRING NOT NULL, n INT").load()
    assert own.where("s = 'zoë'").collect() == [("zoë", None)]
    assert "PythonScan" not in plan(own)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tabel": "x"}, "unknown option 'tabel'. Maybe you meant 'table'"),
        ({"partitions": "many"}, "the option 'partitions' must be a whole number"),
        ({"columns": "s, nope"}, "There is no column 'nope'"),
        ({"table": "nope"}, r"Code: 60\. DB::Exception: .*\(UNKNOWN_TABLE\)"),
        ({"user": "nobody", "password": "x"}, r"Code: 516\. .*\(AUTHENTICATION_FAILED\)"),
        ({"url": "http://127.0.0.1:1", "retries": "1"}, "Cannot connect to http://127.0.0.1:1"),
        ({"filter": "nope = 1"}, r"Code: 47\."),
    ],
)
def test_wrong_options_are_named_first(
    pando: Pando, spark: SparkSession, every_type: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message) as refused:
        load(spark, {**pando.options(every_type), **options}).collect()
    assert re.search(message, first_line(refused.value))


def test_a_password_is_in_no_plan(pando: Pando, spark: SparkSession, table: str) -> None:
    options = pando.options(table, user="ada", password=SECRET)
    frame = load(spark, options).where("k < 5")
    assert frame.count() == 5
    shown = frame._jdf.queryExecution().toString() + plan(frame)
    assert "BatchScan pando" in shown
    assert SECRET not in shown


def test_options_of_the_session(pando: Pando, spark: SparkSession, table: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.pando.url", pando.urls["r1"])
    configure(session)
    assert session.read.format("pando").option("table", table).load().count() == 160_000
    assert session.table(f"pando.default.{table}").count() == 160_000
    use_session(spark)


def test_a_query_over_shards(pando: Pando, spark: SparkSession, table: str) -> None:
    name = f"d_{table}"
    pando["r1"].execute(f"CREATE TABLE {name} AS {table} ENGINE = Distributed('alone', 'default', '{table}')")
    frame = load(spark, pando.options(name, url=pando.urls["r1"]))
    assert frame.count() == 320_000
    assert frame.where("k = 17").collect() == [(17, "17")] * 2
    assert [row.k for row in frame.orderBy("k").limit(3).collect()] == [0, 0, 1]


def test_a_table_of_the_catalog(pando: Pando, spark: SparkSession, table: str) -> None:
    name, options = f"inside_{table}", f"url '{pando.urls['r1']}', table '{table}'"
    spark.sql(f"CREATE TABLE {name} USING pando OPTIONS ({options})")
    try:
        frame = spark.table(name).where("k < 9")
        assert frame.groupBy().count().collect() == [(9,)]
        assert "query: SELECT" in plan(frame.groupBy().count())
    finally:
        spark.sql(f"DROP TABLE {name}")
    with pytest.raises(Exception, match="must not have the option 'password'"):
        spark.sql(f"CREATE TABLE {name} USING pando OPTIONS ({options}, password 'hunter2')")


def test_hidden_columns_are_read_by_their_names(pando: Pando, spark: SparkSession) -> None:
    name = pando.new_table("p UInt8, k UInt32", "k", partition="p", settings="enable_block_number_column = 1")
    for first in (0, 10):
        pando["r1"].execute(f"INSERT INTO {name} SELECT number % 2, number FROM numbers({first}, 10)")
    pando["r1"].execute(f"OPTIMIZE TABLE {name} PARTITION 1 FINAL")
    pando.sync(name)
    columns = "k, _part, _part_offset, _partition_id, _block_number"
    frame = load(spark, pando.options(name))
    found = frame.selectExpr(*columns.split(", ")).orderBy("k")
    assert [tuple(row) for row in found.collect()] == rows(pando["r1"], f"SELECT {columns} FROM {name} ORDER BY k")
    of_one = frame.where("_partition_id = '1'")
    assert "_partition_id" in plan(of_one).partition("filter: ")[2]
    assert of_one.count() == of_one.where("_block_number < 5").select("_part").count() == 10
    counted = frame.groupBy("_part").count()
    assert "query: SELECT" in plan(counted)
    expected = rows(pando["r1"], f"SELECT _part, count() FROM {name} GROUP BY _part ORDER BY _part")
    assert [tuple(row) for row in counted.orderBy("_part").collect()] == expected
    assert frame.columns == ["p", "k"]


def test_a_join_narrows_its_other_scan(pando: Pando, spark: SparkSession, table: str) -> None:
    """The values of a small table's filtered rows go to the servers, which send the rows of the large one that match.

    It makes no difference whether Spark checks a condition of the small table itself.
    """
    small = pando.new_table("k UInt32, n Nullable(UInt32), name String", "k")
    pando["r1"].execute(f"INSERT INTO {small} SELECT number, if(number = 3, NULL, number), 'x' FROM numbers(3000)")
    pando.sync(small)
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")  # then the plan that is shown has the figures
    add_jar(session)
    large, few = (session.read.format("pando").options(**pando.options(name)).load() for name in (table, small))
    for key, condition in itertools.product(("k", "n"), ("k IN (3, 4, 5)", "hash(k) % 1 = 0 AND k IN (3, 4, 5)")):
        some = few.where(condition).alias("f")
        joined = large.alias("l").join(some, expr(f"l.k = f.{key}")).select("l.k")
        keys = {"k": [3, 4, 5], "n": [4, 5]}[key]
        assert sorted(row[0] for row in joined.collect()) == keys
        leaves = joined._jdf.queryExecution().executedPlan().collectLeaves()
        names = {leaf.nodeName(): leaf for leaf in map(leaves.apply, range(leaves.size()))}
        scan = next(leaf for name, leaf in names.items() if name.startswith("BatchScan") and table in name)
        assert scan.metrics().apply("numOutputRows").value() == len(keys)
        found = {name: scan.metrics().apply(name).value() for name in METRICS}
        assert 0 < found["receivedBytes"] < 10_000
        assert found["waitingMilliseconds"] > 0
        assert found["readGranules"] == 1 < found["prunedGranules"]
    assert large.join(few.where("k >= 0"), "k").count() == 3000
    many = large.where("k > 1").select("k")
    assert large.join(broadcast(many), "k").count() == 159_998  # too many values to send


# -- replicas and states -----------------------------------------------------------------------------------------------


def test_a_replica_that_is_gone_is_passed_over(pando: Pando, spark: SparkSession, table: str) -> None:
    for dead_first in (True, False):
        urls = [f"http://127.0.0.1:{free_port()}", pando.urls["r2"]]
        options = pando.options(table, url=",".join(urls if dead_first else urls[::-1]), partitions="3")
        assert load(spark, options).where("length(s) > 0").count() == 160_000
        assert load(spark, options).count() == 160_000


def test_a_task_breaks_off_and_goes_on_elsewhere(pando: Pando, spark: SparkSession, table: str) -> None:
    """One server cuts its answers off in their second batch; no row is lost or repeated."""
    with Between(pando.urls["r1"], limit=1_000_000) as between:
        options = pando.options(table, url=f"{between.url},{pando.urls['r2']}", partitions="2", retries="0")
        keys = [row.k for row in load(spark, options).where("length(s) > 0").select("k").collect()]
        assert between.was_cut
    assert sorted(keys) == list(range(160_000))


def test_the_scans_of_a_query_read_one_state(pando: Pando, spark: SparkSession) -> None:
    """Rows come between any two requests for rows; each query sees them all or none, the next one sees them."""
    name = pando.new_table("k UInt32, g UInt8", "k")
    pando["r1"].execute(f"INSERT INTO {name} SELECT number, number % 3 FROM numbers(100)")

    def insert(path: str) -> None:
        if path == "/scan/read":
            pando["r1"].execute(f"INSERT INTO {name} SELECT 1000 + rand() % 1000000, 7 FROM numbers(1)")

    with Between(pando.urls["r1"], before=insert) as between:
        frame = load(spark, pando.options(name, url=between.url, partitions="3"))
        frame.createOrReplaceTempView("one_state")
        both = spark.sql(
            "SELECT (SELECT count(*) FROM one_state), (SELECT count(k) FROM one_state WHERE length(g) > 0)"
        )
        first = both.collect()[0]
        joined = frame.alias("a").join(frame.alias("b"), "k", "full").where("a.g IS NULL OR b.g IS NULL")
        assert first[0] == first[1] > 100
        assert joined.collect() == []
        assert frame.count() > first[0]


class Between:
    """A server between a client and another server: it calls ``before``, and cuts answers off after ``limit`` bytes.

    It brings no answer to the first ``most_lost`` requests with the text ``loses``, counts these and calls ``lose``.
    ``interrupt`` is called before the first request with the text ``interrupts``; one with the text ``drops`` never
    arrives.
    """

    def __init__(self, url: str, before: Callable[[str], None] = lambda _: None, limit: int = 1 << 40) -> None:
        outer = self
        self.was_cut = False
        self.loses = ""
        self.most_lost = 1 << 40
        self.lost = 0
        self.interrupts = ""
        self.interrupt: Callable[[], object] = lambda: None
        self.lose: Callable[[], object] = lambda: None
        self.drops = ""
        host = url.removeprefix("http://")

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                before(self.path)
                if outer.interrupts and outer.interrupts.encode() in body:
                    outer.interrupts = ""
                    outer.interrupt()
                if outer.drops and outer.drops.encode() in body:
                    self.close_connection = True
                    return
                server = http.client.HTTPConnection(host, timeout=60)
                server.request("POST", self.path, body, dict(self.headers))
                answer = server.getresponse()
                is_named = outer.loses and (outer.loses in self.path or outer.loses.encode() in body)
                if is_named and outer.lost < outer.most_lost:
                    answer.read()
                    outer.lost += 1
                    outer.lose()
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for key, value in answer.getheaders():
                    if key.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(key, value)
                data = answer.read()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                outer.was_cut |= len(data) > limit
                self.wfile.write(data[:limit])
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Between:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


# -- the jar -----------------------------------------------------------------------------------------------------------


def test_the_jar_of_a_wheel_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = jar.make_jar()
    monkeypatch.setattr(jar, "_PACKAGED", tmp_path)
    assert jar.make_jar() == made
    packaged = tmp_path / made.name
    packaged.write_bytes(b"")
    assert jar.make_jar() == packaged


def test_what_the_jar_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = jar.make_jar()
    assert made == jar.make_jar()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match="no java in JAVA_HOME"):
        jar.make_jar()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(UserError, match="no Scala compiler"):
        jar.make_jar()
