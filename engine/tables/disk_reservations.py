"""Reserves disk space for merges, mutations and fetches before they write.

Tasks that run at the same time do not count on the same bytes, and one that cannot fit is not begun.

Invariants: ``_reserved`` is the sum of the running reservations and never negative; it changes under ``_lock``.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parts.common.errors import UnavailableError

RESERVED_TO_SOURCE_RATIO = 1.1
"""How much space is reserved for what a task writes, relative to the bytes that it reads or fetches."""
FREE_TO_SOURCE_RATIO = 2
"""How much free space a task chosen in the background needs, relative to the bytes that it reads."""


class DiskReservations:
    """The disk space that the tasks of one server have reserved. May be called from any thread."""

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
        """Returns the free bytes that no task has reserved."""
        return max(0, self._free_bytes(path) - self._reserved)

    def require(self, path: Path, source_bytes: int, what: str) -> None:
        """Raises 243 (NOT_ENOUGH_SPACE) if :meth:`reserve` would raise it now."""
        with self._lock:
            self._require(path, int(source_bytes * RESERVED_TO_SOURCE_RATIO), what)

    @contextmanager
    def reserve(self, path: Path, source_bytes: int, what: str) -> Iterator[None]:
        """Reserves space for what is written from ``source_bytes``.

        Raises 243 (NOT_ENOUGH_SPACE) at the beginning.
        """
        size = int(source_bytes * RESERVED_TO_SOURCE_RATIO)
        with self._lock:
            self._require(path, size, what)
            self._reserved += size
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= size
                assert self._reserved >= 0, "more space was given back than reserved"

    def _require(self, path: Path, size: int, what: str) -> None:
        free = self.unreserved_bytes(path)
        if size > free:
            raise UnavailableError(
                "NOT_ENOUGH_SPACE",
                f"Not enough free disk space for {what}: {size} bytes are needed below {path} and {free} are free "
                "and not reserved; drop something, or make the disk larger",
            )
