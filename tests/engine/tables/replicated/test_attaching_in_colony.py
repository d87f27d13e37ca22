"""ATTACH of detached parts: on every replica at once, and after any fault in the table or in ``detached/``."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.transactions.commit_request import Overwrite
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.capabilities.attach_parts import select_attachable
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus
from tests.engine.tables.replicated.test_partitions_in_colony import code, detached_keys, drop, restart_all, settle
from tests.faults import FAULTS, hit_request
from tests.portions import one_in

MakeColony = Callable[..., SimulatedCluster]
ALL = [1, 2, 3, 4, 5]
FAILPOINTS = ["attach.after_begin", "stage.after_move", "stage.after_told", "attach.after_stage",
              "transaction.after_commit", "exchange.before", "exchange.after"]  # fmt: skip


def attach(node: SimulatedNode, partition: str | None = "1") -> None:
    names = select_attachable(node.table.store.list_detached(), partition)[0]
    node.call(lambda table: table.partitions.attaching.attach(names, QueryStatus()))


def scenario(colony: SimulatedCluster) -> tuple[SimulatedNode, SimulatedNode]:
    """Partition 1 was detached: as two parts here, one of them merged; and as other parts there."""
    one, two = colony
    one.insert(1, [1])
    one.insert(1, [2])
    settle(colony)
    two.table.allow(StoppableAction.MERGES, False)
    two.table.allow(StoppableAction.FETCHES, False)
    one.optimize()
    one.insert(1, [3])
    two.insert(2, [4, 5])
    drop(one, "1", detach=True)
    settle(colony)
    assert detached_keys(one) == [1, 2, 3]
    assert detached_keys(two) == [1, 2]
    return one, two


def test_what_is_attached_is_there_on_every_replica(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = scenario(colony)
    attach(one)
    assert one.keys() == ALL
    settle(colony)
    assert two.keys() == ALL
    assert detached_keys(one) == []
    assert detached_keys(two) == [1, 2]  # other parts: nothing is attached there that did not come from here
    attach(one)
    one.optimize()
    restart_all(colony)
    assert [node.keys() for node in colony] == [ALL, ALL]


def test_a_replica_that_has_it_detached_too_fetches_nothing(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(1, [3])
    settle(colony)
    drop(one, "1", detach=True)
    settle(colony)
    assert detached_keys(two) == [1, 2, 3]
    victim = two.path / "detached" / "1_1_1_0"
    file = next(file for file in sorted(victim.iterdir()) if file.stat().st_size)
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))  # its copy of [3] is broken
    copied: list[str] = []
    colony.on_copy = lambda part, node: copied.append(str(part))
    attach(two, "nothing")
    attach(one)
    settle(colony)
    assert set(copied) == {"1_4_4_0"}
    assert [node.keys() for node in colony] == [[1, 2, 3], [1, 2, 3]]
    assert two.table.store.list_detached() == ["1_1_1_0"]
    restart_all(colony)


@pytest.mark.parametrize("fault", one_in(5, FAULTS), ids=str)
def test_it_is_hit_at_any_request(make_colony: MakeColony, fault: Fault | str) -> None:
    step = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 6
    total = hit(make_colony, 0, fault)
    assert total > 40
    for number in range(1 + FAULTS.index(fault) % step, total + 1, step):
        hit(make_colony, number, fault)


def hit(make_colony: MakeColony, number: int, fault: Fault | str) -> int:
    """How many requests there were."""
    colony = make_colony(2, queue_wait_seconds=5.0)
    one, _ = scenario(colony)

    seen = hit_request(colony, number, fault)
    with contextlib.suppress(PandoError, Crash):
        attach(one)
        assert one.keys() == ALL
    finish(colony, one)
    return len(seen)


@pytest.mark.parametrize("victim", one_in(2, ["r1", "r2"]))
@pytest.mark.parametrize("point", FAILPOINTS)
def test_a_replica_dies_in_the_middle(make_colony: MakeColony, point: str, victim: str) -> None:
    colony = make_colony(2, queue_wait_seconds=5.0)
    one, _ = scenario(colony)
    died: list[str] = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == point and node.name == victim and not died:
            died.append(name)
            node.crash_here()

    colony.on_failpoint = on_failpoint
    with contextlib.suppress(PandoError, Crash):
        attach(one)
    settle_down(colony)
    assert died or (victim == "r2" and not point.startswith("exchange"))
    finish(colony, one)


def settle_down(colony: SimulatedCluster) -> None:
    colony.calm()
    settle(colony)


def finish(colony: SimulatedCluster, one: SimulatedNode) -> None:
    """Nothing is lost or doubled; then it is attached again."""
    settle_down(colony)
    assert sorted(one.keys() + detached_keys(one)) == ALL, one.table.store.list_detached()
    assert one.keys() in (ALL, [4, 5])
    assert not one.table.store.attaching.list_transactions()
    attach(one)
    settle(colony)
    assert [node.keys() for node in colony] == [ALL, ALL]
    restart_all(colony)
    assert [node.keys() for node in colony] == [ALL, ALL]
    colony.end()
    for node in colony:
        shutil.rmtree(node.path)


def test_what_is_not_there_and_what_is_broken(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, _ = scenario(colony)
    place = one.path / "detached" / "1_2_2_0"
    file = next(file for file in sorted(place.iterdir()) if file.stat().st_size)
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    before = one.table.store.list_detached()
    assert code(lambda: attach(one)) == 40
    missing = lambda table: table.partitions.attaching.attach(["1_0_1_1", "1_9_9_0"], QueryStatus())  # noqa: E731
    assert code(lambda: one.call(missing)) == 233
    settle(colony)
    assert one.table.store.list_detached() == before
    assert [node.keys() for node in colony] == [[4, 5], [4, 5]]


@pytest.mark.parametrize("fault", one_in(5, FAULTS), ids=str)
@pytest.mark.long
def test_a_replacement_by_the_same_rows_is_hit_at_any_request(make_colony: MakeColony, fault: Fault | str) -> None:
    """Whatever became of it, the rows are there, once."""
    total = replace_under(make_colony, 0, fault)
    assert total > 30
    for number in range(1 + FAULTS.index(fault), total + 1, 6):
        replace_under(make_colony, number, fault)


def replace_under(make_colony: MakeColony, number: int, fault: Fault | str) -> int:
    colony, count = make_colony(2, queue_wait_seconds=5.0), 0
    one, two = colony
    one.insert(1, [1, 2])
    two.insert(1, [3])
    two.insert(2, [4, 5])
    settle(colony)

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        nonlocal count
        count += 1
        if count != number:
            return None
        if isinstance(fault, Fault):
            return fault
        node.crash_here()
        return None

    def replace_by_itself(table: ReplicatedTable) -> None:
        with table.store.snapshot() as held:
            parts = [part for part in held.parts if part.name.partition_id == "1"]
            schema = table.description.schema
            table.partitions.attaching.attach_from_table(parts, schema, Overwrite.PARTITIONS, QueryStatus())

    colony.on_request = on_request
    with contextlib.suppress(PandoError, Crash):
        one.call(replace_by_itself)
        assert not {"1_0_0_0", "1_1_1_0"} & set(one.parts())
    settle_down(colony)
    assert [node.keys() for node in colony] == [ALL, ALL]
    restart_all(colony)
    assert [node.keys() for node in colony] == [ALL, ALL]
    colony.end()
    for node in colony:
        shutil.rmtree(node.path)
    return count
