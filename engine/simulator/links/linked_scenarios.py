"""Runs one topology of linked clusters from one seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from engine.simulator.links.linked_variants import LinkedVariant, choose_variant
from engine.simulator.links.linked_work import LinkedWork
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.links.topology import TOPOLOGIES, Topology
from engine.simulator.scenario import TABLE_SETTINGS, ScenarioOutcome
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.simulation_directory import simulation_directory
from engine.simulator.trace import Trace
from parts.common.thread_pool import run_jobs_inline


@dataclass(frozen=True)
class LinkedScale:
    """The size of a run.

    A round is ``steps`` of work and faults on all clusters, then healing and checking.
    """

    replicas: int = 2
    rounds: int = 2
    steps: int = 200
    quorum: tuple[int | str, ...] = ()
    """The quorums of INSERTs to draw from, in place of the variant's."""


_KEEPING_SETTINGS = {"link_log_min_seconds_to_retain": 20}
"""Blocks that every link has go within a run."""


def simulate_links(
    seed: int,
    scale: LinkedScale = LinkedScale(),
    file: TextIO | None = None,
    topology: Topology | None = None,
    variant: LinkedVariant | None = None,
) -> ScenarioOutcome:
    """Runs a topology, by default the one at the seed's remainder, and a variant, by default the seed's.

    It runs in a temporary directory; ``file`` gets the trace.
    """
    trace = Trace(file)
    disks: dict[Path, SimulatedDisk] = {}
    topology = topology or TOPOLOGIES[seed % len(TOPOLOGIES)]
    variant = variant or choose_variant(seed, topology)
    trace.add(f"{topology.name}: {variant.name}")
    counts: Counter[str] = Counter()

    def count(what: str) -> None:
        counts[what] += 1

    options: dict[str, object] = {"selects_merges": True, "queue_wait_seconds": 3.0, "has_wrong_clocks": True}
    with simulation_directory() as directory, record_syncs(disks), run_jobs_inline():
        world = LinkedWorld(
            directory, topology.clusters, scale.replicas, seed, trace, disks, count,
            **{**options, **TABLE_SETTINGS, **_KEEPING_SETTINGS, **variant.settings},
        )  # fmt: skip
        if seed // len(TOPOLOGIES) % 2:  # finds tasks that nothing wakes; with other seeds every task is stepped
            for cluster in world.clusters.values():
                cluster.settle_step = SimulatedServer.step_due
        failure = ""
        try:
            LinkedWork(
                world, topology, variant, variant.link_settings(topology, seed), scale.quorum or variant.quorum, counts
            ).run(scale.rounds, scale.steps)
        except AssertionError as error:
            failure = str(error) or repr(error)
        finally:
            world.end()
    requests = sum(cluster.ensemble.requests for cluster in world.clusters.values())
    return ScenarioOutcome(seed, trace.digest, trace.count, requests, counts, failure, tuple(trace.last))
