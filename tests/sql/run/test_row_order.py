"""Values of expressions stand at the rows of which they were computed, also where DuckDB makes joins of them.

It does so of IN with five members or more, and a join over several batches gives its rows in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from sql.run.block_expressions import compile_expressions
from tests.alter.following import Pando

_SCHEMA = TableSchema((Column("a", parse_type("Int32")), Column("s", parse_type("FixedString(1)"))))
_SETS = ["a IN (0, 1, 2, 3, 4)", "a NOT IN (5, 6, 7, 8, 9)", "if(a IN (4, 3, 2, 1, 0), 'x', '') = 'x'", "a IN range(5)"]


@pytest.mark.parametrize("condition", [*_SETS, "s IN ('0', '1', '2', '3', '4')"])
def test_expressions_of_a_block_keep_its_order(condition: str) -> None:
    numbers = np.arange(200_000) % 9
    batches = [
        pa.record_batch({"a": pa.array(chunk, pa.int32()), "s": pa.array(list(map(str, chunk))).cast(pa.binary(1))})
        for chunk in np.array_split(numbers, 16)
    ]
    (compiled,) = compile_expressions([f"({condition}) = 1"], _SCHEMA)
    for _ in range(5):
        values = np.asarray(compiled.evaluate(pa.Table.from_batches(batches))).astype(bool)
        assert (values == (numbers < 5)).all()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Pando]:
    """400,000 rows with computed columns, of several blocks."""
    pando = Pando(tmp_path)
    pando.query(
        "CREATE TABLE t (k UInt32, a Int32, m UInt8 MATERIALIZED a IN (0, 1, 2, 3, 4), "
        "d UInt8 DEFAULT a IN (5, 6, 7, 8, 1), b Int64) ENGINE = MergeTree ORDER BY k PARTITION BY a IN (0, 2, 4, 6, 8)"
    )
    pando.query("INSERT INTO t (k, a, b) SELECT number, number % 9, 0 FROM numbers(400000)")
    yield pando
    pando.stop()


def test_computed_columns_and_partitions_fit_their_rows(table: Pando) -> None:
    wrong = "countIf(m != (a < 5)), countIf(d != (a >= 5 OR a = 1)), countIf(_partition_id != toString(a % 2 = 0))"
    assert table.query(f"SELECT {wrong} FROM t") == b"0\t0\t0\n"


def test_mutations_change_the_rows_that_they_name(table: Pando) -> None:
    table.query("ALTER TABLE t UPDATE b = k WHERE a IN (0, 1, 2, 3, 4) SETTINGS mutations_sync = 2")
    assert table.query("SELECT countIf(b != if(a < 5, k, 0)) FROM t") == b"0\n"
    table.query("ALTER TABLE t UPDATE b = if(a NOT IN (1, 2, 3, 4, 5), 1, 2) WHERE 1 SETTINGS mutations_sync = 2")
    assert table.query("SELECT countIf(b != if(a BETWEEN 1 AND 5, 2, 1)) FROM t") == b"0\n"
    table.query("ALTER TABLE t DELETE WHERE a NOT IN (5, 6, 7, 8, 9) SETTINGS mutations_sync = 2")
    assert table.query("SELECT count(), countIf(a < 5) FROM t") == b"177776\t0\n"


def test_mutations_may_name_an_alias_of_such_a_condition(table: Pando) -> None:
    table.query("ALTER TABLE t ADD COLUMN is_low UInt8 ALIAS a IN (0, 1, 2, 3, 4)")
    table.query("ALTER TABLE t UPDATE b = k WHERE is_low SETTINGS mutations_sync = 2")
    assert table.query("SELECT countIf(b != if(a < 5, k, 0)) FROM t") == b"0\n"
