"""Parts written by every format version read as they were written, and today's writer still writes those bytes."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

from parts.content_hash import block_hash
from parts.reader import MarkRange, open_part
from parts.writer import write_part
from tests.parts.generated import same_rows
from tests.parts.make_golden import DAY, GOLDEN, PART_UUID, ROWS, VERSIONS, description, expected

CONTENT_HASH = "235ff804e3737709489e2dcf10f5d4c4"
"""A change here breaks deduplication against blocks inserted by earlier versions."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["compact", "wide"])
def test_golden_part_reads(kind: str, version: str) -> None:
    part = open_part(GOLDEN / f"{version}_{kind}")
    part.verify()
    assert part.metadata_version == VERSIONS[version]
    block = expected(kind == "wide")
    assert (part.part_type.lower(), part.rows, part.marks) == (kind, ROWS, 7)
    assert (part.uuid, part.partition, part.minmax) == (PART_UUID, (DAY,), {"d": (DAY, DAY)})
    table = pa.Table.from_batches(list(part.read(list(part.schema.names))))
    assert same_rows(table, block)
    assert part.content_hash == CONTENT_HASH == block_hash(block)
    some = pa.Table.from_batches(list(part.read(["s", "tup"], [MarkRange(2, 4)])))
    assert same_rows(some, block.select(["s", "tup"]).slice(16, 16))
    assert part.primary_index.keys[0].to_pylist() == block.column("k").take([0, 8, 16, 24, 32, 40, 48, 49]).to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["compact", "wide"])
def test_writer_still_writes_the_same_format(kind: str, version: str, tmp_path: pathlib.Path) -> None:
    """Files without compressed text are equal byte for byte; a compressor may change its output between versions."""
    is_wide = kind == "wide"
    described = description(is_wide, VERSIONS[version])
    written = write_part(tmp_path / "part", expected(is_wide), described, (DAY,), part_uuid=PART_UUID)
    assert written.content_hash == CONTENT_HASH
    golden = GOLDEN / f"{version}_{kind}"
    assert {p.name for p in golden.iterdir()} == {p.name for p in (tmp_path / "part").iterdir()}
    for name in ("f64.bin", "columns", "count", "uuid") if is_wide else ():
        assert (golden / name).read_bytes() == (tmp_path / "part" / name).read_bytes()
