"""``indexHint`` says which granules are read, and nothing of their rows."""

from __future__ import annotations

import pytest

from tests.portions import one_in
from tests.reading.conftest import Pair


@pytest.mark.parametrize(
    "condition",
    one_in(
        3,
        [
            "indexHint(k = 5)",
            "indexHint(k = 5) AND d = '2024-01-01'",
            "indexHint(k = 5 AND d = '2024-02-01')",
            "indexHint(toYYYYMM(d) = 202402) AND k < 3",
            "indexHint(k = 5) AND indexHint(k < 50)",
            "indexHint(k = 5) AND k = 5",
            "indexHint(k IN (5, 55)) AND v > 4",
            "indexHint(v = 20)",
            "indexHint(v + k = 20)",
            "NOT indexHint(k = 5)",
            "indexHint(k = 5) OR v = 8",
        ],
    ),
)
def test_the_same_rows(pair: Pair, condition: str) -> None:
    pair.run(
        "CREATE TABLE h (k UInt64, d Date, v UInt64, INDEX i v TYPE minmax GRANULARITY 1) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(d) ORDER BY k SETTINGS index_granularity = 10",
        "INSERT INTO h SELECT number, '2024-01-01', number * 2 FROM numbers(100)",
        "INSERT INTO h SELECT number, '2024-02-01', number * 2 FROM numbers(100)",
    )
    assert pair.same_table(f"SELECT k, d FROM h WHERE {condition} ORDER BY k, d")
