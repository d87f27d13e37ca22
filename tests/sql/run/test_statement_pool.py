"""Statements are used again, and nothing of one query reaches another."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parts.common.errors import PandoError
from sql.run import query_engine
from sql.run.duckdb.statement_pool import StatementPool, _Statement
from sql.run.query_engine import QueryEngine
from sql.run.scans import scan_streams
from sql.settings.session_settings import (
    make_settings,
)
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation, schema_of
from tests.sql.run.part_tables import PartTable, describe


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatementPool]:
    fresh = StatementPool(most_idle=2)
    monkeypatch.setattr(query_engine, "STATEMENT_POOL", fresh)
    yield fresh
    fresh.clear()


def numbers(type_: str, *values: int) -> MemoryCatalog:
    schema = schema_of(f"a {type_}")
    block = pa.Table.from_arrays([pa.array(values, schema.arrow.field(0).type)], schema=schema.arrow)
    return MemoryCatalog({"t": MemoryRelation(schema, block)})


def read(query: str, catalog: MemoryCatalog) -> list[object]:
    return QueryEngine().select(query, catalog=catalog).read_all().column(0).to_pylist()


def part_table(directory: Path, rows: int = 20_000) -> PartTable:
    table = describe("a UInt32, s String", "a", granularity=1024)
    block = pa.table({"a": np.arange(rows, dtype=np.uint32), "s": [str(number) for number in range(rows)]})
    table.insert(directory, block.cast(table.description.schema.arrow))
    return table


def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the statements made from now on."""
    texts: list[str] = []
    make = _Statement.__init__

    def counted(self: _Statement, sql: str, streams: object) -> None:
        texts.append(sql)
        make(self, sql, streams)  # type: ignore[arg-type]

    monkeypatch.setattr(_Statement, "__init__", counted)
    return texts


def test_the_same_text_reads_the_rows_of_its_own_query(pool: StatementPool, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made(monkeypatch)
    assert read("SELECT a + 1 FROM t", numbers("UInt32", 1, 2)) == [2, 3]
    assert read("SELECT a + 1 FROM t", numbers("UInt32", 5)) == [6]
    assert len(texts) == 1


def test_columns_of_other_types_make_another_statement(pool: StatementPool) -> None:
    assert read("SELECT a FROM t WHERE a != 7", numbers("UInt8", 255)) == [255]
    assert read("SELECT a FROM t WHERE a != 7", numbers("Int64", -(1 << 40))) == [-(1 << 40)]
    assert read("SELECT a FROM t WHERE a != 7", numbers("UInt8", 254)) == [254]


def test_queries_of_one_text_run_at_the_same_time(pool: StatementPool, tmp_path: Path) -> None:
    catalog = MemoryCatalog({"t": part_table(tmp_path, 200_000)})
    running = [QueryEngine().select("SELECT a + 1, s FROM t", catalog=catalog) for _ in range(3)]
    started = [next(iter(result.batches)).num_rows for result in running]
    rows = [
        first + sum(batch.num_rows for batch in result.batches) for first, result in zip(started, running, strict=True)
    ]
    assert rows == [200_000] * 3
    assert len(pool._idle) == 1


@pytest.mark.long
def test_an_idle_statement_holds_nothing_of_the_query(
    pool: StatementPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = part_table(tmp_path)
    streams: list[weakref.ref[scan_streams.ScanStream]] = []

    class Watched(scan_streams.ScanStream):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            streams.append(weakref.ref(self))

    monkeypatch.setattr(query_engine, "ScanStream", Watched)
    for query in ("SELECT s FROM t WHERE a + 1 = 78", "SELECT upper(s) FROM t LIMIT 3", "SELECT sum(a) FROM t"):
        read(query, MemoryCatalog({"t": table}))
        gc.collect()
        assert [stream() for stream in streams] == [None] * len(streams)
    assert [snapshot.released for snapshot in table.snapshots] == [1, 1, 1]


def test_a_failed_or_abandoned_query_leaves_no_statement(pool: StatementPool, tmp_path: Path) -> None:
    catalog = MemoryCatalog({"t": part_table(tmp_path, 200_000)})
    query = "SELECT throwIf(a = 150000), s FROM t"
    for _ in range(2):
        with pytest.raises(PandoError) as caught:
            read(query, catalog)
        assert caught.value.code == 395
        assert not pool._idle
    result = QueryEngine().select("SELECT a + 1, s FROM t", catalog=catalog)
    next(iter(result.batches))
    result.close()
    assert not pool._idle
    assert len(read("SELECT a + 1, s FROM t", catalog)) == 200_000
    assert len(pool._idle) == 1


def test_a_late_cancel_does_not_reach_the_next_query(pool: StatementPool, tmp_path: Path) -> None:
    catalog = MemoryCatalog({"t": part_table(tmp_path, 200_000)})
    first = QueryEngine().select("SELECT a + 1, s FROM t", catalog=catalog)
    assert sum(batch.num_rows for batch in first.batches) == 200_000
    second = QueryEngine().select("SELECT a + 1, s FROM t", catalog=catalog)
    batches = iter(second.batches)
    rows = next(batches).num_rows
    first.cancel()
    assert rows + sum(batch.num_rows for batch in batches) == 200_000


def test_the_longest_unused_goes(pool: StatementPool, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made(monkeypatch)
    catalog = numbers("UInt32", 1)
    for number in (1, 2, 1, 3, 1, 2):
        assert read(f"SELECT a + {number} FROM t", catalog) == [1 + number]
    assert len(pool._idle) == 2
    assert len(texts) == 4


def test_one_thread_reads_with_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = MemoryCatalog({"t": part_table(tmp_path, 400_000)})

    def refused(job: object) -> None:
        raise AssertionError("a job for the pool")

    monkeypatch.setattr("parts.read.read_ahead.submit", refused)
    query = "SELECT sum(a), max(s) FROM t"
    result = QueryEngine().select(query, catalog=catalog, settings=make_settings({"max_threads": 1}))
    assert result.read_all().column(0).to_pylist() == [400_000 * 399_999 // 2]
    with pytest.raises(PandoError):
        QueryEngine().select(query, catalog=catalog).read_all()
