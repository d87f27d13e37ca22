"""How much of a journal goes without blocks that go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.link_store.journal_retention import JournalRetention, PlacesByTime
from engine.link_store.outbox_retention import RetentionLimits

LIMITS = RetentionLimits(min_seconds=100, max_seconds=1000)


def test_what_links_have_goes_after_the_least_time() -> None:
    retention = JournalRetention()
    assert retention.find_end(5, 9, LIMITS, 0) == 0
    assert retention.find_end(7, 9, LIMITS, 50) == 0
    assert retention.find_end(9, 9, LIMITS, 100) == 5
    assert retention.find_end(9, 9, LIMITS, 160) == 7


def test_what_a_link_needs_goes_after_the_longest_time() -> None:
    retention = JournalRetention()
    for released in (0, None):
        retention = JournalRetention()
        assert retention.find_end(released, 9, LIMITS, 0) == 0
        assert retention.find_end(released, 20, LIMITS, 999) == 0
        assert retention.find_end(released, 30, LIMITS, 1000) == 9


def test_without_a_longest_time_nothing_goes_that_a_link_needs() -> None:
    retention = JournalRetention()
    for now in range(0, 10_000, 100):
        assert retention.find_end(0, now, RetentionLimits(min_seconds=100), now) == 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=60), st.integers(0, 200))
def test_a_place_is_old_enough_and_not_much_too_old(steps: list[tuple[int, int]], seconds: int) -> None:
    places, history, now, place = PlacesByTime(), [(0, 0)], 0, 0
    places.note(0, 0, seconds)
    for pause, more in steps:
        now, place = now + pause, place + more
        history.append((now, place))
        places.note(place, now, seconds)
        found = places.find(now, seconds)
        assert found <= max((known for at, known in history if at <= now - seconds), default=0)
        older = now - seconds - seconds / 16 - 40  # a pause may lie before the next note
        assert found >= max((known for at, known in history if at <= older), default=0)
    assert len(places._noted) <= 20
