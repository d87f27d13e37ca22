"""Which queries are answered with rows as they are stored, without DuckDB, and how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from parts.common.errors import CancelledError, CorruptionError
from sql.run.duckdb.statement_pool import StatementPool
from sql.run.query_engine import QueryEngine, SelectResult
from tests.sql.run.dataset import MemoryCatalog
from tests.sql.run.part_tables import PartTable, describe

_ROWS = 1000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PartTable:
    """Keys 0 to 999 in two parts, even and odd; granules of 8 rows."""
    table = describe("k Int32, s String, c LowCardinality(Nullable(String)), d Date, n Nullable(Int8)", "(k, s)")
    for odd in (0, 1):
        keys = range(odd, _ROWS, 2)
        columns = {
            "k": pa.array(keys, pa.int32()),
            "s": pa.array([f"s{key}" for key in keys]),
            "c": pa.array([None if key % 3 else f"c{key % 5}" for key in keys]).dictionary_encode(),
            "d": pa.array(keys, pa.int32()).cast(pa.date32()),
            "n": pa.array([key % 7 or None for key in keys], pa.int8()),
        }
        table.insert(tmp_path_factory.mktemp("parts"), pa.table(columns).cast(table.description.schema.arrow))
    return table


def _select(query: str, table: PartTable) -> SelectResult:
    return QueryEngine().select(query, catalog=MemoryCatalog({"t": table}))


@pytest.mark.parametrize(
    ("query", "is_direct"),
    [
        ("SELECT * FROM t", True),
        ("SELECT s, k AS x, s FROM t WHERE k = 17", True),
        ("SELECT t.n FROM t PREWHERE k > 10 WHERE k < 20 AND s = 's15'", True),
        ("SELECT c, d FROM t WHERE k IN (1, 2, 999, 5000) OR s LIKE 's10%'", True),
        (f"SELECT c, d FROM t WHERE k IN ({', '.join(str(3 * key) for key in range(300))})", True),
        ("SELECT c, d FROM t WHERE NOT (k >= 5 AND k != 700)", True),
        ("SELECT k FROM t WHERE 0", True),
        ("SELECT k FROM t WHERE k = 17 LIMIT 5", True),
        ("SELECT k FROM t WHERE k = 17 AND c IS NULL", False),
        ("SELECT k FROM t WHERE n = 1", False),
        ("SELECT k + 1 FROM t WHERE k = 17", False),
        ("SELECT k, 1 FROM t WHERE k = 17", False),
        ("SELECT toLowCardinality(k) FROM t WHERE k = 17", False),
        ("SELECT toNullable(k) FROM t WHERE k = 17", False),
        ("SELECT k, _part FROM t WHERE k = 17", False),
        ("SELECT DISTINCT c FROM t WHERE k < 100", False),
        ("SELECT k, c FROM t WHERE k < 100 ORDER BY d DESC, s LIMIT 7", True),
        ("SELECT k FROM t WHERE k < 100 ORDER BY c", False),
        ("SELECT k FROM t WHERE k < 100 ORDER BY n", False),
        ("SELECT k FROM t WHERE k < 100 ORDER BY k + 1", False),
        ("SELECT k FROM t WHERE k < 100 ORDER BY k NULLS FIRST", False),
        ("SELECT k FROM t WHERE k < 100 LIMIT 5 OFFSET 98", True),
        ("SELECT k FROM t WHERE k = (SELECT max(k) FROM t)", False),
        ("SELECT count(), sum(k), min(k) AS x, max(d), count(*) FROM t WHERE k >= 20 AND k < 700", True),
        ("SELECT sum(k), min(d), max(k) FROM t WHERE k > 5000", True),
        ("SELECT sum(n), max(k) FROM t WHERE k = 17", False),
        ("SELECT sum(DISTINCT k) FROM t WHERE k < 17", False),
        ("SELECT sum(k) FROM t WHERE k < 17 GROUP BY s", False),
        ("SELECT max(s), avg(k) FROM t WHERE k < 17", True),
        ("SELECT max(c) FROM t WHERE k < 17", False),
        ("SELECT sum(k) FROM t WHERE k < 17 LIMIT 0", False),
        ("SELECT t.k FROM t JOIN (SELECT k FROM t) AS b ON t.k = b.k WHERE t.k = 3", False),
    ],
)
def test_what_the_key_decides_needs_no_duckdb(table: PartTable, query: str, is_direct: bool) -> None:
    with patch.object(StatementPool, "lease", autospec=True, side_effect=StatementPool.lease) as lease:
        result = _select(query, table)
        rows = result.read_all()
    assert (lease.call_count == 0) == is_direct
    # The same through DuckDB: a condition that no key decides.
    columns = "*, _part" if "_part" in query else "*"
    computed = query.replace("FROM t", f"FROM (SELECT {columns} FROM t WHERE length(s) > 0) AS t", 1)
    with patch.object(StatementPool, "lease", autospec=True, side_effect=StatementPool.lease) as lease:
        expected = _select(computed, table).read_all()
    assert lease.call_count > 0
    assert rows.schema == expected.schema
    if "LIMIT" not in query:
        assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert rows.num_rows == expected.num_rows


def test_rows_that_are_looked_at_count_as_read(table: PartTable) -> None:
    result = _select("SELECT * FROM t WHERE k = 17 AND s = 's17'", table)
    assert result.read_all().num_rows == 1
    assert result.statistics.read_rows == 8 * result.statistics.marks < 8 * 5


def test_a_limit_ends_the_reading(table: PartTable) -> None:
    for limit in (0, 1, 11, 501, 5000):
        result = _select(f"SELECT s, n FROM t LIMIT {limit}", table)
        assert result.read_all().num_rows == result.statistics.read_rows == min(limit, _ROWS)


def test_a_limit_may_be_any_constant(table: PartTable) -> None:
    for limit, rows in (("true", 1), ("2 + 3", 5), ("1000000 - 1", _ROWS)):
        assert _select(f"SELECT s, n FROM t LIMIT {limit}", table).read_all().num_rows == rows


def test_matching_rows_that_lie_apart_are_read_together(table: PartTable) -> None:
    wanted = [f"s{key}" for key in range(_ROWS) if key % 10 == 4]
    texts = ", ".join(f"'{text}'" for text in wanted)
    rows = _select(f"SELECT s FROM t WHERE s >= 's4' AND s < 's5' AND s NOT IN ({texts})", table).read_all()
    expected = {f"s{key}" for key in range(_ROWS) if str(key).startswith("4")} - set(wanted)
    assert sorted(rows.column(0).to_pylist()) == sorted(expected)


def test_too_many_rows_to_look_at_are_left_to_duckdb(table: PartTable) -> None:
    with (
        patch("sql.run.stored_row_results.MAX_ROWS_TESTED_BY_KEY", 7),
        patch.object(StatementPool, "lease", autospec=True, side_effect=StatementPool.lease) as lease,
    ):
        assert _select("SELECT k FROM t WHERE k = 17", table).read_all().num_rows == 1
    assert lease.call_count == 1


def test_it_can_be_cancelled(table: PartTable) -> None:
    result = _select("SELECT * FROM t", table)
    batches = result.batches
    next(batches)
    result.cancel()
    with pytest.raises(CancelledError):
        list(batches)
    assert all(snapshot.released for snapshot in table.snapshots)


def test_corruption_is_told(tmp_path: Path) -> None:
    table = describe("k Int32, v String", "k")
    in_files = replace(table.description.settings, min_bytes_for_full_part_storage=0)  # what is in memory stays right
    table.description = replace(table.description, settings=in_files)
    table.insert(tmp_path, pa.table({"k": pa.array([1], pa.int32()), "v": ["x"]}).cast(table.description.schema.arrow))
    (part,) = table.parts
    file = max(part.path.iterdir(), key=lambda path: path.name.startswith("data"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(CorruptionError) as caught:
        _select("SELECT v FROM t", table).read_all()
    assert caught.value.directory == table.parts[0].path
