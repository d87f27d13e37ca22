"""What a disk holds after a power cut, in the strictest reading of POSIX.

A file has the bytes of its last fsync, none without one; a directory has the entries of its own last fsync. What was
there when the recording began counts as durable. Names, not contents, follow renames: only an fsync of the directory
makes a rename, a creation or a removal last.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """Records every fsync below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[int, bytes] = {}
        self._directories: dict[int, dict[str, tuple[int, bool]]] = {}
        self._held: list[int] = []
        """Open descriptors, so that no inode number is used twice."""
        for directory, _, names in os.walk(root):
            self._note(Path(directory))
            for name in names:
                self._note(Path(directory) / name)

    def _note(self, path: Path) -> None:
        """``path`` is durable as it is now."""
        descriptor = os.open(path, os.O_RDONLY)
        self._held.append(descriptor)
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            with os.scandir(path) as entries:
                self._directories[facts.st_ino] = {e.name: (e.inode(), e.is_dir()) for e in entries}
            for name in os.listdir(path):
                self._held.append(os.open(path / name, os.O_RDONLY))
        else:
            self._files[facts.st_ino] = path.read_bytes()

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        fsync = os.fsync

        def recorded(descriptor: int) -> None:
            fsync(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_relative_to(self.root):
                self._note(path)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", recorded)
            yield

    def write_image(self, target: Path) -> Path:
        """The disk as it is found after the cut."""
        self._write_directory(self.root.stat().st_ino, target)
        return target

    def _write_directory(self, inode: int, target: Path) -> None:
        target.mkdir()
        for name, (child, is_directory) in self._directories.get(inode, {}).items():
            if is_directory:
                self._write_directory(child, target / name)
            else:
                (target / name).write_bytes(self._files.get(child, b""))

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)


@contextmanager
def power_cut(root: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Records while the block runs; ``target`` is the image when it has ended."""
    disk = Disk(root)
    try:
        with disk.recording(monkeypatch):
            yield target
        disk.write_image(target)
    finally:
        disk.close()
