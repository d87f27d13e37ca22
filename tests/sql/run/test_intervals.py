"""Bisection finds the granules and the rows that looking at all of them finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.read.batch_plan import (
    RowRange,
)
from parts.read.frame_cache import FrameCache
from sql.pruning.index_analysis import prune_granules
from sql.pruning.key_intervals import find_key_interval
from sql.run.condition_analysis import analyse_condition
from tests.sql.run.part_tables import PartTable, describe

_TYPES = {"Int8": -128, "UInt8": 0, "Int32": -20, "UInt64": 0, "Date": 18_000, "DateTime": 0}
_OPERATORS = ("=", "<", "<=", ">", ">=")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PartTable]:
    """For each type keys with repetitions, and gaps, in granules of 4 rows."""
    result = {}
    for number, (name, least) in enumerate(_TYPES.items()):
        table = describe(f"k {name}, v Int32", "(k, v)", granularity=4)
        rng = np.random.default_rng(number)
        keys = pa.array(np.sort(rng.integers(0, 40, 90) // 3 * 3) + least)
        given = table.description.schema.arrow
        for rows in (90, 1, 17):
            kind = pa.int32() if name == "Date" else pa.int64()
            block = {"k": keys.slice(0, rows).cast(kind).cast(given.field("k").type), "v": pa.array(range(rows))}
            table.insert(tmp_path_factory.mktemp("parts"), pa.table(block).cast(given))
        result[name] = table
    return result


def _literal(name: str, number: int) -> str:
    return f"{name}({number})" if name in ("Date", "DateTime") else str(number)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(_TYPES)),
    st.lists(st.tuples(st.sampled_from(_OPERATORS), st.integers(-3, 45)), min_size=1, max_size=3),
)
def test_the_same_granules_and_rows(tables: dict[str, PartTable], name: str, terms: list[tuple[str, int]]) -> None:
    table = tables[name]
    texts = [f"k {operator} to{_literal(name, number + _TYPES[name])}" for operator, number in terms]
    if name not in ("Date", "DateTime"):
        texts = [text.replace(" to", " ") for text in texts]
    analysis = analyse_condition(" AND ".join(texts), table.description)
    if analysis.interval is None:  # a number that is no value of the type
        assert any(not _is_value(name, number + _TYPES[name]) for _, number in terms)
        return
    for part in table.parts:
        known = analysis.row_filter
        assert known is not None
        assert known.interval is not None
        looked = prune_granules(part, analysis.sorting, analysis.primary)
        found = prune_granules(part, analysis.sorting, analysis.primary, analysis.interval)
        looked_at = _rows(looked.all_ranges) if looked else []
        chosen = _rows(found.all_ranges) if found else []
        if len(terms) == 1:
            assert chosen == looked_at
        assert set(chosen) <= set(looked_at)  # several ends may leave nothing between them
        rows, is_sure = known.matching(part, looked.all_ranges) if looked else (np.empty(0, np.int64), True)
        assert is_sure
        if found is None:
            assert not len(rows)
            continue
        assert looked is not None
        assert set(_rows(found.uncertain_ranges)) == set(_rows(looked.uncertain_ranges)) & set(chosen)
        runs = known.find_row_runs(part, found.all_ranges, known.interval)
        assert runs is not None
        assert [row for run in runs for row in range(run.begin, run.end)] == rows.tolist()


def _rows(ranges: object) -> list[int]:
    return [granule for item in ranges for granule in range(item.begin, item.end)]  # type: ignore[attr-defined]


def _is_value(name: str, number: int) -> bool:
    limits = {"Int8": (-128, 127), "UInt8": (0, 255), "Int32": (-(2**31), 2**31), "UInt64": (0, 2**64)}
    low, high = limits.get(name, (0, 2**32))
    return low <= number <= high


@pytest.mark.parametrize("where", ["k != 3", "k = 3 OR k = 5", "v = 3", "k = 3 AND v = 4", "k IN (1, 2)", "NOT k = 3"])
def test_other_conditions_are_no_interval(tables: dict[str, PartTable], where: str) -> None:
    assert find_key_interval(analyse_condition(where, tables["Int32"].description).primary) is None


def test_frames_are_kept_within_bounds_and_let_go_with_their_part() -> None:
    cache = FrameCache(most_bytes=1000)
    first, second = cache.add_owner(), cache.add_owner()
    for offset in range(5):
        cache.add((first, 0, offset), pa.array([0] * 30, pa.int64()))
    assert cache.held_bytes == 960
    assert cache.find((first, 0, 0)) is None
    cache.add((second, 0, 0), pa.array([1], pa.int64()))
    cache.drop_owner(first)
    assert cache.find((second, 0, 0)) is not None
    assert (cache.find((first, 0, 4)), cache.held_bytes) == (None, 8)
    cache.add((second, 1, 0), pa.array([0] * 130, pa.int64()))  # larger than all
    assert cache.held_bytes == 8


def test_a_large_frame_is_not_kept(tmp_path: Path) -> None:
    table = describe("k Int32, s String", "k", granularity=4)
    block = pa.table({"k": [1, 2], "s": ["x" * (5 << 20), "y"]})
    table.insert(tmp_path, block.cast(table.description.schema.arrow))
    (part,) = table.parts
    assert part.count_undecoded_bytes(["s"], RowRange(1, 2)) > 5 << 20
    found = part.read_row_range(["s"], RowRange(1, 2))
    assert found is not None
    assert found[0].to_pylist() == ["y"]
    assert part.count_undecoded_bytes(["s"], RowRange(1, 2)) > 5 << 20
    assert part.read_row_range(["k"], RowRange(1, 2)) == [pa.array([2], pa.int32())]
    assert part.count_undecoded_bytes(["k"], RowRange(0, 2)) == 0
