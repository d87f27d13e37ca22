"""Three simulated clusters whose source is switched over, by force too: promises hold under faults of every kind."""

from __future__ import annotations

import pytest

from engine.simulator.links.switched_scenarios import simulate_switches
from tests.portions import one_in


def test_a_seed_replays_byte_for_byte() -> None:
    first, second = (simulate_switches(3, rounds=1, steps=60) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.parametrize("seed", one_in(5, (0, 1, 2, 4, 6, 3, 7, 8, 9, 10)))
def test_promises_hold(seed: int) -> None:
    """With odd seeds promotions are forced, too."""
    outcome = simulate_switches(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
