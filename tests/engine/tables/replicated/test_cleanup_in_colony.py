"""Logs, parts and ids that nobody needs any more go, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordination.replicas.log_pull import read_listed_parts
from engine.server.background_pool import BackgroundTask
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import OptimizeOptions

MakeColony = Callable[..., SimulatedCluster]


@pytest.mark.long
def test_many_inserts_do_not_wait_for_the_period_of_cleaning(make_colony: MakeColony) -> None:
    """A period would see hundreds of them: a quarter of the window is time to clean, too."""
    colony = make_colony(2, replicated_deduplication_window=100, cleanup_delay_period=3600)
    cleaning: dict[BackgroundTask, SimulatedNode] = {node.task("clean up log"): node for node in colony}
    woken: list[BackgroundTask] = []
    for node in colony:
        node.pool.tasks.remove(node.task("clean up log"))
        node.pool.wake = lambda task, delay_seconds=0.0: woken.append(task)  # type: ignore[method-assign]
    blocks = colony.nodes["r1"].table.replication.paths.blocks
    most = 0
    for number in range(220):
        colony.nodes[f"r{number % 2 + 1}"].insert(1, [number])
        if number % 5 == 0:
            for node in colony:
                node.step(node.task("pull log"))
            for task in {task for task in woken if task in cleaning}:
                cleaning[task].step(task)
            woken.clear()
        most = max(most, len(colony.nodes["r1"].keeper.children(blocks)))
    assert 100 < most <= 150


def test_cleanup_trims_log_and_outdated_parts(make_colony: MakeColony) -> None:
    colony = make_colony(2, min_replicated_logs_to_keep=3, cleanup_delay_period=1)
    one, _two = colony
    for key in range(10):
        one.insert(1, [key])
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    assert len(one.directories()) == 11
    colony.now += 1000
    colony.settle()
    for node in colony:
        assert [path.name for path in node.directories()] == list(node.parts())
        assert {str(name) for name in read_listed_parts(node.keeper, node.table.replication.replica)} == set(
            node.parts()
        )
    assert len(one.keeper.children(one.table.replication.paths.log)) == 3


def test_deletion_of_outdated_parts_cut_short(make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off ZooKeeper's list but still on disk: a restart takes them for what they are."""
    colony = make_colony(2)
    for number in range(10):
        colony.nodes["r1"].insert(1, [10 * number, 10 * number + 1])
    colony.settle()
    one, two = colony
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    colony.now += 1000
    monkeypatch.setattr(two.table.store, "delete", lambda parts: two.crash_here())
    two.step_all()
    assert not two.is_up
    assert len(two.directories()) == 11
    colony.heal()
    colony.check_equal()
    assert two.keys() == one.keys()
    assert not two.table.store.list_detached()
    colony.now += 1000
    colony.settle()
    assert len(two.directories()) == 1
