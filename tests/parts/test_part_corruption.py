"""Wrong, torn and missing files are found, named, and never give rows."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from parts.errors import CorruptionError
from parts.layout import META_FILE
from parts.reader import Part, open_part
from parts.writer import write_part
from tests.parts.generated import WIDE, block_of, description_of

COLUMNS = [("k", "Int64"), ("s", "String"), ("n", "Nullable(Int32)"), ("c", "LowCardinality(String)"), ("p", "Date")]


@pytest.fixture(params=["Compact", "Wide"])
def part_directory(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    import datetime

    description = description_of(COLUMNS, ("k",), ("p",), **(WIDE if request.param == "Wide" else {}))
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
