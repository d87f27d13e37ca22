"""Room on the disk for parts to be, taken before they are written: merges, mutations and fetches that run beside each
other do not count on the same bytes, and one that cannot fit is not begun."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parts.common.errors import UnavailableError

RESERVED_TO_SOURCE_RATIO = 1.1
"""Of what a merge or mutation reads, or a fetch brings, so much is taken for what it writes."""
FREE_TO_SOURCE_RATIO = 2
"""What is chosen in the background leaves as much again free."""


class DiskReservations:
    """Keeps account of the room on the disk of one server, where all its tables lie. From any thread."""

    def __init__(
        self,
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
        total_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).total,
    ) -> None:
        self._free_bytes = free_bytes
        self.total_bytes = total_bytes
        self._reserved = 0
        self._lock = threading.Lock()

    def unreserved_bytes(self, path: Path) -> int:
        return max(0, self._free_bytes(path) - self._reserved)

    def require(self, path: Path, source_bytes: int, what: str) -> None:
        """Raises 243 (NOT_ENOUGH_SPACE) where :meth:`reserve` would now."""
        with self._lock:
            self._require(path, int(source_bytes * RESERVED_TO_SOURCE_RATIO), what)

    @contextmanager
    def reserve(self, path: Path, source_bytes: int, what: str) -> Iterator[None]:
        """For what is made of so many bytes. Raises 243 (NOT_ENOUGH_SPACE) before anything is done."""
        size = int(source_bytes * RESERVED_TO_SOURCE_RATIO)
        with self._lock:
            self._require(path, size, what)
            self._reserved += size
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= size

    def _require(self, path: Path, size: int, what: str) -> None:
        free = self.unreserved_bytes(path)
        if size > free:
            raise UnavailableError(
                "NOT_ENOUGH_SPACE",
                f"Not enough free disk space for {what}: {size} bytes are needed below {path} and {free} are free "
                "and not reserved; drop something, or make the disk larger",
            )
