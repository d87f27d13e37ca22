"""Batches without a row that passes the filters on columns outside the index are not decoded; no row is lost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sql.run.query_engine import QueryEngine
from tests.portions import one_in
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation
from tests.sql.run.part_tables import PartTable, describe

ROWS = 600_000
COLUMNS = (
    "k UInt32, later Date, n Nullable(Int32), s String, z Nullable(String), f Float64, m Decimal(9, 2), wide String"
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PartTable:
    """``later`` and ``s`` follow the key; the others do not."""
    table = describe(COLUMNS, "k", granularity=8192)
    numbers = np.arange(ROWS)
    rng = np.random.default_rng(7)
    block = pa.table(
        {
            "k": pa.array(numbers, pa.uint32()),
            "later": pa.array((numbers // 1000 + rng.integers(0, 30, ROWS)).astype(np.int32)).cast(pa.date32()),
            "n": pa.array(numbers // 100, pa.int32(), mask=rng.random(ROWS) < 0.3),
            "s": pa.array(np.where(numbers < 200_000, "early", "late")),
            "z": pa.array(np.where(numbers < 200_000, "early", "late"), mask=rng.random(ROWS) < 0.3),
            "f": pa.array(np.where(rng.random(ROWS) < 0.1, np.nan, numbers)),
            "m": pa.array(numbers).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
            "wide": pa.array([f"a rather long text of row {number}" for number in numbers]),
        }
    )
    table.insert(tmp_path_factory.mktemp("parts"), block.cast(table.description.schema.arrow))
    return table


@pytest.mark.parametrize(
    ("condition", "is_local"),
    one_in(
        3,
        [
            ("later >= '1970-01-11' AND later < '1970-02-01'", True),
            ("later = '1971-01-11'", True),
            ("later IN ('1970-01-02', '1970-01-05')", True),
            ("later IN ('1970-01-02', '1971-06-05')", True),
            ("later > '2000-01-01'", True),
            ("n < 100", True),
            ("NOT (n >= 100)", False),
            ("n IS NULL OR n = 3", False),
            ("n = 3 AND s = 'early'", True),
            ("s = 'early'", True),
            ("z = 'early'", True),
            ("s = 'nowhere'", True),
            ("z = 'late' AND later < '1970-01-03'", True),
            ("f < 100", False),
            ("m < 100", False),
            ("m = 12 AND later < '1970-03-01'", True),
            ("toYear(later) = 1971 AND k < 100", True),
            ("later >= '1970-01-11' AND k % 7 = 3 AND n < 200", True),
        ],
    ),
)
@pytest.mark.long
def test_answers(table: PartTable, condition: str, is_local: bool) -> None:
    query = f"SELECT count(), sum(k), max(wide), sum(m) FROM t WHERE {condition}"
    names = table.description.schema.arrow.names
    block = pa.Table.from_batches([batch for part in table.parts for batch in part.read(names)])
    plain = MemoryCatalog({"t": MemoryRelation(table.description.schema, block)})
    expected = QueryEngine().select(query, catalog=plain).read_all()
    result = QueryEngine().select(query, catalog=MemoryCatalog({"t": table}))
    assert result.read_all() == expected
    assert result.statistics.read_rows == ROWS or "k <" in condition
    assert (result.statistics.read_bytes < block.nbytes / 2) == is_local
