"""Answers on disk: those that are made whole before they are sent, and the rest of those whose clients read slowly.

All answers of a server share one :class:`SpillSpace`. Files have no name: they are gone when the process is.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from engine.front.http.error_responses import as_pando_error
from parts.common.errors import PandoError

_READ_BYTES = 256 << 10
_IN_MEMORY_BYTES = 1 << 20


class SpillSpace:
    """``most_bytes`` 0 is half of what is free on the disk at the start. Thread-safe."""

    def __init__(self, directory: Path, most_bytes: int = 0) -> None:
        self.directory = directory
        self._left_bytes = most_bytes or shutil.disk_usage(directory).free // 2
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> bool:
        with self._lock:
            is_there = size_bytes <= self._left_bytes
            self._left_bytes -= size_bytes if is_there else 0
        return is_there

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            self._left_bytes += size_bytes


class AnswerSpill:
    """Written once by :meth:`fill`, read once by :meth:`chunks`, then gone. ``limit_bytes`` bounds this one."""

    def __init__(self, space: SpillSpace, limit_bytes: int = 1 << 62) -> None:
        self._space = space
        self._limit_bytes = limit_bytes
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(space.directory))  # noqa: SIM115
        self.error: PandoError | None = None
        """What ended the chunks before their time."""
        self.size_bytes = 0

    def fill(self, chunks: Iterator[bytes]) -> bool:
        """Writes what comes, as long as there is space. True when nothing more is to come: whatever failed, be it the
        disk, is kept for the reader, who must not take the rest for the whole."""
        try:
            for chunk in chunks:
                self._write(chunk)
                if self.size_bytes > self._limit_bytes:
                    return False
        except _NoSpaceError:
            return False
        except Exception as error:
            self.error = as_pando_error(error)
        return True

    def _write(self, chunk: bytes) -> None:
        # What is in hand is always kept; the space may be passed by one chunk.
        is_there = self._space.take(len(chunk))
        self.size_bytes += len(chunk)
        self._file.write(chunk)
        if not is_there:
            self._space.give_back(-len(chunk))
            raise _NoSpaceError

    def chunks(self) -> Iterator[bytes]:
        """Raises the error that ended the chunks, after them."""
        self._file.seek(0)
        try:
            while chunk := self._file.read(_READ_BYTES):
                yield chunk
        finally:
            self.close()
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Twice is fine."""
        self._file.close()
        self._space.give_back(self.size_bytes)
        self.size_bytes = 0


class _NoSpaceError(Exception):
    pass
