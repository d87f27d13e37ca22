"""How long files have been unchanged, in monotonic time, as the wall clock may step.

Files that exist when the server starts count as new, so nothing is removed too early.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path


class UnchangedFiles:
    """The ages of files and directories that are looked at again and again."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, float]] = {}
        """By path, the time of its last change, and when that was first seen."""

    def ages(self, paths: Iterable[Path], now: float) -> dict[Path, float]:
        """Returns the seconds since each path was first seen unchanged; 0 for a new one.

        Missing paths are left out, and a path not in ``paths`` is forgotten. ``now``: monotonic seconds.
        """
        found: dict[Path, tuple[int, float]] = {}
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                changed = path.stat().st_mtime_ns
                known = self._seen.get(path)
                found[path] = known if known is not None and known[0] == changed else (changed, now)
        self._seen = found
        return {path: now - since for path, (_, since) in found.items()}
