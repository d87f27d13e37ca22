"""Partitions that move between two replicated tables, under faults of every kind."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.simulator.scenario import MOVES, simulate

KINDS = {
    "move ok", "move failed", "move unknown", "logged REPLACE_RANGE", "logged DROP_RANGE", "logged MUTATE_PART",
    "logged MERGE_PARTS", "blocks in t", "blocks in u", "updates that were sure", "truncate ok",
}  # fmt: skip


@pytest.mark.long
def test_promises_hold_and_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(20):
        outcome = simulate(seed, scenario=MOVES)
        assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
        counts += outcome.counts
        if seed and counts.keys() >= KINDS:
            return
    raise AssertionError(f"never happened: {KINDS - counts.keys()}; {counts}")


@pytest.mark.long
def test_a_replica_that_moves_what_it_happens_to_have_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.tables.replicated.decide.move_partition.why_parts_are_incomplete", lambda *_: None)
    assert any(simulate(seed, scenario=MOVES).failure for seed in range(20))
