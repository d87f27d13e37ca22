"""FORGET PARTITION: its nodes go, and nothing that is left of it ever meets what comes under its name."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable

import pytest

from coordination.inserts.block_ids import select_block_ids
from coordination.keeper.interface import MultiFailed
from coordination.keeper.memory_keeper import Fault
from coordination.transactions.commit_request import CommitRequest, Overwrite
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.statement_options import CommitOptions
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus
from tests.engine.tables.replicated.mutations import MakeColony, code, mutate, shown, values
from tests.engine.tables.replicated.test_block_history import KEPT, Stream
from tests.faults import FAULTS, hit_request
from tests.portions import one_in

STEP = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 3
"""Of neighbouring requests each test hits one."""
LOSES_REPLICAS = {"min_replicated_logs_to_keep": 1, "max_replicated_logs_to_keep": 3}


def drop(node: SimulatedNode, partition: str = "1") -> None:
    node.call(lambda table: table.partitions.drop(partition))


def forget(node: SimulatedNode, partition: str = "1") -> None:
    node.call(lambda table: table.partitions.forget(partition, QueryStatus()))


def partition_nodes(node: SimulatedNode) -> list[str]:
    return sorted(node.keeper.children(node.table.replication.paths.block_numbers))


def settle(colony: SimulatedCluster) -> None:
    colony.settle()
    colony.check_equal()
    names = [name.partition("_")[0] for name in partition_nodes(next(iter(colony)))]
    assert len(names) == len(set(names)), names
    assert {name.partition("_")[0] for node in colony for name in node.parts()} <= set(names)


def emptied(colony: SimulatedCluster, *, blocks: int = 3) -> SimulatedNode:
    """A partition of some blocks was dropped, everywhere."""
    one = next(iter(colony))
    for key in range(blocks):
        one.insert(1, [key])
    one.insert(2, [100])
    drop(one)
    settle(colony)
    return one


def test_its_nodes_go_and_it_may_come_again(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    assert code(lambda: forget(one)) == 716
    one.insert(1, [1, 2])
    one.insert(2, [3])
    settle(colony)
    assert code(lambda: forget(two)) == 716
    drop(two)
    forget(one)  # waits for the drop
    paths = one.table.replication.paths
    assert partition_nodes(one) == ["2"]
    assert one.keeper.children(paths.dropped_blocks) == []
    assert [id_ for id_ in one.keeper.children(paths.blocks) if id_.startswith("1")] == []
    assert code(lambda: forget(three)) == 716
    drop(one)
    assert three.insert(1, [1, 2]) == 2
    assert one.insert(1, [1, 2]) == 0
    two.insert(1, [5])
    two.insert(4, [6])  # a partition that was never there
    first = int(one.keeper.get(paths.block_numbers)[0])
    assert partition_nodes(one) == [f"1_{first}", "2", f"4_{first}"]
    settle(colony)
    for node in colony:
        assert node.keys() == [1, 2, 3, 5, 6]
        node.restart()
    colony.end_zombies()
    one.optimize()
    settle(colony)
    names = {part.name.partition_id: part.name for part in one.table.store.list_active()}
    assert (names["1"].min_block, names["4"].min_block) == (first, first)
    drop(one)
    settle(colony)
    forget(three)
    assert partition_nodes(one) == ["2", f"4_{first}"]
    one.insert(1, [7])
    settle(colony)
    (part,) = (part.name for part in two.table.store.list_active() if part.name.partition_id == "1")
    assert part.min_block > names["1"].max_block


def test_neither_mutations_nor_drops_reach_what_comes(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(3):
        one.insert(1, [key])
    two.insert(2, [100])
    settle(colony)
    mutate(one, "UPDATE v = 'new' WHERE 1", sync=2)
    drop(one)
    settle(colony)
    forget(two)
    two.insert(1, [1])
    mutate(one, "UPDATE v = concat(v, '!') WHERE 1", sync=2)
    two.insert(1, [2])
    settle(colony)
    for node in colony:
        assert values(node) == {1: "value 1!", 2: "value 2", 100: "new!"}
    first, second = (mutation.numbers["1"] for mutation in shown(one))
    assert (first, second) == (3, int(one.keeper.get(one.table.replication.paths.block_numbers)[0]) + 1)


def test_a_mutation_that_is_open_does_not_claim_what_comes(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(3):
        one.insert(1, [key])
    two.insert(2, [100])
    settle(colony)
    for node in colony:
        node.table.allow(StoppableAction.MERGES, False)
    mutate(one, "UPDATE v = 'new' WHERE 1")
    drop(one)
    forget(two)
    one.insert(1, [1])
    assert not shown(one)[0].is_done
    for node in colony:
        node.table.allow(StoppableAction.MERGES, True)
    settle(colony)
    assert [values(node) for node in colony] == [{1: "value 1", 100: "new"}] * 2


def test_who_has_not_dropped_it_yet_is_waited_for(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    one.insert(1, [1])
    settle(colony)
    three.is_frozen = True
    drop(one)
    with pytest.raises(PandoError, match="replica r3 has not read all of its log"):
        forget(one)
    three.is_frozen = False
    three.crash()
    with pytest.raises(PandoError, match="replica r3"):
        forget(two)
    three.start()
    forget(two)
    assert partition_nodes(one) == []
    settle(colony)


def test_a_lost_replica_brings_nothing_back(make_colony: MakeColony) -> None:
    colony = make_colony(3, **LOSES_REPLICAS)
    one, two, three = colony
    for key in range(3):
        one.insert(1, [key])
    settle(colony)
    three.crash()
    colony.end_zombies()
    drop(one)
    for key in range(10, 18):
        two.insert(2, [key])
        colony.settle()
    assert one.keeper.get(three.table.replication.replica.is_lost)[0] == b"1"
    forget(one)
    two.insert(1, [1])
    three.start()
    settle(colony)
    for node in colony:
        assert node.keys() == [1, *range(10, 18)]
    one.insert(1, [0])
    settle(colony)


def test_a_clean_up_that_judged_an_id_before_does_not_delete_a_new_one(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    (one,) = colony
    one.insert(1, [1])
    paths = one.table.replication.paths
    judged = select_block_ids(one.keeper, paths, "1", lambda _: True)
    drop(one)
    forget(one)
    one.insert(1, [1])
    with pytest.raises(MultiFailed):
        one.keeper.multi([judged.guard_op, *judged.deletes])
    assert one.insert(1, [1]) == 0


def test_the_confirmed_part_is_forgotten(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1], quorum=2)
    drop(one)
    colony.settle()
    forget(one)
    assert one.keys(sequential=True) == two.keys(sequential=True) == []
    one.insert(1, [2], quorum=2)
    assert two.keys(sequential=True) == [2]


def test_streams(make_colony: MakeColony) -> None:
    """One has read all that was dropped, one has not."""
    colony = make_colony(2, **KEPT)
    one, two = colony
    early, late = Stream(), Stream()
    for key in range(4):
        one.insert(1, [key])
        settle(colony)
        if key == 1:
            early.take(two, early.look(two))
    late.take(two, late.look(two))
    drop(one)
    settle(colony)
    forget(two)
    one.insert(1, [9])
    one.insert(3, [10])
    settle(colony)
    end = early.look(two)
    with pytest.raises(PandoError, match="were dropped before the stream had read them"):
        early.read(two, end)
    late.take(two, late.look(two))
    assert late.keys == [0, 1, 2, 3, 9, 10]


def test_beside_a_replica_of_an_older_version(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one = emptied(colony)
    host = next(node for node in colony if node is not one).table.replication.replica.host
    address = json.loads(one.keeper.get(host)[0])
    address["features"].remove("forget")
    one.keeper.set(host, json.dumps(address).encode())
    assert code(lambda: forget(one)) == 48
    assert "1" in partition_nodes(one)


def commit(node: SimulatedNode) -> None:
    request = CommitRequest("x", Overwrite.TABLE)
    node.call(lambda table: table.transactions.commit(request, CommitOptions(timeout_seconds=5.0)))


OTHERS: dict[str, Callable[[SimulatedNode], object]] = {
    "insert": lambda node: node.insert(1, [50]),
    "mutation": lambda node: mutate(node, "UPDATE v = 'new' WHERE 1"),
    "drop": drop,
    "truncate": lambda node: node.truncate(),
    "commit": commit,
    "forget": lambda node: code(lambda: forget(node)),
}


@pytest.mark.parametrize("is_inside", one_in(2, [True, False]), ids=["in a FORGET", "around a FORGET"])
@pytest.mark.parametrize("name", one_in(3, OTHERS))
def test_others_at_any_request(make_colony: MakeColony, name: str, is_inside: bool) -> None:
    """Each of both comes between two requests of the other."""
    outer, inner = (forget, OTHERS[name]) if is_inside else (OTHERS[name], forget)
    total = interleave(make_colony, name, outer, inner, 0)
    assert total >= 2
    for number in range(1 + list(OTHERS).index(name) % STEP, total + 1, STEP):
        interleave(make_colony, name, outer, inner, number)


def interleave(
    make_colony: MakeColony,
    name: str,
    outer: Callable[[SimulatedNode], object],
    inner: Callable[[SimulatedNode], object],
    number: int,
) -> int:
    """How many requests ``outer`` made; ``inner`` came before that of this number, or at last."""
    colony = make_colony(2, queue_wait_seconds=5.0)
    one = emptied(colony, blocks=1)
    (two,) = (node for node in colony if node is not one)
    if name == "commit":
        two.insert(1, [51], transaction="x")
    seen: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is one:
            seen.append(f"{kind} {path}")
            if len(seen) == number:
                with contextlib.suppress(PandoError):
                    inner(two)
        return None

    colony.on_request = on_request
    colony.on_wait = lambda: None
    with contextlib.suppress(PandoError):
        outer(one)
    colony.calm()
    if not number:
        with contextlib.suppress(PandoError):
            inner(two)
    colony.on_wait = colony.step_others
    settle(colony)
    rows = {"insert": [50, 100], "commit": [51], "truncate": []}.get(name, [100])
    assert [node.keys() for node in colony] == [rows] * 2, (number, seen)
    two.insert(1, [60])
    mutate(one, "DELETE WHERE k = 60", sync=2)
    assert one.keys() == two.keys() == rows
    end(colony)
    return len(seen)


@pytest.mark.parametrize("fault", one_in(2, FAULTS), ids=str)
@pytest.mark.long
def test_it_is_hit_at_any_request(make_colony: MakeColony, fault: Fault | str) -> None:
    total = hit(make_colony, 0, fault)
    assert total > 15
    for number in range(1 + FAULTS.index(fault) % STEP, total + 1, STEP):
        hit(make_colony, number, fault)


def hit(make_colony: MakeColony, number: int, fault: Fault | str) -> int:
    """How many requests there were."""
    colony = make_colony(2, queue_wait_seconds=5.0)
    one = emptied(colony, blocks=1)
    seen = hit_request(colony, number, fault)
    with contextlib.suppress(PandoError, Crash):
        forget(one)
        assert "1" not in partition_nodes(one)
    colony.calm()
    colony.settle()
    assert code(lambda: forget(next(iter(colony)))) in (0, 716)
    assert partition_nodes(one) == ["2"]
    one.insert(1, [9])
    settle(colony)
    assert [node.keys() for node in colony] == [[9, 100]] * 2
    end(colony)
    return len(seen)


def end(colony: SimulatedCluster) -> None:
    colony.end()
    for node in colony:
        shutil.rmtree(node.path)
