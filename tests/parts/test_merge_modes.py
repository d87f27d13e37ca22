"""Modes see slices of whole keys, however large a key is; FINAL gives the rows that a merge would leave."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.common.errors import UserError
from parts.merge import Deduplicating, FinalSource, merge_parts, mode_of_engine, read_final
from parts.read.part_reader import open_part
from parts.table.merge_mode import ORDINARY, MergeMode, SortedRows
from parts.table.table_description import TableDescription
from tests.parts.generated import WIDE, block_of, blocks, description_of, plain, same_rows
from tests.parts.test_part_merge import NO_SYNC, merged, read, write_sources
from tests.portions import one_in


@dataclass(frozen=True)
class LastOfKey(MergeMode):
    """A mode as a module of its own would have it: of each key the row that was inserted last."""

    @property
    def name(self) -> str:
        return "LastOfKey"

    def reduce(self, rows: SortedRows) -> pa.Table:
        ends = np.roll(rows.key_starts, -1)
        ends[-1:] = True
        return rows.block.filter(pa.array(ends))


@dataclass(frozen=True)
class Watched(MergeMode):
    """Another mode; notes how many rows it is given at once."""

    mode: MergeMode
    sizes: list[int]

    @property
    def name(self) -> str:
        return self.mode.name

    def reduce(self, rows: SortedRows) -> pa.Table:
        self.sizes.append(rows.block.num_rows)
        return self.mode.reduce(rows)

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        def noted() -> Iterator[pa.Table]:
            for block in blocks:
                self.sizes.append(block.num_rows)
                yield block

        return self.mode.reduce_one_key(noted())


def last_of_each(tables: Sequence[pa.Table], description: TableDescription) -> list[dict[str, object]]:
    kept = {row["k"]: row for table in tables for row in plain(table).to_pylist()}
    return [kept[key] for key in sorted(kept)] if description.sorting_key else list(kept.values())[-1:]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.long
def test_a_mode_gets_whole_keys_whatever_the_slices(data: st.DataObject) -> None:
    description = description_of([("k", "UInt8"), ("v", "LowCardinality(String)")], ("k",), **NO_SYNC)
    rows = st.lists(st.tuples(st.integers(0, 3), st.text(max_size=2)), max_size=30)
    tables = [block_of(description, data.draw(rows)) for _ in range(3)]
    target = data.draw(st.sampled_from([None, 1, 5]))
    described = replace(description, merge_mode=LastOfKey())
    with tempfile.TemporaryDirectory() as directory:
        parts = write_sources(directory, tables, description)
        part = merged(parts, pathlib.Path(directory) / "m", described, target_slice_rows=target)
        assert plain(read(part)).to_pylist() == last_of_each(tables, description)
        final = list(read_final([FinalSource(part) for part in parts], described, ["v"], target_slice_rows=target))
        assert [v for block in final for v in block.column("v").to_pylist()] == read(part).column("v").to_pylist()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_rows_of_one_key_are_compared_over_all_blocks(data: st.DataObject) -> None:
    columns = [("k", "Int8"), ("f", "Float32"), ("s", "LowCardinality(Nullable(String))"),
               ("l", "Array(Array(Nullable(String)))"), ("b", "FixedString(2)"), ("d", "DateTime64(9)"),
               ("m", "Map(String, Bool)"), ("t", "Tuple(Bool, Decimal(9, 2))")]  # fmt: skip
    description = description_of(columns, (), **NO_SYNC)
    pool = data.draw(blocks(description, 5))
    picks = st.lists(st.integers(0, max(pool.num_rows - 1, 0)), max_size=12 if pool.num_rows else 0)
    whole = [pool.take(pa.array(data.draw(picks), pa.int64())) for _ in range(3)]
    expected = Deduplicating(ORDINARY).reduce(SortedRows(pa.concat_tables(whole), lambda _: ()))
    found = list(Deduplicating(ORDINARY).reduce_one_key(iter(whole)))
    assert same_rows(pa.concat_tables(found), expected)


@pytest.mark.parametrize("order_by", one_in(2, [(("k",),), ((),)]))
@pytest.mark.parametrize("mode", [ORDINARY, LastOfKey(), Deduplicating(ORDINARY)], ids=lambda mode: type(mode).__name__)
@pytest.mark.long
def test_a_key_of_a_million_rows_needs_the_memory_of_a_block(
    mode: MergeMode, order_by: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    """A key with more rows than a slice may have comes in blocks of a slice at most."""
    columns = [("k", "UInt8"), ("v", "UInt64"), ("s", "String")]
    description = description_of(columns, order_by, index_granularity=1024, **WIDE, **NO_SYNC)
    rows, target = 600_000, 16_384
    numbers = pa.array(np.arange(rows, dtype=np.uint64) // 3)
    heavy = pa.Table.from_arrays(
        [pa.repeat(pa.scalar(1, pa.uint8()), rows), numbers, numbers.cast(pa.string())],
        schema=description.schema.arrow,
    )
    parts = write_sources(tmp_path, [heavy, heavy], description)
    sizes: list[int] = []
    allocated: list[int] = []
    before = pa.total_allocated_bytes()
    merge_parts(
        parts,
        tmp_path / "m",
        description,
        mode=Watched(mode, sizes),
        target_slice_rows=target,
        on_progress=lambda _: allocated.append(pa.total_allocated_bytes() - before),
    )
    merged_part = open_part(tmp_path / "m")
    expected = {"Ordinary": 2 * rows, "LastOfKey": 1}.get(mode.name, 0)
    assert merged_part.rows == (rows // 3 if isinstance(mode, Deduplicating) else expected)
    assert max(sizes) <= target
    assert sum(sizes) == 2 * rows
    assert max(allocated) < 16 * 1024 * 1024, "a window of the writer, and a few blocks"


def test_engines_have_their_modes() -> None:
    schema = description_of([("k", "UInt8")]).schema
    assert mode_of_engine("MergeTree", (), schema) == mode_of_engine("ReplicatedMergeTree", (), schema) == ORDINARY
    assert ORDINARY.name == "Ordinary"  # replicas compare it
    with pytest.raises(UserError, match="Version column w does not exist") as caught:
        mode_of_engine("ReplacingMergeTree", ("w",), schema)
    assert caught.value.code == 16
    with pytest.raises(UserError, match="Unknown table engine Graph") as caught:
        mode_of_engine("Graph", (), schema)
    assert caught.value.code == 56
