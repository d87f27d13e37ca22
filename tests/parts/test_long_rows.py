"""Parts of long rows: granules, windows and batches are bounded by bytes, whatever the settings say of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parts.common.part_name import PartName
from parts.format import content_hash
from parts.format.primary_index import MarkRange
from parts.merge import merge_parts
from parts.read import batch_plan
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
    open_part,
)
from parts.write import part_writer
from parts.write.part_writer import PartWriter, write_part
from tests.parts.generated import WIDE, description_of

DESCRIPTION = description_of([("k", "UInt32"), ("s", "String")], ("k",), index_granularity=64, **WIDE)
WINDOW_BYTES = 64 * 1024


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of the real ones."""
    monkeypatch.setattr(part_writer, "WINDOW_BYTES", WINDOW_BYTES)
    monkeypatch.setattr(batch_plan, "_JOIN_BYTES", 4 * WINDOW_BYTES)


def block(first: int, rows: int, width: int) -> pa.Table:
    keys = np.arange(first, first + 2 * rows, 2, dtype=np.uint32)
    texts = [f"{key}" + "x" * (width + int(key) % 7) for key in keys]
    return pa.table({"k": keys, "s": texts}).cast(DESCRIPTION.schema.arrow)


def written(directory: Path, table: pa.Table, number: int = 1) -> Part:
    write_part(directory, table, DESCRIPTION, ())
    return open_part(directory, name=PartName("all", number, number, 0))


@pytest.mark.parametrize(
    ("width", "granularity"), [(10, 64), (900, 64), (1100, 58), (5000, 13), (60_000, 1), (200_000, 1)]
)
def test_a_granule_fits_a_window(tmp_path: Path, width: int, granularity: int) -> None:
    table = block(0, 130, width)
    part = written(tmp_path / "p", table)
    assert part.granularity == part.primary_index.granularity == granularity
    assert part.marks == -(-130 // granularity)
    part.verify()
    assert pa.Table.from_batches(part.read(["k", "s"])).equals(table)
    rows = pa.Table.from_batches(part.read_rows(["s"], [RowRange(3, 5), RowRange(77, 78)]))
    assert rows.column(0).to_pylist() == [*table["s"].to_pylist()[3:5], table["s"][77].as_py()]
    last = pa.Table.from_batches(part.read(["k"], [MarkRange(part.marks - 1, part.marks)]))
    assert last.column(0)[-1].as_py() == 258


def test_few_long_rows_are_one_granule(tmp_path: Path) -> None:
    assert written(tmp_path / "p", block(0, 5, 10_000)).granularity == 64


def test_no_batch_has_more_than_an_array_holds(tmp_path: Path) -> None:
    part = written(tmp_path / "p", block(0, 1000, 3000))
    batches = list(part.read(["k", "s"]))
    assert sum(batch.num_rows for batch in batches) == 1000
    assert max(batch.nbytes for batch in batches) < 6 * WINDOW_BYTES
    assert len(list(part.read(["k"]))) == 1  # its rows are short


def test_the_files_do_not_show_how_rows_were_appended(tmp_path: Path) -> None:
    table = block(0, 500, 3000)
    whole = write_part(tmp_path / "whole", table, DESCRIPTION, ())
    size = whole.checksums.uncompressed_bytes
    for step in (1, 37, 250):
        other = PartWriter(tmp_path / f"by_{step}", DESCRIPTION, (), expected_bytes=size, expected_rows=500)
        for start in range(0, 500, step):
            other.append(table.slice(start, step))
        assert other.finish().checksums.files == whole.checksums.files


def test_parts_of_different_granules_are_merged(tmp_path: Path) -> None:
    tables = [block(0, 300, 10), block(1, 200, 3000), block(400, 40, 50_000)]
    sources = [written(tmp_path / f"p{i}", table, i + 1) for i, table in enumerate(tables)]
    assert len({source.granularity for source in sources}) == 3
    wanted = pa.concat_tables(tables).sort_by("k")
    for target in (7, 100, 10_000):
        merge_parts(sources, tmp_path / f"m{target}", DESCRIPTION, target_slice_rows=target)
        merged = open_part(tmp_path / f"m{target}")
        assert pa.Table.from_batches(merged.read(["k"])).column(0).to_pylist() == wanted["k"].to_pylist()
        assert pa.Table.from_batches(merged.read(["k", "s"])).sort_by("k")["s"].equals(wanted["s"])
    contents = {(tmp_path / f"m{target}" / "s.bin").read_bytes() for target in (7, 100, 10_000)}
    assert len(contents) == 1


@pytest.mark.parametrize("type_", ["LowCardinality(String)", "LowCardinality(Nullable(String))"])
def test_a_few_long_values_in_many_rows(monkeypatch: pytest.MonkeyPatch, type_: str) -> None:
    """The hash is that of all rows, and never asks for all of them as plain text at once."""
    description = description_of([("s", type_)])
    indices = pa.array([0, 1, 2, 1, None if "Nullable" in type_ else 0] * 20, pa.int32())
    values = pa.DictionaryArray.from_arrays(indices, ["a" * 100, "", "é" * 70])
    rows = pa.table({"s": values}).cast(description.schema.arrow)
    whole = content_hash.hash_block(rows)
    plain: list[int] = []
    lengths = content_hash.ColumnHasher._lengths

    def counted(hasher: content_hash.ColumnHasher, array: pa.Array) -> tuple[int, int]:
        plain.append(array.nbytes)
        return lengths(hasher, array)

    monkeypatch.setattr(content_hash.ColumnHasher, "_lengths", counted)
    monkeypatch.setattr(content_hash, "_PLAIN_TEXT_BYTES", 1000)
    assert content_hash.hash_block(rows) == whole
    assert len(plain) > 10
    assert max(plain) < 1200
    assert content_hash.hash_block(rows.slice(0, 0)) == content_hash.hash_block(rows.slice(5, 0))
