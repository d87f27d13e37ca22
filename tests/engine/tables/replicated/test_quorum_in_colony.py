"""insert_quorum, deduplication and answers that were lost, on real tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine.tables.replicated.follow.queue_execution as queue_steps
from coordination.inserts.quorum import read_pending_quorums
from coordination.inserts.quorum_failure import fail_part_ops
from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.statement_options import OptimizeOptions
from parts.common.errors import PandoError, UnknownOutcomeError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from tests.coordination.real_time import drop_all_partitions
from tests.portions import one_in

MakeColony = Callable[..., SimulatedCluster]
ANYHOW = pytest.mark.parametrize("is_parallel", [True, False])
QUICK = {"quorum_timeout_seconds": 5.0}


def code_of(action: Callable[[], object]) -> int:
    with pytest.raises(PandoError) as raised:
        action()
    return raised.value.code


def freeze(*nodes: SimulatedNode) -> None:
    for node in nodes:
        node.is_frozen = True


@ANYHOW
@pytest.mark.parametrize("quorum", [2, 3, "auto"])
def test_quorum_is_reached(make_colony: MakeColony, quorum: int | str, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, _two, _three = colony
    assert one.insert(1, [1, 2], quorum=quorum, quorum_parallel=is_parallel) == 2
    copies = sum(node.keys() == [1, 2] for node in colony)
    assert copies >= (2 if quorum == "auto" else int(quorum))
    assert one.keys(sequential=True) == [1, 2]
    colony.settle()
    colony.check_equal()


def test_too_few_live_replicas(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    two.crash()
    three.crash()
    colony.end_zombies()
    assert code_of(lambda: one.insert(1, [1], quorum=2)) == 285
    assert code_of(lambda: one.insert(1, [1], quorum="auto")) == 285
    assert one.insert(1, [1]) == 1


@ANYHOW
def test_stopped_fetchers(make_colony: MakeColony, is_parallel: bool) -> None:
    """319, nothing shown by sequential reads, then confirmed; a repeat stores nothing twice."""
    colony = make_colony(3)
    one, two, three = colony
    assert one.insert(1, [1]) == 1
    colony.settle()
    freeze(two, three)
    options = {"quorum": 2, "quorum_parallel": is_parallel, **QUICK}
    assert code_of(lambda: one.insert(1, [2], **options)) == 319
    assert one.keys() == [1, 2]
    assert one.keys(sequential=True) == [1]
    second = code_of(lambda: one.insert(1, [3], **options))
    assert second == (319 if is_parallel else 286)
    # A repeated block waits for its original's quorum, whichever way it is asked for.
    for repeat in (options, {**options, "quorum_parallel": not is_parallel}, QUICK):
        assert code_of(lambda repeat=repeat: two.insert(1, [2], **repeat)) == 319  # type: ignore[misc]
    two.is_frozen = three.is_frozen = False
    assert two.insert(1, [2], **options) == 0
    assert one.insert(1, [3], **options) == (0 if is_parallel else 1)
    colony.settle()
    colony.check_equal()
    assert one.keys(sequential=True) == three.keys() == [1, 2, 3]


@ANYHOW
def test_acknowledging_replica_lost_with_its_disk(make_colony: MakeColony, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, _two, three = colony
    three.is_frozen = True
    for key in range(5):
        assert one.insert(1, [key], quorum=2, quorum_parallel=is_parallel) == 1
    one.crash()
    one.wipe()
    colony.end_zombies()
    three.is_frozen = False
    for _ in range(20):
        colony.now += 5
        three.step_all()
    assert three.keys(sequential=True) == [0, 1, 2, 3, 4]
    one.start()
    colony.settle()
    colony.check_equal()


@ANYHOW
def test_failed_quorum(make_colony: MakeColony, is_parallel: bool) -> None:
    """The owner died before anybody had the part: it is given up, can be inserted again, and the owner detaches it."""
    colony = make_colony(3)
    one, two, three = colony
    assert two.insert(1, [1]) == 1
    colony.settle()
    freeze(two, three)
    assert code_of(lambda: one.insert(1, [7, 8], quorum=2, quorum_parallel=is_parallel, **QUICK)) == 319
    one.crash()
    colony.end_zombies()
    two.is_frozen = three.is_frozen = False
    colony.settle()
    assert two.keys() == three.keys() == [1]
    assert two.insert(1, [7, 8], quorum=2, quorum_parallel=is_parallel) == 2
    assert two.insert(1, [9]) == 1
    two.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    one.start()
    colony.settle()
    colony.check_equal()
    assert one.keys() == [1, 7, 8, 9]
    assert [name.startswith("noquorum_") for name in one.table.store.list_detached()] == [True]


def test_lagging_replica_refuses_sequential_reads(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, _two, three = colony
    three.is_frozen = True
    one.insert(1, [1], quorum=2)
    assert code_of(lambda: three.keys(sequential=True)) == 289
    assert three.keys() == []
    three.is_frozen = False
    colony.settle()
    assert three.keys(sequential=True) == [1]


def test_emptied_replica_refuses_sequential_reads_until_filled(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, _two, three = colony
    for key in range(3):
        one.insert(1, [key], quorum=3)
    three.crash()
    three.wipe()
    colony.end_zombies()
    three.start()
    assert three.table.state.readonly_reason == ""
    assert code_of(lambda: three.keys(sequential=True)) == 289
    colony.settle()
    assert three.keys(sequential=True) == [0, 1, 2]


def test_sequential_read_after_truncate(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1], quorum=2, quorum_parallel=False)
    one.call(lambda table: table.truncate())
    colony.settle()
    assert one.keys(sequential=True) == two.keys(sequential=True) == []


@ANYHOW
def test_truncate_ends_the_wait_for_a_quorum(make_colony: MakeColony, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, two, three = colony
    freeze(two, three)
    assert code_of(lambda: one.insert(1, [1], quorum=2, quorum_parallel=is_parallel, **QUICK)) == 319
    one.call(lambda table: table.truncate())
    two.is_frozen = three.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert one.keys() == two.keys() == []
    assert one.insert(1, [1], quorum=2, quorum_parallel=is_parallel) == 1


def test_quorum_repeat_of_a_block_stored_without_quorum(make_colony: MakeColony) -> None:
    """The acknowledgement says that two replicas have the rows, so it waits until they have."""
    colony = make_colony(3)
    one, two, three = colony
    freeze(two, three)
    assert one.insert(1, [1]) == 1
    assert code_of(lambda: one.insert(1, [1], quorum=2, **QUICK)) == 319
    two.is_frozen = False
    assert one.insert(1, [1], quorum=2, **QUICK) == 0
    assert two.keys() == [1]


def test_killed_repeat_does_not_wait_for_its_copies(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    freeze(two)
    assert one.insert(1, [1]) == 1
    status = QueryStatus()
    colony.on_wait = status.stop
    begun = colony.now
    assert code_of(lambda: one.insert(1, [1], quorum=2, quorum_timeout_seconds=600.0, status=status)) == 394
    assert colony.now - begun < 10


def test_tokens_deduplicate_across_replicas(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    assert one.insert([1, 2], [1, 2], deduplication_token="a") == 2
    assert two.insert([1, 2], [1, 2], deduplication_token="a") == 0
    assert two.insert([1, 2], [1, 2], deduplication_token="b") == 2
    colony.settle()
    colony.check_equal()
    assert one.keys() == [1, 1, 2, 2]


@pytest.mark.parametrize("fault", one_in(3, list(Fault)))
@pytest.mark.parametrize("quorum", [0, 2])
@pytest.mark.parametrize("at", range(1, 24, 2))
def test_fault_at_any_request_of_an_insert(make_colony: MakeColony, fault: Fault, quorum: int, at: int) -> None:
    """Whatever the client hears, a repeat through another replica makes the rows be there once."""
    colony = make_colony(2, at)
    one, two = colony
    left = [at]

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is one:
            left[0] -= 1
            return fault if left[0] == 0 else None
        return None

    def on_wait() -> None:
        one.keeper.reconnect()
        colony.step_others()

    colony.on_request, colony.on_wait = on_request, on_wait
    answer = ""
    try:
        one.insert(1, [1, 2], quorum=quorum, **QUICK)
        answer = "ok"
    except UnknownOutcomeError:
        answer = "unknown"
    except PandoError:
        answer = "failed"
    except Crash:
        pytest.fail("no crash was asked for")
    colony.on_request = lambda *_: None
    one.keeper.reconnect()
    colony.settle()
    if answer == "ok":
        assert two.keys() == [1, 2]
    if answer == "failed":
        assert two.keys() == []
    is_stored = bool(two.keys())
    assert two.insert(1, [1, 2]) == (0 if is_stored else 2)
    colony.settle()
    colony.check_equal()
    assert one.keys() == two.keys() == [1, 2]


def test_merge_results_that_differ(make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second to finish discards its own and fetches."""
    colony = make_colony(2)
    one, two = colony
    for key in range(4):
        one.insert(1, [key])
    colony.settle()
    freeze(two)
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    merge, fetch = queue_steps.merge_to_temporary, two.fetch_part
    fetched: list[PartName] = []

    def merge_otherwise(table: ReplicatedTable, sources: list[Part], *args: Any, **options: Any) -> Path:
        return merge(table, sources[:-1] if table is two.table.state else sources, *args, **options)

    def note(url: str, endpoint: str, part: PartName, *rest: Any) -> None:
        fetched.append(part)
        fetch(url, endpoint, part, *rest)

    monkeypatch.setattr(queue_steps, "merge_to_temporary", merge_otherwise)
    monkeypatch.setattr(two, "fetch_part", note)
    two.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert two.keys() == [0, 1, 2, 3]
    assert [part.level for part in fetched] == [1]


def test_optimize_deduplicate(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for _ in range(3):
        one.insert(1, [5, 5, 6], deduplicate=False)
    one.call(lambda table: table.optimize(OptimizeOptions(final=True, deduplicate=True)))
    colony.settle()
    colony.check_equal()
    assert two.keys() == [5, 6]


def test_optimize_of_nothing(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    (one,) = colony
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    throwing = OptimizeOptions(final=True, throw_if_noop=True)
    assert code_of(lambda: one.call(lambda table: table.optimize(throwing))) == 388


def fail_quorum(node: SimulatedNode) -> None:
    """As a server would that does not ask who has the part."""
    paths = node.table.replication.paths
    ((status, stat, path),) = read_pending_quorums(node.keeper, paths)
    node.keeper.multi(fail_part_ops(node.keeper, paths, status, path, stat.version))


def test_active_replica_takes_a_failed_part_back_at_once(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    freeze(two, three)
    assert code_of(lambda: one.insert(1, [1], quorum=2, **QUICK)) == 319
    one.step_all()
    fail_quorum(two)
    one.step(one.task("take back failed parts"))
    assert one.keys() == [] == sorted(one.list_zookeeper_parts())
    assert [name.startswith("noquorum_") for name in one.table.store.list_detached()] == [True]
    two.is_frozen = three.is_frozen = False
    assert two.insert(1, [1]) == 1
    colony.settle()
    colony.check_equal()


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_failed_part_leaves_zookeeper_though_it_went_away_after_the_disk(make_colony: MakeColony, fault: Fault) -> None:
    """A part that is listed and not there would be asked of this replica for ever."""
    colony = make_colony(3)
    one, two, three = colony
    freeze(two, three)
    assert code_of(lambda: one.insert(1, [1], quorum=2, **QUICK)) == 319
    one.step_all()
    fail_quorum(two)
    faults: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is one and kind == "multi" and "/parts/" in path and not faults:
            faults.append(path)
            return fault
        return None

    colony.on_request = on_request
    task = one.task("take back failed parts")
    one.step(task)
    assert faults
    one.keeper.reconnect()
    one.step(task)
    assert one.keys() == [] == sorted(one.list_zookeeper_parts())


def test_a_number_that_a_pending_quorum_does_not_let_be_used_is_given_up(make_colony: MakeColony) -> None:
    """ZooKeeper goes away at that very moment, and its session lives on: merges would wait for the number."""
    colony = make_colony(3)
    one, two, three = colony
    freeze(two, three)
    assert code_of(lambda: one.insert(1, [1], quorum=2, quorum_parallel=False, **QUICK)) == 319
    faults: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is one and kind == "multi" and "/block_numbers/1/block-" in path and not faults:
            faults.append(path)
            return Fault.LOSE_REQUEST
        return None

    colony.on_request = on_request
    assert code_of(lambda: one.insert(1, [2], quorum=2, quorum_parallel=False, **QUICK)) in (286, 999)
    assert faults
    one.keeper.reconnect()
    two.is_frozen = three.is_frozen = False
    colony.settle()
    colony.check_equal()


def test_rows_of_a_failed_quorum_come_again_under_their_token(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    freeze(two, three)
    token = {"deduplication_token": "load"}
    assert code_of(lambda: one.insert(1, [1], quorum=2, **token, **QUICK)) == 319
    one.step_all()
    fail_quorum(two)
    one.step(one.task("take back failed parts"))
    assert two.insert(1, [1], **token) == 1


def test_failed_quorum_leaves_an_id_that_names_another_part(make_colony: MakeColony) -> None:
    """The window let the id go while the quorum was pending, and the rows came again."""
    colony = make_colony(3)
    one, two, three = colony
    freeze(two, three)
    assert code_of(lambda: one.insert(1, [1], quorum=2, **QUICK)) == 319
    one.step_all()
    (block,) = one.keeper.children(one.table.replication.paths.blocks)
    one.keeper.delete(one.table.replication.paths.block(block))
    assert one.insert(1, [1]) == 1
    fail_quorum(two)
    one.step(one.task("take back failed parts"))
    assert one.insert(1, [1]) == 0
    assert one.keys() == [1]


def test_dropped_part_whose_quorum_failed_is_left_to_the_drop(make_colony: MakeColony) -> None:
    """TRUNCATE fails the quorums of what it drops; the rows do not go to ``detached``."""
    colony = make_colony(3)
    one, two, three = colony
    freeze(one, three)
    assert code_of(lambda: two.insert(1, [1], quorum=2, **QUICK)) == 319
    freeze(two)
    assert one.call(lambda table: drop_all_partitions(one.keeper, table.replication.paths, "r1"))
    two.step(two.task("take back failed parts"))
    assert two.table.store.list_detached() == []
    two.is_frozen = one.is_frozen = three.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert one.keys() == two.keys() == []
    assert two.table.store.list_detached() == []
