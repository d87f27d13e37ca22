"""What comes from another replica: durable when it is here, and told apart from what the disk or the network did."""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer
from engine.interserver.transfer import Transfer
from engine.tables.disk_reservations import DiskReservations
from parts.common.errors import CorruptionError, PandoError
from parts.common.part_name import PartName
from parts.format.hashed_file import call_before_reads, replace_sync, sync_directory
from parts.read.part_reader import open_part
from parts.store.part_store import PartStore
from parts.write.part_writer import write_part
from tests.parts.generated import KINDS, block_of, description_of
from tests.power_cut import power_cut

_NAME = PartName.parse("all_1_1_0")
Fetch = Callable[..., None]
"""Takes the directory, and perhaps the ``Transfer``."""


@pytest.fixture
def broken() -> list[CorruptionError]:
    """What the sender was told of its part."""
    return []


@pytest.fixture(params=list(KINDS))
def fetch(request: pytest.FixtureRequest, tmp_path: Path, broken: list[CorruptionError]) -> Iterator[Fetch]:
    """Fills a new directory with the part of another server."""
    description = description_of([("k", "Int64"), ("s", "String")], ("k",), (), **KINDS[request.param])
    store = PartStore(tmp_path / "theirs", description, time.time, uuid.uuid4)
    directory = store.create_temporary("tmp_insert_")
    write_part(directory, block_of(description, [(i, f"text {i}") for i in range(20)]), description, ())
    part = store.add_preactive(directory, _NAME)
    server = InterserverServer(
        "127.0.0.1",
        0,
        None,
        lambda _, name: (store.hold([name]), part.path),
        on_broken=lambda endpoint, error: broken.append(error),
    )
    server.start()
    client = InterserverClient(None)

    def into(directory: Path, transfer: Transfer | None = None) -> None:
        directory.mkdir()
        client.fetch_part(f"http://127.0.0.1:{server.port}", "/replica", _NAME, directory, transfer)

    yield into
    client.close()
    server.stop()


def test_a_fetched_part_outlasts_a_power_cut(tmp_path: Path, fetch: Fetch) -> None:
    """Its directory too: whoever stages it, or puts it into detached/, only renames it."""
    home = tmp_path / "ours"
    (home / "staged").mkdir(parents=True)
    with power_cut(home, tmp_path / "image"):
        fetch(home / "tmp_fetch_1")
        (home / "tmp_fetch_1").rename(home / "staged" / str(_NAME))
        sync_directory(home / "staged")
    open_part(tmp_path / "image" / "staged" / str(_NAME)).verify()


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 243), (errno.EIO, 75)])
def test_a_disk_that_takes_nothing_is_no_error_of_the_network(
    tmp_path: Path, fetch: Fetch, number: int, code: int
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(number, "the disk takes nothing")

    with replace_sync(fail), pytest.raises(PandoError) as raised:
        fetch(tmp_path / "ours")
    assert raised.value.code == code


def test_what_has_no_room_does_not_begin_to_come(tmp_path: Path, fetch: Fetch) -> None:
    disk = DiskReservations(lambda path: 100)

    def reserve(size: int) -> None:
        disk.require(tmp_path, size, f"fetching {_NAME}")

    with pytest.raises(PandoError, match="Not enough free disk space for fetching all_1_1_0") as raised:
        fetch(tmp_path / "ours", Transfer(reserve=reserve))
    assert raised.value.code == 243
    assert not list((tmp_path / "ours").iterdir())
    fetch(tmp_path / "again")


def test_a_sender_that_cannot_read_its_part_tells_its_table(
    tmp_path: Path, fetch: Fetch, broken: list[CorruptionError]
) -> None:
    def fail(path: Path) -> None:
        if path.is_relative_to(tmp_path / "theirs"):
            raise OSError(errno.EIO, "Input/output error", str(path))

    with call_before_reads(fail), pytest.raises(PandoError) as raised:
        fetch(tmp_path / "ours")
    assert raised.value.code == 210
    assert [(error.code, error.part) for error in broken] == [(74, str(_NAME))]
