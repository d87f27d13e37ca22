"""Responses on disk: complete ones before they are sent, and the rest of those for slow clients.

All responses of a server share one :class:`SpillSpace`. The files have no name, so they vanish with the process.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from engine.front.http.error_responses import convert_to_pando_error
from parts.common.errors import PandoError

_READ_BYTES = 256 << 10
_IN_MEMORY_BYTES = 1 << 20


class SpillSpace:
    """The disk space for spilled responses. Thread-safe.

    ``most_bytes`` 0 means half of the free disk space at the start.
    """

    def __init__(self, directory: Path, most_bytes: int = 0) -> None:
        self.directory = directory
        self._left_bytes = most_bytes or shutil.disk_usage(directory).free // 2
        self._lock = threading.Lock()

    def reserve(self, size_bytes: int) -> bool:
        """Reserves bytes; returns False if there are not enough."""
        with self._lock:
            is_there = size_bytes <= self._left_bytes
            self._left_bytes -= size_bytes if is_there else 0
        return is_there

    def release(self, size_bytes: int) -> None:
        """Releases reserved bytes."""
        with self._lock:
            self._left_bytes += size_bytes


class AnswerSpill:
    """A spilled response: written once by :meth:`fill`, read once by :meth:`chunks`, then deleted.

    ``limit_bytes`` is the limit of this one.
    """

    def __init__(self, space: SpillSpace, limit_bytes: int = 1 << 62) -> None:
        self._space = space
        self._limit_bytes = limit_bytes
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(space.directory))  # noqa: SIM115
        self.error: PandoError | None = None
        """The error that ended the chunks early."""
        self.size_bytes = 0

    def fill(self, chunks: Iterator[bytes]) -> bool:
        """Writes the chunks while there is space. Returns True when all are written or one has failed.

        A failure, even of the disk, is kept for the reader, who must not take the data for complete.
        """
        try:
            for chunk in chunks:
                self._write(chunk)
                if self.size_bytes > self._limit_bytes:
                    return False
        except _NoSpaceError:
            return False
        except Exception as error:
            self.error = convert_to_pando_error(error)
        return True

    def _write(self, chunk: bytes) -> None:
        # The present chunk is always written, so the limit may be exceeded by one chunk.
        is_there = self._space.reserve(len(chunk))
        self.size_bytes += len(chunk)
        self._file.write(chunk)
        if not is_there:
            self._space.release(-len(chunk))
            raise _NoSpaceError

    def read_chunks(self) -> Iterator[bytes]:
        """Yields the data, then raises the error that ended them, if any."""
        self._file.seek(0)
        try:
            while chunk := self._file.read(_READ_BYTES):
                yield chunk
        finally:
            self.close()
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Deletes the data and releases their space. May be called twice."""
        self._file.close()
        self._space.release(self.size_bytes)
        self.size_bytes = 0


class _NoSpaceError(Exception):
    pass
