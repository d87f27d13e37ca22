"""The data of the benchmarks: TPC-H's tables (generated) and the flights, as Arrow stream files of a million rows."""

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
LINEITEM = "lineitem"
TPCH_KEYS = {
    LINEITEM: "(l_shipdate, l_orderkey)",
    "orders": "(o_orderdate, o_orderkey)",
    "customer": "c_custkey",
    "supplier": "s_suppkey",
    "part": "p_partkey",
    "partsupp": "(ps_partkey, ps_suppkey)",
    "nation": "n_nationkey",
    "region": "r_regionkey",
}


@dataclass(frozen=True)
class Dataset:
    """A table and its blocks on disk. ``columns`` and ``order_by`` are ClickHouse SQL."""

    name: str
    columns: str
    order_by: str
    blocks: tuple[Path, ...]

    @property
    def create(self) -> str:
        return f"CREATE TABLE {self.name} ({self.columns}) ENGINE = MergeTree ORDER BY {self.order_by}"


def tpch(directory: Path, scale: float) -> dict[str, Dataset]:
    """TPC-H's eight tables by name; lineitem has about 6,000,000 × ``scale`` rows."""
    generator = Path(sys.executable).with_name("tpchgen-cli")
    command = [str(generator), "parquet", "-s", str(scale), f"--output-dir={directory}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    datasets = {}
    for name, order_by in TPCH_KEYS.items():
        table = _plain(pq.read_table(directory / f"{name}.parquet"))
        columns = ", ".join(f"{field.name} {_type_name(field.type)}" for field in table.schema)
        datasets[name] = Dataset(name, columns, order_by, tuple(_write(directory, name, table)))
    return datasets


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


def _type_name(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"Decimal({arrow.precision}, {arrow.scale})"
    if pa.types.is_integer(arrow):
        return f"Int{arrow.bit_width}"
    return "Date32" if pa.types.is_date(arrow) else "String"


def _write(directory: Path, name: str, table: pa.Table) -> Iterator[Path]:
    for number, start in enumerate(range(0, table.num_rows, BLOCK_ROWS)):
        file = directory / f"{name}-{number}.arrows"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, BLOCK_ROWS).combine_chunks())
        yield file
