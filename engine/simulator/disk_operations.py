"""Reports every file operation below some directories before it happens, and lets it fail.

Python's audit events report opening, listing, making, renaming, linking and removing; fsyncs and mapped files have
hooks of their own (:mod:`parts.format.hashed_file`). A file that is opened for writing is reported twice. ``create``
may fail before anything is there; at ``write`` the file is there, and empty.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from parts.format.hashed_file import call_before_reads

CHANGES = frozenset({"create", "write", "mkdir", "rename", "link", "remove", "rmdir", "sync"})
"""The kinds of operations that change the disk; the others are ``read`` and ``list``."""
GROWTH = frozenset({"create", "write", "mkdir", "rename", "link", "sync"})
"""The kinds that fail on a full disk."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_KINDS = {
    "os.mkdir": "mkdir",
    "os.remove": "remove",
    "os.rmdir": "rmdir",
    "os.listdir": "list",
    "os.scandir": "list",
}
_TWO_PATHS = {"os.rename": "rename", "os.link": "link"}


class DiskOperation(NamedTuple):
    """A file operation. ``path`` is the new path of a rename or link."""

    kind: str
    path: Path

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"


_listener: Callable[[DiskOperation], None] | None = None
_quiet = threading.local()
_is_installed = False


@contextmanager
def disk_operations(listener: Callable[[DiskOperation], None]) -> Iterator[None]:
    """Calls ``listener`` for each operation of this thread in the block.

    It raises ``OSError`` to make one fail.
    """
    global _listener, _is_installed
    if not _is_installed:  # for the life of the process: an audit hook cannot be removed
        sys.addaudithook(_on_event)
        _is_installed = True
    former, _listener = _listener, listener
    _quiet.owner = True
    try:
        with call_before_reads(lambda path: _tell("read", path)):
            yield
    finally:
        _listener = former
        _quiet.owner = former is not None


@contextmanager
def hide_operations() -> Iterator[None]:
    """Hides file operations of the block, which are the simulator's own."""
    former = getattr(_quiet, "is_on", False)
    _quiet.is_on = True
    try:
        yield
    finally:
        _quiet.is_on = former


def _tell(kind: str, path: Path) -> None:
    if _listener is not None and not getattr(_quiet, "is_on", False):
        with hide_operations():
            _listener(DiskOperation(kind, path))


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if _listener is None or not getattr(_quiet, "owner", False) or getattr(_quiet, "is_on", False):
        return
    if event == "open":
        _on_open(*arguments)  # type: ignore[arg-type]
    elif event in _KINDS:
        path, descriptor = arguments[0], arguments[-1] if event not in ("os.listdir", "os.scandir") else -1
        if (found := _resolved(path, descriptor)) is not None:
            _tell(_KINDS[event], found)
    elif event in _TWO_PATHS and (found := _resolved(arguments[1], arguments[3])) is not None:
        _tell(_TWO_PATHS[event], found)


def _on_open(path: object, mode: object, flags: int) -> None:
    found = _resolved(path, -1)
    if found is None:
        return
    if not flags & _WRITING:
        _tell("read" if not flags & os.O_DIRECTORY else "list", found)
        return
    _tell("create", found)
    try:
        _tell("write", found)
    except OSError:
        with hide_operations():
            os.close(os.open(found, flags, 0o644))
        raise


def _resolved(path: object, descriptor: object) -> Path | None:
    """Returns the absolute path; ``None`` for a file descriptor."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, (str, os.PathLike)):
        return None
    if isinstance(descriptor, int) and descriptor >= 0:
        with hide_operations():
            return Path(os.readlink(f"/proc/self/fd/{descriptor}"), path)
    return Path(path)
