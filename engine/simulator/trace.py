"""The trace of a simulation, line by line: the same seed gives the same bytes."""

from __future__ import annotations

from collections import deque
from typing import TextIO

import xxhash

_LAST_LINES = 40


class Trace:
    """The lines of one run. ``digest`` hashes all lines; ``file``, if given, receives them."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._hasher = xxhash.xxh3_128()
        self.last: deque[str] = deque(maxlen=_LAST_LINES)
        self.count = 0

    def add(self, line: str) -> None:
        """Adds a line."""
        self.count += 1
        self.last.append(line)
        self._hasher.update(line.encode() + b"\n")
        if self._file is not None:
            self._file.write(line + "\n")

    @property
    def digest(self) -> str:
        """The hash of all lines."""
        return self._hasher.hexdigest()


class ClusterTrace(Trace):
    """The lines of one of several clusters, each with the cluster's name before it."""

    def __init__(self, whole: Trace, cluster: str) -> None:
        super().__init__()
        self._whole = whole
        self._cluster = cluster

    def add(self, line: str) -> None:
        """Adds a line to the whole trace."""
        self._whole.add(f"{self._cluster}: {line}")
