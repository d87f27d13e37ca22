"""A disk that fails at chosen operations of this thread that change something."""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parts.format.hashed_file import replace_sync

_OPERATIONS = ("mkdir", "rename", "replace", "unlink", "rmdir", "link", "write", "writev")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Killed(BaseException):
    """The process is gone."""


class FailingDisk:
    """Counts the operations of the thread that made it, and fails those of the numbers ``fails`` (from 1). From
    ``killed_at`` on there are none any more; 0: never. ``only``: what counts, where it is not everything."""

    def __init__(self, fails: range, error: int, killed_at: int, only: Collection[str]) -> None:
        self._only = only
        self._fails, self._error, self._killed_at = fails, error, killed_at
        self._thread = threading.get_ident()
        self.done: list[str] = []

    def __call__(self, operation: str, place: object) -> None:
        if threading.get_ident() != self._thread or (self._only and operation not in self._only):
            return
        name = Path(os.fsdecode(place)).name if isinstance(place, str | bytes | os.PathLike) else str(place)
        self.done.append(f"{operation} {name}")
        if 0 < self._killed_at <= len(self.done):
            raise Killed
        if len(self.done) in self._fails:
            raise OSError(self._error, os.strerror(self._error), name)

    @property
    def has_failed(self) -> bool:
        return len(self.done) >= self._fails.start


@contextmanager
def failing(
    number: int, *, times: int = 1, error: int = errno.ENOSPC, killed_at: int = 0, only: Collection[str] = ()
) -> Iterator[FailingDisk]:
    """The operation of this number fails, and so do the next ``times - 1``."""
    disk = FailingDisk(range(number, number + times), error, killed_at, only)
    originals = {name: getattr(os, name) for name in (*_OPERATIONS, "open")}
    open_file = io.open

    def hooked(name: str) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            disk(name, arguments[0])
            return originals[name](*arguments, **options)

        return operation

    def open_descriptor(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & _WRITING:
            disk("open", path)
        descriptor: int = originals["open"](path, flags, *arguments, **options)
        return descriptor

    def open_stream(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+") or not isinstance(file, str | os.PathLike):
            return open_file(file, mode, *arguments, **options)
        disk("open", file)
        stream = open_file(file, mode, *arguments, **options)
        write = stream.write

        def written(data: Any) -> int:
            disk("write", file)
            count: int = write(data)
            return count

        stream.write = written  # type: ignore[method-assign]
        return stream

    def sync(descriptor: int) -> None:
        disk("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))

    try:
        for name in _OPERATIONS:
            setattr(os, name, hooked(name))
        os.open = open_descriptor  # type: ignore[assignment]
        builtins.open = io.open = open_stream  # type: ignore[assignment]
        with replace_sync(sync):
            yield disk
    finally:
        builtins.open = io.open = open_file
        for name, original in originals.items():
            setattr(os, name, original)
