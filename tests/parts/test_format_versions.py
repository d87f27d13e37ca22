"""What a newer server wrote: files that are not known here are kept, checked and sent on; a newer major is refused."""

from __future__ import annotations

import json
import pathlib
import time
import uuid
from dataclasses import replace

import pytest
import xxhash

from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer
from parts.common.errors import CorruptionError, PandoError, UserError
from parts.common.part_name import PartName
from parts.format.checksums import Checksums, FileChecksum
from parts.format.file_names import CHECKSUMS, META_FILE
from parts.format.packed_metadata import pack_files, unpack_files
from parts.format.part_files import (
    DATA_FILES,
    SMALL_FILES,
    SmallFile,
    find_data_file,
    get_format_version,
    is_small_file,
)
from parts.read.part_reader import Part, open_part
from parts.store.part_store import PartStore
from parts.table.table_description import TableDescription
from parts.write.part_writer import write_part
from tests.parts.generated import KINDS, WIDE, block_of, description_of

NAME = "all_0_0_0"
ROWS = [(i, f"s{i}") for i in range(20)]


@pytest.fixture(params=list(KINDS))
def description(request: pytest.FixtureRequest) -> TableDescription:
    return description_of([("k", "Int64"), ("s", "String")], ("k",), **KINDS[request.param])


def by_a_newer_server(description: TableDescription, directory: pathlib.Path) -> None:
    """A part of a newer minor version with a small file and a large one that are not known here."""
    write_part(directory, block_of(description, ROWS), description, ())
    (directory / "skp_idx_s.idx").write_bytes(b"an index" * 1000)
    small = {"later": b'{"version":7}'}
    packed = directory / META_FILE
    meta = unpack_files(packed.read_bytes(), NAME) if packed.exists() else {}
    known = Checksums.decode(meta.get(CHECKSUMS) or (directory / CHECKSUMS).read_bytes(), NAME)
    new = {**small, "skp_idx_s.idx": (directory / "skp_idx_s.idx").read_bytes()}
    hashes = {name: FileChecksum(len(data), xxhash.xxh3_128_hexdigest(data)) for name, data in new.items()}
    checksums = replace(known, files={**known.files, **hashes}, version=(known.version[0], 7)).encode()
    if meta:
        packed.write_bytes(pack_files({**meta, **small, CHECKSUMS: checksums}))
    else:
        (directory / "later").write_bytes(small["later"])
        (directory / CHECKSUMS).write_bytes(checksums)


def rows_of(part: Part) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for batch in part.read(["k", "s"]) for row in batch.to_pylist()]


def test_files_of_a_newer_minor_version_are_kept_and_checked(
    description: TableDescription, tmp_path: pathlib.Path
) -> None:
    store = PartStore(tmp_path / "table", description, time.time, uuid.uuid4)
    directory = store.create_temporary("tmp_fetch_")
    by_a_newer_server(description, directory)
    store.commit(store.add_preactive(directory, PartName.parse(NAME)))
    store = PartStore(tmp_path / "table", description, time.time, uuid.uuid4)
    report = store.load()
    assert (len(report.parts), report.broken) == (1, [])
    part = report.parts[0]
    assert part.checksums.version[1] == 7
    assert rows_of(part) == ROWS
    part.verify()
    for file in ("skp_idx_s.idx", *(["later"] if part.part_type == "Wide" else [])):
        path = part.path / file
        original = path.read_bytes()
        path.write_bytes(original[:-1] + b"?")
        with pytest.raises(CorruptionError, match="Checksum doesn't match") as caught:
            open_part(part.path).verify()
        assert (caught.value.code, caught.value.file) == (40, file)
        path.unlink()
        with pytest.raises(CorruptionError, match="File is missing") as caught:
            open_part(part.path)
        assert (caught.value.code, caught.value.file) == (226, file)
        path.write_bytes(original)
    open_part(part.path).verify()


def test_files_of_a_newer_minor_version_are_sent_on(description: TableDescription, tmp_path: pathlib.Path) -> None:
    store = PartStore(tmp_path / "table", description, time.time, uuid.uuid4)
    directory = store.create_temporary("tmp_insert_")
    by_a_newer_server(description, directory)
    part = store.add_preactive(directory, PartName.parse(NAME))
    server = InterserverServer("127.0.0.1", 0, None, lambda _, name: (store.hold([name]), part.path))
    server.start()
    client = InterserverClient(None)
    try:
        (tmp_path / "fetched").mkdir()
        client.fetch_part(f"http://127.0.0.1:{server.port}", "/replica", part.name, tmp_path / "fetched")
    finally:
        client.close()
        server.stop()
    fetched = {file.name: file.read_bytes() for file in (tmp_path / "fetched").iterdir()}
    assert fetched == {file.name: file.read_bytes() for file in part.path.iterdir()}
    open_part(tmp_path / "fetched").verify()


def test_a_newer_major_version_is_refused_by_name(description: TableDescription, tmp_path: pathlib.Path) -> None:
    store = PartStore(tmp_path / "table", description, time.time, uuid.uuid4)
    directory = tmp_path / "table" / NAME
    write_part(directory, block_of(description, ROWS), description, ())
    packed = directory / META_FILE
    meta = unpack_files(packed.read_bytes(), NAME) if packed.exists() else {}
    known = Checksums.decode(meta.get(CHECKSUMS) or (directory / CHECKSUMS).read_bytes(), NAME)
    checksums = replace(known, version=(7, 0)).encode()
    (packed if meta else directory / CHECKSUMS).write_bytes(
        pack_files({**meta, CHECKSUMS: checksums}) if meta else checksums
    )
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    with pytest.raises(UserError, match=f"Part {NAME} is of format version 7; .* up to 6.*newer one") as caught:
        store.load()
    assert (caught.value.code, caught.value.name) == (287, "UNKNOWN_FORMAT_VERSION")
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before, "neither moved nor changed"
    assert store.list_detached() == []


def test_a_newer_envelope_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "Int64"), ("s", "String")], ("k",))
    write_part(tmp_path / NAME, block_of(description, ROWS), description, ())
    packed = tmp_path / NAME / META_FILE
    body = packed.read_bytes()[:-16].replace(b"PANDOMT1", b"PANDOMT7", 1)
    packed.write_bytes(body + xxhash.xxh3_128_digest(body))
    with pytest.raises(PandoError, match=f"Part {NAME} is of format version 7") as caught:
        open_part(tmp_path / NAME)
    assert caught.value.code == 287


@pytest.mark.parametrize("version", [0, -1, "x", None])
def test_a_version_that_never_was_is_corruption(version: object, tmp_path: pathlib.Path) -> None:
    description = description_of([("k", "Int64")], ("k",), **WIDE)
    write_part(tmp_path / NAME, block_of(description, [(1,)]), description, ())
    path = tmp_path / NAME / CHECKSUMS
    body = json.loads(path.read_bytes()[:-34])
    text = json.dumps({**body, "version": version}).encode() + b"\n"
    path.write_bytes(text + xxhash.xxh3_128_hexdigest(text).encode() + b"\n")
    with pytest.raises(CorruptionError):
        open_part(tmp_path / NAME)


def test_a_file_that_changes_answers_needs_a_major_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of a part is that of its newest file: parts without it stay readable everywhere."""
    mask = SmallFile("row_exists", lambda _: b"", lambda data, _: data, since=(2, 0), default=b"")
    monkeypatch.setitem(get_format_version.__globals__["_SMALL_NAMES"], "row_exists", mask)
    assert get_format_version(["k.bin", "count", "checksums"]) == (1, 0)
    assert get_format_version(["k.bin", "count", "metadata_version"]) == (1, 1)
    assert get_format_version(["metadata_version", "row_exists"]) == (2, 0)
    assert get_format_version(["metadata_version"], is_packed=True) == (2, 0)


def test_the_table_of_files_is_whole(tmp_path: pathlib.Path) -> None:
    """Every file of a part has exactly one entry, and every required entry is in every part."""
    assert len({file.name for file in SMALL_FILES}) == len(SMALL_FILES)
    description = replace(description_of([("k", "Int64"), ("count", "String")], ("k",), **WIDE), metadata_version=3)
    write_part(tmp_path / NAME, block_of(description, ROWS), description, ())
    names = {file.name for file in (tmp_path / NAME).iterdir()}
    optional = {"ttl", "row_version", "row_place"}
    assert names == {file.name for file in SMALL_FILES} - optional | {CHECKSUMS, "k.bin", "count.bin"}
    assert {name for name in names if not is_small_file(name)} == {"k.bin", "count.bin"}
    assert find_data_file("k.bin") is DATA_FILES[0]
    assert find_data_file("skp_idx_k.idx") is None
