"""What the executions of scans read, written down, so that all tasks of one read the same parts: see
``coordination.reads.scan_records``, which keeps it for replicas. Here it is kept for one server, in files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from engine.tables.file_ages import UnchangedFiles
from parts.format.hashed_file import HashedFile, sync_directory, sync_files

_UNUSED_SECONDS = 86_400.0


class ScanRecords(Protocol):
    """By the name of the execution, which is a name of a file and of a znode."""

    def find(self, name: str) -> bytes | None:
        """What was recorded."""

    def record(self, name: str, content: bytes) -> bytes:
        """What is recorded now: ``content``, or what somebody else recorded before."""

    def touch(self, name: str) -> None:
        """It is still in use."""


class FileScanRecords:
    """Implements :class:`ScanRecords` in a directory. A crash leaves a whole record or none."""

    def __init__(self, directory: Path, new_uuid: Callable[[], uuid.UUID]) -> None:
        self._directory = directory
        self._new_uuid = new_uuid
        self._unchanged = UnchangedFiles()

    def find(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def record(self, name: str, content: bytes) -> bytes:
        self._directory.mkdir(exist_ok=True)
        temporary = self._directory / f"tmp_{self._new_uuid().hex}"
        file = HashedFile(temporary)
        file.write([content])
        sync_files([file])
        file.close()
        try:
            os.link(temporary, self._directory / name)
        except FileExistsError:
            return (self._directory / name).read_bytes()
        finally:
            temporary.unlink()
        sync_directory(self._directory)
        return content

    def touch(self, name: str) -> None:
        os.utime(self._directory / name)

    def clean_up(self, now: float) -> None:
        """``now``: monotonic seconds."""
        if not self._directory.exists():
            return
        for file, age in self._unchanged.ages(self._directory.iterdir(), now).items():
            if age > _UNUSED_SECONDS:
                file.unlink(missing_ok=True)
