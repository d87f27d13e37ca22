"""A running query's memory and time."""

from __future__ import annotations

import pytest

from parts.common.errors import CancelledError, UserError
from parts.common.query_status import MemoryTracker, QueryStatus


def test_a_refused_allocation_counts_nowhere() -> None:
    server = MemoryTracker("total", 1000)
    user = MemoryTracker("for user", 500, server)
    query = MemoryTracker("for query", 0, user)
    query.allocate(400, "sorting")
    with pytest.raises(UserError, match=r"for user.*sorting would use 501 bytes, the maximum is 500") as raised:
        query.allocate(101, "sorting")
    assert raised.value.code == 241
    assert (query.used_bytes, user.used_bytes, server.used_bytes) == (400, 400, 400)
    query.free(400)
    assert (query.used_bytes, user.used_bytes, server.used_bytes) == (0, 0, 0)
    assert query.peak_bytes == 400


def test_memory_held_for_a_block_of_code_is_given_back_when_it_fails() -> None:
    query = MemoryTracker("for query", 10)

    def fails() -> None:
        with query.hold(10, "a result"):
            assert query.used_bytes == 10
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert query.used_bytes == 0


def test_the_first_reason_to_stop_stays() -> None:
    now = [0.0]
    status = QueryStatus(max_execution_seconds=2.0, clock=lambda: now[0])
    status.check()
    now[0] = 2.0
    with pytest.raises(UserError, match="max_execution_time = 2 seconds") as raised:
        status.check()
    assert raised.value.code == 159
    status.stop(CancelledError())
    with pytest.raises(UserError):
        status.check()
