"""The data of the benchmarks: TPC-H lineitem (generated) and the flights, as Arrow stream files of a million rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from demo.flights import load_flights

BLOCK_ROWS = 1_000_000


@dataclass(frozen=True)
class Dataset:
    """A table and its blocks on disk. ``columns`` and ``order_by`` are ClickHouse SQL."""

    name: str
    columns: str
    order_by: str
    blocks: tuple[Path, ...]


def lineitem(directory: Path, scale: float) -> Dataset:
    """About 6,000,000 × ``scale`` rows."""
    generator = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run(
        [str(generator), "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={directory}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    columns = """
        l_orderkey Int64, l_partkey Int64, l_suppkey Int64, l_linenumber Int32, l_quantity Decimal(15, 2),
        l_extendedprice Decimal(15, 2), l_discount Decimal(15, 2), l_tax Decimal(15, 2), l_returnflag String,
        l_linestatus String, l_shipdate Date32, l_commitdate Date32, l_receiptdate Date32, l_shipinstruct String,
        l_shipmode String, l_comment String"""
    table = pq.read_table(directory / "lineitem.parquet")
    return Dataset("lineitem", columns, "(l_shipdate, l_orderkey)", tuple(_write(directory, "lineitem", _plain(table))))


def flights(directory: Path) -> Dataset:
    """The 336,776 flights three times over, so that a block is worth timing."""
    table = pa.concat_tables([load_flights()] * 3)
    hours = table.column("time_hour").cast(pa.int64()).cast(pa.uint32())
    table = table.set_column(0, "time_hour", hours)
    columns = """
        time_hour UInt32, origin String, dest String, carrier String, flight UInt16, tailnum Nullable(String),
        dep_delay Nullable(Int16), arr_delay Nullable(Int16), air_time Nullable(UInt16), distance UInt16"""
    return Dataset(
        "flights", columns, "(origin, carrier, time_hour, flight)", tuple(_write(directory, "flights", table))
    )


def _plain(table: pa.Table) -> pa.Table:
    """Both engines read plain strings and 128-bit decimals."""
    fields = [
        pa.field(field.name, pa.string() if pa.types.is_string_view(field.type) else field.type, nullable=False)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _write(directory: Path, name: str, table: pa.Table) -> Iterator[Path]:
    for number, start in enumerate(range(0, table.num_rows, BLOCK_ROWS)):
        file = directory / f"{name}-{number}.arrows"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, BLOCK_ROWS).combine_chunks())
        yield file
