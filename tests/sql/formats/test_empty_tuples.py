"""``()`` in every output format, against ClickHouse: a column that has rows but no elements."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parts.common.errors import UserError
from sql.formats.registry import FORMATS, write_blocks
from sql.run.query_engine import QueryEngine
from sql.settings.session_settings import (
    make_settings,
)
from tests.portions import one_in
from tests.sql.oracle import Oracle, without_statistics
from tests.sql.run.dataset import MemoryCatalog

QUERIES = (
    "SELECT number, () AS t FROM numbers(3)",
    "SELECT [(), ()] AS a, ((), 1) AS t, map(1, ()) AS m FROM numbers(2)",
)
_ELSEWHERE = ("Parquet", "Arrow", "ArrowStream", "RawBLOB")


def written(query: str, format_name: str) -> bytes:
    result = QueryEngine().select(query, catalog=MemoryCatalog({}))
    settings = make_settings({"output_format_write_statistics": False})
    return b"".join(write_blocks(format_name, list(result.columns), result.batches, settings=settings))


@pytest.mark.parametrize("query", one_in(2, QUERIES))
@pytest.mark.parametrize("format_name", [n for n, f in FORMATS.items() if f.writer and n not in _ELSEWHERE])
def test_empty_tuples_are_written(oracle: Oracle, query: str, format_name: str) -> None:
    theirs = oracle.query(query, format_name, output_format_write_statistics=0)
    assert without_statistics(written(query, format_name)) == without_statistics(theirs)


@pytest.mark.parametrize("query", QUERIES)
def test_empty_tuples_in_files(query: str) -> None:
    table = pa.ipc.open_stream(written(query, "ArrowStream")).read_all()
    assert table.num_rows
    assert table.num_rows == len(table.column("t").to_pylist())
    with pytest.raises(UserError, match="empty tuple"):
        written(query, "Parquet")
