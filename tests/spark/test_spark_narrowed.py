"""``narrowed``: equal frames whose scans take only the columns and the rows that their plans need."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, max
from pyspark.sql.types import LongType, StringType, StructField, StructType

from parts.common.errors import UserError
from spark_connector import narrowed
from spark_connector.python_source.scan_pushdown import (
    _is_scan,
)
from spark_connector.python_source.scan_reader import ScanReader
from spark_connector.shared.catalyst_expressions import (
    list_scala_elements,
)
from spark_connector.shared.options import escape_string, parse_options
from spark_connector.shared.transport import Transport
from tests.spark.conftest import Pando, load

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]

COLUMNS = """
    k UInt32, i8 Nullable(Int8), u64 UInt64, f Nullable(Float64), f32 Float32, dec Nullable(Decimal(10, 2)), b Bool,
    s Nullable(String), lc LowCardinality(String), e Nullable(Enum8('a' = 3, 'b' = 2, 'c' = 1)), id UUID,
    fs FixedString(3), d Date, d32 Nullable(Date32), ts Nullable(DateTime('Asia/Tokyo')),
    ms DateTime64(3, 'UTC'), ns DateTime64(9), a Array(UInt8)
"""
CONDITIONS = [
    "k < 700", "k >= 4000000000", "k = 5.0", "k <=> 7", "k IN (1, 2, 3, 5000000000)", "k NOT IN (1, 2, 3)",
    "k NOT IN (1, 4294967297)", "k != 4294967299", "i8 = -3", "i8 > 2.5", "i8 <=> NULL", "i8 <=> -3", "i8 IN (1, NULL)",
    "i8 NOT IN (1, 2)", "i8 NOT IN (1, NULL)", "i8 NOT IN (1, 257)", "u64 = 18446744073709551615", "u64 > -1",
    "u64 < 9223372036854775808", "u64 IN (0, 18446744073709551615)", "f = 1.5", "f > 1.5", "f >= CAST('NaN' AS DOUBLE)",
    "f < 1.5", "f <= -0.0", "f != 1.5", "isnan(f)", "f IN (1.5, -1.5)", "f NOT IN (1.5, 2.5)", "f IN (0.0, 2.5)",
    "f > 1e300", "f32 = 0.1", "f32 = CAST(0.1 AS FLOAT)", "f32 <= 0.1", "f32 > 0.1", "f32 NOT IN (0.1, 0.5)",
    "dec = 1.5", "dec > 1.5", "dec < 1.505", "dec <= 99999999999", "dec IN (1.5, 2.25)", "dec > -1e3",
    "dec NOT IN (1.505, 1.5)", "b", "NOT b", "b = true", "s = 'a%b'", "s > 'b'", "s < 'ä'", "s LIKE 'a%'",
    "s LIKE '%b'", "s LIKE '%''%'", "s LIKE '_ä%'", "s LIKE 'a\\\\%_'", "s NOT LIKE '%a%'", "startswith(s, 'a')",
    "endswith(s, '\\\\')", "contains(s, '')", "s IN ('a', 'B', '')",
    "s IN ('a', '', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'a%b')", "s = ''", "lc != 'x'", "lc >= 'y'",
    "lc LIKE 'x_'", "e = 'a'", "e > 'a'", "e = 'zz'", "e IN ('a', 'c')", "id > '8'",
    "id = '00000000-0000-0000-0000-000000000001'", "upper(id) = 'A'", "fs = 'ab'", "fs > 'a'", "d = DATE'2024-03-10'",
    "d < DATE'2200-01-01'", "d IN (DATE'2024-03-10', DATE'1960-01-01')",
    "d BETWEEN DATE'2024-02-01' AND DATE'2024-03-11'", "d > '2024-03-01'", "d32 < DATE'1950-01-01'",
    "d32 >= DATE'1850-01-01'", "ts = TIMESTAMP'2024-03-10 01:30:00'", "ts >= '2024-03-10 03:30:00'",
    "ts < TIMESTAMP'2024-03-10 08:00:00.5'", "ts > TIMESTAMP'1900-01-01 00:00:00'",
    "ms > TIMESTAMP'2024-03-10 01:30:00.001Z'", "ms <= TIMESTAMP'2024-11-03 01:30:00-05:00'",
    "ms = TIMESTAMP'2024-03-10 06:30:00.123UTC'", "ms NOT IN (TIMESTAMP'2024-03-10 06:30:00.1234UTC')",
    "ms != TIMESTAMP'2024-03-10 06:30:00.1234UTC'",
    "ts NOT IN (TIMESTAMP'2024-03-10 06:30:00.5UTC', TIMESTAMP'2200-01-01 00:00:00UTC')",
    "ns >= TIMESTAMP'2024-03-10 06:30:00Z'", "year(d) = 2024", "CAST(ts AS DATE) = DATE'2024-03-10'", "length(s) > 1",
    "s IS NULL", "i8 IS NOT NULL", "e IS NULL", "d32 IS NOT NULL", "size(a) = 1", "a IS NULL", "k % 2 = 0", "k = u64",
    "s RLIKE 'a+'",
]  # fmt: skip
LEFT_TO_SPARK = {
    "k NOT IN (1, 4294967297)", "k != 4294967299", "k IN (1, 2, 3, 5000000000)", "f IN (0.0, 2.5)",
    "f32 NOT IN (0.1, 0.5)", "dec NOT IN (1.505, 1.5)", "i8 NOT IN (1, 257)",
    "ms != TIMESTAMP'2024-03-10 06:30:00.1234UTC'",
    "ms NOT IN (TIMESTAMP'2024-03-10 06:30:00.1234UTC')",
    "ts NOT IN (TIMESTAMP'2024-03-10 06:30:00.5UTC', TIMESTAMP'2200-01-01 00:00:00UTC')",
    "i8 IN (1, NULL)", "i8 NOT IN (1, NULL)", "f >= CAST('NaN' AS DOUBLE)", "f32 = 0.1", "dec <= 99999999999",
    "dec > -1e3", "upper(id) = 'A'", "fs = 'ab'", "fs > 'a'", "d < DATE'2200-01-01'",
    "d IN (DATE'2024-03-10', DATE'1960-01-01')", "d32 >= DATE'1850-01-01'", "ns >= TIMESTAMP'2024-03-10 06:30:00Z'",
    "year(d) = 2024", "length(s) > 1", "size(a) = 1", "a IS NULL", "k % 2 = 0", "k = u64", "s RLIKE 'a+'",
}  # fmt: skip
"""Of which, or of whose contrary, not all is said."""


def make_table_of_edges(pando: Pando) -> str:
    """Values at which the two could differ."""
    name = pando.new_table(COLUMNS, "k", settings="index_granularity = 128", partition="toYYYYMM(d)")
    cases = {
        "i8 Nullable(Int8)": [None, "-128", "-3", "0", "1", "2", "127"],
        "u64 UInt64": ["0", "1", "9223372036854775807", "9223372036854775808", "18446744073709551615"],
        "f Nullable(Float64)": [None, "nan", "-inf", "inf", "-1.5", "-0.0", "0.0", "1.5", "2.5"],
        "f32 Float32": ["0.1", "nan", "-0.0", "0.5"],
        "dec Nullable(Decimal(10, 2))": [None, "-99999999.99", "-1.5", "0", "1.5", "1.51", "2.25", "99999999.99"],
        "s Nullable(String)": [None, "", "a", "B", "a%b", "a%", "äb", "bä", "'", "a\\", "a\0b", "a\nb", "𝄞ä"],
        "lc String": ["x", "xy", "y", "x𝄞", ""],
        "e Nullable(String)": [None, "a", "b", "c"],
        "id UUID": [f"{first}0000000-0000-0000-0000-000000000001" for first in "08f"],
        "fs String": ["ab", "abc", "", "b"],
        "d32 Nullable(Date32)": [None, "1900-01-01", "1949-12-31", "2024-03-10", "2299-12-31"],
        "ts Nullable(UInt32)": [None, "0", "1710052199", "1710052200", "1710054000", "1710066600", "4294967295"],
        "ms Int64": ["1710052200123", "1710052200001", "1710034200001", "1730615400000", "-2000000000001"],
        "ns String": ["2024-03-10 06:30:00.000000000", "2024-03-10 06:30:00.000001000", "1970-01-01 00:00:00"],
    }
    made = []
    for place, (column, values) in enumerate(cases.items()):
        alias, _, type_ = column.partition(" ")
        texts = ", ".join("NULL" if value is None else f"'{escape_string(value)}'" for value in values)
        chosen = f"arrayElement([{texts}], 1 + intHash32(number * 31 + {place}) % {len(values)})"
        made.append(f"CAST({chosen}, '{type_}') AS {alias}_")
    pando["r1"].execute(f"""
        INSERT INTO {name} SELECT number, i8_, u64_, f_, f32_, dec_, number % 3 = 0, s_, lc_, e_, id_, fs_,
        toDate('2024-01-15') + number % 90, d32_, toDateTime(ts_), fromUnixTimestamp64Milli(ms_),
        CAST(ns_, 'DateTime64(9)'), [number % 256] FROM (SELECT number, {", ".join(made)} FROM numbers(3000))""")
    pando.sync(name)
    return name


@pytest.fixture(scope="module")
def table(pando: Pando) -> str:
    return make_table_of_edges(pando)


def scans(frame: DataFrame) -> list[dict[str, str]]:
    """The options of the scans in a frame's plan, with the columns that they read."""
    found, plans = [], [frame._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        plans += list_scala_elements(plan.children())
        if _is_scan(plan):
            names = [attribute.name() for attribute in list_scala_elements(plan.output())]
            found.append({**plan.options().asCaseSensitiveMap(), "reads": ",".join(names)})
    return found


def weight(scan: dict[str, str]) -> tuple[int, int]:
    """How many rows and bytes of the granules are left."""
    options = {name: value for name, value in scan.items() if name != "reads"}
    parsed = parse_options(options)
    body = {"table": parsed.table, "columns": scan["reads"].split(","), "filter": parsed.filter}
    with Transport(parsed) as transport:
        plan = transport.call(parsed.urls[0], "/scan/plan", body)
    return plan["rows"], plan["bytes"]


def multiset(rows: Sequence[object]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.fixture(scope="module")
def truths(pando: Pando, spark: SparkSession, table: str) -> dict[str, set[int]]:
    """The keys for which Spark finds each condition true, and each one's contrary."""
    texts = [text for condition in CONDITIONS for text in (condition, f"NOT ({condition})")]
    asked = [f"(({text}) <=> true) AS c{number}" for number, text in enumerate(texts)]
    rows = load(spark, pando.options(table)).selectExpr("k", *asked).toPandas()
    return {text: set(rows["k"][rows[f"c{number}"]]) for number, text in enumerate(texts)}


def left_by_server(pando: Pando, table: str, condition: str) -> set[int]:
    reader = ScanReader(pando.parsed(table, filter=condition), StructType([StructField("k", LongType(), False)]))
    return {key for item in reader.partitions() for batch in reader.read(item) for key in batch["k"].to_pylist()}


@pytest.mark.parametrize("number", range(len(CONDITIONS)))
def test_the_server_understands_a_condition_as_spark_does(
    pando: Pando, spark: SparkSession, table: str, truths: dict[str, set[int]], number: int
) -> None:
    plain = load(spark, pando.options(table))
    for text in (CONDITIONS[number], f"NOT ({CONDITIONS[number]})"):
        (scan,) = scans(narrowed(plain.where(text).select("k")))
        left = left_by_server(pando, table, scan.get("filter", ""))
        assert left >= truths[text], (text, scan)
        assert left == truths[text] or CONDITIONS[number] in LEFT_TO_SPARK, (text, scan)


@pytest.mark.parametrize("seed", range(8))
def test_any_condition_leaves_the_same_rows(
    pando: Pando, spark: SparkSession, table: str, truths: dict[str, set[int]], seed: int
) -> None:
    """Nested at random; in every second one is what the server does not understand."""
    choose = random.Random(seed)

    def condition(depth: int) -> str:
        if depth == 0:
            return choose.choice(CONDITIONS)
        text = choose.choice([" AND ", " OR "]).join(f"({condition(depth - 1)})" for _ in range(2))
        return text if choose.random() < 0.7 else f"NOT ({text})"

    frame = load(spark, pando.options(table)).where(condition(3)).select("k", "s", "f")
    assert multiset(narrowed(frame).collect()) == multiset(frame.collect())


def test_no_more_columns_and_granules_are_read_than_needed(pando: Pando, spark: SparkSession, table: str) -> None:
    plain = load(spark, pando.options(table))
    (whole,) = map(weight, scans(plain))
    frame = plain.where("k BETWEEN 100 AND 200 AND length(s) > 1").groupBy("lc").agg(max("f"))
    (scan,) = scans(narrowed(frame))
    assert set(scan["reads"].split(",")) == {"k", "s", "lc", "f"}
    rows, bytes_ = weight(scan)
    assert rows <= whole[0] / 4
    assert bytes_ <= whole[1] / 8
    (scan,) = scans(narrowed(plain.groupBy().count()))
    assert scan["reads"] == "b"
    for condition, column in (("d >= '2024-04-01'", "d"), ("d32 = DATE'2024-03-10'", "d32")):
        (scan,) = scans(narrowed(plain.where(condition).select(column)))
        assert scan["reads"] == column
        if column == "d":
            assert weight(scan)[0] < whole[0] / 2, "a partition is left out"


def test_keys_of_every_kind_leave_granules_out(pando: Pando, spark: SparkSession) -> None:
    keys = {
        "ts DateTime": ("toDateTime(1700000000 + number * 60)", "ts < TIMESTAMP'2023-11-15 00:00:00Z'"),
        "ts DateTime64(6)": ("toDateTime64(1700000000 + number * 60, 6)", "ts < TIMESTAMP'2023-11-15 00:00:00.5Z'"),
        "s String": ("leftPad(toString(number), 5, '0')", "s LIKE '001%'"),
        "n Decimal(12, 3)": ("number", "n < 7.5"),
        "d Date32": ("toDate32('1990-01-01') + number", "d IN (DATE'1990-01-01', DATE'1990-01-09')"),
        "u UInt64": ("number", "u IN (1, 2, 3)"),
    }
    for column, (value, condition) in keys.items():
        name = column.split()[0]
        table = pando.new_table(column, name, settings="index_granularity = 128")
        pando["r1"].execute(f"INSERT INTO {table} SELECT {value} FROM numbers(10000)")
        pando.sync(table)
        frame = load(spark, pando.options(table)).where(condition)
        (scan,) = scans(narrowed(frame))
        assert weight(scan)[0] <= 1500, (column, scan)
        assert multiset(narrowed(frame).collect()) == multiset(frame.collect()) != Counter(), column


def test_a_table_that_is_joined_to_itself_has_two_filters(pando: Pando, spark: SparkSession, table: str) -> None:
    plain = load(spark, pando.options(table))
    low, high = plain.where("k < 50").alias("l"), plain.where("k >= 40 AND k < 90").alias("h")
    joined = low.join(high, col("l.k") == col("h.k") - 10).select("l.k", "h.s")
    filters = sorted(scan["filter"] for scan in scans(narrowed(joined)))
    assert len(filters) == 2
    assert filters[0] != filters[1]
    assert multiset(narrowed(joined).collect()) == multiset(joined.collect()) != Counter()
    both = plain.where("k < 50").union(plain.where("k > 2990"))
    assert multiset(narrowed(both).collect()) == multiset(both.collect())
    small = narrowed(plain.where("k < 7"))
    assert small.join(plain.where("k >= 5"), "k").count() == 2
    assert small.union(small).count() == 14
    assert plain.count() == 3000, "the frame itself is as it was"
    assert small.select(plain.k).where(plain.s.isNull()).count() == plain.where("k < 7 AND s IS NULL").count()


def test_a_subtree_that_spark_copies_keeps_its_rows(pando: Pando, spark: SparkSession, table: str) -> None:
    load(spark, pando.options(table)).createOrReplaceTempView("narrowed_source")
    for sql in (
        "WITH c AS (SELECT * FROM narrowed_source) SELECT (SELECT count(*) FROM c WHERE k < 9), (SELECT max(k) FROM c)",
        "WITH c AS (SELECT * FROM narrowed_source WHERE k > 3) SELECT a.k FROM c a JOIN c b USING (k) WHERE a.lc = 'x'",
        "SELECT k, s FROM narrowed_source n WHERE k < (SELECT max(k) FROM narrowed_source WHERE lc = n.lc AND k < 80)",
        "SELECT k FROM narrowed_source WHERE i8 IN (SELECT i8 FROM narrowed_source WHERE k < 40) AND k > 2900",
        "SELECT count(k), count(s), count(DISTINCT lc), count(*) FROM narrowed_source",
        "SELECT k, s FROM narrowed_source WHERE k < 100 EXCEPT SELECT k, s FROM narrowed_source WHERE k % 2 = 0",
    ):
        frame = spark.sql(sql)
        assert multiset(narrowed(frame).collect()) == multiset(frame.collect()) != Counter(), sql


def test_beside_a_subquery_as_much_is_left_out(pando: Pando, spark: SparkSession, table: str) -> None:
    load(spark, pando.options(table)).createOrReplaceTempView("narrowed_outer")
    sql = "SELECT k, s FROM narrowed_outer WHERE k < 100 AND k < (SELECT max(k) FROM narrowed_outer WHERE k < 80)"
    frame = spark.sql(sql)
    (scan,) = scans(narrowed(frame))
    assert (scan["reads"], "100" in scan["filter"]) == ("k,s", True)
    assert multiset(narrowed(frame).collect()) == multiset(frame.collect()) != Counter()


def test_the_scans_of_a_frame_read_one_state(pando: Pando, spark: SparkSession, table: str) -> None:
    plain = load(spark, pando.options(table))
    joined = plain.where("k < 50").alias("l").join(plain.select("k", "s").alias("r"), "k")
    names = {scan["scan_name"] for scan in scans(narrowed(joined))}
    assert len(names) == 1
    assert "" not in names
    assert names.isdisjoint(scan["scan_name"] for scan in scans(narrowed(joined))), "another frame, another state"
    fresh = pando.new_table("k UInt32, s String", "k")
    pando["r1"].execute(f"INSERT INTO {fresh} SELECT number, 'x' FROM numbers(1000)")
    pando.sync(fresh)
    counts = []
    for column, type_ in (("k", LongType()), ("s", StringType())):
        reader = ScanReader(
            pando.parsed(fresh, scan_name="joined to itself"), StructType([StructField(column, type_, False)])
        )
        counts.append(sum(batch.num_rows for item in reader.partitions() for batch in reader.read(item)))
        pando["r1"].execute(f"INSERT INTO {fresh} SELECT number, 'y' FROM numbers(1000)")
        pando.sync(fresh)
    assert counts == [1000, 1000]


def test_what_depends_on_the_day_is_not_taken_for_ever(pando: Pando, spark: SparkSession, table: str) -> None:
    frame = load(spark, pando.options(table)).where("d < current_date() AND k < 9").select("k")
    (scan,) = scans(narrowed(frame))
    assert "filter" not in scan or not scan["filter"]
    assert set(scan["reads"].split(",")) == {"k", "d"}
    assert narrowed(frame).count() == 9


def test_options_and_tables_of_the_catalog_are_kept(pando: Pando, spark: SparkSession, table: str) -> None:
    options = pando.options(table, filter="k < 100 -- few", partitions="3")
    frame = load(spark, options).where("k > 90 OR s = 'a'").select("s")
    again = narrowed(narrowed(frame))
    assert again.rdd.getNumPartitions() == 3
    assert multiset(again.collect()) == multiset(frame.collect())
    wide = spark.read.format("pando").options(**pando.options(table)).schema("k BIGINT, fs BINARY, i8 BIGINT")
    of_wide = wide.load().where("k < 3.5 AND i8 > -3")
    assert narrowed(of_wide).schema == of_wide.schema
    assert multiset(narrowed(of_wide).collect()) == multiset(of_wide.collect())
    spark.sql(f"CREATE TABLE narrowed_{table} USING pando OPTIONS (url '{options['url']}', table '{table}')")
    of_catalog = spark.table(f"narrowed_{table}").where("k = 17").select("k", "s")
    (scan,) = scans(narrowed(of_catalog))
    assert (scan["reads"], "17" in scan["filter"]) == ("k,s", True)
    assert multiset(narrowed(of_catalog).collect()) == multiset(of_catalog.collect())
    spark.sql(f"DROP TABLE narrowed_{table}")


def test_frames_without_a_table_of_pando_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UserError, match="not this one") as raised:
        narrowed(spark.range(3))
    assert raised.value.code == 36
    with pytest.raises(UserError, match="Spark Connect does not show") as raised:
        narrowed(object())  # type: ignore[arg-type]
    assert raised.value.code == 48
