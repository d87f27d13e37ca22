"""``last_writer_wins`` in parts: the same rows stay whatever order blocks arrive, merge or are read in."""

from __future__ import annotations

import itertools
import pathlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.format.file_names import ROW_VERSION
from parts.merge import FinalSource, merge_parts, read_final
from parts.merge.last_writer import LastWriter
from parts.read.part_reader import Part, open_part
from parts.table.row_exists_column import ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.table.row_version import NO_ROW_VERSION, ROW_VERSION_NAMES, RowVersion
from parts.table.table_description import TableDescription, TableSchema
from parts.write.block_preparation import sort_block
from parts.write.part_stamp import stamp_part
from parts.write.part_writer import write_part
from sql.run.block_expressions import compile_key
from tests.parts.generated import COMPACT, KINDS, WIDE, block_of, description_of

COLUMNS = [("k", "UInt8"), ("s", "LowCardinality(String)"), ("ver", "UInt8"), ("v", "UInt32")]
NO_SYNC = {"fsync_after_insert": False, "fsync_part_directory": False}
ORIGINS = ("east", "north", "west")


@dataclass(frozen=True)
class Inserted:
    """One block: its version, its rows (key, text, version column, value), and whether they are tombstones."""

    version: RowVersion
    rows: tuple[tuple[int, str, int, int], ...]
    is_deleted: bool = False


def description(mode: LastWriter, **options: Any) -> TableDescription:
    return replace(description_of(COLUMNS, ("k",), **NO_SYNC, **options), merge_mode=mode)


MODES = {
    "time": (LastWriter(), lambda row: ()),
    "version": (LastWriter("ver"), lambda row: (row[2],)),
    "order": (
        LastWriter(order=compile_key("length(s)", TableSchema(description(LastWriter()).schema.columns))),
        lambda row: (len(row[1]),),
    ),
    "both": (
        LastWriter("ver", order=compile_key("s", description(LastWriter()).schema)),
        lambda row: (row[2], row[1].encode()),
    ),
}


def expect(blocks: Sequence[Inserted], mode: str) -> dict[int, tuple[int, str, int, int]]:
    """The model: by key, the row of the largest version, unless it is a tombstone."""
    order = MODES[mode][1]
    best: dict[int, tuple[Any, tuple[int, str, int, int], bool]] = {}
    for block in blocks:
        for place, row in enumerate(block.rows):
            rank = (*order(row), block.version.commit_time, block.version.origin, block.version.block, place)
            if row[0] not in best or best[row[0]][0] < rank:
                best[row[0]] = (rank, row, block.is_deleted)
    return {key: row for key, (_, row, is_deleted) in sorted(best.items()) if not is_deleted}


def write(directory: pathlib.Path, block: Inserted, described: TableDescription, number: int) -> Part:
    """Writes the block as the part ``number`` of this replica, as an INSERT or a DELETE does."""
    rows = sort_block(block_of(replace(described), list(block.rows)), described)
    if block.is_deleted:
        described = replace(described, schema=TableSchema((*described.schema.columns, ROW_EXISTS_COLUMN)))
        rows = rows.append_column(described.schema.arrow.field(ROW_EXISTS), pa.array([0] * rows.num_rows, pa.uint8()))
    path = directory / f"all_{number}_{number}_0"
    written = write_part(path, rows, described, ())
    stamp_part(path, block.version, described.settings, meta=written.meta)
    return open_part(path)


def rows_of(table: pa.Table) -> dict[int, tuple[int, str, int, int]]:
    names = [name for name, _ in COLUMNS]
    rows = [tuple(row[name] for name in names) for row in table.select(names).to_pylist()]
    assert len({row[0] for row in rows}) == len(rows), "one row of each key"
    return {row[0]: row for row in rows}


def final(parts: Sequence[Part], described: TableDescription, target: int | None = None) -> pa.Table:
    names = [*described.schema.names, *ROW_VERSION_NAMES]
    read = list(read_final([FinalSource(part) for part in parts], described, names, target_slice_rows=target))
    return pa.concat_tables(read, promote_options="default") if read else pa.table({name: [] for name in names})


ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "b", "ab", "ba"]), st.integers(0, 2), st.integers(0, 99)),
    min_size=1,
    max_size=6,
).map(tuple)


@st.composite
def histories(draw: st.DrawFn) -> list[Inserted]:
    """Blocks of three origins, whose clocks differ and may give equal times."""
    blocks = []
    for number in range(draw(st.integers(1, 7))):
        version = RowVersion(draw(st.integers(1, 4)), draw(st.sampled_from(ORIGINS)), number)
        blocks.append(Inserted(version, draw(ROWS), is_deleted=draw(st.integers(0, 3)) == 0))
    return blocks


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(data=st.data(), blocks=histories(), mode=st.sampled_from(sorted(MODES)), kind=st.sampled_from(sorted(KINDS)))
def test_the_largest_version_stays_in_whatever_order(
    data: st.DataObject, blocks: list[Inserted], mode: str, kind: str
) -> None:
    described = description(MODES[mode][0], **KINDS[kind])
    arriving = data.draw(st.permutations(blocks))
    expected, target = expect(blocks, mode), data.draw(st.sampled_from([None, 1, 3]))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        parts = [write(folder, block, described, number) for number, block in enumerate(arriving)]
        assert rows_of(final(parts, described, target)) == expected
        step = itertools.count()
        while len(parts) > 1:
            first = data.draw(st.integers(0, len(parts) - 1))
            last = data.draw(st.integers(first, len(parts) - 1))
            if first == last and parts[first].name.level > 2:
                continue
            sources = parts[first : last + 1]
            low, high = sources[0].name.min_block, sources[-1].name.max_block
            name = PartName("all", low, high, max(part.name.level for part in sources) + 1)
            path = folder / f"m{next(step)}"
            merge_parts(sources, path, described, target_slice_rows=target)
            parts[first : last + 1] = [open_part(path, name=name)]
            open_part(path).verify()
            assert rows_of(final(parts, described, target)) == expected
        (left,) = parts
        if left.name.level:
            largest = max(block.version.commit_time for block in blocks)
            assert (left.row_version.is_mixed, left.row_version.commit_time) == (True, largest)
        shown = pa.Table.from_batches(list(left.read(described.schema.names)), described.schema.arrow)
        if left.name.level:
            assert rows_of(shown) == expected, "a merged part shows no tombstone"


@settings(max_examples=8, deadline=None)
@given(blocks=histories(), seeds=st.lists(st.randoms(use_true_random=False), min_size=2, max_size=2))
def test_two_clusters_that_got_blocks_in_other_orders_merge_to_the_same_rows(
    blocks: list[Inserted], seeds: list[Any]
) -> None:
    """Also the versions and tombstones are the same."""
    described, merged = description(LastWriter(), **COMPACT), []
    unique = list({block.version: block for block in blocks}.values())
    with tempfile.TemporaryDirectory() as temporary:
        for place, seed in enumerate(seeds):
            folder = pathlib.Path(temporary) / str(place)
            folder.mkdir()
            arriving = seed.sample(unique, len(unique))
            parts = [write(folder, block, described, number) for number, block in enumerate(arriving)]
            merge_parts(parts, folder / "m", described)
            part = open_part(folder / "m", name=PartName("all", 0, len(parts) - 1, 1))
            names = [*described.schema.names, *ROW_VERSION_NAMES, ROW_EXISTS]
            merged.append(pa.Table.from_batches(list(part.read(names, with_deleted=True))).to_pylist())
        assert merged[0] == merged[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stamp_is_part_of_the_part(kind: str, tmp_path: pathlib.Path) -> None:
    """It can be given again, changes no content hash, and damage to it is found."""
    described = description(LastWriter(), **KINDS[kind])
    plain = write_part(tmp_path / "plain", block_of(described, [(1, "a", 0, 1)]), described, ())
    part = write(tmp_path, Inserted(RowVersion(5, "west", 9), ((1, "a", 0, 1),)), described, 0)
    stamp_part(part.path, RowVersion(6, "west", 10), described.settings)
    again = open_part(part.path)
    again.verify()
    assert (again.row_version, again.content_hash) == (RowVersion(6, "west", 10), plain.content_hash)
    assert (again.checksums.version, open_part(plain.path).checksums.version[0] < 5) == ((5, 0), True)
    assert open_part(plain.path).row_version == NO_ROW_VERSION
    (row,) = pa.Table.from_batches(list(again.read(ROW_VERSION_NAMES))).to_pylist()
    assert (row["_commit_time"].microsecond, row["_origin"], row["_origin_block"]) == (6, "west", 10)
    if kind == "Wide":
        (again.path / ROW_VERSION).write_bytes(RowVersion(7, "west", 10).encode())
        with pytest.raises(CorruptionError, match=ROW_VERSION):
            open_part(again.path)


@pytest.mark.parametrize("kind", ["Wide", "Packed"])
def test_a_version_is_given_after_an_attempt_that_a_kill_ended(tmp_path: pathlib.Path, kind: str) -> None:
    described = description(LastWriter(), **KINDS[kind])
    part = write_part(tmp_path / "part", block_of(described, [(1, "a", 0, 1)]), described, ())
    for name in ("meta.bin", "checksums", ROW_VERSION):
        (part.path / f"{name}.tmp").write_bytes(b"half")
    stamp_part(part.path, RowVersion(6, "west", 10), described.settings)
    assert open_part(part.path).row_version == RowVersion(6, "west", 10)


def test_rows_without_a_version_are_the_oldest(tmp_path: pathlib.Path) -> None:
    described = description(LastWriter(), **WIDE)
    old = [(1, "x", 0, 1), (2, "x", 0, 2)]
    for number, rows in ((3, old), (4, [(2, "y", 0, 3)])):
        write_part(tmp_path / f"all_{number}_{number}_0", block_of(described, rows), described, ())
    new = write(tmp_path, Inserted(RowVersion(1, "", 0), ((1, "z", 0, 4),)), described, 1)
    parts = [new, open_part(tmp_path / "all_3_3_0"), open_part(tmp_path / "all_4_4_0")]
    assert {key: row[3] for key, row in rows_of(final(parts, described)).items()} == {1: 4, 2: 3}


def test_conflicts_are_rows_that_lost_to_another_origin(tmp_path: pathlib.Path) -> None:
    described = description(LastWriter(), **WIDE)
    blocks = [
        Inserted(RowVersion(1, "east", 0), ((1, "", 0, 1), (2, "", 0, 1))),
        Inserted(RowVersion(2, "east", 1), ((1, "", 0, 2),)),
        Inserted(RowVersion(3, "west", 0), ((1, "", 0, 3), (3, "", 0, 3))),
    ]
    parts = [write(tmp_path, block, described, number) for number, block in enumerate(blocks)]
    merge_parts(parts, tmp_path / "m", described)
    expected = RowVersion(3, is_mixed=True, conflicts=2)
    assert open_part(tmp_path / "m").row_version == expected, (
        "both rows of east lost to west's; keys 2 and 3 had no rival"
    )
    assert RowVersion.decode(expected.encode()) == expected
