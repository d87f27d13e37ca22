"""Folders that ``pando export`` writes are Parquet to Spark, and what Spark writes ``pando load`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.client.shared_work import ServerGroup
from engine.client.table_export import TableExport, export_table
from engine.client.table_load import TableLoad, load_folder
from tests.spark.conftest import Pando, rows

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]
_COLUMNS = {
    "u8": "UInt8", "u16": "UInt16", "u32": "UInt32", "u64": "UInt64", "i8": "Int8", "i64": "Int64", "f": "Float32",
    "b": "Bool", "d": "Date", "d32": "Date32", "t": "DateTime('Asia/Tokyo')", "t3": "DateTime64(3)",
    "t6": "DateTime64(6)", "t9": "DateTime64(9)", "dec": "Decimal(9, 2)", "dec38": "Decimal(38, 5)", "s": "String",
    "fs": "FixedString(3)", "lc": "LowCardinality(Nullable(String))", "n": "Nullable(Int32)",
    "e": "Enum8('x' = 1, 'y' = 2)", "a": "Array(Nullable(DateTime64(9)))", "m": "Map(String, Array(UInt64))",
    "tup": "Tuple(a DateTime, b LowCardinality(String))", "u": "UUID", "v4": "IPv4", "v6": "IPv6",
}  # fmt: skip
_VALUES = """
    (0, 0, 0, 18446744073709551615, -128, -9223372036854775808, 1.5, true, '2149-06-06', '1900-01-01',
     '2026-11-22 01:02:03', '2026-11-22 01:02:03.456', '1969-12-31 23:59:59.999999', '2026-11-22 01:02:03.123456789',
     -1234567.89, -123456789012345678901234567890123.45678, 'häkchen', 'abc', 'l', NULL, 'y',
     ['2026-11-22 01:02:03.123456789', NULL], {'k': [1, 18446744073709551615]}, ('2026-11-22 01:02:03', 'z'),
     '61f0c404-5cb3-11e7-907b-a6006ad3dba0', '10.0.0.1', '2001:db8::1'),
    (255, 65535, 4294967295, 1, 127, 1, -1.5, false, '1970-01-01', '2299-12-31', '1970-01-01 09:00:00',
     '1970-01-01 00:00:00', '1970-01-01 00:00:00', '1970-01-01 00:00:00', 0, 0, '', '', NULL, 7, 'x', [], {},
     ('1970-01-01 00:00:00', ''), '00000000-0000-0000-0000-000000000000', '0.0.0.0', '::')"""


@pytest.fixture
def servers(pando: Pando) -> Iterator[ServerGroup]:
    with ServerGroup(list(pando.urls.values())) as made:
        yield made


@pytest.fixture
def root(pando: Pando) -> Path:
    return pando.cluster.directory / "user_files"


def test_every_type_reaches_spark_and_comes_back(
    spark: SparkSession, pando: Pando, servers: ServerGroup, root: Path
) -> None:
    columns = ", ".join(f"{name} {type_}" for name, type_ in _COLUMNS.items())
    table, again = (pando.new_table(columns, "u8") for _ in range(2))
    pando["r1"].execute(f"INSERT INTO {table} VALUES {_VALUES}")
    pando.sync(table)
    export_table(servers, TableExport(f"default.{table}", table))
    files = spark.read.parquet(str(root / table))
    same = [name for name in _COLUMNS if name not in ("fs", "a")]  # padding, and a long in the array
    options = pando.options(table, nanoseconds="long", columns=",".join(same))
    ours = spark.read.format("pando").options(**options).load()
    assert dict(files.select(same).dtypes) == dict(ours.select(same).dtypes)
    assert files.select(same).orderBy("u8").collect() == ours.select(same).orderBy("u8").collect()
    first = files.orderBy("u8").first()
    assert first is not None
    assert (bytes(first["fs"]), first["t9"], first["a"]) == (b"abc", 1795309323123456789, [1795309323123456789, None])
    assert load_folder(servers, TableLoad(table, f"default.{again}")).is_new
    pando.sync(again)
    assert rows(pando["r2"], f"SELECT * FROM {again} ORDER BY u8") == rows(
        pando["r1"], f"SELECT * FROM {table} ORDER BY u8"
    )


def test_what_spark_wrote_is_loaded(spark: SparkSession, pando: Pando, servers: ServerGroup, root: Path) -> None:
    frame = spark.range(10_000).selectExpr(
        "id", "cast(id as string) AS s", "timestamp_seconds(id) AS t", "cast(id / 3 as decimal(18, 4)) AS d",
        "array(id, null) AS a", "if(id % 2 = 0, null, id) AS n",
    )  # fmt: skip
    table = pando.new_table(
        "id Int64, s String, t DateTime64(6), d Decimal(18, 4), a Array(Nullable(Int64)), n Nullable(Int64)", "id"
    )
    frame.repartition(3).write.parquet(str(root / "from spark"))
    loaded = load_folder(servers, TableLoad("from spark", f"default.{table}"))
    assert (loaded.files, loaded.rows, loaded.is_new) == (3, 10_000, True)
    assert not load_folder(servers, TableLoad("from spark", f"default.{table}")).is_new
    pando.sync(table)

    def facts(some: Any) -> list[Any]:
        return some.selectExpr(
            "count(*)", "sum(id)", "count(distinct s)", "max(t)", "sum(d)", "sum(a[0])", "count(n)"
        ).collect()

    assert facts(spark.read.format("pando").options(**pando.options(table)).load()) == facts(frame)
