"""Decode batches on the pool's threads, ahead of their consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import pyarrow as pa

from parts.common.thread_pool import POOL_THREADS, split_into_jobs, submit
from parts.read.batch_plan import RowRange

_VALUES_PER_JOB = 1_000_000
_JOBS_PER_THREAD = 8
"""With fewer jobs, some threads would be idle while others finish the last ones."""
_BYTES_PER_JOB = 32 << 20


ReadBatch = Callable[[RowRange, Sequence[str]], list[pa.Array]]
"""Decodes columns of a batch."""


def decode_ahead(
    batches: list[RowRange], stored: list[str], row_bytes: int, threads: int, read: ReadBatch, *, is_split: bool
) -> Iterator[list[pa.Array]]:
    """Yields the decoded batches in order, decoding some ahead. ``row_bytes`` is the average row size.

    A job is several small batches, because handing one over costs as much as decoding it. If there are too few batches
    for all threads, one batch is split by column, unless ``is_split`` is false.
    """
    rows = min(_VALUES_PER_JOB // len(stored), _BYTES_PER_JOB // max(row_bytes, 1))
    per_job = max(1, min(rows // batches[0].rows, len(batches) // (_JOBS_PER_THREAD * POOL_THREADS)))
    groups: Sequence[Sequence[str]] = [stored]
    ahead = threads if threads < POOL_THREADS else POOL_THREADS + 1
    if len(batches) < 2 * POOL_THREADS and threads == POOL_THREADS:
        per_job, groups = 1, split_into_jobs(stored) if is_split else groups
    runs = [batches[i : i + per_job] for i in range(0, len(batches), per_job)]
    waiting: deque[list[Future[list[list[pa.Array]]]]] = deque()

    def start(run: list[RowRange], group: Sequence[str]) -> Future[list[list[pa.Array]]]:
        """Submits a job that decodes some columns of a run of batches."""
        return submit(lambda: [read(batch, group) for batch in run])

    def join(futures: list[Future[list[list[pa.Array]]]]) -> Iterator[list[pa.Array]]:
        """Waits for the jobs of a run, and yields its batches with all columns."""
        results = [future.result() for future in futures]
        for parts_of_batch in zip(*results, strict=True):
            yield [array for arrays in parts_of_batch for array in arrays]

    try:
        for run in runs:
            waiting.append([start(run, group) for group in groups])
            if len(waiting) >= ahead:
                yield from join(waiting.popleft())
        while waiting:
            yield from join(waiting.popleft())
    finally:
        for futures in waiting:
            for future in futures:
                future.cancel()
