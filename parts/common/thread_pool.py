"""The process's thread pool for parsing, compressing, hashing, decompressing and writing.

Jobs that wait for jobs of the pool get threads of their own (:func:`make_executor`). A simulation has neither
(:func:`run_jobs_inline`).

Invariant: a job of this pool never waits for another job of it, so the pool cannot starve itself. Everything heavy in a
job (parsers, codecs, hashes, NumPy, file writes) releases the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

POOL_THREADS = max(2, os.cpu_count() or 1)
_MOST_JOBS_PER_THREAD = 64
_WAITING_THREADS = 8
"""The most that wait at once for one caller."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class InlineExecutor(Executor):
    """Runs every job immediately, in the submitting thread."""

    def submit(
        self, function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Runs the job and returns its finished future."""
        done: Future[Result] = Future()
        try:
            done.set_result(function(*args, **kwargs))
        except BaseException as error:  # as a thread does: it is raised where the result is asked for
            done.set_exception(error)
        return done


_pool: Executor = ThreadPoolExecutor(max_workers=POOL_THREADS, thread_name_prefix="parts")


def make_executor(count: int, name: str) -> Executor:
    """Returns an executor with ``count`` threads of its own. The caller shuts it down."""
    return InlineExecutor() if isinstance(_pool, InlineExecutor) else ThreadPoolExecutor(count, thread_name_prefix=name)


@contextmanager
def run_jobs_inline() -> Iterator[None]:
    """Runs all jobs in the submitting thread inside the block."""
    global _pool
    former, _pool = _pool, InlineExecutor()
    try:
        yield
    finally:
        _pool = former


def submit(function: Callable[[], Result]) -> Future[Result]:
    """Runs ``function`` on a pool thread."""
    return _pool.submit(function)


def map_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Returns ``[function(item) for item in items]``, computed by the pool's threads.

    Raises the first error after all jobs have ended; some items may not have been tried then.
    """

    def of_run(run: Sequence[Item]) -> list[Result]:
        return [function(item) for item in run]

    futures = [_pool.submit(of_run, run) for run in split_into_jobs(list(items))]
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error
    return [result for future in futures for result in future.result()]


def map_waiting(function: Callable[[Item], Result], items: Iterable[Item], name: str) -> list[Result]:
    """Returns ``[function(item) for item in items]``, computed by threads that may wait.

    They are this call's own; ``name`` is theirs. Raises the first error after all jobs have ended; some items may not
    have been tried then.
    """
    items = list(items)
    if len(items) < 2:
        return [function(item) for item in items]
    futures = list[Future[Result]]()
    with make_executor(min(len(items), _WAITING_THREADS), name) as executor:
        for item in items:
            futures.append(executor.submit(function, item))
            if futures[-1].done() and futures[-1].exception() is not None:
                break
    return [future.result() for future in futures]


def split_into_jobs(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Splits the items into runs, each one job of the pool."""
    length = -(-len(items) // (_MOST_JOBS_PER_THREAD * POOL_THREADS)) or 1
    return [items[i : i + length] for i in range(0, len(items), length)]


def _after_fork() -> None:
    global _pool
    _pool = ThreadPoolExecutor(max_workers=POOL_THREADS, thread_name_prefix="parts")


os.register_at_fork(after_in_child=_after_fork)
