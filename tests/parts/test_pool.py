"""Jobs of the pool: many small items share one, and results come in the order of the items."""

from __future__ import annotations

import threading

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


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_what_waits_is_done_at_once(count: int) -> None:
    together = threading.Barrier(min(count, 8) or 1)

    def work(item: int) -> int:
        if item < 8:
            together.wait(10.0)
        return 2 * item

    assert thread_pool.map_waiting(work, range(count), "test") == [2 * item for item in range(count)]


def test_an_error_of_what_waits_is_raised_when_the_rest_has_ended() -> None:
    may_end, ended = threading.Event(), list[int]()

    def work(item: int) -> None:
        if item == 0:
            may_end.set()
            raise ValueError("the first")
        assert may_end.wait(10.0)
        ended.append(item)

    with pytest.raises(ValueError, match="the first"):
        thread_pool.map_waiting(work, range(3), "test")
    assert len(ended) in (0, 1, 2)  # what was begun by then


def test_nothing_is_done_behind_an_error_in_a_simulation() -> None:
    done = list[int]()

    def work(item: int) -> None:
        done.append(item)
        if item == 1:
            raise ValueError("the second")

    with thread_pool.run_jobs_inline(), pytest.raises(ValueError, match="the second"):
        thread_pool.map_waiting(work, range(3), "test")
    assert done == [0, 1]
