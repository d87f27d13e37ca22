"""Merge engines and limits on reading where several processes serve: all answer the same, and refuse the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parts.common.errors import PandoError
from tests.engine.workers.server import WorkerServer
from tests.portions import one_in

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    with WorkerServer(tmp_path_factory.mktemp("workers"), workers=2) as server:
        yield server


ENGINES = {
    "replacing": (
        "ReplacingMergeTree(v)",
        "k UInt8, v UInt8, s UInt8",
        ["1, 1, 10", "1, 3, 30", "1, 2, 20"],
        "1 3 30",
    ),
    "deleting": (
        "ReplacingMergeTree(v, gone)",
        "k UInt8, v UInt8, gone UInt8",
        ["1, 2, 1", "2, 1, 0", "1, 3, 0"],
        "1 3 0, 2 1 0",
    ),
    "summing": (
        "SummingMergeTree",
        "k UInt8, v Int64, w Int64",
        ["1, 2, 1", "1, 3, 1", "2, 5, 0", "2, -5, 0"],
        "1 5 2",
    ),
    "aggregating": (
        "AggregatingMergeTree",
        "k UInt8, m SimpleAggregateFunction(max, UInt8), s SimpleAggregateFunction(sum, UInt64)",
        ["1, 4, 1", "1, 9, 1", "1, 2, 5"],
        "1 9 7",
    ),
    "collapsing": (
        "CollapsingMergeTree(sign)",
        "k UInt8, v UInt8, sign Int8",
        ["1, 1, 1", "1, 1, -1", "1, 2, 1"],
        "1 2 1",
    ),
    "versioned": (
        "VersionedCollapsingMergeTree(sign, v)",
        "k UInt8, v UInt8, sign Int8",
        ["1, 2, -1", "1, 1, 1", "1, 2, 1"],
        "1 1 1",
    ),
}
"""The engine, columns, what is inserted, and what is left of it."""


def _rows(server: WorkerServer, query: str) -> set[str]:
    return {", ".join(" ".join(map(str, row)) for row in answer) for answer in (server.run(query) for _ in range(6))}


@pytest.mark.parametrize("name", one_in(6, ENGINES))
@pytest.mark.long
def test_every_worker_reads_what_a_merge_would_leave(server: WorkerServer, name: str) -> None:
    engine, columns, inserts, left = ENGINES[name]
    server.execute(f"CREATE TABLE {name} ({columns}) ENGINE = {engine} ORDER BY k")
    server.execute(f"SYSTEM STOP MERGES {name}")
    for values in inserts:
        server.execute(f"INSERT INTO {name} VALUES ({values})")
    assert _rows(server, f"SELECT * FROM {name} FINAL ORDER BY k") == {left}
    assert _rows(server, f"SELECT count() FROM {name}") == {str(len(inserts))}
    assert _rows(server, f"SELECT * FROM {name} ORDER BY k SETTINGS final = 1") == {left}
    server.execute(f"SYSTEM START MERGES {name}")
    server.execute(f"OPTIMIZE TABLE {name} FINAL")
    assert _rows(server, f"SELECT * FROM {name} ORDER BY k") == {left}
    assert _rows(server, f"SELECT count() FROM {name}") == {str(len(left.split(", ")))}


FITTING = {
    "max_rows_to_read = 10": "k = 4",
    "max_result_rows = 10": "k = 4",
    "max_partitions_to_read = 1": "k IN (2, 4)",
    "force_primary_key = 1": "k = 4",
}
"""What may be read under a limit."""


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("max_rows_to_read = 10", 158),
        ("max_bytes_to_read = 10", 307),
        ("max_result_rows = 10", 396),
        ("max_columns_to_read = 1", 161),
        ("max_partitions_to_read = 1", 565),
        ("force_primary_key = 1", 277),
    ],
)
def test_every_worker_keeps_limits_on_reading(server: WorkerServer, limit: str, code: int) -> None:
    server.execute(
        "CREATE TABLE IF NOT EXISTS read (k UInt64, v UInt64) ENGINE = MergeTree ORDER BY k PARTITION BY k % 2"
        " SETTINGS index_granularity = 8"
    )
    if server.value("SELECT count() FROM read") == 0:
        server.execute("INSERT INTO read SELECT number, number FROM numbers(1000)")
    for _ in range(4):
        with pytest.raises(PandoError) as caught:
            server.run(f"SELECT k, v + 1 FROM read SETTINGS {limit}")
        assert caught.value.code == code
    if limit in FITTING:
        assert server.run(f"SELECT v FROM read WHERE {FITTING[limit]} SETTINGS {limit}")


def test_what_overflows_may_break_off_in_every_worker(server: WorkerServer) -> None:
    server.execute("CREATE TABLE broken (k UInt64) ENGINE = MergeTree ORDER BY k SETTINGS index_granularity = 8")
    server.execute("INSERT INTO broken SELECT number FROM numbers(300000)")
    query = "SELECT max(k) < 299999 FROM broken SETTINGS max_rows_to_read = 1000, read_overflow_mode = 'break'"
    assert server.everywhere(query, 4) == {"[[1]]"}
