"""Strings in long runs go to DuckDB as dictionaries, and mean the same there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parts.merge.part_merge import merge_parts
from parts.read.part_reader import open_part
from sql.pruning.pruned_parts import PrunedPart
from sql.run.query_engine import QueryEngine
from sql.run.scans.repeated_strings import has_long_runs, is_repeated
from tests.portions import one_in
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation
from tests.sql.run.part_tables import PartTable, describe

ROWS = 200_000


@pytest.fixture(scope="module", params=["inserted", "merged"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PartTable:
    """``s`` and ``n`` in runs, ``r`` not."""
    table = describe("s String, n Nullable(String), r String, a UInt32", "s", granularity=8192)
    numbers = np.arange(ROWS)
    texts = pa.array([f"text {number // 10_000:04}" for number in numbers])
    empty = pa.array(numbers // 10_000 % 3 == 0)
    block = pa.table(
        {
            "s": texts,
            "n": pa.compute.if_else(empty, pa.scalar(None, pa.string()), texts),
            "r": pa.array([f"{number * 7919 % 100_003}" for number in numbers]),
            "a": pa.array(numbers, pa.uint32()),
        }
    )
    block = block.cast(table.description.schema.arrow)
    if request.param == "merged":
        table.insert(tmp_path_factory.mktemp("parts"), block.slice(0, ROWS // 2))
        table.insert(tmp_path_factory.mktemp("parts"), block.slice(ROWS // 2))
        directory = tmp_path_factory.mktemp("merged") / "all_1_2_1"
        merge_parts(table.parts, directory, table.description)
        table.parts[:] = [open_part(directory)]
    else:
        table.insert(tmp_path_factory.mktemp("parts"), block)
    return table


def test_sizes_tell(table: PartTable) -> None:
    parts = [PrunedPart(part) for part in table.parts]
    assert [has_long_runs(name, parts) for name in ("s", "n", "r", "nowhere")] == [True, True, False, False]
    repeated = [is_repeated(name, parts) for name in ("s", "n", "r", "a", "nowhere")]
    assert repeated == [True, True, False, False, False]
    assert not has_long_runs("s", [])


@pytest.mark.parametrize(
    "query",
    one_in(
        3,
        [
            "SELECT count(), uniqExact(s), uniqExact(n), sum(a) FROM t",
            "SELECT s, n, count(), sum(a) FROM t GROUP BY s, n ORDER BY s, n",
            "SELECT n, uniqExact(r) FROM t GROUP BY n ORDER BY n",
            "SELECT count() FROM t WHERE s LIKE '%1_' OR n IS NULL",
            "SELECT min(s), max(concat(s, r)), max(upper(n)) FROM t WHERE s != 'text 0003' AND r = '13'",
            "SELECT s, r, a FROM t WHERE a % 9973 = 3 ORDER BY a",
            "SELECT count() FROM t AS x JOIN (SELECT DISTINCT s, length(s) AS l FROM t) AS y ON x.s = y.s WHERE l = 9",
            "SELECT arrayJoin([s, n]) AS e, count() FROM t GROUP BY e ORDER BY e",
            "SELECT s, row_number() OVER (PARTITION BY s ORDER BY a) AS i FROM t WHERE a % 5000 < 2 ORDER BY s, i",
        ],
    ),
)
@pytest.mark.long
def test_answers(table: PartTable, query: str) -> None:
    block = pa.Table.from_batches([batch for part in table.parts for batch in part.read(["s", "n", "r", "a"])])
    plain = MemoryCatalog({"t": MemoryRelation(table.description.schema, block)})
    expected = QueryEngine().select(query, catalog=plain).read_all()
    assert QueryEngine().select(query, catalog=MemoryCatalog({"t": table})).read_all() == expected
