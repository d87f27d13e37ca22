"""Simulates what a disk holds after a power cut, in the strictest reading of POSIX.

A file has the bytes of its last fsync, none without one; a directory has the entries of its own last fsync. The content
at the beginning of the recording counts as durable. Only an fsync of the directory makes a rename, a creation or a
removal durable.
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

from engine.simulator.disk_operations import hide_operations
from parts.format.hashed_file import replace_sync

Tree = dict[str, Union[bytes, "Tree"]]
"""A directory: by name, the bytes of a file or another directory."""


def read_directory(path: Path) -> Tree:
    """Returns the present content, durable or not."""
    with hide_operations():
        entries = sorted(path.iterdir())
        return {entry.name: read_directory(entry) if entry.is_dir() else entry.read_bytes() for entry in entries}


def write_directory(path: Path, tree: Tree) -> None:
    """Replaces the content of ``path`` by the tree."""
    with hide_operations():
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        for name, content in tree.items():
            if isinstance(content, bytes):
                (path / name).write_bytes(content)
            else:
                write_directory(path / name, content)


class SimulatedDisk:
    """A recording of what is fsynced below ``root``, which must exist.

    Must be closed. ``before_sync`` is called with the path, and may raise as an fsync does; then nothing becomes
    durable.
    """

    def __init__(self, root: Path, before_sync: Callable[[Path], None] = lambda path: None) -> None:
        self.root = root
        self._before_sync = before_sync
        self._files: dict[int, bytes] = {}
        self._directories: dict[int, dict[str, tuple[int, bool]]] = {}
        self._held: dict[int, int] = {}
        """By inode, an open descriptor that keeps the inode number from being used again."""
        self._lock = threading.Lock()
        with hide_operations():
            for directory, _, names in os.walk(root):
                self._note(directory)
                for name in names:
                    self._note(os.path.join(directory, name))

    def sync(self, path: Path) -> None:
        """Makes ``path``, at or below ``root``, durable as it is now."""
        self._before_sync(path)
        with self._lock, hide_operations():
            self._note(str(path))

    def _note(self, path: str) -> None:
        facts = self._hold(path)
        if stat.S_ISDIR(facts.st_mode):
            with os.scandir(path) as found:
                entries = list(found)
            self._directories[facts.st_ino] = {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}
            for entry in entries:
                if entry.inode() not in self._held:
                    self._hold(entry.path)
        else:
            self._files[facts.st_ino] = os.pread(self._held[facts.st_ino], facts.st_size, 0)

    def _hold(self, path: str) -> os.stat_result:
        facts = os.stat(path)
        if facts.st_ino not in self._held:
            self._held[facts.st_ino] = os.open(path, os.O_RDONLY)
        return facts

    def get_durable_tree(self) -> Tree:
        """Returns the content after a power cut."""
        with self._lock:
            return self._tree(self.root.stat().st_ino)

    def _tree(self, inode: int) -> Tree:
        return {
            name: self._tree(child) if is_directory else self._files.get(child, b"")
            for name, (child, is_directory) in sorted(self._directories.get(inode, {}).items())
        }

    def close(self) -> None:
        """Closes the open descriptors."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


@contextmanager
def record_syncs(disks: dict[Path, SimulatedDisk]) -> Iterator[None]:
    """Sends every fsync of this process to the disk of its path instead of the operating system.

    Those outside all disks do nothing.
    """

    def sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        for root, disk in list(disks.items()):
            if f"{path}/".startswith(f"{root}/"):
                disk.sync(Path(path))

    with replace_sync(sync):
        yield
