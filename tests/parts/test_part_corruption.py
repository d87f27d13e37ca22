"""Wrong, torn and missing files are found, named, and never give rows."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pyarrow as pa
import pytest

from parts.common.errors import CorruptionError
from parts.format.file_names import META_FILE
from parts.format.flat_arrays import LayoutError, flatten_array, rebuild_array
from parts.read.part_reader import Part, open_part
from parts.write.part_writer import write_part
from tests.parts.generated import KINDS, block_of, description_of
from tests.portions import one_in

COLUMNS = [("k", "Int64"), ("s", "String"), ("n", "Nullable(Int32)"), ("c", "LowCardinality(String)"), ("p", "Date")]


@pytest.fixture(params=one_in(3, KINDS))
def part_directory(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    import datetime

    description = description_of(COLUMNS, ("k",), ("p",), **KINDS[request.param])
    day = datetime.date(2024, 2, 3)
    rows = [(i, f"text {i}" * 4, None if i % 3 else i, f"c{i % 2}", day) for i in range(20)]
    directory = tmp_path / "20240203_1_1_0"
    write_part(directory, block_of(description, rows), description, (day,))
    return directory


def consume(directory: pathlib.Path) -> None:
    """Opens, reads all, verifies."""
    part = open_part(directory)
    list(part.read(list(part.schema.names)))
    assert part.primary_index.marks == part.marks
    part.verify()


@pytest.mark.long
def test_every_flipped_byte_is_found(part_directory: pathlib.Path) -> None:
    consume(part_directory)
    for path in sorted(part_directory.iterdir()):
        original = path.read_bytes()
        for offset in range(len(original)):
            damaged = bytearray(original)
            damaged[offset] ^= 1 << offset % 8
            path.write_bytes(damaged)
            with pytest.raises(CorruptionError) as caught:
                consume(part_directory)
            assert caught.value.part == "20240203_1_1_0"
            assert caught.value.file in (path.name, "columns", "checksums") or path.name == META_FILE, caught.value
            if path.suffix == ".bin" and path.name != META_FILE:
                assert caught.value.file == path.name
                assert caught.value.code == 40
                assert caught.value.offset is not None
                assert caught.value.offset <= offset
        path.write_bytes(original)
    consume(part_directory)


def test_reading_never_returns_rows_of_a_damaged_frame(part_directory: pathlib.Path) -> None:
    part = open_part(part_directory)
    file = "s.bin" if part.part_type == "Wide" else "data.bin"
    if not (part_directory / file).exists():
        pytest.skip("opening checks the data of a packed part")
    path = part_directory / file
    original = path.read_bytes()
    for offset in range(0, len(original), 7):
        path.write_bytes(original[:offset] + bytes([original[offset] ^ 255]) + original[offset + 1 :])
        fresh = open_part(part_directory)
        rows = [row for name in ("k", "s") for row in _read_or_none(fresh, name)]
        assert rows == [] or path.name == "data.bin" or len(rows) == 20
    path.write_bytes(original)


def _read_or_none(part: Part, column: str) -> list[object]:
    try:
        return [row for batch in part.read([column]) for row in batch.column(0).to_pylist()]
    except CorruptionError:
        return []


def test_torn_and_missing_files(part_directory: pathlib.Path) -> None:
    for path in sorted(part_directory.iterdir()):
        original = path.read_bytes()
        for size in (0, 1, len(original) // 2, len(original) - 1):
            path.write_bytes(original[:size])
            with pytest.raises(CorruptionError) as caught:
                consume(part_directory)
            assert caught.value.file == path.name
        path.write_bytes(original + b"\0")
        with pytest.raises(CorruptionError):
            consume(part_directory)
        path.unlink()
        with pytest.raises(CorruptionError) as caught:
            consume(part_directory)
        assert caught.value.part == "20240203_1_1_0"
        path.write_bytes(original)
    consume(part_directory)


def test_foreign_file_and_missing_directory(part_directory: pathlib.Path) -> None:
    (part_directory / "other").write_bytes(b"?")
    with pytest.raises(CorruptionError, match="does not belong to the part") as caught:
        open_part(part_directory).verify()
    assert (caught.value.name, caught.value.file) == ("UNEXPECTED_FILE_IN_DATA_PART", "other")
    shutil.rmtree(part_directory)
    with pytest.raises(CorruptionError, match="Directory is missing"):
        open_part(part_directory)


def test_frames_of_another_place_are_found_by_the_file_hash(part_directory: pathlib.Path) -> None:
    """Valid frames in the wrong file: every frame checksum matches, the whole file's does not."""
    part = open_part(part_directory)
    if part.part_type != "Wide":
        pytest.skip("one data file")
    k, n = part_directory / "k.bin", part_directory / "n.bin"
    if k.stat().st_size != n.stat().st_size:
        k.write_bytes(n.read_bytes())
    with pytest.raises(CorruptionError) as caught:
        open_part(part_directory).verify()
    assert caught.value.file == "k.bin"


LAYOUTS = {
    "an index outside its dictionary": (pa.dictionary(pa.int32(), pa.string()), [(2, 0), (1, 0)],
                                        [None, np.array([0, 7], "<u4"), None, np.array([1], "<u4"), b"x"]),
    "a negative index": (pa.dictionary(pa.int32(), pa.string()), [(1, 0), (1, 0)],
                         [None, np.array([-1], "<i4"), None, np.array([1], "<u4"), b"x"]),
    "lengths that pass 2 GiB": (pa.string(), [(3, 0)], [None, np.array([2**31, 2**31, 2], "<u4"), b"xx"]),
    "one negative length": (pa.string(), [(2, 0)], [None, np.array([4, -4], "<i4"), b"xxxx"]),
    "too few bytes": (pa.string(), [(1, 0)], [None, np.array([9], "<u4"), b"x"]),
    "too few elements": (pa.list_(pa.int8()), [(1, 0), (2, 0)], [None, np.array([9], "<u4"), None, b"xx"]),
    "too few validity bits": (pa.int8(), [(20, 1)], [b"\1", bytes(20)]),
    "nulls without bits": (pa.int8(), [(2, 1)], [None, bytes(2)]),
    "elements of a tuple that are too few": (pa.struct([("a", pa.int8())]), [(5, 0), (2, 0)], [None, None, bytes(2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_content_that_does_not_hold_together_is_refused_though_its_checksum_holds(name: str) -> None:
    type_, nodes, buffers = LAYOUTS[name]
    given = iter([None if data is None else pa.py_buffer(data) for data in buffers])
    with pytest.raises(LayoutError):
        rebuild_array(type_, iter(nodes), lambda: next(given))


def test_a_column_of_nulls_alone_has_an_empty_dictionary() -> None:
    array = pa.array([None, None], pa.dictionary(pa.int32(), pa.string()))
    flat = flatten_array(array)
    buffers = iter([buffer for buffer, _ in flat.buffers])
    assert rebuild_array(array.type, iter(flat.nodes), lambda: next(buffers)).to_pylist() == [None, None]
