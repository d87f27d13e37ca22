"""DuckDB takes a scan for a table: it reads the columns it needs, and knows how many rows come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sql.run import query_engine
from sql.run.duckdb import database
from sql.run.duckdb.scan_table import ScanTable
from sql.run.query_engine import QueryEngine
from sql.run.scans import scan_streams
from tests.sql.run.dataset import MemoryCatalog
from tests.sql.run.part_tables import PartTable, describe


class _Numbers:
    """``rows`` rows of columns a and b, and the columns that were read."""

    def __init__(self, rows: int) -> None:
        self.expected_rows = rows
        self.read: list[list[int]] = []

    def stream(self, columns: Sequence[int]) -> pa.RecordBatchReader:
        self.read.append(list(columns))
        values = np.arange(self.expected_rows)
        table = pa.table({"a": values, "b": values}).select(list(columns))
        return table.to_reader()


def _filled(directory: Path, name: str, rows: int) -> PartTable:
    directory.mkdir()
    table = describe(f"{name} UInt32, {name}_text String", name, granularity=1024)
    block = pa.table({name: np.arange(rows, dtype=np.uint32), f"{name}_text": ["x" * 1000] * rows})
    table.insert(directory, block.cast(table.description.schema.arrow))
    return table


def test_duckdb_asks_for_columns_and_rows() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    small, large = ScanTable(schema), ScanTable(schema)
    small.scanned, large.scanned = _Numbers(3), _Numbers(10_000)
    cursor = database.open_cursor()
    try:
        cursor.register("small", small)
        cursor.register("large", large)
        for sides in ("small JOIN large", "large JOIN small"):
            plan = cursor.execute(f"EXPLAIN SELECT sum(large.b) FROM {sides} USING (a)").fetchall()[0][1]
            assert "~10,000 rows" in plan
            assert plan.index("~10,000 rows") < plan.rindex("~3 rows")
        assert cursor.sql("SELECT sum(large.b) FROM small JOIN large USING (a)").fetchall() == [(3,)]
        assert (small.scanned.read, large.scanned.read) == ([[0]], [[0, 1]])
        assert cursor.sql("SELECT sum(b) FROM small").fetchall() == [(3,)]
        assert small.scanned.read[1:] == [[1]]
    finally:
        cursor.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count() FROM a WHERE EXISTS (SELECT * FROM b WHERE b = a)",
        "SELECT count() FROM (SELECT * FROM a) WHERE a < 100",
        "WITH w AS (SELECT * FROM b) SELECT count() FROM a LEFT SEMI JOIN w ON a = b",
    ],
)
def test_no_column_is_read_in_vain(tmp_path: Path, query: str) -> None:
    tables = {"a": _filled(tmp_path / "a", "a", 1000), "b": _filled(tmp_path / "b", "b", 100)}
    result = QueryEngine().select(query, catalog=MemoryCatalog(dict(tables)))
    assert result.read_all().column(0).to_pylist() == [100]
    assert result.statistics.read_bytes < 10_000


def test_codes_come_with_the_columns_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    stream = scan_streams.ScanStream.stream

    def watched(self: scan_streams.ScanStream, columns: Sequence[int]) -> pa.RecordBatchReader:
        asked.append([self.schema.names[position] for position in columns])
        return stream(self, columns)

    monkeypatch.setattr(query_engine.ScanStream, "stream", watched)
    table = describe("k String, a UInt32", "k", granularity=16)
    block = pa.table({"k": ["x", "y", "y"], "a": pa.array([1, 2, 3], pa.uint32())})
    table.insert(tmp_path, block.cast(table.description.schema.arrow))
    query = "SELECT k, sumIf(a, a > 0) FROM t GROUP BY k ORDER BY k"
    found = QueryEngine().select(query, catalog=MemoryCatalog({"t": table})).read_all()
    assert [list(row.values()) for row in found.to_pylist()] == [["x", 1], ["y", 5]]
    assert [sorted(names) for names in asked] == [["1#k", "1.a"]]
