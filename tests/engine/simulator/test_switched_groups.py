"""Simulated transactional groups whose source is switched over: all tables change over at one commit."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.simulator.links.groups import switched_group_work
from engine.simulator.links.groups.cut_history import Commit
from engine.simulator.links.groups.reign import Reign
from engine.simulator.links.switched_scenarios import simulate_switches
from engine.simulator.scenario import ScenarioOutcome
from tests.portions import one_in

KINDS = {
    "a cut was committed",
    "a cut was read",
    "a group was forked",
    "a report was checked",
    "a round was checked",
    "a round with lost rows was checked",
    "crash at promote.after_fork",
    "promote force ok",
    "rejoin ok",
    "switch cancel ok",
    "switch ok",
    "tail shown ok",
}


def _simulate(seed: int, replicas: int = 1) -> ScenarioOutcome:
    return simulate_switches(seed, 1, 60, replicas=replicas, is_group=True)


@pytest.mark.parametrize("seed", one_in(5, (0, 2, 3, 4, 5, 74, 89, 213, 7, 9)))
def test_promises_hold(seed: int) -> None:
    outcome = _simulate(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.parametrize("seed", one_in(4, (102, 107, 141, 153)))
def test_seeds_that_found_something(seed: int) -> None:
    """The group of a sibling that is made anew for the new source."""
    outcome = _simulate(seed, replicas=2)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


def test_seeds_that_found_a_restart() -> None:
    """A server starts after it has carried out a cut, but for the mutation."""
    outcome = _simulate(40157)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.parametrize("seed", [0, 6])
def test_synchronous_targets_show_what_is_acknowledged(seed: int) -> None:
    """In a group, with its cut: these find INSERTs that wait for another cut, or for one that is not shown yet."""
    outcome = simulate_switches(seed, 1, 100, replicas=2, is_sync=True, is_group=True)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
    assert outcome.counts["an acknowledged key was seen at a synchronous target"] > 5


@pytest.mark.long
def test_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(400, 600):
        outcome = _simulate(seed)
        assert not outcome.failure, "\n".join([f"seed {seed}", *outcome.last, outcome.failure])
        counts += outcome.counts
        if counts.keys() >= KINDS:
            return
    raise AssertionError(f"never happened: {KINDS - counts.keys()}; {counts}")


@pytest.mark.long
def test_reports_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of reports finds one that is wrong: here what was lost is not known to have been committed."""
    monkeypatch.setattr(switched_group_work.Reign, "list_lost", _list_nothing)
    assert any("are reported, and 0 are lost" in _simulate(seed).failure for seed in range(210, 260))


def _list_nothing(self: Reign, reign: Reign, place: int) -> list[Commit]:
    return []
