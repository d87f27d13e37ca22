"""Three simulated clusters whose source is switched over: promises hold under faults of every kind."""

from __future__ import annotations

import pytest

from engine.simulator.links.switched_scenarios import simulate_switches
from tests.portions import one_in


def test_a_seed_replays_byte_for_byte() -> None:
    first, second = (simulate_switches(3, rounds=1, steps=60) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.parametrize("seed", one_in(6, (0, 2, 4, 6, 8, 10, 57, 3, 5, 15, 21, 29, 121, 71, 91, 123, 133)))
def test_promises_hold(seed: int) -> None:
    """Odd seeds force promotions, too, some of them in both rounds."""
    outcome = simulate_switches(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
