"""Exports that nobody ends: their folders go when nothing was written into them for a day, and no others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine.scan.parquet_export import ABANDONED_SECONDS, remove_abandoned_exports
from engine.server.user_files import UserFiles

_ID = "0123456789abcdef0123456789abcdef"
_FILE = "part-00000-0123456789ab.parquet"


class Folder:
    """Something below ``user_files_path`` that looks like an export which nobody touched for two days."""

    def __init__(self, root: Path, name: str, *files: str) -> None:
        self.path = root / name
        self.path.mkdir(parents=True)
        for file in files:
            (self.path / file).write_bytes(b"rows")
        for path in (*self.path.iterdir(), self.path):
            os.utime(path, (0, time.time() - 2 * ABANDONED_SECONDS))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "user_files"


def removed(root: Path) -> list[str]:
    return sorted(remove_abandoned_exports(UserFiles(root), time.time()))


def test_what_nobody_writes_goes(root: Path) -> None:
    first = Folder(root, f"hits.unfinished-{_ID}", _FILE, ".tmp-7", "_manifest.json")
    deep = Folder(root, f"a/b c/hits.unfinished-{_ID}")
    assert removed(root) == [f"a/b c/hits.unfinished-{_ID}", f"hits.unfinished-{_ID}"]
    assert not first.path.exists()
    assert not deep.path.exists()
    assert (root / "a" / "b c").is_dir()
    assert removed(root) == []


def test_what_somebody_writes_stays(root: Path) -> None:
    writing = Folder(root, f"a.unfinished-{_ID}", ".tmp-7", _FILE)
    os.utime(writing.path / ".tmp-7")
    beginning = Folder(root, f"b.unfinished-{_ID}")
    (beginning.path / ".tmp-8").touch()
    assert removed(root) == []
    assert writing.path.is_dir()


def test_what_is_of_others_stays(root: Path, tmp_path: Path) -> None:
    of_others = [
        Folder(root, "a.unfinished-mine", _FILE),
        Folder(root, f"finished-{_ID}", _FILE),
        Folder(root, f"b.unfinished-{_ID}", _FILE, "notes.txt"),
        Folder(root, f"c.unfinished-{_ID}/below"),
        Folder(tmp_path, f"outside/d.unfinished-{_ID}", _FILE),
        Folder(root, f"e.unfinished-{_ID[:5]}", _FILE),
    ]
    (root / "link").symlink_to(tmp_path / "outside")
    (root / f"link.unfinished-{_ID}").symlink_to(tmp_path / "outside" / f"d.unfinished-{_ID}")
    os.utime(root / f"c.unfinished-{_ID}", (0, 0))
    assert removed(root) == []
    assert all(folder.path.is_dir() for folder in of_others)


def test_files_of_the_whole_machine_are_not_looked_through(root: Path) -> None:
    folder = Folder(root, f"a.unfinished-{_ID}", _FILE)
    assert list(remove_abandoned_exports(UserFiles(root, is_confined=False), time.time())) == []
    assert list(remove_abandoned_exports(UserFiles(root / "nothing"), time.time())) == []
    assert folder.path.is_dir()
