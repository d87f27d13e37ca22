"""Decimals of up to 18 digits come 8 bytes wide where that is asked for, whatever codec they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parts.format.codecs import parse_codec
from parts.format.decimal64 import to_decimal64, to_decimal64_type
from parts.format.frames import decode_rows, encode_frame
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    open_part,
)
from parts.table.table_description import Column
from parts.types import parse_type
from parts.write.part_writer import write_part
from tests.parts.generated import description_of

LARGEST = 10**18 - 1
VALUES = {
    "narrow": [5, 6, 250] * 50,
    "negative": [-1, 0, 1] * 50,
    "equal": [-7] * 150,
    "wide": [-LARGEST, LARGEST, 0] * 50,
    "few": [3],
    "none": [],
}


def decimals(numbers: list[int], *, with_nulls: bool, precision: int = 18) -> pa.Array:
    wide = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    type_ = pa.decimal128(precision, 3)
    array = pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(wide)])
    if not with_nulls:
        return array
    hidden = pa.array([number % 3 == 0 for number in range(len(numbers))], pa.bool_())
    return pa.compute.if_else(hidden, pa.scalar(None, type_), array)


@pytest.mark.parametrize("codec", ["LZ4", "NONE", "ZSTD", "Delta, LZ4", "DoubleDelta, ZSTD(1)"])
@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.parametrize("values", VALUES)
def test_frames(codec: str, with_nulls: bool, values: str) -> None:
    array = decimals(VALUES[values], with_nulls=with_nulls)
    frame = encode_frame(array, parse_codec(codec, parse_type("Decimal(18, 3)")))
    data = pa.py_buffer(b"".join(bytes(piece) for piece in frame.pieces))
    for first, rows in ((0, len(array)), (0, 1), (9, 100), (16, 8)):
        if first + rows > len(array):
            continue
        found = decode_rows(data, 0, array.type, "part", "file", first, rows, is_short=True)
        found.validate(full=True)
        assert found.type == pa.decimal64(18, 3)
        assert found.to_pylist() == array.slice(first, rows).to_pylist()


def test_wider_ones_and_other_types_stay() -> None:
    assert to_decimal64_type(pa.decimal128(19, 3)) == pa.decimal128(19, 3)
    assert to_decimal64_type(pa.int64()) == pa.int64()
    array = decimals([10**30], with_nulls=False, precision=38)
    assert to_decimal64(array) is array


@pytest.mark.parametrize("with_nulls", [False, True])
def test_slices(with_nulls: bool) -> None:
    array = decimals(VALUES["negative"], with_nulls=with_nulls)
    for piece in (array.slice(5, 20), array.slice(0, 3), array.slice(len(array))):
        found = to_decimal64(piece)
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (pa.decimal64(18, 3), piece.to_pylist())


@pytest.mark.long
def test_parts_with_columns_that_are_not_stored(tmp_path: Path) -> None:
    description = description_of(
        [("k", "UInt32"), ("d", "Decimal(15, 2)"), ("w", "Decimal(38, 2)")], ("k",), index_granularity=1024
    )
    schema = description.schema
    rows = 300_000
    numbers = pa.array(np.arange(rows) - 1000)
    block = pa.table(
        [
            pa.array(np.arange(rows, dtype=np.uint32)),
            numbers.cast(pa.decimal128(21, 2)),
            numbers.cast(pa.decimal128(21, 2)),
        ],
        schema.arrow.names,
    )
    write_part(tmp_path, block.cast(schema.arrow), description, ())
    part = open_part(tmp_path)
    for ranges in ([RowRange(0, rows)], [RowRange(10, 20), RowRange(200_000, 200_001)]):
        found = pa.Table.from_batches(part.read_rows(["d", "k", "w"], ranges, is_short=True))
        assert found.schema.types == [pa.decimal64(15, 2), pa.uint32(), pa.decimal128(38, 2)]
        stored = pa.Table.from_batches(part.read_rows(["d", "k", "w"], ranges))
        assert found.to_pylist() == stored.to_pylist()
    new = Column("x", parse_type("Decimal(9, 1)"))
    later = open_part(tmp_path, table_schema=type(schema)((*schema.columns, new)))
    (batch,) = later.read_rows(["d", "x"], [RowRange(0, 2)], is_short=True)
    assert batch.schema.types == [pa.decimal128(15, 2), pa.decimal128(9, 1)]


def test_strings_come_in_the_pieces_of_their_frames(tmp_path: Path) -> None:
    description = description_of(
        [("k", "UInt32"), ("s", "String"), ("n", "Nullable(String)")], ("k",), index_granularity=1024
    )
    schema = description.schema.arrow
    texts = pa.array([f"{number}" * 40 for number in range(150_000)])
    block = pa.table([pa.array(np.arange(len(texts), dtype=np.uint32)), texts, texts.fill_null("")], schema.names)
    write_part(tmp_path, block.cast(schema), description, ())
    part = open_part(tmp_path)
    for ranges in ([RowRange(0, len(texts))], [RowRange(5, 140_001)]):
        (whole, *_), pieces = (
            list(part.read_rows(schema.names, ranges, with_dictionaries=kept)) for kept in (False, True)
        )
        assert pieces[0].num_rows < whole.num_rows
        expected = block.slice(ranges[0].begin, ranges[0].rows).cast(schema)
        assert pa.Table.from_batches(pieces).equals(expected)
