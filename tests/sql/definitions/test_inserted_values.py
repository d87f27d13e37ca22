"""What INSERT and INSERT … SELECT store of values that a column takes in its own way, compared with ClickHouse."""

from __future__ import annotations

import re
from datetime import datetime
from io import BytesIO

import pyarrow as pa
import pytest

from parts.common.errors import PandoError, UserError
from tests.alter.following import Pando
from tests.sql.oracle import Oracle, columns_of, read


def answer(server: Oracle | Pando, statement: str) -> str:
    """The text of the answer, or the code of the error."""
    try:
        return server.query(statement).decode()
    except (PandoError, RuntimeError) as error:
        return "error " + "".join(re.findall(r"^Code: (\d+)", str(error)))


def stored(server: Oracle | Pando, types: str, insert: str) -> list[str]:
    statements = (
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t ({types}) ENGINE = MergeTree ORDER BY tuple()",
        f"INSERT INTO t {insert}",
        "SELECT * FROM t ORDER BY ALL",
    )
    return [answer(server, statement) for statement in statements]


@pytest.mark.parametrize("column", ["DateTime64(9, 'UTC')", "Nullable(DateTime64(9, 'UTC'))"])
@pytest.mark.parametrize(
    "time",
    [
        "toDateTime64('2290-01-01 00:00:00', 3, 'UTC')",
        "toDateTime64('2262-04-11 23:47:16.855', 3, 'UTC')",
        "toDateTime64('2262-04-11 23:47:16.854', 3, 'UTC')",
        "toDateTime64('1900-01-01 00:00:00.123456', 6, 'UTC')",
        "toDateTime('2106-02-07 06:28:15', 'UTC')",
        "toDate32('2262-01-01')",
    ],
)
def test_instants_beyond_nanoseconds(oracle: Oracle, pando: Pando, column: str, time: str) -> None:
    insert = f"SELECT {time}"
    assert stored(pando, f"t {column}", insert) == stored(oracle, f"t {column}", insert)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_instants_of_arrow_beyond_nanoseconds(unit: str, zone: str | None) -> None:
    times = pa.array([datetime(2262, 1, 1), datetime(2290, 1, 1)], pa.timestamp(unit)).cast(pa.timestamp(unit, zone))
    columns = columns_of({"t": "DateTime64(9, 'UTC')"})
    with pytest.raises(UserError) as caught:
        read(_stream(times), columns, "ArrowStream")
    assert caught.value.code == 407
    assert read(_stream(times[:1]), columns, "ArrowStream").column("t").cast(pa.int64()).to_pylist() == [
        9214646400 * 10**9
    ]


def _stream(values: pa.Array) -> bytes:
    sink = BytesIO()
    table = pa.table({"t": values})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
