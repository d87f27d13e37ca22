"""Queries of Spark that are under way while the table's columns change: they go on with those that they began with."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from parts.common.errors import PandoError
from spark_connector.python_source.scan_reader import ScanReader
from tests.spark.conftest import Pando
from tests.spark.test_spark_scans import read_all

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]

_ROWS = 20_000
SCHEMA = StructType(
    [StructField("k", LongType(), False), StructField("s", StringType(), False), StructField("n", IntegerType(), True)]
)


@pytest.fixture
def table(pando: Pando) -> str:
    name = pando.new_table("k UInt32, s String, n Nullable(Int32)", "k", settings="index_granularity = 1024")
    pando["r1"].execute(f"INSERT INTO {name} SELECT number, toString(number), number FROM numbers({_ROWS})")
    pando.sync(name)
    return name


def alter(pando: Pando, table: str, commands: str) -> None:
    pando["r1"].execute(f"ALTER TABLE {table} {commands} SETTINGS alter_sync = 2")


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_scan_goes_on_under_the_columns_it_began_with(pando: Pando, table: str, only: bool, restarted: bool) -> None:
    """Also where a name is another column's now. A server that was restarted does not know how the table was."""
    more = {"url": pando.urls["r1"]} if only else {}
    reader = ScanReader(pando.parsed(table, partitions="6", filter="n != 7 AND s != 'x'", retries="0", **more), SCHEMA)
    first, *others = reader.partitions()
    read = [read_all(reader, [first])]
    alter(pando, table, "RENAME COLUMN s TO t, DROP COLUMN n, ADD COLUMN u UInt8 DEFAULT 1")
    alter(pando, table, "ADD COLUMN s String DEFAULT 'another'")
    pando["r1"].execute(f"INSERT INTO {table} (k, s) VALUES (5, 'new')")
    if restarted:
        for name in ("r1",) if only else ("r1", "r2"):
            pando.cluster.restart(name)
        pando.wait_writable(table)
        with pytest.raises(PandoError, match="was altered since the query began") as raised:
            read_all(reader, others)
        assert raised.value.code == 517
        return
    read += [read_all(reader, [item]) for item in others]
    found = sorted(tuple(row.values()) for item in read for row in item.to_pylist())
    assert found == [(k, str(k), k) for k in range(_ROWS) if k != 7]


def test_another_replica_goes_on_where_one_does_not_know(pando: Pando, table: str) -> None:
    reader = ScanReader(pando.parsed(table, partitions="4"), SCHEMA)
    first, *others = reader.partitions()
    rows = read_all(reader, [first]).num_rows
    alter(pando, table, "RENAME COLUMN s TO t")
    pando.cluster.restart("r1")
    pando.wait_writable(table)
    assert rows + read_all(reader, others).num_rows == _ROWS


def test_a_scan_that_begins_after_the_change_is_refused(pando: Pando, table: str) -> None:
    reader = ScanReader(pando.parsed(table, partitions="2"), SCHEMA)
    slots = reader.partitions()
    alter(pando, table, "RENAME COLUMN s TO t")
    with pytest.raises(PandoError) as raised:
        read_all(reader, slots)
    assert raised.value.code == 16
