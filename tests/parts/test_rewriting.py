"""Parts made of other parts: with other columns, fewer rows, a mask; equal to what a writer would make of the rows."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

from parts.common.part_name import PartName
from parts.format.content_hash import hash_block
from parts.merge import merge_parts
from parts.merge.part_rewriting import clone_part, rewrite_columns, rewrite_rows
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
    open_part,
)
from parts.table.row_exists_column import PART_OFFSET, ROW_EXISTS
from parts.table.table_description import TableDescription
from parts.write.part_writer import write_part
from tests.parts.generated import description_of

_KINDS = {"wide": 0, "compact": 1 << 30}
_ROWS = 3000


@pytest.fixture(params=_KINDS)
def description(request: pytest.FixtureRequest) -> TableDescription:
    columns = [("k", "Int64"), ("s", "String"), ("v", "Nullable(Int32)")]
    settings = {"min_bytes_for_wide_part": _KINDS[request.param], "index_granularity": 100}
    return description_of(columns, ("k",), **settings)


def _block(rows: range = range(_ROWS)) -> pa.Table:
    values = [None if row % 7 == 0 else row for row in rows]
    return pa.table(
        {"k": pa.array(rows, pa.int64()), "s": [f"s{row}" for row in rows], "v": pa.array(values, pa.int32())}
    )


def _part(tmp_path: pathlib.Path, description: TableDescription) -> Part:
    write_part(tmp_path / "all_1_1_0", _block(), description, ())
    return _opened(tmp_path / "all_1_1_0", description)


def _opened(path: pathlib.Path, description: TableDescription) -> Part:
    part = open_part(path, name=PartName("all", 1, 1, 0), table_schema=description.schema)
    part.verify()
    return part


def _rows(part: Part, columns: list[str]) -> list[dict[str, object]]:
    return [row for batch in part.read(columns) for row in batch.to_pylist()]


def test_other_values_of_a_column_make_the_part_that_an_insert_of_them_makes(
    tmp_path: pathlib.Path, description: TableDescription
) -> None:
    source = _part(tmp_path, description)
    new = pa.table({"s": [f"new{row}" for row in range(_ROWS)]})
    whole = _block().set_column(1, "s", new.column(0))
    pieces = (new.slice(begin, 700) for begin in range(0, _ROWS, 700))
    (tmp_path / "tmp_a").mkdir()
    rewrite_columns(source, tmp_path / "tmp_a", description, ["s"], pieces)
    part = _opened(tmp_path / "tmp_a", description)
    write_part(tmp_path / "b", whole, description, ())
    assert part.content_hash == open_part(tmp_path / "b").content_hash
    assert part.part_type == source.part_type
    assert _rows(part, ["k", "s", "v"]) == whole.to_pylist()
    if part.part_type == "Wide":
        assert (tmp_path / "tmp_a" / "k.bin").stat().st_ino == (source.path / "k.bin").stat().st_ino
        assert (tmp_path / "tmp_a" / "s.bin").stat().st_ino != (source.path / "s.bin").stat().st_ino


def test_a_column_that_goes_is_read_as_its_default(tmp_path: pathlib.Path, description: TableDescription) -> None:
    source = _part(tmp_path, description)
    (tmp_path / "tmp_a").mkdir()
    blocks = (pa.Table.from_batches([batch]) for batch in source.read([], with_deleted=True))
    rewrite_columns(source, tmp_path / "tmp_a", description, (), blocks, gone=["s"])
    part = _opened(tmp_path / "tmp_a", description)
    assert "s" not in part.readable_columns
    assert _rows(part, ["s"]) == [{"s": ""}] * _ROWS


def test_rows_that_are_marked_as_gone_are_read_only_by_who_asks(
    tmp_path: pathlib.Path, description: TableDescription
) -> None:
    part = _masked(tmp_path, description)
    assert (part.rows, part.has_deleted_rows, part.checksums.version) == (_ROWS, True, (4, 0))
    assert [row["k"] for row in _rows(part, ["k"])] == list(range(1, _ROWS, 2))
    assert sum(batch.num_rows for batch in part.read([])) == _ROWS // 2
    assert sum(batch.num_rows for batch in part.read([], with_deleted=True)) == _ROWS
    offsets = [row[PART_OFFSET] for row in _rows(part, [PART_OFFSET])]
    assert offsets == list(range(1, _ROWS, 2))
    assert part.read_row_range(["k"], RowRange(0, 10)) is None


def test_merges_leave_out_the_rows_that_are_gone(tmp_path: pathlib.Path, description: TableDescription) -> None:
    part = _masked(tmp_path, description)
    merge_parts([part], tmp_path / "merged", description)
    merged = _opened(tmp_path / "merged", description)
    assert not merged.has_deleted_rows
    left = _block().take(list(range(1, _ROWS, 2)))
    assert merged.content_hash == hash_block(left.cast(description.schema.arrow))


def test_a_merge_of_rows_that_are_all_gone_has_none(tmp_path: pathlib.Path, description: TableDescription) -> None:
    part = _masked(tmp_path, description, exists=lambda row: 0)
    merge_parts([part], tmp_path / "merged", description)
    merged = _opened(tmp_path / "merged", description)
    assert (merged.rows, _rows(merged, ["k", "s"])) == (0, [])


def test_some_rows_make_the_part_that_an_insert_of_them_makes(
    tmp_path: pathlib.Path, description: TableDescription
) -> None:
    source = _part(tmp_path, description)
    (tmp_path / "tmp_a").mkdir()
    left = _block().slice(1000, 1500)
    rewrite_rows(source, tmp_path / "tmp_a", description, iter([left.slice(0, 10), left.slice(10)]))
    part = _opened(tmp_path / "tmp_a", description)
    assert part.content_hash == hash_block(left.cast(description.schema.arrow))


def test_a_clone_shares_all_files(tmp_path: pathlib.Path, description: TableDescription) -> None:
    source = _part(tmp_path, description)
    (tmp_path / "tmp_a").mkdir()
    clone_part(source, tmp_path / "tmp_a", description)
    assert _opened(tmp_path / "tmp_a", description).checksums == source.checksums
    assert {file.stat().st_ino for file in (tmp_path / "tmp_a").iterdir()} == {
        file.stat().st_ino for file in source.path.iterdir()
    }


def _masked(tmp_path: pathlib.Path, description: TableDescription, exists=lambda row: row % 2) -> Part:  # type: ignore[no-untyped-def]
    source = _part(tmp_path, description)
    mask = pa.table({ROW_EXISTS: pa.array([exists(row) for row in range(_ROWS)], pa.uint8())})
    (tmp_path / "tmp_masked").mkdir()
    rewrite_columns(source, tmp_path / "tmp_masked", description, [ROW_EXISTS], iter([mask]))
    return _opened(tmp_path / "tmp_masked", description)
