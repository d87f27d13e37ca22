"""Replicated tables under random faults; a failing seed is in the test's name and replays.

``PANDO_SIMULATION_SEEDS="100:300"`` chooses the seeds of the long runs, the end excluded; `make test-long` sets it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulation import Simulation
from engine.simulator.simulation_model import Weights
from tests.portions import one_in

MakeColony = Callable[..., SimulatedCluster]
FIRST_SEED, END_SEED = map(int, os.environ.get("PANDO_SIMULATION_SEEDS", "100:105").split(":"))
SETTINGS = {
    "cleanup_delay_period": 5, "min_replicated_logs_to_keep": 3, "old_parts_lifetime": 20, "queue_wait_seconds": 30.0,
}  # fmt: skip


@pytest.fixture
def make_colony_at(tmp_path: Path) -> Callable[[int], MakeColony]:
    """Several colonies in one test, each in a directory of its own."""

    def at(number: int) -> MakeColony:
        return lambda *args, **settings: SimulatedCluster(tmp_path / str(number), *args, **settings)

    return at


def run_faulty(
    make_colony: MakeColony, seed: int, rounds: int, steps: int, fault_rate: float = Simulation.fault_rate
) -> Counter[str]:
    """Everything happens but the loss of a disk."""
    colony = make_colony(3, seed, selects_merges=True, **SETTINGS)
    simulation = Simulation(colony, fault_rate=fault_rate)
    simulation.run(rounds, steps)
    return simulation.counts


def run_disk_loss(make_colony: MakeColony, seed: int, rounds: int, steps: int) -> None:
    """Every insert asks for two replicas, and one disk is lost a round."""
    colony = make_colony(3, seed, selects_merges=True, **SETTINGS)
    weights = Weights(wipe=2, crash=1, truncate=0.1)
    Simulation(colony, weights, quorum=(2, 2, "auto")).run(rounds, steps)


def run_clones(make_colony: MakeColony, seed: int, rounds: int, steps: int) -> None:
    """The log is short, so that replicas that slept are lost and cloned."""
    settings = {**SETTINGS, "max_replicated_logs_to_keep": 8, "cleanup_delay_period": 1}
    colony = make_colony(3, seed, selects_merges=True, **settings)
    Simulation(colony, Weights(crash=2, restart=1), quorum=(0,)).run(rounds, steps)


SCENARIOS = [run_faulty, run_disk_loss, run_clones]


@pytest.mark.parametrize("scenario", one_in(3, SCENARIOS))
@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_quick(make_colony: MakeColony, scenario: Callable[..., object], seed: int) -> None:
    scenario(make_colony, seed, rounds=2, steps=120)


@pytest.mark.long
def test_a_seed_replays(make_colony_at: Callable[[int], MakeColony]) -> None:
    """The same seed makes the same requests to ZooKeeper at the same times: a failure can be looked at again."""
    first, second = (trace_of(make_colony_at(number)(3, 1, selects_merges=True, **SETTINGS)) for number in range(2))
    assert len(first) > 1000
    assert first == second


def trace_of(colony: SimulatedCluster) -> list[tuple[float, int, str, str]]:
    simulation = Simulation(colony)
    trace, decide = [], colony.ensemble.faults
    assert decide is not None

    def note(session: int, kind: str, path: str) -> Fault | None:
        trace.append((colony.now, session, kind, path))
        return decide(session, kind, path)

    colony.ensemble.faults = note
    simulation.run(2, 120)
    return trace


RULES = {
    "outdated part kept for a fetch",
    "fault at a deletion",
    "sync behind a lagging server",
    "own work between two requests of a statement",
}


@pytest.mark.long
def test_every_rule_has_its_say(make_colony_at: Callable[[int], MakeColony]) -> None:
    """A rule that never fires is not tested by random work. Most are met by a few seeds."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        seen += run_faulty(make_colony_at(seed), seed, rounds=2, steps=120, fault_rate=0.02)
        if seen.keys() >= RULES:
            return
    raise AssertionError(f"never happened: {RULES - seen.keys()}; {seen}")


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("seed", range(FIRST_SEED, END_SEED))
def test_long(make_colony: MakeColony, scenario: Callable[..., object], seed: int) -> None:
    scenario(make_colony, seed, rounds=4, steps=200)
