"""SAMPLE and its OFFSET choose the rows that ClickHouse chooses, however they are written, or are refused as there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from parts.common.errors import UserError
from sql.run.query_engine import QueryEngine
from tests.sql.run.dataset import Engines, MemoryCatalog
from tests.sql.run.part_tables import describe


@pytest.fixture(scope="module")
def sampled(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryCatalog]:
    engines.session.query("CREATE TABLE sampled (x UInt8, y UInt32) ENGINE = MergeTree ORDER BY x SAMPLE BY x")
    engines.session.query("INSERT INTO sampled SELECT number % 256, number FROM numbers(2560)")
    numbers = np.arange(2560, dtype=np.uint32)
    table = describe("x UInt8, y UInt32", "x", "", "x", granularity=64)
    table.insert(
        tmp_path_factory.mktemp("sampled"), pa.table({"x": (numbers % 256).astype(np.uint8), "y": pa.array(numbers)})
    )
    yield MemoryCatalog({"sampled": table})
    engines.session.query("DROP TABLE sampled")


@pytest.mark.parametrize(
    "sample",
    [
        "1/1e1", "1e1/1e2", "0.1", "1.", "1", "0", "0.0", "1 / 10", "10/1", "1e-1", "0/1", "1_0/100", "1__0/100", "100",
        "100/1", "1/1e-1", "1.5/3", "1/3e0", "010/100", "1e+1/1e+2", "1/1.5", "0.5e0/.5e1", "2560", "2561", "1.0001",
        "1e19", "1e60", "1e1000000", "1e99999999999", "1e-400", "1/18446744073709551616", "0.1234567890123456789",
        "1E1/1E2", "0.5 OFFSET 0.5", "0.5 OFFSET 1/2", "0.5 OFFSET 1e0/2e0", "0.5 OFFSET 0.7", "0.5 OFFSET 2",
        "1/3 OFFSET 1/3", "100 OFFSET 100", "0.1 OFFSET 100", "100 OFFSET 0.5", "0.5 OFFSET 1", "0.5 OFFSET 0",
        "0.5 OFFSET 5000", "0.5 OFFSET 1.5", "2 OFFSET 1.5", "1e-1 OFFSET 1e-1", "2000 OFFSET 1000", "1/256", "1/257",
        "2000 OFFSET 0.99", "1/.5", "0 OFFSET 0",
    ],
)  # fmt: skip
def test_sample(engines: Engines, sampled: MemoryCatalog, sample: str) -> None:
    query = f"SELECT count(), sum(x), sum(y) FROM sampled SAMPLE {sample}"
    _, _, rows = engines.clickhouse(query)
    table = QueryEngine().select(query, catalog=sampled).read_all()
    assert [[str(cell) for cell in row.values()] for row in table.to_pylist()] == rows


@pytest.mark.parametrize(
    "sample",
    [
        ".1", "0x1/0x10", "0x10", "0x1p-1", "1/0", "1/0e5", "-1", "'0.1'", "1/10/10", "(1/10)", "0.1e", "inf", "nan",
        "0b11/0b100", "1/-2", "0.5 OFFSET .5", "0 OFFSET 0.5", "1 OFFSET 0.5", "1 OFFSET 1", "5000 OFFSET 10", "1/",
        "", "0.5 OFFSET", "0.5 OFFSET 1/0",
    ],
)  # fmt: skip
def test_refused_sample(engines: Engines, sampled: MemoryCatalog, sample: str) -> None:
    query = f"SELECT count() FROM sampled SAMPLE {sample}"
    with pytest.raises(Exception, match=r"Code: \d+") as oracle:
        engines.clickhouse(query)
    with pytest.raises(UserError) as failure:
        QueryEngine().select(query, catalog=sampled)
    code = re.search(r"Code: (\d+)", str(oracle.value))
    assert code is not None
    assert failure.value.code == int(code[1])
