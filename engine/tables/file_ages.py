"""How long files have been as they are, in monotonic time: their own times are of a wall clock, which may step.

What a start of the server finds counts as new: it may have been down for any time, and nothing goes too early.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path


class UnchangedFiles:
    """Tells for how long files and directories have not changed, which are looked at again and again."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, float]] = {}
        """The time of the last change, and when it was seen first."""

    def ages(self, paths: Iterable[Path], now: float) -> dict[Path, float]:
        """Seconds since each was first seen as it is, 0 for what is new. Those that are gone are left out, and what is
        not among ``paths`` is forgotten. ``now``: monotonic seconds."""
        found: dict[Path, tuple[int, float]] = {}
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                changed = path.stat().st_mtime_ns
                known = self._seen.get(path)
                found[path] = known if known is not None and known[0] == changed else (changed, now)
        self._seen = found
        return {path: now - since for path, (_, since) in found.items()}
