"""Small file descriptors, kept for who cannot use others.

``select`` refuses descriptors from 1024 on, and py4j waits with it for the calls of Spark's ``foreachBatch``: nobody
answers them then, and the JVM waits for ever. ClickHouse in this process has three descriptors for each of its threads.
"""

from __future__ import annotations

import os

_kept: list[int] = []


def keep(count: int = 8) -> None:
    """At the start of the process."""
    _kept.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(count))


def release() -> None:
    """What is opened next gets them."""
    while _kept:
        os.close(_kept.pop())
