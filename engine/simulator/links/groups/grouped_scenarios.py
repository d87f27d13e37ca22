"""Runs a source and a target with a transactional group, from one seed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TextIO

from engine.simulator.links.groups.grouped_work import GroupedWork
from engine.simulator.links.groups.world_faults import FaultRates
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.scenario import TABLE_SETTINGS, ScenarioOutcome
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.simulation_directory import simulation_directory
from engine.simulator.trace import Trace
from parts.common.thread_pool import run_jobs_inline

NAMES = ("east", "west")
_TABLES = ("t", "u", "w")
_SHORT_LOG = {"max_replicated_logs_to_keep": 1, "min_replicated_logs_to_keep": 1, "cleanup_delay_period": 1}
"""A replica that is away for a while is lost, and becomes a clone."""


def simulate_groups(
    seed: int, rounds: int = 1, steps: int = 100, file: TextIO | None = None, replicas: int = 2
) -> ScenarioOutcome:
    """Runs a seed in a temporary directory. ``file`` gets the trace.

    Every third seed has three tables, every second one a short log. In every fourth, only what something wakes is
    stepped while it heals.
    """
    trace, counts = Trace(file), Counter[str]()
    disks: dict[Path, SimulatedDisk] = {}

    def count(what: str) -> None:
        counts[what] += 1

    options: dict[str, object] = {"selects_merges": True, "queue_wait_seconds": 3.0, **TABLE_SETTINGS}
    target_settings = _SHORT_LOG if seed % 2 else {}
    tables = _TABLES if seed % 3 == 0 else _TABLES[:2]
    with simulation_directory() as directory, record_syncs(disks), run_jobs_inline():
        world = LinkedWorld(directory, NAMES, replicas, seed, trace, disks, count, **options)
        if seed % 4 == 0:
            for cluster in world.clusters.values():
                cluster.settle_step = SimulatedServer.step_due
        failure = ""
        try:
            GroupedWork(world, tables, counts, FaultRates(), target_settings).run(rounds, steps)
        except AssertionError as error:
            failure = str(error) or repr(error)
        finally:
            world.end()
    requests = sum(cluster.ensemble.requests for cluster in world.clusters.values())
    return ScenarioOutcome(seed, trace.digest, trace.count, requests, counts, failure, tuple(trace.last))
