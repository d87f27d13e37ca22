"""Runs three clusters whose source is switched over, from one seed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TextIO

from engine.simulator.links.groups.switched_group_work import SwitchedGroupWork
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.links.switched_tables import SwitchedTables
from engine.simulator.links.switched_work import SwitchedWork
from engine.simulator.scenario import TABLE_SETTINGS, ScenarioOutcome
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulation_directory import simulation_directory
from engine.simulator.trace import Trace
from parts.common.thread_pool import run_jobs_inline

NAMES = ("east", "west", "north")
_TABLES = ("t", "u", "w")


def simulate_switches(
    seed: int,
    rounds: int = 2,
    steps: int = 120,
    file: TextIO | None = None,
    replicas: int = 1,
    *,
    is_sync: bool = False,
    is_group: bool = False,
) -> ScenarioOutcome:
    """Runs a seed in a temporary directory. ``file`` gets the trace.

    Every second seed promotes by force, too. With ``is_sync`` the links begin as synchronous ones. With ``is_group``
    the tables of a transactional group are switched over, three of them in every third seed.
    """
    trace, counts = Trace(file), Counter[str]()
    disks: dict[Path, SimulatedDisk] = {}

    def count(what: str) -> None:
        counts[what] += 1

    options: dict[str, object] = {"selects_merges": True, "queue_wait_seconds": 3.0, **TABLE_SETTINGS}
    with simulation_directory() as directory, record_syncs(disks), run_jobs_inline():
        world = LinkedWorld(directory, NAMES, replicas, seed, trace, disks, count, **options)
        failure = ""
        try:
            make_work = SwitchedGroupWork if is_group else SwitchedWork
            tables = SwitchedTables(world, _TABLES[: 2 + (seed % 3 == 0)] if is_group else _TABLES[:1])
            make_work(tables, counts, may_force=bool(seed % 2), is_sync=is_sync).run(rounds, steps)
        except AssertionError as error:
            failure = str(error) or repr(error)
        finally:
            world.end()
    requests = sum(cluster.ensemble.requests for cluster in world.clusters.values())
    return ScenarioOutcome(seed, trace.digest, trace.count, requests, counts, failure, tuple(trace.last))
