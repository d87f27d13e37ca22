"""What prepares rows for a table, and the shell of Spark SQL."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from engine.cli import cli
from parts.common.errors import UserError
from spark_connector import prepare, register, use_session
from spark_connector.tables import sql_shell
from tests.spark.conftest import SIDE, Pando, save

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]


def test_rows_of_a_partition_are_written_together(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("day Date, k UInt32, s String", "(day, intHash32(k)) PARTITION BY toYYYYMM(day)")
    frame = spark.range(0, 3000, 1, 4).selectExpr("date_add(DATE'2024-01-01', CAST(id % 91 AS INT)) AS day",
                                                  "id AS k", "CAST(id AS STRING) AS s")  # fmt: skip
    options = pando.options(table)
    prepared = prepare(frame, options["url"], table, partitions=3)
    assert prepared.rdd.getNumPartitions() == 3
    rows = prepared.rdd.glom().collect()
    assert all(task == sorted(task) for task in rows)
    months = [{row.day.month for row in task} for task in rows]
    assert sorted(month for task in months for month in task) == [1, 2, 3], "each is in one task"
    save(prepared, options)
    pando.sync(table)
    assert pando.value(f"SELECT count() FROM {table}") == 3000
    again = prepare(frame.repartition(7), options["url"], table, partitions=3)
    assert again.rdd.glom().collect() == rows, "whatever order the rows came in"


@pytest.mark.parametrize(
    ("key", "groups"),
    [
        ("k", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("(k, s) PARTITION BY k % 2", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("k PARTITION BY intDiv(k, 4)", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("(intHash32(k), k)", None),
        ("tuple() PARTITION BY intHash32(k) % 2", None),
    ],
)
def test_keys_are_understood_or_left_out(
    pando: Pando, spark: SparkSession, key: str, groups: list[list[int]] | None
) -> None:
    table = pando.new_table("k UInt32, s String, m Map(String, UInt8)", key)
    frame = spark.range(8).selectExpr("7 - id AS k", "'x' AS s", "map('a', 1) AS m")
    tasks = prepare(frame, pando.urls["r1"], table, partitions=2).select("k").rdd.glom().collect()
    keys = [[row.k for row in task] for task in tasks]
    assert sorted(key for task in keys for key in task) == list(range(8))
    if groups is None:
        assert all(task == sorted(task) for task in keys)
    for group in groups or ():
        assert [key for task in keys for key in task if key in group] == group
        assert any(set(group) <= set(task) for task in keys)


def test_a_table_that_is_not_there(pando: Pando, spark: SparkSession) -> None:
    with pytest.raises(UserError, match=r"default\.nowhere does not exist"):
        prepare(spark.range(1), pando.urls["r1"], "nowhere")


def test_statements_are_told_apart() -> None:
    text = "SELECT ';', \"a;b\" -- no; end\n, `x;y`; /* ; */ SELECT 'it''s; \\'; ';;\n SELECT 4 - 3 / 2"
    ended, last = sql_shell.split_statements(text)
    assert ended == ["SELECT ';', \"a;b\" -- no; end\n, `x;y`", "/* ; */ SELECT 'it''s; \\'; '"]
    assert last == "\n SELECT 4 - 3 / 2"


def test_the_shell(pando: Pando, spark: SparkSession) -> None:
    for client in pando.clients.values():
        client.execute("CREATE DATABASE shell")
    pando["r1"].execute(
        "CREATE TABLE shell.t (k UInt32, a Array(String), n Nullable(Int8)) ENGINE = MergeTree ORDER BY k"
    )
    pando["r1"].execute("INSERT INTO shell.t VALUES (1, ['x', 'y'], NULL), (2, [], -1)")
    register(spark, pando.urls["r1"], "shell", prefix="sh_")
    out, errors = io.StringIO(), io.StringIO()
    lines = ["SELECT * FROM sh_t ORDER BY k;\n", "SELECT nope;\n", "SELECT k AS a,\n", " k + 1 AS a FROM sh_t\n",
             "ORDER BY k; SET x.y = 1;\n", "quit\n", "SELECT 'not any more';\n"]  # fmt: skip
    sql_shell.run_interactively(spark, iter(lines), out, errors)
    assert out.getvalue() == "1\t[x, y]\tNULL\n2\t[]\t-1\n1\t2\n2\t3\nx.y\t1\n"
    assert "`nope` cannot be resolved" in errors.getvalue()
    out = io.StringIO()
    sql_shell.run_statements(spark, ["SELECT 1; SELECT 2", "SELECT count(*) FROM sh_t"], out)
    assert out.getvalue() == "1\n2\n2\n"


def test_the_command(pando: Pando, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session of the tests, which it must not end."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    for client in pando.clients.values():
        client.execute("CREATE DATABASE command")
        client.execute("CREATE TABLE command.of_command (k UInt32) ENGINE = MergeTree ORDER BY k")
        client.execute("INSERT INTO command.of_command SELECT number FROM numbers(7)")
    arguments = ["spark-sql", "--url", pando.urls["r1"], "-d", "command", "-e", "SELECT sum(k) FROM of_command"]
    answer = CliRunner().invoke(cli, arguments)
    assert (answer.exit_code, answer.stdout) == (0, "21\n"), answer.output
    assert "1 tables of command: of_command" in answer.stderr
    answer = CliRunner().invoke(cli, ["spark-sql", "-o", "wrong"])
    assert answer.exit_code == 2


def test_a_block_of_many_partitions_is_cut_where_rows_are_in_order(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, p UInt16", "k PARTITION BY p")
    frame = spark.range(0, 6000, 1, 4).selectExpr("id AS k", "CAST(id % 300 AS INT) AS p")
    options = pando.options(table)
    save(prepare(frame, options["url"], table, partitions=1), options)
    pando.sync(table)
    assert pando.value(f"SELECT (count(), uniqExact(k)) = (6000, 6000) FROM {table}") == 1
    if SIDE == "jvm":  # it asks Spark for the order
        save(frame.repartition(1), options)
        assert pando.value(f"SELECT count() FROM {table}") == 12_000
        return
    with pytest.raises(
        Exception, match=r"Too many partitions for a single INSERT block(.|\n)*prepare\(df, url, table\)"
    ):
        save(frame.repartition(1), options)
    assert pando.value(f"SELECT count() FROM {table}") == 6000


def test_a_server_that_is_down_is_told_soon(spark: SparkSession) -> None:
    began = time.monotonic()
    with pytest.raises(Exception, match=r"Cannot connect to http://127\.0\.0\.1:1"):
        register(spark, "http://127.0.0.1:1")
    assert time.monotonic() - began < 5


def test_inner_tables_of_views_are_left_out(pando: Pando, spark: SparkSession) -> None:
    client = pando["r1"]
    client.execute("CREATE DATABASE IF NOT EXISTS with_views")
    client.execute("CREATE TABLE with_views.t (a UInt32) ENGINE = MergeTree ORDER BY a")
    client.execute("CREATE MATERIALIZED VIEW with_views.v ENGINE = MergeTree ORDER BY a AS SELECT a FROM with_views.t")
    assert register(spark, pando.urls["r1"], "with_views", prefix="of_views_") == ["of_views_t"]


def test_a_thread_of_its_own_writes(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    frame = spark.range(10).selectExpr("id AS k", "'x' AS s")

    def write() -> None:
        use_session(spark)
        save(frame, pando.options(table))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    assert pando.value(f"SELECT count() FROM {table}") == 10
