"""Three simulated clusters whose source is switched over: promises hold under faults of every kind."""

from __future__ import annotations

import pytest

from engine.simulator.links.switched_scenarios import simulate_switches
from tests.portions import one_in


def test_a_seed_replays_byte_for_byte() -> None:
    first, second = (simulate_switches(3, rounds=1, steps=60) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.parametrize("seed", one_in(3, (0, 2, 4, 6, 8, 10)))
def test_promises_hold(seed: int) -> None:
    """Of even seeds: no promotion is forced. After two forced ones a follower may wait for a person who knows both."""
    outcome = simulate_switches(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
