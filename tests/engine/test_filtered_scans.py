"""Scans with a condition: the rows that a SELECT gives, whatever their part lacks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.scan.arrow_stream import read_batches
from engine.scan.scan_filter import compile_filter, select_granules
from engine.scan.slot_planning import select_stored_columns, sort_parts
from engine.scan.slot_query import SlotRows
from tests.engine.conftest import Local

ROWS = 30_000
CONDITIONS = [
    "k % 3 = 1",
    "s = 'x7'",
    "s IN ('x3', 'x4') AND price > 100",
    "added > 200 AND s <> 'x1'",
    "kind = 'even' OR k < 5000",
    "_part = 'all_1_1_0_2' OR k < 10",
    "_part_offset % 1000 = 999 AND s != 'x9'",
    "_partition_id = 'all' AND k BETWEEN 20000 AND 20100",
    "isNull(n) AND k > 100",
    "n = 77",
    "k > 40000",
    "rand() < 0",
    "intHash64(bitXor(bitXor(_part_offset, cityHash64(_part)), toUInt64(5))) < 1844674407370955161",
]


@pytest.fixture
def table(local: Local) -> str:
    """Two parts that lack columns and have deleted rows, and one that does not."""
    local.run("""
        CREATE TABLE t (k UInt32, s String, price Decimal(15, 2), n Nullable(Int32)) ENGINE = MergeTree ORDER BY k
        SETTINGS index_granularity = 1024, min_bytes_for_wide_part = 0
    """)
    values = "number, concat('x', toString(number % 10)), number / 7, if(number % 9 = 0, NULL, toInt32(number % 100))"
    local.run(f"INSERT INTO t SELECT {values} FROM numbers(20000)")
    local.run("DELETE FROM t WHERE k % 11 = 5 OR (k > 8000 AND k < 12000)")
    local.run(
        "ALTER TABLE t ADD COLUMN added UInt32 DEFAULT k * 2, ADD COLUMN kind String DEFAULT if(k % 2, 'odd', 'even')"
    )
    local.run(f"INSERT INTO t (k, s, price, n) SELECT {values} FROM numbers(20000, 10000)")
    return "t"


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("names", ["k", "s, price", "added, k", "kind, n, _part, _part_offset"])
def test_rows_are_those_of_a_query(local: Local, table: str, condition: str, names: str) -> None:
    expected = sorted(map(repr, local.run(f"SELECT {names} FROM {table} WHERE {condition}")))
    found = local.engine.catalog.table("default", table)
    description = found.description
    keep = compile_filter(condition, description, "UTC")
    columns = select_stored_columns(description.schema, names.split(", "))
    with found.snapshot() as snapshot:
        pieces = select_granules(sort_parts(snapshot.parts, description), description, condition, "UTC")
        for is_compact in (False, True):
            batches = list(read_batches(pieces, columns, keep, is_compact=is_compact))
            rows = [tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist()]
            assert sorted(map(repr, rows)) == expected
        counted = SlotRows(columns, pieces, keep)
        assert sum(block.num_rows for block in counted.blocks([])) == len(expected)
