"""ZooKeeper put back to an older snapshot, under faults of every kind, and SYSTEM RESTORE REPLICA."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.simulator.scenario import RESTORES, simulate

KINDS = {"put back", "restore ok", "restore failed", "blocks that all had", "a block in detached", "truncate ok"}


@pytest.mark.long
def test_promises_hold_and_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(40):
        outcome = simulate(seed, scenario=RESTORES)
        assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
        counts += outcome.counts
        if seed > 2 and counts.keys() >= KINDS:
            return
    raise AssertionError(f"never happened: {KINDS - counts.keys()}; {counts}")


@pytest.mark.long
def test_a_replica_that_believes_a_zookeeper_from_the_past_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then rows that all servers had go to ``detached/``."""
    monkeypatch.setattr("recovery.outdated_zookeeper.find_forgotten", lambda *_: [])
    assert any(simulate(seed, scenario=RESTORES).failure for seed in range(37, 60))
