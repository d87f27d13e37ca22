"""Partitions whose merge was refused wait, the longer the more often."""

from __future__ import annotations

from engine.tables.replicated.decide.delayed_partitions import DelayedPartitions


def test_the_pause_doubles_up_to_a_minute_and_ends_with_a_merge() -> None:
    now = [100.0]
    partitions = DelayedPartitions(lambda: now[0])
    for pause in (5, 10, 20, 40, 60, 60):
        assert "a" not in partitions
        partitions.note(["a", "b"], ["b"], 5.0)
        assert "b" not in partitions
        now[0] += pause - 1
        assert "a" in partitions
        now[0] += 1
    partitions.note(["a"], ["a"], 5.0)
    assert "a" not in partitions
    partitions.note(["a"], [], 5.0)
    now[0] += 5
    assert "a" not in partitions


def test_what_is_not_asked_about_any_more_is_forgotten() -> None:
    now = [0.0]
    partitions = DelayedPartitions(lambda: now[0])
    for number in range(100):
        partitions.note([str(number)], [], 5.0)
        now[0] += 100
    assert len(partitions._waiting) <= 2
