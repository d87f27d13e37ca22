"""What a disk holds after a power cut, in the strictest reading of POSIX.

A file has the bytes of its last fsync, none without one; a directory has the entries of its own last fsync. What was
there when the recording began counts as durable. Names, not contents, follow renames: only an fsync of the directory
makes a rename, a creation or a removal last.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

from engine.simulator.disk_operations import untold
from parts.format.hashed_file import replace_sync

Tree = dict[str, Union[bytes, "Tree"]]
"""A directory: from a name to a file's bytes or to another directory."""


def read_directory(path: Path) -> Tree:
    """What is there now, whether it would last or not."""
    with untold():
        entries = sorted(path.iterdir())
        return {entry.name: read_directory(entry) if entry.is_dir() else entry.read_bytes() for entry in entries}


def write_directory(path: Path, tree: Tree) -> None:
    """``path`` holds the tree and nothing else."""
    with untold():
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        for name, content in tree.items():
            if isinstance(content, bytes):
                (path / name).write_bytes(content)
            else:
                write_directory(path / name, content)


class SimulatedDisk:
    """Records what is fsynced below ``root``, which exists. Close it.

    ``before_sync`` is called with the path, and may fail as an fsync does: nothing is durable then.
    """

    def __init__(self, root: Path, before_sync: Callable[[Path], None] = lambda path: None) -> None:
        self.root = root
        self._before_sync = before_sync
        self._files: dict[int, bytes] = {}
        self._directories: dict[int, dict[str, tuple[int, bool]]] = {}
        self._held: dict[int, int] = {}
        """By inode: a descriptor that keeps its number from being used again."""
        self._lock = threading.Lock()
        with untold():
            for directory, _, names in os.walk(root):
                self._note(Path(directory))
                for name in names:
                    self._note(Path(directory) / name)

    def sync(self, path: Path) -> None:
        """``path``, which is ``root`` or below it, is durable as it is now."""
        self._before_sync(path)
        with self._lock, untold():
            self._note(path)

    def _note(self, path: Path) -> None:
        facts = self._hold(path)
        if stat.S_ISDIR(facts.st_mode):
            with os.scandir(path) as found:
                entries = list(found)
            self._directories[facts.st_ino] = {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}
            for entry in entries:
                self._hold(Path(entry.path))
        else:
            self._files[facts.st_ino] = path.read_bytes()

    def _hold(self, path: Path) -> os.stat_result:
        descriptor = os.open(path, os.O_RDONLY)
        facts = os.fstat(descriptor)
        if facts.st_ino in self._held:
            os.close(descriptor)
        else:
            self._held[facts.st_ino] = descriptor
        return facts

    def get_durable_tree(self) -> Tree:
        """The disk as it is found."""
        with self._lock:
            return self._tree(self.root.stat().st_ino)

    def _tree(self, inode: int) -> Tree:
        return {
            name: self._tree(child) if is_directory else self._files.get(child, b"")
            for name, (child, is_directory) in sorted(self._directories.get(inode, {}).items())
        }

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


@contextmanager
def record_syncs(disks: dict[Path, SimulatedDisk]) -> Iterator[None]:
    """Every fsync of this process goes to the disk of its path instead of the operating system; others go nowhere."""

    def sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        for root, disk in list(disks.items()):
            if path.is_relative_to(root):
                disk.sync(path)

    with replace_sync(sync):
        yield
