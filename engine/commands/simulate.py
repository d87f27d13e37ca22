"""``pando simulate``: runs whole servers in one thread, under random faults, from a seed that replays."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # the simulator is imported when it runs
    from engine.simulator.scenario import ScenarioOutcome


@click.command("simulate")
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many, one after another.")
@click.option("--replicas", type=click.IntRange(2, 9), default=3, show_default=True, help="Servers in each run.")
@click.option("--rounds", type=click.IntRange(min=1), default=2, show_default=True, help="Of chaos and healing.")
@click.option("--steps", type=click.IntRange(min=1), default=120, show_default=True, help="Of chaos in a round.")
@click.option("--moves", is_flag=True, help="Of two tables, between which partitions move.")
@click.option("--restores", is_flag=True, help="ZooKeeper is put back to an older snapshot, and replicas are restored.")
@click.option("--clusters", type=click.IntRange(2, 5), help="Of so many clusters that replicate to each other.")
@click.option("--groups", is_flag=True, help="Of two clusters with a transactional group; with --switches of three.")
@click.option("--switches", is_flag=True, help="Of three clusters whose source is switched over.")
@click.option("--sync", "is_sync", is_flag=True, help="With --switches: the links begin as synchronous ones.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="File for what happened, line by line.")
def command(
    seed: int,
    seeds: int,
    replicas: int,
    rounds: int,
    steps: int,
    moves: bool,
    restores: bool,
    clusters: int | None,
    groups: bool,
    switches: bool,
    is_sync: bool,
    trace: Path | None,
) -> None:
    """Run whole servers in one thread, under random faults.

    \b
    pando simulate --seed 7 --trace seven.txt
    pando simulate --seed 1 --seeds 1000
    pando simulate --clusters 3 --replicas 2 --seeds 100
    pando simulate --switches --sync --seeds 100
    pando simulate --groups --replicas 2 --rounds 1 --seeds 100
    pando simulate --switches --groups --replicas 2 --rounds 1 --seeds 100

    Statements, restarts, crashes, lost requests and answers, ended sessions and cut connections come from the seed, and
    so does the order of all background work: the same seed gives the same trace, byte for byte. After each healing no
    acknowledged row may be missing or doubled, and all replicas must hold the same parts. With --clusters the networks
    between clusters fail too, and each cluster must show of the others what a prefix of their commits gives.
    With --switches no acknowledged row may be lost that no REJOIN told of. With --groups every read of all tables of
    a group must be the state of their source after one of its commits.
    """
    if moves + restores + (clusters is not None) + (groups or switches) > 1:
        raise click.UsageError(
            "--moves, --restores, --clusters, --groups and --switches are different scenarios: choose one. Only "
            "--switches and --groups go together"
        )
    if is_sync and not switches:
        raise click.UsageError("--sync goes with --switches")
    if not __debug__:
        raise click.ClickException("python -O and PYTHONOPTIMIZE leave out the checks that a simulation is for")
    import logging

    from engine.simulator.links.groups.grouped_scenarios import simulate_groups
    from engine.simulator.links.linked_scenarios import LinkedScale, simulate_links
    from engine.simulator.links.switched_scenarios import simulate_switches
    from engine.simulator.links.topology import make_topologies
    from engine.simulator.scenario import MOVES, RESTORES, Scale, simulate

    logging.disable(logging.ERROR)  # faults are injected on purpose
    scenario = MOVES if moves else RESTORES if restores else None
    topologies = make_topologies(clusters) if clusters else ()
    failed = 0
    with open(trace or os.devnull, "w") as file:
        for number in range(seed, seed + seeds):
            began = time.monotonic()
            if switches:
                outcome = simulate_switches(number, rounds, steps, file, replicas, is_sync=is_sync, is_group=groups)
            elif groups:
                outcome = simulate_groups(number, rounds, steps, file, replicas)
            elif topologies:
                topology = topologies[number % len(topologies)]
                outcome = simulate_links(number, LinkedScale(replicas, rounds, steps), file, topology)
            else:
                outcome = simulate(number, Scale(replicas, rounds, steps), file, scenario)
            failed += bool(outcome.failure)
            _show(number, outcome, time.monotonic() - began)
    if failed:
        raise click.ClickException(f"{failed} of {seeds} seeds broke a promise")


def _show(seed: int, outcome: ScenarioOutcome, seconds: float) -> None:
    click.echo(
        f"seed {seed}: {'FAILED' if outcome.failure else 'ok'}, {outcome.requests} requests to ZooKeeper, "
        f"{outcome.lines} lines of trace {outcome.digest}, {seconds:.1f} s"
    )
    if outcome.failure:
        click.echo("\n".join(outcome.last))
        click.echo(outcome.failure)
