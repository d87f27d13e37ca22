"""What the replica process decides about workers from the numbers of the shared page."""

from __future__ import annotations

import pytest

from engine.workers.other_workers import OtherWorkers
from engine.workers.query_bounds import Bounds, EndReason
from engine.workers.shared_page import SharedPage
from parts.common.errors import CancelledError, UserError
from parts.common.query_status import MemoryTracker, QueryStatus

GIB = 1 << 30
SECOND = 10**9
SERVER_BYTES = 8 * GIB


class Page:
    """Two workers of a server of 8 GiB, with a grace of 2 s."""

    def __init__(self) -> None:
        self.numbers = SharedPage(1)
        self.workers = [OtherWorkers(self.numbers, number, 2, ["default"]) for number in range(2)]
        self.bounds = Bounds(self.numbers, 2.0, SERVER_BYTES)

    def run(
        self, worker: int, query_id: str, *, seconds: float = 0, limit_bytes: int = 0, slot: int = 0
    ) -> QueryStatus:
        """Begins at 100 s."""
        status = QueryStatus(MemoryTracker("for query", limit_bytes), seconds, lambda: 0.0)
        assert self.workers[worker].claim_query_id(query_id, status)
        status.witness.record_connection(slot)
        place = self.numbers.running[worker, self.workers[worker]._places[query_id]]
        place["started"] = place["working"] = 100 * SECOND
        place["deadline"] = (100 + seconds) * SECOND if seconds else 0
        return status

    def resume(self, worker: int, query_id: str, seconds: float) -> None:
        self.numbers.running[worker, self.workers[worker]._places[query_id]]["working"] = int(seconds * SECOND)

    def look(self, seconds: float, *held_bytes: int) -> dict[int, EndReason]:
        held = dict.fromkeys(range(2), GIB // 8) | dict(enumerate(held_bytes))
        return self.bounds.select_workers_to_end(held, int(seconds * SECOND))

    def codes(self, worker: int, end_reason: EndReason, seconds: float) -> dict[int, int]:
        errors = self.bounds.make_responses(worker, end_reason, int(seconds * SECOND)).errors
        return {slot: error.code for slot, error in errors.items()}


@pytest.fixture
def page() -> Page:
    return Page()


def test_time(page: Page) -> None:
    page.run(0, "late", seconds=5, slot=7)
    page.run(0, "endless", slot=8)
    page.run(1, "other", seconds=60, slot=9)
    assert page.look(106.9) == {}
    (worker,) = found = page.look(107.1)
    assert worker == 0
    assert page.codes(0, found[0], 107.1) == {7: 159}


def test_what_waits_has_the_grace_from_its_next_work_on(page: Page) -> None:
    status = page.run(0, "slow client", seconds=5)
    status.witness.record_wait()
    assert page.look(1000) == {}
    page.resume(0, "slow client", 1001)
    assert page.look(1002.9) == {}
    assert set(page.look(1003.1)) == {0}


def test_who_serves_no_connection_waits_between_pieces(page: Page) -> None:
    page.run(0, "of a scan", seconds=5, slot=-1).witness.record_handover()
    page.run(1, "of a request", seconds=5).witness.record_handover()
    assert set(page.look(1000)) == {1}


def test_a_query_that_was_told_to_end(page: Page) -> None:
    status = page.run(0, "told", slot=3)
    status.stop(UserError("TOO_MANY_ROWS", ""))
    since = int(page.numbers.running[0]["told_to_end"].max()) / SECOND
    page.resume(0, "told", since - 1)
    assert page.look(since + 1.9) == {}
    (end_reason,) = page.look(since + 2.1).values()
    assert page.codes(0, end_reason, 500) == {3: 158}


def test_a_client_that_leaves_ends_no_worker(page: Page) -> None:
    page.run(0, "left").stop()
    assert page.look(1e9) == {}


def test_kill(page: Page) -> None:
    page.run(0, "killed", slot=1)
    page.run(0, "other", slot=2)
    assert not page.bounds.kill(0, "unknown", 200 * SECOND)
    assert page.bounds.kill(0, "killed", 200 * SECOND)
    assert page.look(201.9) == {}
    (end_reason,) = page.look(202.1).values()
    assert page.codes(0, end_reason, 202.1) == {1: CancelledError().code}


def test_a_kill_does_not_outlive_its_query(page: Page) -> None:
    page.run(0, "again")
    assert page.bounds.kill(0, "again", 200 * SECOND)
    page.workers[0].release_query_id("again")
    assert page.look(201) == {}
    page.run(0, "again")
    assert page.look(300) == {}


def test_memory_over_the_share_has_the_grace(page: Page) -> None:
    page.numbers.idle_bytes[0] = GIB // 8
    page.run(0, "big", limit_bytes=2 * GIB, slot=1).witness.record_memory(2 * GIB)
    page.run(0, "small", limit_bytes=GIB, slot=2).witness.record_memory(GIB // 2)
    over = 3 * GIB + GIB // 2
    assert page.look(100, 3 * GIB) == page.look(101, over) == page.look(102.9, over) == {}
    (end_reason,) = page.look(103.1, over).values()
    assert page.codes(0, end_reason, 103.1) == {1: 241}


def test_memory_far_over_the_share_has_none(page: Page) -> None:
    page.run(0, "wild", limit_bytes=GIB, slot=4)
    (end_reason,) = page.look(100, 3 * GIB).values()
    assert page.codes(0, end_reason, 100) == {4: 241}


def test_memory_of_a_query_that_has_ended_is_given_back_in_time(page: Page) -> None:
    page.run(0, "big", limit_bytes=4 * GIB)
    page.run(0, "small", limit_bytes=GIB // 4)
    assert page.look(100, 4 * GIB) == {}
    page.workers[0].release_query_id("big")
    assert page.look(100.1, 4 * GIB) == page.look(101.9, 4 * GIB) == page.look(102, GIB // 4) == {}


def test_memory_of_the_server(page: Page) -> None:
    page.run(0, "half", slot=1).witness.record_memory(5 * GIB)
    page.run(1, "less", slot=2).witness.record_memory(4 * GIB)
    assert page.look(100, 5 * GIB, 4 * GIB) == {}
    found = page.look(100, 6 * GIB, 4 * GIB)
    assert set(found) == {0}
    assert page.codes(0, found[0], 100) == {1: 241}


def test_a_kill_that_comes_late_ends_no_other_query(page: Page) -> None:
    ended = page.run(0, "ended")
    page.workers[0].release_query_id("ended")
    page.run(0, "next in its place")
    ended.stop(CancelledError())
    assert page.numbers.running["code"].sum() == page.numbers.running["told_to_end"].sum() == 0
