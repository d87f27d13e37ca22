"""Three simulated clusters whose source is switched over, by force too: promises hold under faults of every kind."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.simulator.links.switched_scenarios import simulate_switches
from tests.portions import one_in

KINDS = {
    "switch ok", "switch failed", "switch crashed", "promote ok", "promote force ok", "rejoin ok", "tail shown ok",
    "switch cancel ok", "insert ok", "insert failed", "a route was cut", "a round with lost rows was checked",
}  # fmt: skip


def test_a_seed_replays_byte_for_byte() -> None:
    first, second = (simulate_switches(3, rounds=1, steps=60) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.parametrize("seed", one_in(2, range(6)))
def test_promises_hold(seed: int) -> None:
    outcome = simulate_switches(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.long
def test_promises_hold_for_many_seeds_and_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(100, 160):
        outcome = simulate_switches(seed)
        assert not outcome.failure, "\n".join([f"seed {seed}", *outcome.last, outcome.failure])
        counts += outcome.counts
    assert counts.keys() >= KINDS, f"never happened: {KINDS - counts.keys()}; {counts}"
