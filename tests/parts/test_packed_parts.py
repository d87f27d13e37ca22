"""Packed parts: one file on disk, opened from what was written, their data mapped when they are read."""

from __future__ import annotations

import pathlib
import tempfile
import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.common.errors import CorruptionError
from parts.format.file_names import DATA_FILE, META_FILE
from parts.format.hashed_file import SharedSync, replace_sync
from parts.format.packed_metadata import unpack_files
from parts.read.part_reader import Part, open_part
from parts.write.block_preparation import (
    sort_block,
)
from parts.write.part_writer import (
    PartWriter,
    WrittenPart,
    write_part,
)
from tests.parts.generated import ALL_TYPES, block_of, blocks, description_of

SHORT, LONG = 20, 2000


def written(directory: pathlib.Path, rows: int, **settings: int) -> WrittenPart:
    description = description_of([("k", "UInt64"), ("s", "String")], ("k",), ("k",), index_granularity=64, **settings)
    block = block_of(description, [(7, f"{i * 2**40:x}") for i in range(rows)])
    return write_part(directory, block, description, (7,))


def facts(part: Part) -> tuple[object, ...]:
    return (
        part.rows, part.marks, part.schema, part.checksums, part.partition, part.minmax, part.uuid, part.bytes_on_disk,
        part.modification_time, part.primary_index.keys, pa.Table.from_batches(list(part.read(["k", "s"]))),
    )  # fmt: skip


@pytest.mark.parametrize("rows", [SHORT, LONG])
def test_a_part_opened_from_what_was_written_is_the_part_on_disk(rows: int, tmp_path: pathlib.Path) -> None:
    part = written(tmp_path / "7_1_1_0", rows)
    assert [file.name for file in part.path.iterdir()] == [META_FILE]
    assert (part.path / META_FILE).read_bytes() == part.meta
    fresh = open_part(part.path, written=part.meta)
    assert facts(fresh) == facts(open_part(part.path))
    assert fresh.checksums == part.checksums
    fresh.verify()


def test_a_larger_part_has_its_data_in_a_file(tmp_path: pathlib.Path) -> None:
    part = written(tmp_path / "7_1_1_0", LONG, min_bytes_for_full_part_storage=1000)
    assert {file.name for file in part.path.iterdir()} == {META_FILE, DATA_FILE}
    assert part.meta == b""
    packed = written(tmp_path / "7_2_2_0", LONG)
    assert part.content_hash == packed.content_hash
    assert part.checksums.files[DATA_FILE] == packed.checksums.files[DATA_FILE]


def test_a_packed_part_is_read_where_it_was_moved(tmp_path: pathlib.Path) -> None:
    part = open_part(written(tmp_path / "tmp_insert", LONG).path)
    part.rename_directory(tmp_path / "7_1_1_0")
    assert sum(batch.num_rows for batch in part.read(["s"])) == LONG
    (part.path / META_FILE).unlink()
    assert sum(batch.num_rows for batch in part.read(["s"])) == LONG


def test_few_data_that_were_read_are_not_read_again(tmp_path: pathlib.Path) -> None:
    made = written(tmp_path / "7_1_1_0", SHORT)
    part, wrong = open_part(made.path), open_part(made.path)
    (made.path / META_FILE).write_bytes(made.meta[:-1] + b"?")
    with pytest.raises(CorruptionError):
        wrong.verify()
    (made.path / META_FILE).unlink()
    assert sum(batch.num_rows for batch in part.read(["k", "s"])) == SHORT


def test_a_wrong_byte_of_the_data_is_met_by_a_read(tmp_path: pathlib.Path) -> None:
    made = written(tmp_path / "7_1_1_0", SHORT)
    part = open_part(made.path, written=made.meta)
    content = bytearray(made.meta)
    content[made.meta.rindex(unpack_files(made.meta, "")[DATA_FILE]) + 40] ^= 1
    (made.path / META_FILE).write_bytes(content)
    with pytest.raises(CorruptionError) as caught:
        list(part.read(["k"]))
    assert (caught.value.part, caught.value.file) == ("7_1_1_0", DATA_FILE)
    with pytest.raises(CorruptionError):
        part.verify()
    with pytest.raises(CorruptionError):
        open_part(made.path)


def test_threads_share_the_fsyncs_of_a_directory(tmp_path: pathlib.Path) -> None:
    """Every call is followed by an fsync that begins after it; who comes meanwhile shares one."""
    begun: list[int] = []
    first_runs, go_on = threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        begun.append(descriptor)
        first_runs.set()
        assert go_on.wait(30)

    shared = SharedSync(tmp_path)
    with replace_sync(sync):
        threads = [threading.Thread(target=shared) for _ in range(9)]
        threads[0].start()
        assert first_runs.wait(30)
        for thread in threads[1:]:
            thread.start()
        go_on.set()
        for thread in threads:
            thread.join()
        assert 2 <= len(begun) <= 9
        shared()
    assert len(begun) >= 3


def test_a_failed_fsync_fails_for_all_who_shared_it(tmp_path: pathlib.Path) -> None:
    calls: list[int] = []
    first_runs, go_on = threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            first_runs.set()
            assert go_on.wait(30)
        else:
            raise OSError(5, "Input/output error")

    shared = SharedSync(tmp_path)
    outcomes: list[str] = []

    def call() -> None:
        try:
            shared()
            outcomes.append("done")
        except OSError:
            outcomes.append("failed")

    with replace_sync(sync):
        threads = [threading.Thread(target=call) for _ in range(5)]
        threads[0].start()
        assert first_runs.wait(30)
        for thread in threads[1:]:
            thread.start()
        go_on.set()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == ["done"] + ["failed"] * 4


@settings(max_examples=60, deadline=None)
@given(st.data())
@pytest.mark.long
def test_a_part_made_at_once_is_what_the_writer_writes(data: st.DataObject) -> None:
    """Byte for byte: whichever of the two a replica takes."""
    types = data.draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=4))
    columns: list[tuple[str, str] | tuple[str, str, str]] = [(f"c{i}", type_) for i, type_ in enumerate(types)]
    description = description_of([*columns, ("k", "Int8")], ("k",), ("k",), index_granularity=64)
    drawn = data.draw(blocks(description, max_rows=8).filter(lambda block: block.num_rows > 0))
    block = sort_block(drawn, description)
    block = block.set_column(len(types), block.schema.field("k"), pa.array([3] * len(block), pa.int8()))
    with tempfile.TemporaryDirectory() as directory:
        at_once = write_part(pathlib.Path(directory) / "a", block, description, (3,))
        writer = PartWriter(pathlib.Path(directory) / "b", description, (3,), expected_bytes=block.nbytes)
        writer.append(block)
        written = writer.finish()
    assert at_once.meta == written.meta
    assert replace(at_once, path=written.path) == written
