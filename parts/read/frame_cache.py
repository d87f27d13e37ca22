"""Cache of decoded frames for small reads.

A frame has a hundred thousand rows and is decoded whole whatever is read of it, and queries of a few rows return to the
same frames. Large reads do not use the cache: they would only evict frames that small ones need.

Invariants

- A cached frame was compared with its checksum when it was decoded. A frame never changes.
- At most ``most_bytes`` are held; the least recently used frames are dropped first. Thread-safe.
"""

from __future__ import annotations

import itertools
from collections import deque
from contextlib import suppress

import pyarrow as pa

from parts.common.lru_cache import LruCache

MAX_CACHE_BYTES = 128 << 20
MAX_CACHED_FRAME_BYTES = 4 << 20
_Key = tuple[int, int, int]
"""Part, column, offset."""


class FrameCache:
    """A cache of frames, limited by bytes, which forgets the frames of a part that is closed."""

    def __init__(self, most_bytes: int = MAX_CACHE_BYTES) -> None:
        self._frames: LruCache[_Key, pa.Array] = LruCache(most_size=most_bytes, size_of=_count_bytes)
        self._owners = itertools.count(1)
        self._gone: deque[int] = deque()

    @property
    def held_bytes(self) -> int:
        """The bytes of all cached frames."""
        return self._frames.held_size

    def add_owner(self) -> int:
        """Returns a number for a part, the first element of its keys."""
        return next(self._owners)

    def find(self, key: _Key) -> pa.Array | None:
        """Returns the frame, and marks it as used; ``None`` if it is not cached."""
        if self._gone:
            self._forget()
        return self._frames.find(key)

    def contains(self, key: _Key) -> bool:
        """Tells whether the frame is cached now. Takes no lock and does not mark it as used."""
        return key in self._frames

    def add(self, key: _Key, frame: pa.Array) -> None:
        """Caches a frame."""
        self._frames.keep(key, frame)

    def drop_owner(self, owner: int) -> None:
        """Drops a part's frames at the next lookup: they may keep its files open.

        It does not drop them now, because garbage collection may call this while the lock is held.
        """
        self._gone.append(owner)

    def _forget(self) -> None:
        gone: set[int] = set()
        with suppress(IndexError):  # empty: another thread takes from it too
            while True:
                gone.add(self._gone.popleft())
        self._frames.drop_all(lambda key: key[0] in gone)


def _count_bytes(_: _Key, frame: pa.Array) -> int:
    return int(frame.nbytes)


FRAME_CACHE = FrameCache()
"""The cache of this process."""
