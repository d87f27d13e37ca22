"""A merge is the stable sort of the union, whatever the slicing, and writes the same bytes everywhere."""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.common.errors import CancelledError, CorruptionError
from parts.format.content_hash import hash_block
from parts.merge import Deduplicating, MergeProgress, merge_parts
from parts.merge.modes.replacing import Replacing
from parts.merge.part_merge import DENSE_ENCODING_MIN_BYTES
from parts.merge.source_reader import SourceReader
from parts.read.part_reader import Part, open_part
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.merge_mode import ORDINARY
from parts.table.row_exists_column import ROW_EXISTS_COLUMN
from parts.table.table_description import TableDescription, TableSchema
from parts.write.block_preparation import (
    sort_block,
)
from parts.write.part_writer import (
    write_part,
)
from tests.parts.generated import WIDE, block_of, blocks, description_of, plain, same_rows
from tests.portions import one_in

NO_SYNC = {"fsync_after_insert": False, "fsync_part_directory": False}


def write_sources(directory: str | pathlib.Path, tables: list[pa.Table], description: TableDescription) -> list[Part]:
    parts = []
    for number, table in enumerate(tables):
        path = pathlib.Path(directory) / f"all_{number}_{number}_0"
        write_part(path, sort_block(table, description), description, ())
        parts.append(open_part(path))
    return parts


def merged(parts: list[Part], target: pathlib.Path, description: TableDescription, **options: Any) -> Part:
    written = merge_parts(parts, target, description, **options)
    part = open_part(target)
    part.verify()
    assert part.content_hash == written.content_hash
    return part


def read(part: Part) -> pa.Table:
    return pa.Table.from_batches(list(part.read(list(part.schema.names))), part.schema.arrow)


def files_of(path: pathlib.Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


KEYS = [("a",), ("s", "a"), ("n", "s"), ("t", "a"), ("f",), ()]


@pytest.mark.parametrize("order_by", one_in(6, [(keys,) for keys in KEYS]))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_merge_is_the_stable_sort_of_the_union(order_by: tuple[str, ...], data: st.DataObject) -> None:
    columns = [("a", "Int8"), ("s", "LowCardinality(String)"), ("n", "Nullable(Int32)"), ("t", "Tuple(Bool, String)"),
               ("f", "Float64"), ("v", "Array(String)")]  # fmt: skip
    wide = WIDE if data.draw(st.booleans()) else {}
    description = description_of(columns, order_by, **NO_SYNC, **wide)
    tables = data.draw(st.lists(blocks(description, 25), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as directory:
        parts = write_sources(directory, tables, description)
        union = pa.concat_tables([plain(sort_block(table, description)) for table in tables])
        expected = sort_block(union, description)
        results = []
        for target in (None, data.draw(st.integers(1, 40))):
            path = pathlib.Path(directory) / f"merge{target}"
            part = merged(parts, path, description, target_slice_rows=target)
            assert same_rows(read(part), expected)
            results.append(files_of(path))
        assert results[0] == results[1]
        # In one go or in steps: the rows are the same.
        first = pathlib.Path(directory) / "step"
        both = merged(parts[:2], first, description)
        stepped = merged([both, *parts[2:]], pathlib.Path(directory) / "two", description)
        assert stepped.content_hash == open_part(pathlib.Path(directory) / "mergeNone").content_hash


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_deduplicate(data: st.DataObject) -> None:
    columns = [("k", "Int8"), ("f", "Float32"), ("s", "LowCardinality(Nullable(String))"),
               ("l", "Array(Nullable(Int8))"),
               ("m", "Map(String, Int8)"), ("t", "Tuple(Bool, Decimal(9, 2))")]  # fmt: skip
    order_by = data.draw(st.sampled_from([(), ("k",), ("k", "s")]))
    by = data.draw(st.sampled_from([(), ("k", "s"), ("k", "s", "l")]))
    description = description_of(columns, order_by, **NO_SYNC)
    pool = data.draw(blocks(description, 6))
    picks = st.lists(st.integers(0, max(pool.num_rows - 1, 0)), max_size=10 if pool.num_rows else 0)
    tables = [pool.take(pa.array(data.draw(picks), pa.int64())) for _ in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        parts = write_sources(directory, tables, description)
        ordered = plain(sort_block(pa.concat_tables([read(part) for part in parts]), description))
        seen: set[str] = set()
        keep = []
        for row in range(ordered.num_rows):
            one = ordered.slice(row, 1)
            text = hash_block(one.select(list(by)) if by else one)
            keep.append(text not in seen)
            seen.add(text)
        target = data.draw(st.sampled_from([None, 3]))
        path = pathlib.Path(directory) / "m"
        part = merged(parts, path, description, mode=Deduplicating(ORDINARY, by), target_slice_rows=target)
        assert same_rows(read(part), ordered.filter(pa.array(keep, pa.bool_())))


def test_large_merge_in_many_slices(tmp_path: pathlib.Path) -> None:
    description = description_of(
        [("k", "UInt32"), ("s", "String"), ("c", "LowCardinality(String)")],
        ("k", "s"),
        index_granularity=512,
        **WIDE,
        **NO_SYNC,
    )
    tables = []
    for source in range(5):
        numbers = [(i * 7919 + source * 13) % 20_000 for i in range(30_000)]
        columns = [numbers, [f"s{n % 10}" for n in numbers], [f"c{n % 3}" for n in numbers]]
        tables.append(block_of(description, list(zip(*columns, strict=True))))
    parts = write_sources(tmp_path, tables, description)
    seen: list[MergeProgress] = []
    small = merged(parts, tmp_path / "a", description, target_slice_rows=7_000, on_progress=seen.append)
    large = merged(parts, tmp_path / "b", description)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert small.rows == large.rows == 150_000
    assert len(seen) > 10
    assert (seen[-1].rows_read, seen[-1].fraction) == (150_000, 1.0)
    assert [p.rows_read for p in seen] == sorted(p.rows_read for p in seen)


def test_one_heavy_key(tmp_path: pathlib.Path) -> None:
    """A key with more rows than a slice may have is still in one place, in order of the sources."""
    description = description_of([("k", "UInt8"), ("v", "UInt32")], ("k",), **NO_SYNC)
    tables = [block_of(description, [(1 if i > 20 else 0, s * 1000 + i) for i in range(200)]) for s in range(3)]
    parts = write_sources(tmp_path, tables, description)
    part = merged(parts, tmp_path / "m", description, target_slice_rows=10)
    expected = sort_block(pa.concat_tables(tables), description)
    assert same_rows(read(part), expected)


def test_cancelled_merge_leaves_nothing(tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "UInt32")], ("k",), **NO_SYNC)
    parts = write_sources(tmp_path, [block_of(description, [(i,) for i in range(500)]) for _ in range(3)], description)
    calls = iter(range(1000))
    with pytest.raises(CancelledError):
        merge_parts(parts, tmp_path / "m", description, is_cancelled=lambda: next(calls) > 6, target_slice_rows=50)
    assert not (tmp_path / "m").exists()


def test_corrupt_source_stops_the_merge(tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "UInt32"), ("v", "String")], ("k",), **WIDE, **NO_SYNC)
    table = block_of(description, [(i, f"v{i}") for i in range(100)])
    parts = write_sources(tmp_path, [table, table], description)
    damaged = parts[1].path / "v.bin"
    content = bytearray(damaged.read_bytes())
    content[-9] ^= 4
    damaged.write_bytes(content)
    with pytest.raises(CorruptionError) as caught:
        merge_parts(parts, tmp_path / "m", description)
    assert (caught.value.part, caught.value.file) == ("all_1_1_0", "v.bin")
    assert not (tmp_path / "m").exists()


def test_merge_fills_an_added_column(tmp_path: pathlib.Path) -> None:
    old = description_of([("k", "UInt32")], ("k",), **NO_SYNC)
    new = description_of([("k", "UInt32"), ("s", "LowCardinality(String)")], ("k",), **NO_SYNC)
    write_sources(tmp_path, [block_of(old, [(2,), (1,)])], old)
    write_part(tmp_path / "all_1_1_0", block_of(new, [(0, "x"), (9, "y")]), new, ())
    parts = [open_part(tmp_path / f"all_{i}_{i}_0", table_schema=new.schema) for i in range(2)]
    part = merged(parts, tmp_path / "m", new)
    assert plain(read(part)).to_pylist() == [{"k": k, "s": s} for k, s in ((0, "x"), (1, ""), (2, ""), (9, "y"))]


@pytest.mark.long
def test_large_parts_are_stored_densely(tmp_path: pathlib.Path) -> None:
    """Columns of the default codec alone, and the same bytes whatever the slicing."""
    columns = [("k", "UInt64"), ("price", "Float64"), ("kept", "UInt64", "LZ4")]
    description = description_of(columns, ("k",), **NO_SYNC)
    rows = DENSE_ENCODING_MIN_BYTES // (3 * 8 * 2) + 1
    parts = []
    for number in range(2):
        random = np.random.default_rng(number)
        keys = np.sort(random.integers(0, 1 << 32, rows, dtype=np.uint64))
        arrays = [pa.array(keys), pa.array(random.integers(0, 10**5, rows) / 100), pa.array(keys)]
        parts += write_sources(tmp_path / str(number), [pa.table(arrays, description.schema.stored.arrow)], description)
    one = merged(parts, tmp_path / "one", description)
    other = merged(parts, tmp_path / "other", description, target_slice_rows=300_000)
    assert files_of(one.path) == files_of(other.path)
    assert [part.checksums.version for part in (*parts, one)] == [(1, 0), (1, 0), (2, 0)]
    before, after = parts[0].column_sizes(), one.column_sizes()
    assert after["k"][0] < 0.8 * 2 * before["k"][0]
    assert after["price"][0] < 0.6 * 2 * before["price"][0]
    assert after["kept"][0] == pytest.approx(2 * before["kept"][0], rel=0.01)
    again = merged([one], tmp_path / "again", description, target_slice_rows=300_000)
    assert again.content_hash == one.content_hash
    small = merged(parts[:1], tmp_path / "small", description)
    assert small.checksums.version == (1, 0)


def test_rows_of_a_source_come_in_any_slices(tmp_path: pathlib.Path) -> None:
    """In their order, with gaps, again, and when nothing may be kept."""
    description = description_of([("k", "Int64"), ("s", "String")], ("k",), index_granularity=16, **NO_SYNC)
    (part,) = write_sources(tmp_path, [block_of(description, [(i, f"s{i}") for i in range(1000)])], description)
    for sources in (1, 10**9):
        rows = SourceReader(part, ["k", "s"], sources)
        for begin, end in ((0, 3), (3, 100), (100, 101), (300, 700), (650, 651), (0, 1000), (999, 1000)):
            table = rows.read(begin, end)
            assert table.column("k").to_pylist() == list(range(begin, end))
            assert table.column("s").to_pylist() == [f"s{i}" for i in range(begin, end)]


def test_a_slice_that_cannot_be_read_ends_the_merge(tmp_path: pathlib.Path) -> None:
    """Slices that wait for their turn to read do not wait for ever."""
    description = description_of([("k", "Int64")], ("k",), index_granularity=16, **WIDE, **NO_SYNC)
    parts = write_sources(
        tmp_path, [block_of(description, [(2 * i + n,) for i in range(200_000)]) for n in range(2)], description
    )
    file = parts[1].path / "k.bin"
    data = bytearray(file.read_bytes())
    data[len(data) - 9] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptionError):
        merge_parts([open_part(part.path) for part in parts], tmp_path / "new", description, target_slice_rows=20_000)


def test_block_numbers_are_kept_or_stay_forgotten(tmp_path: pathlib.Path) -> None:
    """Never made up: a table may be given the setting when merges have forgotten some."""
    columns = [("a", "Int32"), ("s", "String")]
    forgets = description_of(columns, ("a",), **NO_SYNC)
    keeps = description_of(columns, ("a",), **NO_SYNC, enable_block_number_column=True)
    tables = [pa.table({"a": pa.array([3 - n, n], pa.int32()), "s": ["x", "y"]}) for n in range(3)]
    one, two, three = write_sources(tmp_path, tables, forgets)
    kept = merged([one, two], tmp_path / "all_0_1_1", keeps)
    again = merged([kept, three], tmp_path / "all_0_2_2", keeps)
    rows = pa.Table.from_batches(list(again.read(["a", BLOCK_NUMBER]))).to_pylist()
    assert sorted((row[BLOCK_NUMBER], row["a"]) for row in rows) == [(0, 0), (0, 3), (1, 1), (1, 2), (2, 1), (2, 2)]
    forgotten = merged([one, two], tmp_path / "all_0_1_2", forgets)
    later = merged([forgotten, three], tmp_path / "all_0_2_3", keeps)
    assert BLOCK_NUMBER not in later.schema


def test_slices_end_where_keys_do_in_a_part_with_deleted_rows(tmp_path: pathlib.Path) -> None:
    described = replace(description_of([("k", "UInt8"), ("v", "UInt8")], ("k",)), merge_mode=Replacing())
    masked = replace(described, schema=TableSchema((*described.schema.columns, ROW_EXISTS_COLUMN)))
    parts = []
    for number, rows in enumerate(([(5, 1)], [(1, 0), (3, 1), (5, 1), (5, 1)])):
        block = block_of(masked, [(key, number, exists) for key, exists in rows])
        write_part(tmp_path / f"all_{number}_{number}_0", block, masked, ())
        parts.append(open_part(tmp_path / f"all_{number}_{number}_0"))
    merge_parts(parts, tmp_path / "m", described, target_slice_rows=1)
    rows = [tuple(row.values()) for row in plain(read(open_part(tmp_path / "m"))).to_pylist()]
    assert rows == [(3, 1), (5, 1)]
