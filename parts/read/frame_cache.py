"""The decoded frames of the last small reads.

A frame is a hundred thousand rows and is decoded whole whatever is read of it; queries of a few rows come back to the
same frames. Only they use this: who reads much would only push out what others come back to.

Invariants
- What is here was compared with its checksum when it was decoded. A frame never changes.
- No more than ``most_bytes`` are held; what was not used for longest goes first. Any thread may use it.
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
    def __init__(self, most_bytes: int = MAX_CACHE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._frames: OrderedDict[_Key, pa.Array] = OrderedDict()
        self._last_owner = 0
        self._gone: deque[int] = deque()
        self.held_bytes = 0

    def add_owner(self) -> int:
        """The number of a part."""
        with self._lock:
            self._last_owner += 1
            return self._last_owner

    def find(self, key: _Key) -> pa.Array | None:
        with self._lock:
            if self._gone:
                self._forget()
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
            return found

    def has(self, key: _Key) -> bool:
        """As of now: without the lock, and no use of it."""
        return key in self._frames

    def keep(self, key: _Key, frame: pa.Array) -> None:
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
        """The part is gone: its frames may hold its files. They are let go at the next look, because this may be
        called by the garbage collection, and that within the lock."""
        self._gone.append(owner)

    def _forget(self) -> None:
        gone = {self._gone.popleft() for _ in range(len(self._gone))}
        for key in [key for key in self._frames if key[0] in gone]:
            self.held_bytes -= self._frames.pop(key).nbytes


FRAME_CACHE = FrameCache()
"""The process's."""
