"""DROP and DETACH of partitions and parts: on every replica, for ever, whatever fails at whatever request."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.transactions.commit_request import Overwrite
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.statement_options import OptimizeOptions
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part
from parts.store.detached_parts import list_detached_by_users
from tests.engine.tables.replicated.staging import commit, stage
from tests.faults import FAULTS, hit_request
from tests.portions import one_in

MakeColony = Callable[..., SimulatedCluster]
GONE, LEFT = [1, 2, 3], [4, 5]


def drop(node: SimulatedNode, partition: str | None, *, detach: bool = False) -> None:
    node.call(lambda table: table.partitions.drop(partition, detach=detach))


def drop_part(node: SimulatedNode, name: str, *, detach: bool = False) -> None:
    node.call(lambda table: table.partitions.drop_part(PartName.parse(name), detach=detach))


def code(action: Callable[[], object]) -> int:
    try:
        action()
    except PandoError as error:
        return error.code
    return 0


def detached_keys(node: SimulatedNode) -> list[int]:
    """Of what was detached by somebody's wish."""
    places = [node.path / "detached" / str(name) for name in list_detached_by_users(node.table.store.list_detached())]
    batches = [batch for place in places for batch in open_part(place).read(["k"])]
    return sorted(key for batch in batches for key in batch.column(0).to_pylist())


def settle(colony: SimulatedCluster) -> None:
    for node in colony:
        for action in (StoppableAction.MERGES, StoppableAction.FETCHES):
            node.table.allow(action, True)
    colony.settle()
    colony.check_equal()


def restart_all(colony: SimulatedCluster) -> None:
    for node in colony:
        node.restart()
    colony.end_zombies()
    settle(colony)


@dataclass(frozen=True)
class Operation:
    run: Callable[[SimulatedNode], None]
    detach: bool = False
    repeated: int = 0
    """The code of a repetition of what is done."""


OPERATIONS = {
    "drop partition": Operation(lambda node: drop(node, "1")),
    "detach partition": Operation(lambda node: drop(node, "1", detach=True), detach=True),
    "drop part": Operation(lambda node: drop_part(node, "1_0_1_1"), repeated=232),
    "detach part": Operation(lambda node: drop_part(node, "1_0_1_1", detach=True), detach=True, repeated=232),
}


def scenario(colony: SimulatedCluster) -> SimulatedNode:
    """Partition 1 is one merged part, of which one replica has the sources only."""
    one, two = colony
    one.insert(1, [1, 2])
    two.insert(1, [3])
    two.insert(2, [4, 5])
    colony.settle()
    two.table.allow(StoppableAction.MERGES, False)
    two.table.allow(StoppableAction.FETCHES, False)
    one.optimize()
    return one


def check(colony: SimulatedCluster, operation: Operation) -> None:
    for node in colony:
        assert node.keys() == LEFT, node.explain()
        assert detached_keys(node) == (GONE if operation.detach else []), (node.name, node.table.store.list_detached())


@pytest.mark.parametrize("name", OPERATIONS)
def test_it_happens_everywhere_and_lasts(make_colony: MakeColony, name: str) -> None:
    operation, colony = OPERATIONS[name], make_colony(2)
    one = scenario(colony)
    operation.run(one)
    assert one.keys() == LEFT
    settle(colony)
    check(colony, operation)
    assert code(lambda: operation.run(one)) == operation.repeated
    restart_all(colony)
    check(colony, operation)
    assert one.insert(1, [1, 2]) == 2  # what went may come again
    one.insert(1, [9])
    one.optimize()
    restart_all(colony)
    assert [node.keys() for node in colony] == [[1, 2, 4, 5, 9]] * 2


@pytest.mark.parametrize(("fault", "name"), one_in(10, product(FAULTS, OPERATIONS)), ids=str)
@pytest.mark.long
def test_it_is_hit_at_any_request(make_colony: MakeColony, name: str, fault: Fault | str) -> None:
    operation = OPERATIONS[name]
    step = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 4
    total = hit(make_colony, operation, 0, fault)
    assert total > 20
    for number in range(1 + FAULTS.index(fault) % 2, total + 1, step):
        hit(make_colony, operation, number, fault)


def hit(make_colony: MakeColony, operation: Operation, number: int, fault: Fault | str) -> int:
    """How many requests there were."""
    colony = make_colony(2, queue_wait_seconds=5.0)
    one = scenario(colony)

    seen = hit_request(colony, number, fault)
    with contextlib.suppress(PandoError, Crash):
        operation.run(one)
        assert one.keys() == LEFT
    colony.calm()
    settle(colony)
    assert code(lambda: operation.run(one)) in (0, operation.repeated)
    settle(colony)
    check(colony, operation)
    restart_all(colony)
    check(colony, operation)
    colony.end()
    for node in colony:
        shutil.rmtree(node.path)
    return len(seen)


def test_a_merge_over_the_gap_waits_until_the_part_is_kept(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch
) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in (1, 2, 3):
        one.insert(1, [key])
    colony.settle()
    keep, failures = two.table.store.link_to_detached, [OSError("disk"), OSError("disk"), OSError("disk")]

    def keep_after_all(parts: Iterable[Part]) -> None:
        if failures:
            raise failures.pop()
        keep(parts)

    monkeypatch.setattr(two.table.store, "link_to_detached", keep_after_all)
    drop_part(one, "1_1_1_0", detach=True)
    one.optimize()
    drop(one, "1")
    settle(colony)
    assert not failures
    assert [detached_keys(node) for node in colony] == [[2], [2]]
    assert [node.keys() for node in colony] == [[], []]


def test_an_insert_under_way_takes_a_number_behind_the_drop(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    two.insert(1, [1])
    dropped: list[str] = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == "insert.before_commit" and not dropped:
            dropped.append(name)
            drop(two, "1")

    colony.on_failpoint = on_failpoint
    one.insert(1, [2])
    settle(colony)
    assert dropped
    assert [node.keys() for node in colony] == [[2], [2]]


def test_a_part_of_a_merge_or_of_another_replica_is_not_dropped(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in (1, 2):
        one.insert(1, [key])
    two.table.log_pull.pull(two.keeper)
    assert code(lambda: drop_part(two, "1_0_0_0")) == 232  # not fetched yet
    settle(colony)
    one.table.allow(StoppableAction.MERGES, False)
    with contextlib.suppress(PandoError):
        one.call(lambda table: table.merge_steps._assign_optimize(one.keeper, OptimizeOptions(final=True)))
    assert code(lambda: drop_part(one, "1_0_0_0")) == 384
    settle(colony)
    assert code(lambda: drop_part(one, "1_0_0_0")) == 232
    assert one.keys() == [1, 2]


def test_a_replica_that_does_not_know_it_forbids_the_drop_of_a_part(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    settle(colony)
    host = two.table.replication.replica.host
    address = json.loads(one.keeper.get(host)[0])
    one.keeper.set(host, json.dumps({**address, "features": ["exchange"]}).encode())
    assert code(lambda: drop_part(one, "1_0_0_0")) == 48
    drop(one, "1")
    assert one.keys() == []


def test_a_detach_behind_a_commit_that_nobody_has_carried_out(make_colony: MakeColony) -> None:
    """The committed rows go to ``detached/`` with the others."""
    colony = make_colony(2, queue_wait_seconds=5.0)
    one, two = colony
    one.insert(2, [2])
    colony.settle()
    stage(one, 1, [10])
    stage(one, 2, [20])
    for node in colony:
        node.table.allow(StoppableAction.QUEUES, False)
    assert code(lambda: commit(one, timeout_seconds=5.0)) == 341
    assert code(lambda: drop(one, "2", detach=True)) == 341
    for node in colony:
        node.table.allow(StoppableAction.QUEUES, True)
    settle(colony)
    assert one.keys() == [10]
    assert detached_keys(one) == detached_keys(two) == [2, 20]


def test_a_detach_between_two_overwrites_that_nobody_has_carried_out(make_colony: MakeColony) -> None:
    """The second overwrite waits for it, it waits for the first commit, and both transactions are one step."""
    colony = make_colony(2, queue_wait_seconds=5.0)
    one, two = colony
    one.insert(1, [1])
    one.insert(2, [2])
    colony.settle()
    stage(one, 1, [10])
    stage(one, 2, [20])
    stage(one, 2, [21], transaction="y")
    for node in colony:
        node.table.allow(StoppableAction.QUEUES, False)
    assert code(lambda: commit(one, timeout_seconds=5.0)) == 341
    assert code(lambda: drop(one, "2", detach=True)) == 341
    assert code(lambda: commit(one, "y", timeout_seconds=5.0, overwrite=Overwrite.TABLE)) == 341
    for node in colony:
        node.table.allow(StoppableAction.QUEUES, True)
    seen: set[tuple[int, ...]] = set()
    colony.on_request = lambda node, kind, path: seen.update(tuple(node.keys()) for node in (one, two))
    colony.settle()
    colony.on_request = lambda node, kind, path: None
    colony.check_equal()
    assert seen == {(1, 2), (21,)}
    assert detached_keys(one) == [2, 20]
    assert detached_keys(two) == [2], "the replica that staged the rows has them alone: it was the first"
