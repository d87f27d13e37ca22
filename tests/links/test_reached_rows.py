"""Places of rows in parts: merges keep them, and a command with a reach touches exactly the rows that this covers."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tables.merges.mutation_execution import HeldPartsCatalog
from parts.common.command_reach import CommandReach
from parts.common.part_name import PartName
from parts.merge import merge_parts
from parts.read.part_reader import Part, open_part
from parts.read.reached_rows import fill_position_in, find_reached_rows
from parts.table.row_version import MIXED_PLACES, NO_ROW_VERSION, ROW_PLACE_NAMES, RowVersion, make_place
from parts.table.table_description import TableDescription
from parts.write.part_stamp import stamp_part
from parts.write.part_writer import write_part
from sql.grammar.statements.mutate_table import parse_stored_mutations
from sql.mutations.mutation import Mutation
from sql.mutations.part_mutation import PartMutator
from sql.run.query_engine import QueryEngine
from tests.parts.generated import KINDS, WIDE, block_of, description_of

COLUMNS = [("k", "UInt32"), ("v", "UInt32")]
NO_SYNC = {"fsync_after_insert": False, "fsync_part_directory": False}
ORIGINS = ("east", "north", "west")
ENGINE = QueryEngine()


@dataclass(frozen=True)
class Inserted:
    """One block: the commit that inserted it, or ``None`` for one that is older than the columns, and its rows."""

    place: tuple[str, int] | None
    rows: tuple[tuple[int, int], ...]


def description(**options: Any) -> TableDescription:
    return description_of(COLUMNS, ("k",), **NO_SYNC, **options)


def write(folder: pathlib.Path, block: Inserted, described: TableDescription, number: int) -> Part:
    path = folder / f"all_{number}_{number}_0"
    written = write_part(path, block_of(described, sorted(block.rows)), described, ())
    if block.place is not None:
        stamp_part(path, make_place(*block.place), described.settings, meta=written.meta)
    return open_part(path)


def mutate(part: Part, text: str, reach: CommandReach, described: TableDescription, path: pathlib.Path) -> Part:
    path.mkdir()
    mutation = Mutation(parse_stored_mutations(text), "default", reach=reach)
    assert Mutation.decode(mutation.encode()) == mutation
    run = PartMutator(ENGINE, described, "t", HeldPartsCatalog({}))
    run.apply(part, mutation.steps("all"), path)
    return open_part(path, name=part.name, table_schema=described.schema)


def described_schema() -> pa.Schema:
    return description().schema.arrow


def rows_of(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """The keys and values of all rows that are not deleted."""
    read = [pa.Table.from_batches(list(part.read(["k", "v"])), described_schema()) for part in parts]
    return sorted((row["k"], row["v"]) for table in read for row in table.to_pylist())


@st.composite
def histories(draw: st.DrawFn) -> list[Inserted]:
    blocks, keys = [], iter(range(1000))
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.none() | st.tuples(st.sampled_from(ORIGINS), st.integers(1, 5)))
        rows = tuple((next(keys), draw(st.integers(0, 2))) for _ in range(draw(st.integers(1, 4))))
        blocks.append(Inserted(place, rows))
    return blocks


COMMANDS = {
    "DELETE WHERE v != 1": lambda row: None if row[1] != 1 else row,
    "UPDATE v = v + 10 WHERE v < 2": lambda row: (row[0], row[1] + 10) if row[1] < 2 else row,
    "UPDATE _row_exists = 0 WHERE v = 0": lambda row: None if row[1] == 0 else row,
    "UPDATE v = 5 WHERE v = 0, DELETE WHERE v = 5": lambda row: None if row[1] in (0, 5) else row,
}
REACHES = st.dictionaries(st.sampled_from(ORIGINS), st.integers(0, 5)).map(CommandReach.of)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), blocks=histories(), kind=st.sampled_from(sorted(KINDS)))
def test_commands_touch_the_same_rows_before_and_after_merges(
    data: st.DataObject, blocks: list[Inserted], kind: str
) -> None:
    described = description(**KINDS[kind])
    rows = {row[0]: (row, block.place) for block in blocks for row in block.rows}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        parts = [write(folder, block, described, number) for number, block in enumerate(blocks)]
        for step in range(3):
            text, reach = data.draw(st.sampled_from(sorted(COMMANDS))), data.draw(REACHES)
            parts = [
                mutate(part, text, reach, described, folder / f"u{step}_{number}") for number, part in enumerate(parts)
            ]
            for key, (row, place) in list(rows.items()):
                new = COMMANDS[text](row) if place is None or reach.covers(*place) else row
                del rows[key]
                if new is not None:
                    rows[key] = (new, place)
            assert rows_of(parts) == sorted(row for row, _ in rows.values())
            if len(parts) > 1:
                last = data.draw(st.integers(1, len(parts) - 1))
                name = PartName("all", parts[0].name.min_block, parts[last].name.max_block, step + 1)
                merge_parts(parts[: last + 1], folder / f"m{step}", described)
                parts[: last + 1] = [open_part(folder / f"m{step}", name=name)]
                parts[0].verify()
                assert rows_of(parts) == sorted(row for row, _ in rows.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_that_was_filled_in_is_written(kind: str, tmp_path: pathlib.Path) -> None:
    """Also by a mutation that changes no row, whose result has another name."""
    described = description(**KINDS[kind])
    part = write(tmp_path, Inserted(("west", 0), ((1, 1),)), described, 0)
    assert part.row_version.lacks_position
    filled = fill_position_in(part, 7)
    assert (part.row_version.position, filled.row_version) == (0, make_place("west", 7))
    unchanged = mutate(filled, "DELETE WHERE v = 9", CommandReach.of({"west": 7}), described, tmp_path / "unchanged")
    changed = mutate(filled, "UPDATE v = 2 WHERE v = 1", CommandReach.of({"west": 7}), described, tmp_path / "changed")
    for made in (unchanged, changed):
        made.verify()
        assert made.row_version == make_place("west", 7)
    merge_parts([filled], tmp_path / "merged", described)
    merged = open_part(tmp_path / "merged", name=PartName("all", 0, 0, 1))
    (row,) = pa.Table.from_batches(list(merged.read(ROW_PLACE_NAMES))).to_pylist()
    assert (merged.row_version, row) == (MIXED_PLACES, {"_origin": "west", "_origin_position": 7})


def test_tables_without_places_get_no_columns(tmp_path: pathlib.Path) -> None:
    described = description(**WIDE)
    parts = [write(tmp_path, Inserted(None, ((number, 1),)), described, number) for number in range(2)]
    merge_parts(parts, tmp_path / "m", described)
    merged = open_part(tmp_path / "m")
    assert (merged.row_version, merged.schema.names) == (NO_ROW_VERSION, ("k", "v"))
    assert find_reached_rows(merged, CommandReach.of({})) is True, "older than every reach"


def test_a_merged_part_that_is_committed_anew_has_the_place_of_that_commit(tmp_path: pathlib.Path) -> None:
    described = description(**WIDE)
    parts = [write(tmp_path, Inserted((origin, 3), ((1, 1),)), described, n) for n, origin in enumerate(("a", "b"))]
    merge_parts(parts, tmp_path / "m", described)
    stamp_part(tmp_path / "m", make_place("c", 9), described.settings)
    part = open_part(tmp_path / "m")
    rows = pa.Table.from_batches(list(part.read(ROW_PLACE_NAMES))).to_pylist()
    assert rows == [{"_origin": "c", "_origin_position": 9}] * 2
    assert find_reached_rows(part, CommandReach.of({"c": 8})) is False


@pytest.mark.parametrize("data", [b"{}", b'{"version":2}', b'{"version":1,"origin":"a","position":-1}', b"x"])
def test_a_broken_place_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        RowVersion.decode_place(data)


@pytest.mark.parametrize("text", ['reach: {"a":-1}', 'reach: {"a":"1"}', "reach: []", "reach: {"])
def test_a_broken_reach_is_refused(text: str) -> None:
    rest = "database: d\ntimezone: UTC\ncommands: DELETE WHERE 1\n"
    with pytest.raises(ValueError, match=r"no reach|Expecting"):
        Mutation.decode(f"format version: 2\n{text}\n{rest}")


def test_a_reach_needs_the_later_version() -> None:
    """An older server, which would carry the command out on other rows, refuses it."""
    text = Mutation(parse_stored_mutations("DELETE WHERE 1"), "d", reach=CommandReach.of({"a": 1})).encode()
    with pytest.raises(ValueError, match="format version '1'"):
        Mutation.decode(text.replace("format version: 2", "format version: 1"))
    with pytest.raises(ValueError, match="format version '2'"):
        Mutation.decode("".join(line for line in text.splitlines(True) if not line.startswith("reach")))
