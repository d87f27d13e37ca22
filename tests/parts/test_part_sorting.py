"""The sorting order is ClickHouse's, stable, for every type a key may have."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.blocks.sort_order import compute_sort_permutation
from parts.common.errors import UserError
from parts.types import parse_type
from tests.parts.generated import SCALAR_TYPES, arrow_array, values_of
from tests.portions import one_in

KEY_TYPES = [
    *SCALAR_TYPES, "Nullable(Int32)", "Nullable(Float64)", "Nullable(UInt64)", "Nullable(Decimal(20, 3))",
    "LowCardinality(String)", "LowCardinality(Nullable(String))", "LowCardinality(Int64)", "Tuple(Int32, String)",
    "Tuple(a Nullable(Int64), b Float32)",
]  # fmt: skip


def rank(value: Any) -> Any:
    """A Python value that compares as ClickHouse compares."""
    if isinstance(value, dict):
        return tuple(rank(element) for element in value.values())
    if value is None:
        return (2, 0)
    if isinstance(value, float):
        return (1, 0) if math.isnan(value) else (0, value)
    return (0, value.encode() if isinstance(value, str) else value)


def expected_order(columns: list[list[Any]]) -> list[int]:
    rows = len(columns[0])
    return sorted(range(rows), key=lambda row: tuple(rank(column[row]) for column in columns))


def check(columns: list[list[Any]], types: list[str]) -> None:
    arrays = [pa.chunked_array([arrow_array(v, parse_type(t))]) for v, t in zip(columns, types, strict=True)]
    order = compute_sort_permutation(arrays, len(columns[0]))
    actual = list(range(len(columns[0]))) if order is None else order.tolist()
    assert actual == expected_order(columns)


@pytest.mark.parametrize("type_", one_in(3, KEY_TYPES))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_one_column(type_: str, data: st.DataObject) -> None:
    check([data.draw(st.lists(values_of(parse_type(type_)), min_size=1, max_size=30))], [type_])


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_several_columns(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(KEY_TYPES), min_size=2, max_size=4))
    row = st.tuples(*(values_of(parse_type(t)) for t in types))
    pool = data.draw(st.lists(row, min_size=1, max_size=5))  # repeats, so that later columns and stability matter
    rows = data.draw(st.lists(st.sampled_from(pool) | row, min_size=1, max_size=30))
    check([list(column) for column in zip(*rows, strict=True)], types)


@pytest.mark.parametrize("distinct", [10, 10**9])
def test_many_texts(distinct: int) -> None:
    generator = np.random.default_rng(distinct)
    values = [f"key {n}" for n in generator.integers(0, distinct, 10_000)]
    check([values], ["String"])
    check([[None if n.endswith("7") else n for n in values], list(range(10_000))], ["Nullable(String)", "Int64"])


def test_sorted_rows_are_left_alone() -> None:
    keys = [pa.chunked_array([[1, 1, 2]]), pa.chunked_array([["a", "b", "a"]])]
    assert compute_sort_permutation(keys, 3) is None


@pytest.mark.parametrize("distinct", one_in(3, [2, 1 << 16, (1 << 16) + 1, 1 << 40]))
@pytest.mark.parametrize("last", ["rising", "even", "falling"])
def test_one_word_keys(distinct: int, last: str) -> None:
    generator = np.random.default_rng(distinct)
    first = [0, distinct - 1, *generator.integers(0, distinct, 70_000).tolist()]
    second = {"rising": range(len(first)), "even": [7] * len(first), "falling": range(len(first), 0, -1)}[last]
    check([first, list(second)], ["Int64", "UInt32"])


def test_wide_keys_use_the_lexicographic_sort() -> None:
    generator = np.random.default_rng(3)
    columns = [generator.choice([-(2**63), 0, 2**63 - 1], 5000).tolist() for _ in range(3)]
    check(columns, ["Int64"] * 3)


def test_arrays_in_keys_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        compute_sort_permutation([pa.chunked_array([[[1], [0]]])], 2)
    assert caught.value.code == 48


def test_order_of_ties_is_kept_over_chunks() -> None:
    keys = [pa.chunked_array([pa.array([1, 0] * 50), pa.array([0, 1] * 50)])]
    order = compute_sort_permutation(keys, 200)
    assert order is not None
    values = keys[0].to_numpy()
    key = functools.partial(lambda v, i: (v[i], i), values)
    assert order.tolist() == sorted(range(200), key=key)


@pytest.mark.parametrize("alike", [0, 100, 2_000, 9_000])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_keys_of_more_bits_than_a_word(alike: int, words: int) -> None:
    """Rows whose first bits are equal, but not the last ones, or not even those."""
    generator = np.random.default_rng(alike)
    first = generator.integers(0, 1 << 63, 10_000, dtype=np.uint64)
    first[:alike] = np.uint64(1 << 62) + generator.integers(0, 5, alike, dtype=np.uint64)
    columns = [generator.permutation(first), *(generator.integers(0, 1 << 62, 10_000) for _ in range(words - 1))]
    check([column.tolist() for column in columns], ["UInt64", *["Int64"] * (words - 1)])


@pytest.mark.parametrize("runs", [3, 500])
def test_sorted_runs(runs: int) -> None:
    generator = np.random.default_rng(runs)
    check([np.sort(generator.integers(0, 1 << 63, (runs, 10_000 // runs)), axis=1).ravel().tolist()], ["Int64"])


def test_texts_that_come_back_late() -> None:
    """The first few thousand differ, and then they are repeated."""
    values = [f"value {number % 5000}" for number in range(150_000)]
    check([values, list(range(150_000))], ["String", "Int64"])
