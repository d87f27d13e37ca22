"""Texts that repeat are stored with a dictionary; what they are stored as depends on the texts alone."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parts.blocks.dictionary_strings import (
    DICTIONARY_STRING,
    concat_blocks,
    count_text_bytes,
    decode_dictionary,
    encode_dictionary,
    encode_if_repetitive,
)
from parts.common.errors import CorruptionError
from parts.format.content_hash import hash_block
from parts.format.flat_arrays import count_content_bytes
from parts.merge.part_merge import merge_parts
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
    open_part,
)
from parts.table.table_description import Key, TableDescription
from parts.types import parse_type
from parts.write.block_preparation import (
    sort_block,
)
from parts.write.part_writer import (
    PartWriter,
)
from tests.parts.generated import WIDE, description_of

ROWS = 20_000
LISTS: list[list[str | None]] = [
    [],
    [""],
    ["", "", "a", "a", "b", "b", "b"],
    ["ab", "ab", "ba", "ba", "a", "", "", "ab"],
    ["aa", "aaa", "aaaa", "é", "é", "日本", "日本"],
    [None, None, "a", "a", None],
    [str(number) * (number % 7) for number in range(1000)],
    ["same"] * 1000,
]
REPEATED: dict[str, list[str | None]] = {
    "runs": [f"text {i // 500}" for i in range(ROWS)],
    "in turn": [f"{i % 97}" for i in range(ROWS)],
    "with NULL": [None if i % 3 == 0 else "é" * (i % 5) for i in range(ROWS)],
    "NULL only": [None] * ROWS,
    "empty": [""] * ROWS,
}
NOT_REPEATED: dict[str, list[str | None]] = {
    "different": [f"{i}" for i in range(ROWS)],
    "each twice": [f"{i // 2}" for i in range(ROWS)],
    "few rows": ["a"] * 100,
    "different in the end": ["a"] * (ROWS // 2) + [f"{i}" for i in range(ROWS // 2)],
}


@pytest.mark.parametrize("values", LISTS)
def test_values(values: list[str | None]) -> None:
    array = pa.array(["x", *values, "y"], pa.string())
    for piece in (array, array.slice(1, len(values)), array.slice(len(array))):
        found = encode_dictionary(piece)
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (DICTIONARY_STRING, piece.to_pylist())


def test_a_run_is_one_value() -> None:
    found = encode_dictionary(pa.array(["a"] * 500 + ["b"] * 300 + ["cc"] * 10 + ["a"]))
    assert found.dictionary.to_pylist() == ["a", "b", "cc", "a"]


@pytest.mark.parametrize("name", [*REPEATED, *NOT_REPEATED])
def test_the_texts_alone_decide(name: str) -> None:
    values = {**REPEATED, **NOT_REPEATED}[name]
    array = pa.array(values, pa.string())
    with_more = pa.array([*(f"unused {i}" for i in range(ROWS)), *values], pa.string()).dictionary_encode()
    for given in (array, array.dictionary_encode(), with_more.slice(ROWS)):
        found = encode_if_repetitive(given)
        assert (found is not None) == (name in REPEATED)
        if found is not None:
            assert found.type == DICTIONARY_STRING
            assert decode_dictionary(found).equals(array)


@pytest.mark.parametrize("name", REPEATED)
def test_bytes_are_those_of_plain_texts(name: str) -> None:
    array = pa.array(["x", *REPEATED[name]], pa.string()).slice(1)
    boundaries = np.array([0, 1, 77, ROWS])
    assert (
        count_text_bytes(array.dictionary_encode(), boundaries).tolist()
        == count_content_bytes(array, boundaries).tolist()
    )


def test_tables_with_and_without_dictionaries() -> None:
    texts = pa.array(["a", "b", "a"])
    tables = [pa.table({"x": texts, "y": texts}), pa.table({"x": texts.dictionary_encode(), "y": texts})]
    assert concat_blocks(tables[1:]) is tables[1]
    assert concat_blocks([tables[1], tables[1]]).schema == tables[1].schema
    assert concat_blocks(tables).equals(pa.concat_tables([tables[0]] * 2))


def described(sorting_key: tuple[str, ...] = ("s", "k")) -> TableDescription:
    columns = [("k", "UInt32"), ("s", "String"), ("n", "Nullable(String)"), ("u", "String")]
    return description_of(columns, sorting_key, index_granularity=1024, **WIDE)


def block(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    columns = [
        pa.array([i * 7919 % 1_000_003 for i in numbers], pa.uint32()),
        pa.array([f"s{i % 300}" for i in numbers]),
        pa.array([None if i % 5 == 0 else f"n{i // 1000}" for i in numbers], pa.string()),
        pa.array([f"u{i}" for i in numbers]),
    ]
    return pa.Table.from_arrays(columns, schema=described().schema.arrow)


def write(path: pathlib.Path, rows: pa.Table, description: TableDescription, *, with_dictionaries: bool) -> Part:
    size = rows.nbytes
    writer = PartWriter(
        path, description, (), expected_bytes=size, expected_rows=len(rows), with_dictionaries=with_dictionaries
    )
    writer.append(rows)
    writer.finish()
    return open_part(path)


@pytest.mark.parametrize("sorting_key", [("s", "k"), ("k",), ()])
def test_merges_of_parts_with_and_without_dictionaries(sorting_key: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """The result is what a part of all rows would be, byte for byte."""
    description = described(sorting_key)
    rows = 0
    sources = []
    for number, size in enumerate((12_000, 9_000, 10_000)):
        sorted_block = sort_block(block(rows, size), description)
        path = tmp_path / f"all_{number}_{number}_0"
        sources.append(write(path, sorted_block, description, with_dictionaries=number != 1))
        rows += size
    assert [source.starts_with_dictionary("s") for source in sources] == [True, False, True]
    for number, chosen in enumerate((sources, sources[::2], sources[1:2])):
        merge_parts(chosen, tmp_path / f"merged_{number}", description, target_slice_rows=5000)
        merged = open_part(tmp_path / f"merged_{number}")
        merged.verify()
        assert [merged.starts_with_dictionary(name) for name in ("s", "n", "u")] == [True, True, False]
        assert merged.checksums.version == (3, 0)
        parts = [batch for source in chosen for batch in source.read(["k", "s", "n", "u"])]
        expected = sort_block(pa.Table.from_batches(parts), description)
        assert merged.content_hash == hash_block(expected)
        at_once = write(tmp_path / f"at_once_{number}", expected, description, with_dictionaries=True)
        assert merged.checksums.files == at_once.checksums.files


def test_a_key_that_is_computed_of_texts(tmp_path: pathlib.Path) -> None:
    """What computes it sees plain texts."""
    seen = []

    def evaluate(table: pa.Table) -> list[pa.ChunkedArray]:
        seen.append(table.schema.field("s").type)
        return [pc.binary_length(table.column("s")).cast(pa.uint32())]

    key = Key(("length(s)",), (parse_type("UInt32"),), ("s",), evaluate)
    description = replace(described(), sorting_key=key)
    blocks = [sort_block(block(first, 9_000), description) for first in (0, 9_000)]
    sources = [
        write(tmp_path / f"all_{number}_{number}_0", rows, description, with_dictionaries=True)
        for number, rows in enumerate(blocks)
    ]
    merge_parts(sources, tmp_path / "merged", description)
    merged = open_part(tmp_path / "merged")
    assert merged.starts_with_dictionary("s")
    assert set(seen) == {pa.string()}
    assert merged.content_hash == hash_block(sort_block(pa.concat_tables(blocks), description))


def test_damage_is_told(tmp_path: pathlib.Path) -> None:
    part = write(tmp_path / "part", block(0, 10_000), described(("k",)), with_dictionaries=True)
    file = tmp_path / "part" / "s.bin"
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptionError, match="Checksum of a frame"):
        list(part.read_rows(["s"], [RowRange(0, 10)], with_dictionaries=True))
