"""Cache of decoded frames for small reads.

A frame has a hundred thousand rows and is decoded whole whatever is read of it, and queries of a few rows return to the
same frames. Large reads do not use the cache: they would only evict frames that small ones need.

Invariants

- A cached frame was compared with its checksum when it was decoded. A frame never changes.
- At most ``most_bytes`` are held; the least recently used frames are dropped first. Thread-safe.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

import pyarrow as pa

MAX_CACHE_BYTES = 128 << 20
MAX_CACHED_FRAME_BYTES = 4 << 20
_Key = tuple[int, int, int]
"""Part, column, offset."""


class FrameCache:
    """A least-recently-used cache of frames, limited by bytes."""

    def __init__(self, most_bytes: int = MAX_CACHE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._frames: OrderedDict[_Key, pa.Array] = OrderedDict()
        self._last_owner = 0
        self._gone: deque[int] = deque()
        self.held_bytes = 0

    def add_owner(self) -> int:
        """Returns a number for a part, the first element of its keys."""
        with self._lock:
            self._last_owner += 1
            return self._last_owner

    def find(self, key: _Key) -> pa.Array | None:
        """Returns the frame, and marks it as used; ``None`` if it is not cached."""
        with self._lock:
            if self._gone:
                self._forget()
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
            return found

    def contains(self, key: _Key) -> bool:
        """Tells whether the frame is cached now. Takes no lock and does not mark it as used."""
        return key in self._frames

    def add(self, key: _Key, frame: pa.Array) -> None:
        """Caches a frame."""
        size = frame.nbytes
        with self._lock:
            if key in self._frames or size > self._most_bytes:
                return
            self._frames[key] = frame
            self.held_bytes += size
            while self.held_bytes > self._most_bytes:
                _, dropped = self._frames.popitem(last=False)
                self.held_bytes -= dropped.nbytes

    def drop_owner(self, owner: int) -> None:
        """Drops a part's frames at the next lookup: they may keep its files open.

        It does not drop them now, because garbage collection may call this while the lock is held.
        """
        self._gone.append(owner)

    def _forget(self) -> None:
        gone = {self._gone.popleft() for _ in range(len(self._gone))}
        for key in [key for key in self._frames if key[0] in gone]:
            self.held_bytes -= self._frames.pop(key).nbytes


FRAME_CACHE = FrameCache()
"""The cache of this process."""
