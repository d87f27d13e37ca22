"""Parts written by every format version read as they were written, and today's writer still writes those bytes."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

from parts.common.part_name import PartName
from parts.format.content_hash import hash_block
from parts.format.primary_index import (
    MarkRange,
)
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    open_part,
)
from parts.table.row_version import MIXED_PLACES, ROW_PLACE_NAMES, ROW_VERSION_NAMES, RowVersion
from parts.write.part_writer import write_part
from tests.parts.generated import same_rows
from tests.parts.make_golden import (
    DAY,
    DENSE,
    GOLDEN,
    PART_UUID,
    PARTS,
    PLACE,
    PLACED,
    REPEATED,
    ROWS,
    VERSIONED,
    VERSIONS,
    dense_expected,
    description,
    expected,
    placed_description,
    repeated_expected,
    write_dense,
    write_placed,
    write_repeated,
    write_versioned,
)

CONTENT_HASH = "235ff804e3737709489e2dcf10f5d4c4"
"""A change here breaks deduplication against blocks inserted by earlier versions."""


@pytest.mark.parametrize("golden", PARTS)
def test_golden_part_reads(golden: str) -> None:
    part = open_part(GOLDEN / golden)
    part.verify()
    assert part.metadata_version == PARTS[golden]
    block = expected(golden)
    kind = "Wide" if golden.endswith("wide") else "Compact"
    assert (part.part_type, part.rows, part.marks) == (kind, ROWS, 7)
    assert (part.uuid, part.partition, part.minmax) == (PART_UUID, (DAY,), {"d": (DAY, DAY)})
    table = pa.Table.from_batches(list(part.read(list(part.schema.names))))
    assert same_rows(table, block)
    assert part.content_hash == CONTENT_HASH == hash_block(block)
    some = pa.Table.from_batches(list(part.read(["s", "tup"], [MarkRange(2, 4)])))
    assert same_rows(some, block.select(["s", "tup"]).slice(16, 16))
    assert part.primary_index.keys[0].to_pylist() == block.column("k").take([0, 8, 16, 24, 32, 40, 48, 49]).to_pylist()


@pytest.mark.parametrize("golden", PARTS)
def test_writer_still_writes_the_same_format(golden: str, tmp_path: pathlib.Path) -> None:
    """Files without compressed text are equal byte for byte; a compressor may change its output between versions."""
    written = write_part(tmp_path / "part", expected(golden), description(golden), (DAY,), part_uuid=PART_UUID)
    assert written.content_hash == CONTENT_HASH
    directory = GOLDEN / golden
    assert {p.name for p in directory.iterdir()} == {p.name for p in (tmp_path / "part").iterdir()}
    assert open_part(tmp_path / "part").checksums.version == open_part(directory).checksums.version
    for name in ("f64.bin", "columns", "count", "uuid") if golden.endswith("wide") else ():
        assert (directory / name).read_bytes() == (tmp_path / "part" / name).read_bytes()


@pytest.mark.parametrize("golden", DENSE)
def test_golden_dense_part_reads(golden: str, tmp_path: pathlib.Path) -> None:
    part = open_part(GOLDEN / golden)
    part.verify()
    assert part.checksums.version == (2, 0)
    block = dense_expected()
    assert same_rows(pa.Table.from_batches(list(part.read(list(part.schema.names)))), block)
    for begin, end in ((0, 5), (333, 334), (700, 1100)):
        some = pa.Table.from_batches(list(part.read_rows(list(part.schema.names), [RowRange(begin, end)])))
        assert same_rows(some, block.slice(begin, end - begin))
    assert part.content_hash == hash_block(block)
    write_dense(tmp_path / "part")
    assert open_part(tmp_path / "part").content_hash == part.content_hash


def test_golden_part_with_repeated_texts_reads(tmp_path: pathlib.Path) -> None:
    part = open_part(GOLDEN / REPEATED)
    part.verify()
    assert part.checksums.version == (3, 0)
    block = repeated_expected()
    names = list(part.schema.names)
    assert [name for name in names if part.starts_with_dictionary(name)] == ["s", "n", "lc"]
    assert same_rows(pa.Table.from_batches(list(part.read(names))), block)
    for begin, end in ((0, 5), (1025, 1026), (3000, 9000)):
        expected = block.slice(begin, end - begin)
        for kept in (False, True):
            read = part.read_rows(names, [RowRange(begin, end)], with_dictionaries=kept)
            some = pa.Table.from_batches(list(read))
            assert pa.types.is_dictionary(some.schema.field("s").type) == kept
            assert same_rows(some.cast(block.schema), expected)
    few = part.read_row_range(names, RowRange(17, 20))
    assert few is not None
    assert pa.Table.from_arrays(few, schema=block.schema).equals(block.slice(17, 3))
    assert part.content_hash == hash_block(block)
    write_repeated(tmp_path / "part")
    for name in ("columns", "count", "k.bin"):
        assert (tmp_path / "part" / name).read_bytes() == (GOLDEN / REPEATED / name).read_bytes()
    assert open_part(tmp_path / "part").checksums.version == (3, 0)


@pytest.mark.parametrize("golden", VERSIONED)
def test_golden_part_with_versions_reads(golden: str, tmp_path: pathlib.Path) -> None:
    write_versioned(tmp_path / "part", golden)
    today = open_part(tmp_path / "part")
    part = open_part(GOLDEN / golden, name=PartName("all", 4, 4, 0))
    part.verify()
    assert part.checksums.version == today.checksums.version == (5, 0)
    names = ["k", "s", *ROW_VERSION_NAMES]
    rows = pa.Table.from_batches(list(part.read(names))).to_pylist()
    assert rows == pa.Table.from_batches(list(today.read(names))).to_pylist()
    assert (part.row_version, part.content_hash) == (today.row_version, today.content_hash)
    blocks = [row["_origin_block"] for row in rows]
    if golden == "v5_merged":
        assert part.row_version == RowVersion(VERSIONS[2].commit_time, is_mixed=True, conflicts=1 + 6)
        assert blocks == [0, 1]
        everything = pa.Table.from_batches(list(part.read(["k", "_origin_block"], with_deleted=True)))
        assert everything.column("_origin_block").to_pylist() == [0, 1, *[2] * 6]
    else:
        assert part.row_version == VERSIONS[0]
        assert blocks == [0] * 8
        assert {row["_origin"] for row in rows} == {VERSIONS[0].origin}


@pytest.mark.parametrize("golden", PLACED)
def test_golden_part_with_places_reads(golden: str, tmp_path: pathlib.Path) -> None:
    part = open_part(GOLDEN / golden)
    part.verify()
    assert part.checksums.version == (6, 0)
    rows = pa.Table.from_batches(list(part.read(["k", *ROW_PLACE_NAMES]))).to_pylist()
    places = {(row["_origin"], row["_origin_position"]) for row in rows}
    if golden == "v6_merged":
        assert (part.row_version, places) == (MIXED_PLACES, {("", 0), (PLACE.origin, PLACE.position)})
    else:
        assert (part.row_version, places) == (PLACE, {(PLACE.origin, PLACE.position)})
    write_placed(tmp_path / "part", golden)
    written = open_part(tmp_path / "part", table_schema=placed_description(golden).schema)
    assert written.content_hash == part.content_hash
    assert {p.name for p in (GOLDEN / golden).iterdir()} == {p.name for p in (tmp_path / "part").iterdir()}
