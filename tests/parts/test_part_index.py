"""The data that pruning relies on: index keys and min/max against brute force."""

from __future__ import annotations

import pathlib
import tempfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.format.primary_index import MarkRange, normalize_mark_ranges
from parts.read.part_reader import open_part
from parts.write.block_preparation import (
    sort_block,
)
from parts.write.part_writer import (
    write_part,
)
from tests.parts.generated import blocks, description_of, plain

NO_SYNC = {"fsync_after_insert": False, "fsync_part_directory": False}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.long
def test_index_holds_first_keys_and_last(data: st.DataObject) -> None:
    columns = [("a", "LowCardinality(String)"), ("b", "Nullable(Int32)"), ("c", "Decimal(9, 2)"), ("v", "Int64")]
    order_by = data.draw(st.permutations(["a", "b", "c"]))[: data.draw(st.integers(1, 3))]
    description = description_of(columns, tuple(order_by), **NO_SYNC)
    block = sort_block(data.draw(blocks(description)), description)
    with tempfile.TemporaryDirectory() as directory:
        write_part(pathlib.Path(directory), block, description, ())
        index = open_part(pathlib.Path(directory)).primary_index
    rows = block.num_rows
    starts = [*range(0, rows, 4), rows - 1] if rows else []
    assert index.expressions == tuple(order_by)
    for name, keys in zip(order_by, index.keys, strict=True):
        values = plain(block).column(name).to_pylist()
        assert keys.to_pylist() == [values[row] for row in starts]
    assert sum(index.granule_rows(i) for i in range(index.marks)) == rows


@pytest.mark.parametrize(
    "type_", ["Int64", "Nullable(Float64)", "LowCardinality(Nullable(String))", "Date", "UUID", "Bool", "DateTime64(9)"]
)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_minmax(type_: str, data: st.DataObject) -> None:
    description = description_of([("p", type_)], (), ("p",), **NO_SYNC)
    block = data.draw(blocks(description))
    if not block.num_rows:
        return
    values = [v for v in plain(block).column("p").to_pylist() if v is not None and v == v]
    with tempfile.TemporaryDirectory() as directory:
        key = [array.slice(0, 1) for array in description.partition_key.evaluate(block)]
        write_part(pathlib.Path(directory), block, description, [plain(pa.table({"p": key[0]})).column(0)[0]])
        part = open_part(pathlib.Path(directory))
    assert part.minmax["p"] == ((min(values), max(values)) if values else (None, None))


def test_ranges_are_normalised() -> None:
    ranges = [MarkRange(5, 6), MarkRange(0, 2), MarkRange(1, 3), MarkRange(6, 60), MarkRange(4, 4), MarkRange(70, 80)]
    assert normalize_mark_ranges(ranges, 10) == [MarkRange(0, 3), MarkRange(5, 10)]
    assert normalize_mark_ranges(None, 3) == [MarkRange(0, 3)]
    assert normalize_mark_ranges(None, 0) == []
