"""Three simulated clusters whose source is switched over: promises hold under faults of every kind."""

from __future__ import annotations

import pytest

from engine.simulator.links.switched_scenarios import simulate_switches
from engine.tables.replicated.write.sync_insert import SyncInsert
from tests.portions import one_in


@pytest.mark.long
def test_a_seed_replays_byte_for_byte() -> None:
    first, second = (simulate_switches(3, rounds=1, steps=60) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.parametrize("seed", one_in(9, (0, 2, 4, 6, 8, 10, 57, 3, 5, 15, 21, 29, 121, 71, 91, 123, 133)))
def test_promises_hold(seed: int) -> None:
    """Odd seeds force promotions, too, some of them in both rounds."""
    outcome = simulate_switches(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.long
def test_synchronous_targets_show_what_is_acknowledged() -> None:
    outcome = simulate_switches(2, replicas=2, is_sync=True)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
    assert outcome.counts["an acknowledged key was seen at a synchronous target"] > 5


def test_an_answer_that_does_not_wait_for_synchronous_targets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncInsert, "wait", lambda insert: None)
    assert "is a synchronous target, and" in simulate_switches(4, replicas=2, is_sync=True).failure
