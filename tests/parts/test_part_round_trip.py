"""What is written is read back: every type, codec and part type, any ranges and columns."""

from __future__ import annotations

import pathlib
import tempfile
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.common.errors import UserError
from parts.format.content_hash import hash_block
from parts.format.flat_arrays import FlatArray, build_dictionary_array, flatten_array, rebuild_array
from parts.format.primary_index import (
    MarkRange,
)
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
    open_part,
)
from parts.table.table_description import Column, TableSchema
from parts.types import LowCardinalityType, parse_type
from parts.write.block_preparation import (
    sort_block,
)
from parts.write.part_writer import (
    PartWriter,
    write_part,
)
from tests.parts.generated import ALL_TYPES, WIDE, block_of, blocks, description_of, plain, same_rows
from tests.portions import one_in

NO_SYNC = {"fsync_after_insert": False, "fsync_part_directory": False}
CODECS = ["", "NONE", "LZ4", "LZ4HC", "ZSTD(1)"]


def read(part: Part, columns: Any = None, ranges: Any = None, **options: Any) -> pa.Table:
    names = list(part.schema.names) if columns is None else columns
    batches = list(part.read(names, ranges, **options))
    schema = TableSchema(tuple(part.schema.column(name) for name in names)).arrow
    return pa.Table.from_batches(batches, schema)


@pytest.mark.parametrize("is_wide", one_in(2, [False, True]))
@pytest.mark.parametrize("type_", one_in(4, ALL_TYPES))
@settings(max_examples=7, deadline=None)
@given(data=st.data())
def test_every_type(type_: str, is_wide: bool, data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(CODECS))
    wide = WIDE if is_wide else {}
    description = description_of([("value", type_, codec), ("number", "UInt32")], **wide, **NO_SYNC)
    block = data.draw(blocks(description))
    with tempfile.TemporaryDirectory() as directory:
        written = write_part(pathlib.Path(directory), block, description, ())
        part = open_part(pathlib.Path(directory))
        assert part.part_type == written.part_type == ("Wide" if is_wide else "Compact")
        assert (part.rows, part.marks) == (block.num_rows, -(-block.num_rows // 4))
        assert part.bytes_on_disk == written.bytes_on_disk
        result = read(part)
        result.validate(full=True)
        assert same_rows(result, block)
        assert part.content_hash == hash_block(block) == hash_block(result)
        part.verify()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
@pytest.mark.long
def test_ranges_and_columns(data: st.DataObject) -> None:
    columns = [("a", "Int64"), ("b", "String"), ("c", "LowCardinality(String)"), ("d", "Array(Nullable(Int32))")]
    description = description_of(columns, **NO_SYNC, **(WIDE if data.draw(st.booleans()) else {}))
    block = data.draw(blocks(description, 60))
    range_ = st.tuples(st.integers(0, 16), st.integers(0, 4)).map(lambda p: MarkRange(p[0], p[0] + p[1]))
    ranges = data.draw(st.lists(range_))
    names = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    limit = data.draw(st.sampled_from([1, 3, 4, 9, 1000]))
    with tempfile.TemporaryDirectory() as directory:
        write_part(pathlib.Path(directory), block, description, ())
        part = open_part(pathlib.Path(directory))
        chosen = sorted({g for r in ranges for g in range(r.begin, r.end)})
        rows = [row for g in chosen for row in range(g * 4, min(g * 4 + 4, block.num_rows))]
        result = read(part, names, ranges, max_batch_rows=limit)
        assert result.column_names == names
        assert all(batch.num_rows <= limit for batch in part.read(names, ranges, max_batch_rows=limit))
        assert same_rows(result, plain(block).select(names).take(pa.array(rows, pa.int64())))


@pytest.mark.parametrize("is_wide", one_in(2, [False, True]))
@pytest.mark.parametrize("type_", one_in(4, ALL_TYPES))
@settings(max_examples=7, deadline=None)
@given(data=st.data())
def test_some_rows_of_every_type(type_: str, is_wide: bool, data: st.DataObject) -> None:
    """Any runs of rows, which mostly begin and end inside frames."""
    codec = data.draw(st.sampled_from(CODECS))
    description = description_of(
        [("value", type_, codec), ("number", "UInt32")], **(WIDE if is_wide else {}), **NO_SYNC
    )
    few = data.draw(blocks(description, 20))
    block = pa.concat_tables([few] * data.draw(st.integers(1, 12)))  # long enough for every method to be used
    bounds = sorted(data.draw(st.lists(st.integers(0, block.num_rows), max_size=6)))
    ranges = [RowRange(*pair) for pair in zip(bounds[::2], bounds[1::2], strict=False)]
    limit = data.draw(st.sampled_from([1, 3, 8, 1000]))
    threads = data.draw(st.sampled_from([0, 1, 2]))
    with tempfile.TemporaryDirectory() as directory:
        write_part(pathlib.Path(directory), block, description, ())
        part = open_part(pathlib.Path(directory))
        batches = list(part.read_rows(["value", "number"], ranges, max_batch_rows=limit, max_threads=threads))
        result = pa.Table.from_batches(batches, part.schema.arrow)
        result.validate(full=True)
        assert all(batch.num_rows <= limit for batch in batches)
        rows = [row for item in ranges for row in range(item.begin, item.end)]
        assert same_rows(result, plain(block).take(pa.array(rows, pa.int64())))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
@pytest.mark.long
def test_bytes_do_not_depend_on_chunks(data: st.DataObject) -> None:
    """However rows are appended, and in whatever dictionary order, the files are the same."""
    columns = [("a", "Int64"), ("c", "LowCardinality(Nullable(String))"), ("d", "Map(String, Int32)")]
    columns += [("e", "Nullable(Bool)")]
    description = description_of(columns, **NO_SYNC, **WIDE)
    block = data.draw(blocks(description, 40))
    cuts = sorted(data.draw(st.lists(st.integers(0, block.num_rows), max_size=4)))
    codes = _recode(plain(block).column(1), description.schema.columns[1])
    recoded = plain(block).set_column(1, block.schema.field(1), codes)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        write_part(pathlib.Path(one), block, description, ())
        writer = PartWriter(pathlib.Path(two), description, ())
        for begin, end in zip([0, *cuts], [*cuts, block.num_rows], strict=True):
            writer.append(recoded.slice(begin, end - begin).cast(block.schema))
        writer.finish()
        assert {p.name: p.read_bytes() for p in pathlib.Path(one).iterdir()} == {
            p.name: p.read_bytes() for p in pathlib.Path(two).iterdir()
        }


def _recode(column: pa.ChunkedArray, definition: Column) -> pa.Array:
    """The same values over a dictionary in another order with unused and repeated entries."""
    assert isinstance(definition.type, LowCardinalityType)
    values = ["unused", *sorted({v for v in column.to_pylist() if v is not None}, reverse=True), "unused"]
    indices = [None if v is None else values.index(v) for v in column.to_pylist()]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values))


@pytest.mark.parametrize("codec", ["Delta, LZ4", "DoubleDelta, ZSTD(1)", "Delta(2), LZ4HC", "ZSTD(19)"])
@pytest.mark.parametrize("type_", ["Int64", "Nullable(DateTime)", "Decimal(18, 3)", "Array(UInt16)", "Float32"])
def test_transforms_on_real_columns(codec: str, type_: str, tmp_path: pathlib.Path) -> None:
    description = description_of([("v", type_, codec)], index_granularity=100, **WIDE, **NO_SYNC)
    inner = parse_type(type_)
    values = [[i, i * 7] if "Array" in type_ else i * 37 for i in range(1000)]
    if "Nullable" in type_:
        values = [None if i % 5 == 0 else v for i, v in enumerate(values)]
    source = pa.array(values, pa.int32() if "Decimal" in type_ else None)
    block = pa.table([source.cast(inner.arrow)], schema=description.schema.arrow)
    write_part(tmp_path, block, description, ())
    part = open_part(tmp_path)
    assert read(part).equals(block)
    assert read(part, None, [MarkRange(3, 5)]).equals(block.slice(300, 200))


def test_large_part_in_several_windows(tmp_path: pathlib.Path) -> None:
    description = description_of(
        [("k", "UInt32"), ("s", "String"), ("t", "LowCardinality(String)")],
        ("k",),
        index_granularity=8192,
        **WIDE,
        **NO_SYNC,
    )
    rows = 400_000
    numbers = pa.array(range(rows), pa.uint32())
    texts = pa.array([f"row {i} {'x' * (i % 50)}" for i in range(rows)])
    codes = pa.array([f"t{i // 1000}" for i in range(rows)]).dictionary_encode()
    block = pa.Table.from_arrays([numbers, texts, codes], schema=description.schema.arrow)
    write_part(tmp_path, block, description, ())
    part = open_part(tmp_path)
    assert same_rows(read(part), block)
    assert same_rows(read(part, ["s"], [MarkRange(5, 6), MarkRange(20, 49)]), pa.concat_tables(
        [block.select(["s"]).slice(5 * 8192, 8192), block.select(["s"]).slice(20 * 8192)]
    ))  # fmt: skip
    part.verify()
    assert sum(b.num_rows for b in part.read([])) == rows
    for begin, end in ((0, 1), (131_071, 131_073), (100_001, 399_999), (399_999, 400_000)):
        for max_threads in (0, 1):
            batches = list(part.read_rows(["k", "s", "t"], [RowRange(begin, end)], max_threads=max_threads))
            assert same_rows(pa.Table.from_batches(batches), block.slice(begin, end - begin))


def test_single_granule_is_read_alone(tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "Int64")], ("k",))
    write_part(tmp_path, block_of(description, [(i,) for i in range(10)]), description, ())
    part = open_part(tmp_path)
    assert read(part, ["k"], [MarkRange(2, 3)]).column("k").to_pylist() == [8, 9]
    assert part.primary_index.granule_rows(2) == 2


def test_added_column_reads_as_default(tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "Int64")])
    write_part(tmp_path, block_of(description, [(1,), (2,)]), description, ())
    newer = TableSchema((*description.schema.columns, *(
        Column(name, parse_type(type_)) for name, type_ in
        [("s", "LowCardinality(String)"), ("n", "Nullable(Int8)"), ("t", "Tuple(Int8, Array(String))"), ("m",
        "Map(String, Int8)")]
    )))  # fmt: skip
    part = open_part(tmp_path, table_schema=newer)
    (batch,) = part.read(["s", "k", "n", "t", "m"])
    assert batch.to_pylist() == [{"s": "", "k": k, "n": None, "t": {"1": 0, "2": []}, "m": []} for k in (1, 2)]
    with pytest.raises(UserError, match="There is no column 'other'"):
        list(part.read(["other"]))


def test_strange_column_names(tmp_path: pathlib.Path) -> None:
    names = ["data", "meta", "marks", "a.b", "a/b", "ä ö", "%61", "x" * 300, "columns"]
    description = description_of([(name, "Int32") for name in names], **WIDE)
    block = block_of(description, [tuple(range(len(names)))])
    write_part(tmp_path, block, description, ())
    assert read(open_part(tmp_path)).equals(block)


def test_blocks_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "Int64"), ("s", "String")])
    for block, name in (
        (pa.table({"k": [1]}), "NOT_FOUND_COLUMN_IN_BLOCK"),
        (pa.table({"k": [1], "s": [1]}), "TYPE_MISMATCH"),
        (pa.table({"k": [1], "s": pa.array([None], pa.string())}), "TYPE_MISMATCH"),
    ):
        with pytest.raises(UserError) as caught:
            write_part(tmp_path / name, block, description, ())
        assert caught.value.name == name


def test_uuid_and_partition_values(tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "Int64"), ("p", "LowCardinality(String)")], ("k",), ("p",))
    identity = uuid.uuid4()
    block = sort_block(block_of(description, [(2, "x"), (1, "x")]), description)
    write_part(tmp_path, block, description, ("x",), part_uuid=identity)
    part = open_part(tmp_path)
    assert (part.uuid, part.partition, part.minmax) == (identity, ("x",), {"p": ("x", "x")})


def test_null_values_of_a_dictionary_are_nulls() -> None:
    type_ = pa.dictionary(pa.int32(), pa.string())
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int32()), pa.array([None, "a"]))
    flat = flatten_array(values)
    assert rebuilt(type_, flat).to_pylist() == [None, "a", None, None]
    # Written before: a column of nulls without validity bits.
    assert (
        build_dictionary_array(type_, 2, 0, None, pa.py_buffer(bytes(8)), pa.array([], pa.string())).to_pylist()
        == [None] * 2
    )


def rebuilt(type_: pa.DataType, flat: FlatArray) -> pa.Array:
    buffers = iter(flat.buffers)
    return rebuild_array(type_, iter(flat.nodes), lambda: next(buffers)[0])
