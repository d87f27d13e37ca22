"""Jobs of the pool: many small items share one, and results come in the order of the items."""

from __future__ import annotations

import pytest

from parts.common import thread_pool


@pytest.mark.parametrize("count", [0, 1, 7, 5000])
def test_results_come_in_the_order_of_the_items(count: int) -> None:
    assert thread_pool.map_parallel(lambda item: 2 * item, range(count)) == [2 * item for item in range(count)]


def test_thousands_of_items_share_some_jobs() -> None:
    assert len(thread_pool.split_into_jobs(range(5000))) <= 64 * thread_pool.POOL_THREADS
    assert [item for run in thread_pool.split_into_jobs(range(5000)) for item in run] == list(range(5000))
    assert len(thread_pool.split_into_jobs(range(100))) == 100


def test_an_error_is_raised_when_no_job_works_any_more() -> None:
    ended: list[int] = []

    def work(item: int) -> None:
        if item == 0:
            raise ValueError("the first")
        ended.append(item)

    with pytest.raises(ValueError, match="the first"):
        thread_pool.map_parallel(work, range(50))
    assert len(ended) == 49
