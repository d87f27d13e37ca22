"""Small files that are replaced, created and removed, on a disk that fails and over a power cut."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from parts.format import hashed_file
from parts.format.durable_files import create_file_durably, remove_durably, replace_file_durably
from tests.failing_disk.disk import Killed, failing
from tests.power_cut import power_cut

OLD, NEW = b"old", b"new"


def replace(home: Path) -> None:
    replace_file_durably(home / "f", NEW)


def create(home: Path) -> None:
    assert create_file_durably(home / "f", NEW, home / "tmp_f")


def remove(home: Path) -> None:
    remove_durably(home / "f")


@contextmanager
def failing_sync(failed: int) -> Iterator[Iterator[int]]:
    """Fails one fsync. Yields the numbers of those to come, from 1."""
    numbers, sync = itertools.count(1), hashed_file._sync

    def fail(descriptor: int) -> None:
        if next(numbers) == failed:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    with hashed_file.replace_sync(fail):
        yield numbers


CASES = [
    pytest.param(replace, OLD, NEW, id="replace"),
    pytest.param(replace, None, NEW, id="replace-a-missing-one"),
    pytest.param(create, None, NEW, id="create"),
    pytest.param(remove, OLD, None, id="remove"),
]


def make_home(home: Path, content: bytes | None) -> Path:
    home.mkdir()
    if content is not None:
        (home / "f").write_bytes(content)
    return home


def read(home: Path) -> bytes | None:
    return (home / "f").read_bytes() if (home / "f").exists() else None


@pytest.mark.parametrize(("act", "former", "wanted"), CASES)
def test_a_failure_at_every_operation(
    act: Callable[[Path], None], former: bytes | None, wanted: bytes | None, tmp_path: Path
) -> None:
    """The file is whole, no draft is left, and the next attempt succeeds."""
    for number in range(1, 20):
        home = make_home(tmp_path / str(number), former)
        with failing(number) as disk, suppress(OSError):
            act(home)
        assert read(home) in (former, wanted), disk.done
        if not disk.has_failed:
            assert read(home) == wanted
            return
        if act is not create or read(home) is None:
            act(home)
        assert read(home) == wanted
        assert [file.name for file in home.iterdir() if file.name != "f"] == [] or act is create
    pytest.fail("it has no end")


@pytest.mark.parametrize(("act", "former", "wanted"), CASES)
def test_killed_at_every_operation(
    act: Callable[[Path], None], former: bytes | None, wanted: bytes | None, tmp_path: Path
) -> None:
    for number in range(1, 20):
        home = make_home(tmp_path / str(number), former)
        with failing(1000, killed_at=number) as disk, suppress(Killed):
            act(home)
        assert read(home) in (former, wanted), disk.done
        if len(disk.done) < number:
            return
    pytest.fail("it has no end")


@pytest.mark.parametrize(("act", "former", "wanted"), CASES)
def test_a_power_cut_after_success_and_after_each_failure(
    act: Callable[[Path], None], former: bytes | None, wanted: bytes | None, tmp_path: Path
) -> None:
    """Success is final; after an error the old content or the new one comes back, whole."""
    for number in range(1, 20):
        home, image = make_home(tmp_path / str(number), former), tmp_path / f"image{number}"
        is_done = False
        with power_cut(home, image), failing_sync(number) as left, suppress(OSError):
            act(home)
            is_done = True
        assert read(image) in ((wanted,) if is_done else (former, wanted)), number
        if next(left) <= number:
            return
    pytest.fail("it has no end")


def test_the_second_of_two_writers_creates_nothing(tmp_path: Path) -> None:
    assert create_file_durably(tmp_path / "f", b"one", tmp_path / "tmp_1")
    assert not create_file_durably(tmp_path / "f", b"two", tmp_path / "tmp_2")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("f", b"one")]


def test_a_draft_of_a_crash_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "f.new").write_bytes(b"half of something longer")
    replace_file_durably(tmp_path / "f", NEW)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("f", NEW)]
    remove_durably(tmp_path / "f")
    remove_durably(tmp_path / "f")


def test_permissions_are_those_asked_for_whatever_draft_a_crash_left(tmp_path: Path) -> None:
    (tmp_path / "f.new").write_bytes(b"")
    (tmp_path / "f.new").chmod(0o644)
    replace_file_durably(tmp_path / "f", NEW, mode=0o600)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
