"""The threads that parse, compress, hash, decompress and write: one pool for the process.

Invariant: a job of this pool never waits for another job of it, so the pool cannot starve itself. Everything heavy in a
job (parsers, codecs, hashes, NumPy, file writes) releases the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

THREADS = max(2, os.cpu_count() or 1)
_pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="parts")

Item = TypeVar("Item")
Result = TypeVar("Result")


def submit(function: Callable[[], Result]) -> Future[Result]:
    """Runs ``function`` on a pool thread."""
    return _pool.submit(function)


def map_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``[function(item) for item in items]`` with the pool's threads; the first error is raised after all ended."""
    futures = [_pool.submit(function, item) for item in items]
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error
    return [future.result() for future in futures]


def _after_fork() -> None:
    global _pool
    _pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="parts")


os.register_at_fork(after_in_child=_after_fork)
