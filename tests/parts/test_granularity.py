"""Granules of long rows have fewer of them, on every replica the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parts.common.part_name import PartName
from parts.merge import merge_parts
from parts.read.part_reader import Part, open_part
from parts.write.part_writer import write_part
from tests.parts.generated import WIDE, description_of

DESCRIPTION = description_of([("k", "UInt32"), ("s", "String"), ("t", "LowCardinality(String)")], ("k",), **WIDE)
DESCRIPTION = replace(
    DESCRIPTION, settings=replace(DESCRIPTION.settings, index_granularity=64, index_granularity_bytes=4096)
)
COMPACT = replace(DESCRIPTION, settings=replace(DESCRIPTION.settings, min_bytes_for_wide_part=1 << 40))


def block(first: int, rows: int, width: int) -> pa.Table:
    keys = np.arange(first, first + 3 * rows, 3, dtype=np.uint32)
    texts = [str(key) + "x" * (width + int(key) % 7) for key in keys]
    return pa.table({"k": keys, "s": texts, "t": [str(key % 5) for key in keys]}).cast(DESCRIPTION.schema.arrow)


def sources_of(tmp_path: Path) -> list[Part]:
    sources = []
    for number, rows in enumerate([block(0, 900, 5), block(1, 300, 700), block(2, 40, 5000), block(4000, 20, 0)]):
        write_part(tmp_path / f"p{number}", rows, DESCRIPTION, ())
        sources.append(open_part(tmp_path / f"p{number}", name=PartName("all", number, number, 0)))
    return sources


def test_parts_of_other_rows_have_other_granules(tmp_path: Path) -> None:
    # 4 + 8 + 1 bytes a row, and the text with its number: 29, 718, 5016 and 17 bytes
    assert [source.granularity for source in sources_of(tmp_path)] == [64, 5, 1, 64]


@pytest.mark.parametrize("description", [DESCRIPTION, COMPACT], ids=["wide", "compact"])
def test_the_slices_of_a_merge_do_not_show(tmp_path: Path, description: object) -> None:
    sources = sources_of(tmp_path)
    files = []
    for target in (11, 250, 100_000):
        merged = merge_parts(sources, tmp_path / f"m{target}", description, target_slice_rows=target)  # type: ignore[arg-type]
        files.append(merged.checksums.files)
    assert files[0] == files[1] == files[2]
    part = open_part(tmp_path / "m11")
    part.verify()
    size = sum(source.data_uncompressed_bytes + 1260 // 4 for source in sources)
    assert 2 < part.granularity < 64
    assert abs(part.marks - size / 4096) < 10


def test_fewer_bytes_do_not_change_what_a_part_holds(tmp_path: Path) -> None:
    rows = block(0, 300, 700)
    off = replace(DESCRIPTION, settings=replace(DESCRIPTION.settings, index_granularity_bytes=0))
    bounded = write_part(tmp_path / "bounded", rows, DESCRIPTION, ())
    fixed = write_part(tmp_path / "fixed", rows, off, ())
    assert open_part(tmp_path / "fixed").granularity == 64
    assert bounded.content_hash == fixed.content_hash


def test_a_row_longer_than_a_granule_may_be(tmp_path: Path) -> None:
    write_part(tmp_path / "p", block(0, 3, 9000), DESCRIPTION, ())
    part = open_part(tmp_path / "p")
    assert (part.granularity, part.marks) == (1, 3)
    assert pa.Table.from_batches(part.read(["k", "s", "t"])).equals(block(0, 3, 9000))
