"""Rows gathered column by column are the rows that Arrow's own ``take`` gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parts.write.block_preparation import take_rows
from tests.portions import one_in

ROWS = 25_000


def _texts(length: int) -> list[str]:
    return [f"{row:0{length}}"[-length:] if length else "" for row in range(ROWS)]


COLUMNS: dict[str, pa.Array] = {
    **{f"even {length}": pa.array(_texts(length), pa.string()) for length in (0, 1, 2, 3, 4, 5, 8)},
    "uneven": pa.array([str(row) for row in range(ROWS)]),
    "even on average": pa.array(["abc" if row % 2 else "d" for row in range(ROWS)]),
    "two bytes": pa.array(["é", "ab"] * (ROWS // 2)),
    "nulls": pa.array([None if row % 3 == 0 else "ab" for row in range(ROWS)], pa.string()),
    "dictionary": pa.array([f"{row % 7}" for row in range(ROWS)]).dictionary_encode(),
    "decimal": pa.array(range(ROWS), pa.decimal128(20, 2)),
    "bool": pa.array([row % 2 == 0 for row in range(ROWS)]),
    "list": pa.array([[row] * (row % 3) for row in range(ROWS)]),
}


@pytest.mark.parametrize("name", one_in(3, COLUMNS))
@pytest.mark.parametrize("layout", ["whole", "slice", "chunks"])
def test_rows_are_those_of_take(name: str, layout: str) -> None:
    array = COLUMNS[name]
    chunks = {"whole": [array], "slice": [array[13:-7]], "chunks": [array[:9000], array[9000:]]}[layout]
    block = pa.table({"column": pa.chunked_array(chunks)})
    rows = np.random.default_rng(5).permutation(block.num_rows)
    taken = take_rows(block, rows).column("column")
    taken.validate(full=True)
    assert taken.to_pylist() == block.column("column").take(pa.array(rows)).to_pylist()
