"""Records of which parts an execution of a scan reads, so that all its tasks read the same.

``coordination.reads.scan_records`` keeps them for replicas; this module keeps them for one server, in files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from engine.tables.file_ages import UnchangedFiles
from parts.format.durable_files import create_file_durably

_UNUSED_SECONDS = 86_400.0


class ScanRecords(Protocol):
    """The records by the name of the execution, which is valid as the name of a file and of a znode."""

    def find(self, name: str) -> bytes | None:
        """Returns the recorded content, if any."""

    def record(self, name: str, content: bytes) -> bytes:
        """Records ``content`` unless there is a record; returns the recorded content."""

    def touch(self, name: str) -> None:
        """Marks the record as still in use."""


class FileScanRecords:
    """Records in a directory; implements :class:`ScanRecords`. A crash leaves a whole record or none."""

    def __init__(self, directory: Path, new_uuid: Callable[[], uuid.UUID]) -> None:
        self._directory = directory
        self._new_uuid = new_uuid
        self._unchanged = UnchangedFiles()

    def find(self, name: str) -> bytes | None:
        """Returns the recorded content, if any."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def record(self, name: str, content: bytes) -> bytes:
        """Links the content under its name durably, unless there is a file already."""
        self._directory.mkdir(exist_ok=True)
        file, draft = self._directory / name, self._directory / f"tmp_{self._new_uuid().hex}"
        return content if create_file_durably(file, content, draft) else file.read_bytes()

    def touch(self, name: str) -> None:
        """Sets the file's time to now."""
        os.utime(self._directory / name)

    def clean_up(self, now: float) -> None:
        """Removes the records that were not used for a day. ``now``: monotonic seconds."""
        if not self._directory.exists():
            return
        for file, age in self._unchanged.ages(self._directory.iterdir(), now).items():
            if age > _UNUSED_SECONDS:
                file.unlink(missing_ok=True)
