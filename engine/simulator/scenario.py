"""Runs one scenario from one seed: servers, random work and faults, checks after each healing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulation import Simulation
from engine.simulator.simulation_directory import simulation_directory
from engine.simulator.simulation_model import Weights
from engine.simulator.trace import Trace
from engine.simulator.work.random_moves import MovePartitionWork, MoveWeights
from engine.simulator.work.random_statements import StatementWeights, StatementWork
from engine.simulator.work.zookeeper_restores import RestoreWeights, RestoreWork
from parts.common.thread_pool import run_jobs_inline

TABLE_SETTINGS = {
    "cleanup_delay_period": 5,
    "min_replicated_logs_to_keep": 3,
    "old_parts_lifetime": 20,
    "merge_with_ttl_timeout": 0,
    "finished_mutations_to_keep": 2,
    "enable_block_number_column": 1,
}
"""Short periods make events that are rare in a real cluster happen in a run.

Rows keep their block numbers, by which the model of mutations knows what they must be.
"""


@dataclass(frozen=True)
class Scenario:
    """A kind of run.

    ``settings`` are added to the table's usual ones; ``quorum`` lists the quorums to draw from.
    """

    name: str
    weights: Weights = field(default_factory=StatementWeights)
    quorum: tuple[int | str, ...] = (0, 0, 0, 2, "auto")
    settings: dict[str, object] = field(default_factory=dict)
    work: type[Simulation] = StatementWork


_LOSSES = StatementWeights(
    check=0.8, wipe=1, drop=0.5, rot=1, restart=6, end_zombies=2, truncate=0.1, detach_partition=0
)
SCENARIOS = (
    Scenario("everything but the loss of a disk"),
    Scenario("one disk a round is lost", _LOSSES, (2, 2, "auto")),
    Scenario(
        "a short log, from which replicas are lost",
        StatementWeights(crash=2, restart=1),
        (0,),
        {"max_replicated_logs_to_keep": 5, "cleanup_delay_period": 1},
    ),
)
"""A seed runs the scenario at its remainder."""
MOVES = Scenario("partitions move between two tables", MoveWeights(), (0, 0, 0, 0, 2), work=MovePartitionWork)
RESTORES = Scenario("ZooKeeper is put back to an older snapshot", RestoreWeights(), work=RestoreWork)


@dataclass(frozen=True)
class Scale:
    """The size of a run. A round is ``steps`` of work and faults, then healing and checking."""

    replicas: int = 3
    rounds: int = 2
    steps: int = 120


@dataclass(frozen=True)
class ScenarioOutcome:
    """The result of a run.

    ``failure`` is the broken promise, empty for none; ``last`` are the trace's last lines.
    """

    seed: int
    digest: str
    lines: int
    requests: int
    counts: Counter[str]
    failure: str
    last: tuple[str, ...]


def simulate(
    seed: int, scale: Scale = Scale(), file: TextIO | None = None, scenario: Scenario | None = None
) -> ScenarioOutcome:
    """Runs a scenario in a temporary directory. ``file`` receives the trace."""
    trace = Trace(file)
    disks: dict[Path, SimulatedDisk] = {}
    scenario = scenario or SCENARIOS[seed % len(SCENARIOS)]
    trace.add(scenario.name)
    options: dict[str, object] = {"selects_merges": True, "queue_wait_seconds": 30.0, "has_wrong_clocks": True}
    options |= {**TABLE_SETTINGS, **scenario.settings}
    with simulation_directory() as directory, record_syncs(disks), run_jobs_inline():
        servers = SimulatedServers(directory, scale.replicas, seed, trace, disks, **options)
        # With every second seed only tasks that something wakes are stepped, which finds those that nothing wakes.
        servers.settle_step = SimulatedServer.step_due if seed % 2 else SimulatedServer.step_all
        simulation = scenario.work(servers, scenario.weights, quorum=scenario.quorum)
        failure = ""
        try:
            simulation.run(scale.rounds, scale.steps)
        except AssertionError as error:
            failure = str(error) or repr(error)
        finally:
            servers.end()
    return ScenarioOutcome(
        seed, trace.digest, trace.count, servers.ensemble.requests, simulation.counts, failure, tuple(trace.last)
    )
