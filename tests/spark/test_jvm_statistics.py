"""What Spark's cost-based optimizer learns of a table: rows that a condition leaves, and what the columns hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_connector import use_session
from spark_connector.shared.transport import Transport
from tests.spark.conftest import Pando, load, rows
from tests.spark.test_jvm_keyed import between, setting
from tests.spark.test_jvm_read import plan

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

CBO = "spark.sql.cbo.enabled"
REORDER = "spark.sql.cbo.joinReorder.enabled"
COLUMNS = {
    "k": ("UInt32", "number"),
    "g": ("Nullable(Int16)", "if(number % 3 = 0, NULL, number % 7 - 3)"),
    "d": ("Date", "toDate('2020-02-03') + number % 50"),
    "t": ("DateTime64(3)", "toDateTime64('2020-01-01 00:00:00', 3, 'UTC') + number / 1000"),
    "m": ("Decimal(9, 2)", "toDecimal64(number % 1000, 2) / 4"),
    "s": ("LowCardinality(String)", "concat('s', toString(number % 9))"),
    "u": ("String", "hex(cityHash64(number))"),
    "f": ("Float64", "number / 3"),
}


@pytest.fixture(scope="module")
def spark(jvm_session: SparkSession) -> SparkSession:
    return jvm_session


@pytest.fixture(scope="module")
def table(pando: Pando) -> str:
    """Of 60,000 rows in three parts; some values are in two of them."""
    name = pando.new_table(", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items()), "k")
    values = ", ".join(expression for _, expression in COLUMNS.values())
    for first in (0, 15_000, 30_000):
        pando["r1"].execute(f"INSERT INTO {name} SELECT {values} FROM numbers({first}, 20000)")
    pando.sync(name)
    return name


@pytest.fixture
def cbo(spark: SparkSession) -> Iterator[None]:
    with setting(spark, CBO, "true"):
        yield


def estimate(spark: SparkSession, query: str) -> int:
    """The rows that Spark expects of a query; it asks for the configuration of the thread's session."""
    use_session(spark)
    return int(str(spark.sql(query)._jdf.queryExecution().optimizedPlan().stats().rowCount().get()))


def test_statistics_of_columns(pando: Pando, table: str) -> None:
    body: dict[str, Any] = {"table": table, "columns": list(COLUMNS), "with_statistics": True}
    with Transport(pando.parsed(table)) as transport:
        found = transport.call(pando.urls["r1"], "/scan/plan", body)
        assert "statistics" not in transport.call(pando.urls["r1"], "/scan/plan", {**body, "with_statistics": False})
    columns = found["statistics"]
    assert found["share"] == 1
    assert set(columns) == set(COLUMNS) - {"f"}
    for name in columns:
        as_number = {"d": "toInt32({})", "t": "toUnixTimestamp64Micro(toDateTime64({}, 6))", "m": "toString({})"}
        shown = as_number.get(name, "{}")
        least, greatest, nulls, distinct = rows(
            pando["r1"],
            f"SELECT {shown.format(f'min({name})')}, {shown.format(f'max({name})')}, countIf({name} IS NULL), "
            f"uniqExact({name}) FROM {table}",
        )[0]
        assert columns[name]["nulls"] == nulls
        assert columns[name]["distinct"] == pytest.approx(distinct, rel=0.15)
        if name in ("s", "u"):
            assert "min" not in columns[name]
        else:
            assert (float(columns[name]["min"]), float(columns[name]["max"])) == (
                float(str(least)),
                float(str(greatest)),
            )


@pytest.mark.usefixtures("cbo")
def test_spark_estimates_by_them(pando: Pando, spark: SparkSession, table: str) -> None:
    load(spark, pando.options(table)).createOrReplaceTempView("measured")
    for condition in ("g = 2", "d < DATE'2020-02-13'", "k >= 45000", "s = 's4' AND m > 200"):
        counted = spark.sql(f"SELECT count(*) FROM measured WHERE {condition}").collect()[0][0]
        assert estimate(spark, f"SELECT * FROM measured WHERE {condition}") == pytest.approx(counted, rel=0.35), (
            condition
        )
    assert estimate(spark, "SELECT a.k FROM measured a JOIN measured b ON a.k = b.k WHERE b.k < 100") < 3000
    assert estimate(spark, "SELECT a.k FROM measured a JOIN measured b ON a.k = b.k") == pytest.approx(80_000, rel=0.3)
    assert estimate(spark, "SELECT a.k FROM measured a JOIN measured b ON a.s = b.s") == pytest.approx(4e8, rel=0.1)
    grouped = "SELECT u, s FROM measured GROUP BY u, s HAVING count(*) > 0 OR length(first(u)) > 0"
    assert estimate(spark, grouped) > 30_000


@pytest.mark.usefixtures("cbo")
def test_joins_are_ordered_by_them(pando: Pando, spark: SparkSession, table: str) -> None:
    """First the join that leaves few rows, wherever it stands."""
    small = {name: pando.new_table("k UInt32, g Int16", "k") for name in ("many", "few")}
    for name, count in (("many", 40_000), ("few", 10)):
        pando["r1"].execute(f"INSERT INTO {small[name]} SELECT number, number % 7 - 3 FROM numbers({count})")
        pando.sync(small[name])
        load(spark, pando.options(small[name])).createOrReplaceTempView(name)
    load(spark, pando.options(table)).createOrReplaceTempView("measured")
    query = (
        "SELECT count(*), sum(m.k + f.g) FROM measured m JOIN many ON m.k = many.k JOIN few f ON m.k = f.k "
        "WHERE hash(many.g, m.g) % 1 = 0"
    )

    def depth_of_few() -> tuple[int, object]:
        frame = spark.sql(query)
        found = frame.collect()
        lines = str(frame._jdf.queryExecution().optimizedPlan().toString()).splitlines()
        (line,) = [line for line in lines if small["few"] in line and "Relation" in line]
        return line.index("Relation"), found

    unordered, expected = depth_of_few()
    with setting(spark, REORDER, "true"):
        ordered, found = depth_of_few()
    assert found == expected
    assert ordered > unordered


def test_they_cost_no_request(pando: Pando, spark: SparkSession, table: str) -> None:
    counts = []
    for is_on in ("false", "true"):
        with setting(spark, CBO, is_on), between(pando, lambda _: None) as (url, paths):
            frame = load(spark, pando.options(table, url=url)).where("k < 50").select("k", "s")
            assert len(frame.collect()) == 50
            assert "BatchScan" in plan(frame)
            counts.append(sorted(paths))
    assert counts[0] == counts[1]
    assert len(counts[0]) == 4
