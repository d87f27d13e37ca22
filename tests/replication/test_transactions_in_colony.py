"""Transactions on real replicas: all or nothing, once, whatever fails at whatever request."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import NoReturn

import pytest

from coordination.keeper import KeeperConnectionLoss, Op
from coordination.memory_keeper import Fault, MemoryKeeper
from coordination.table_nodes import drop_replica
from coordination.transaction_commit import CommitOutcome, CommitRequest, Overwrite, Verdict
from coordination.transactions import State, clean_transactions, name_of
from engine.simulator.colony import Colony, Node
from engine.simulator.steps import Crash
from engine.tables.options import CommitOptions
from parts.errors import PandoError
from tests.faults import FAULTS, hit_request

MakeColony = Callable[..., Colony]
OLD, NEW = [1, 2, 3], [10, 11, 12, 13]


def stage(node: Node, partition: int, keys: list[int], attempt: str = "", transaction: str = "x") -> int:
    token = f"{partition}:{keys}"
    return node.insert(partition, keys, transaction=transaction, transaction_attempt=attempt, deduplication_token=token)


def commit(node: Node, transaction: str = "x", **wishes: object) -> CommitOutcome:
    request = CommitRequest(transaction, **wishes)  # type: ignore[arg-type]
    options = CommitOptions(timeout_seconds=60.0)
    outcome = node.call(lambda table: table.transactions.commit(request, options))
    assert isinstance(outcome, CommitOutcome)
    return outcome


def keys(node: Node) -> list[int]:
    return node.keys()


def test_rows_of_several_replicas_come_at_once(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    stage(one, 1, [1, 2])
    stage(two, 1, [3])
    stage(three, 2, [4])
    colony.settle()
    assert keys(one) == []
    assert commit(two).verdict is Verdict.COMMITTED
    assert keys(two) == [1, 2, 3, 4]
    colony.settle()
    colony.check_equal()
    assert keys(one) == keys(three) == [1, 2, 3, 4]
    assert commit(one).verdict is Verdict.REPEATED
    one.optimize()
    colony.settle()
    colony.check_equal()
    assert keys(three) == [1, 2, 3, 4]
    assert not any(node.table.store.staged.transactions() for node in colony)


def test_many_parts_of_a_partition_share_a_lock(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(40):
        stage(one if key % 2 else two, 1, [key])
    one.insert(1, [100])
    two.is_frozen = True  # it learns nothing of these numbers but from ZooKeeper
    outcome = commit(one)
    assert [part.min_block for part in outcome.parts] == list(range(1, 41))
    two.insert(1, [101])
    assert "1_41_41_0" in two.parts()
    two.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert keys(two) == [*range(40), 100, 101]


@pytest.mark.parametrize("overwrite", list(Overwrite))
def test_overwriting(make_colony: MakeColony, overwrite: Overwrite) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    one.insert(2, [2])
    one.insert(3, [3])
    colony.settle()
    two.optimize()
    stage(two, 1, [7])
    stage(one, 4, [8])
    commit(two, overwrite=overwrite)
    colony.settle()
    colony.check_equal()
    expected = {Overwrite.NOTHING: [1, 2, 3, 7, 8], Overwrite.TABLE: [7, 8], Overwrite.PARTITIONS: [2, 3, 7, 8]}
    assert keys(one) == keys(two) == expected[overwrite]
    assert one.insert(1, [1]) == (0 if overwrite is Overwrite.NOTHING else 1)  # what went may come again
    for node in colony:
        node.restart()
    colony.end_zombies()
    colony.settle()
    colony.check_equal()


def scenario(colony: Colony) -> tuple[Node, Node]:
    one, two = colony
    one.insert(1, [1, 2])
    two.insert(2, [3])
    colony.settle()
    stage(one, 1, [10, 11])
    stage(two, 2, [12])
    stage(two, 3, [13])
    stage(one, 3, [99], attempt="failed")
    return one, two


def finish(colony: Colony) -> None:
    """The driver repeats its commit, on the other replica, until it is told what became of it."""
    colony.heal()
    for node in reversed(list(colony)):
        outcome = commit(node, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
        assert outcome.rows == 4
    colony.settle()
    colony.check_equal()
    assert [keys(node) for node in colony] == [NEW, NEW]


def watch_what_is_seen(colony: Colony) -> Callable[[], None]:
    """Every reader sees the old rows or the new ones, at every moment."""

    @cache
    def keys_of(path: str, _: str) -> tuple[int, ...]:
        from pathlib import Path

        from parts.reader import open_part

        part = open_part(Path(path))
        return tuple(key for batch in part.read(["k"]) for key in batch.column(0).to_pylist())

    def look() -> None:
        for node in colony:
            if node.is_up:
                found = sorted(k for p in node.table.store.active() for k in keys_of(str(p.path), p.content_hash))
                assert found in (OLD, NEW), (node.name, found)

    return look


def requests_of_a_commit(make_colony: MakeColony) -> int:
    colony = make_colony(2)
    one, _ = scenario(colony)
    count = 0

    def on_request(node: Node, kind: str, path: str) -> None:
        nonlocal count
        count += 1

    colony.on_request = on_request
    commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
    colony.on_request = lambda node, kind, path: None
    finish(colony)
    colony.end()
    return count


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_commit_that_is_hit_at_any_request(make_colony: MakeColony, fault: Fault | str) -> None:
    total = requests_of_a_commit(lambda n: make_colony(n))
    assert total > 40
    step = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 2  # of two neighbouring requests each kind hits one
    for number in range(1 + FAULTS.index(fault) % 2, total + 1, step):
        hit(make_colony, number, fault)


def hit(make_colony: MakeColony, number: int, fault: Fault | str) -> None:
    import shutil

    colony = make_colony(2)
    one, _ = scenario(colony)
    look = watch_what_is_seen(colony)
    hit_request(colony, number, fault, look)
    with contextlib.suppress(PandoError, Crash):
        commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
    look()
    colony.calm()
    colony.on_request = lambda node, kind, path: look()
    colony.settle()
    look()
    colony.on_request = lambda node, kind, path: None
    finish(colony)
    colony.end()
    for node in colony:
        shutil.rmtree(node.path)


@pytest.mark.parametrize("victim", ["r1", "r2"])
@pytest.mark.parametrize(
    "point", ["transaction.after_commit", "exchange.before", "exchange.after", "fetch.after_temporary_part"]
)
def test_a_replica_that_dies_in_the_middle(make_colony: MakeColony, point: str, victim: str) -> None:
    colony = make_colony(2)
    one, _ = scenario(colony)
    look = watch_what_is_seen(colony)
    died = []

    def on_failpoint(node: Node, name: str) -> None:
        look()
        if name == point and node.name == victim and not died:
            died.append(name)
            node.die()

    colony.on_failpoint = on_failpoint
    with contextlib.suppress(PandoError, Crash):
        commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
    with contextlib.suppress(AssertionError):
        colony.settle(10)
    look()
    assert died or (point, victim) == ("transaction.after_commit", "r2")
    finish(colony)


@pytest.mark.parametrize("point", ["stage.after_move", "stage.after_told"])
def test_an_insert_that_dies_is_repeated_on_another_replica(make_colony: MakeColony, point: str) -> None:
    colony = make_colony(2)
    one, two = colony

    def on_failpoint(node: Node, name: str) -> None:
        if name == point:
            node.die()

    colony.on_failpoint = on_failpoint
    with pytest.raises(Crash):
        stage(one, 1, [1, 2])
    colony.heal()
    assert stage(two, 1, [1, 2]) == (0 if point == "stage.after_told" else 2)
    assert commit(two, rows=2).rows == 2
    colony.settle()
    colony.check_equal()
    assert keys(one) == [1, 2]


def test_a_disk_that_lost_staged_rows_refuses_the_commit(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    two.insert(1, [1])
    stage(one, 1, [10])
    stage(two, 1, [11])
    colony.settle()
    one.crash()
    one.wipe()
    colony.end_zombies()
    with pytest.raises(PandoError, match="'r1', which holds rows") as away:
        commit(two)
    assert away.value.code == 242
    one.start()
    colony.settle(200)
    with pytest.raises(PandoError, match="replica r1 lost 1 rows") as lost:
        commit(two)
    assert lost.value.code == 649
    colony.settle()
    assert keys(two) == [1]
    colony.now += 3600
    colony.settle()
    assert not two.table.store.staged.transactions()


@pytest.mark.parametrize("overwrite", [Overwrite.NOTHING, Overwrite.TABLE])
def test_two_commits_at_once_decide_it_once(make_colony: MakeColony, overwrite: Overwrite) -> None:
    colony = make_colony(2)
    one, two = scenario(colony)
    inner: list[CommitOutcome] = []

    def on_request(node: Node, kind: str, path: str) -> None:
        if node is one and kind == "multi" and not inner and "log/" in path:
            inner.append(commit(two, overwrite=overwrite, attempts=("",), rows=4))

    colony.on_request = on_request
    outer = commit(one, overwrite=overwrite, attempts=("",), rows=4)
    colony.on_request = lambda node, kind, path: None
    assert inner
    assert {inner[0].verdict, outer.verdict} == {Verdict.COMMITTED, Verdict.REPEATED}
    colony.settle()
    colony.check_equal()
    assert keys(one) == (NEW if overwrite is Overwrite.TABLE else OLD + NEW)


def test_a_drop_behind_a_commit_that_a_replica_has_not_carried_out(make_colony: MakeColony) -> None:
    """What is dropped need not be brought: nobody has it any more."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    two.insert(1, [1])
    colony.settle()
    stage(one, 1, [10])
    stage(one, 2, [11])
    two.is_frozen = True
    commit(one)
    one.truncate()
    one.insert(1, [20])
    for _ in range(20):
        colony.now += 100
        one.step_all()
    assert len(one.directories()) == 1
    assert keys(one) == [20]
    two.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert keys(two) == [20]


def test_a_merge_of_rows_that_a_replica_has_not_got(make_colony: MakeColony) -> None:
    """It waits for the whole transaction, though the merged part could be fetched."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    stage(one, 1, [10])
    stage(one, 2, [11])
    two.is_frozen = True
    commit(one)
    one.optimize()
    for _ in range(20):  # the parts as they were committed are gone
        colony.now += 1000
        one.step_all()
    assert len(one.directories()) == 2
    seen: list[list[int]] = []
    two.is_frozen = False
    colony.on_request = lambda node, kind, path: seen.append(keys(two)) if node is one else None
    colony.settle()
    colony.on_request = lambda node, kind, path: None
    colony.check_equal()
    assert keys(two) == [1, 10, 11]
    assert {tuple(found) for found in seen} <= {(1,), (1, 10, 11)}


def test_a_clone_has_what_was_committed(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [10])
    stage(two, 2, [11])
    commit(one)
    three = colony.add_node("r3")
    colony.settle(100)
    colony.check_equal()
    assert keys(three) == [10, 11]


def test_a_replica_of_an_older_version_is_named(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [10])
    host = two.table.replica.host
    content = one.keeper.get(host)[0].replace(b'"exchange"', b'"another"')
    one.keeper.set(host, content)
    with pytest.raises(PandoError, match="replica 'r2' runs a version") as old:
        commit(one)
    assert old.value.code == 48


def test_what_is_left_open_is_aborted_after_a_day(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [10])
    colony.now += 86_000
    colony.settle()
    assert two.table.store.staged.transactions() == []
    assert one.table.store.staged.transactions() == [name_of("x")]
    colony.now += 3_600
    colony.settle()
    colony.settle()
    assert one.table.store.staged.transactions() == []
    with pytest.raises(PandoError, match="nothing was inserted"):
        commit(two)


def test_the_quorum_is_waited_for(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [10])
    two.is_frozen = True
    request, options = CommitRequest("x"), CommitOptions(quorum=2, timeout_seconds=20.0)
    with pytest.raises(PandoError, match="not visible on 2 replicas") as late:
        one.call(lambda table: table.transactions.commit(request, options))
    assert late.value.code == 341
    two.is_frozen = False
    one.call(lambda table: table.transactions.commit(request, options))
    assert keys(two) == [10]
    two.crash()
    colony.end_zombies()
    stage(one, 1, [20], transaction="y")
    with pytest.raises(PandoError) as few:
        one.call(lambda table: table.transactions.commit(CommitRequest("y"), options))
    assert few.value.code == 285


def begin_quorum(colony: Colony, required: int) -> tuple[CommitRequest, CommitOptions]:
    """A COMMIT of two parts that waits for its quorum; everybody but the first is frozen."""
    one, two, *_ = colony
    stage(one, 1, [10])
    stage(two, 2, [11])
    for node in list(colony)[1:]:
        node.is_frozen = True
    request, options = CommitRequest("x"), CommitOptions(quorum=required, timeout_seconds=20.0)
    with pytest.raises(PandoError, match="not visible on"):
        one.call(lambda table: table.transactions.commit(request, options))
    return request, options


def test_sequential_reads_see_a_transaction_when_it_has_its_quorum(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    request, options = begin_quorum(colony, 2)
    assert keys(one) == [10, 11]
    assert not one.keys(sequential=True)
    two.is_frozen = False
    one.call(lambda table: table.transactions.commit(request, options))
    assert one.keys(sequential=True) == two.keys(sequential=True) == [10, 11]
    with pytest.raises(PandoError) as behind:
        three.keys(sequential=True)
    assert behind.value.code == 289
    three.is_frozen = False
    colony.settle()
    assert three.keys(sequential=True) == [10, 11]
    one.optimize()
    colony.settle()
    colony.check_equal()


def test_what_a_drop_takes_of_a_waiting_transaction_is_waited_for_no_more(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    begin_quorum(colony, 2)
    one.call(lambda table: table.partitions.drop("1"))
    assert not one.keys(sequential=True)
    two.is_frozen = False
    colony.settle()
    assert one.keys(sequential=True) == two.keys(sequential=True) == [11]


def test_a_clone_counts_for_the_quorum_of_a_transaction(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    begin_quorum(colony, 3)
    three.crash()
    colony.end_zombies()
    two.is_frozen = False
    colony.settle()
    assert not one.keys(sequential=True)
    three.wipe()
    three.force_restore_all = True
    three.is_frozen = False
    three.start()
    colony.settle()
    colony.now += 3_600
    colony.settle()
    assert [node.keys(sequential=True) for node in colony] == [[10, 11]] * 3


def test_an_insert_that_comes_after_its_rollback_is_refused(make_colony: MakeColony) -> None:
    """Nothing had been told of the transaction before: the INSERT was on its way."""
    colony = make_colony(2)
    one, two = colony
    one.call(lambda table: table.transactions.rollback("x"))
    with pytest.raises(PandoError, match="it was rolled back") as late:
        stage(two, 1, [10])
    assert late.value.code == 649
    assert two.table.store.staged.transactions() == []
    commit(one, "y", application="a", version=1)
    assert commit(one, "z", application="a", version=1).verdict is Verdict.SKIPPED
    with pytest.raises(PandoError, match="had committed this version"):
        stage(two, 1, [10], transaction="z")


@pytest.mark.parametrize("overwrite", [Overwrite.NOTHING, Overwrite.TABLE])
def test_a_committed_transaction_that_nobody_has_is_given_up_whole(
    make_colony: MakeColony, overwrite: Overwrite, caplog: pytest.LogCaptureFixture
) -> None:
    """The only disk with one of its parts is lost before another replica has fetched it."""
    colony = make_colony(3)
    one, two, three = colony
    one.insert(1, [1])
    colony.settle()
    stage(one, 1, [10])
    stage(two, 2, [11])
    for node in colony:
        node.is_frozen = True
    with pytest.raises(PandoError, match="repeat the COMMIT"):
        commit(two, overwrite=overwrite)
    one.crash()
    one.wipe()
    colony.end_zombies()
    two.is_frozen = three.is_frozen = False
    for _ in range(40):  # it may come back with its disk
        colony.now += 30.0
        two.step_all()
    assert two.table.queue.is_queued(name_of("x"))
    one.is_frozen = False
    one.force_restore_all = True
    one.start()
    colony.settle(300)
    colony.check_equal()
    assert [keys(node) for node in colony] == [[1]] * 3
    assert "2 rows of it are lost: no replica has 1_" in caplog.text
    assert not any(node.table.store.staged.transactions() for node in colony)
    with pytest.raises(PandoError, match="2 rows of it are lost") as told:
        commit(two)
    assert told.value.code == 649
    two.insert(1, [2])
    two.optimize()
    colony.settle()
    colony.check_equal()
    assert keys(three) == [1, 2]


def test_a_lost_transaction_that_comes_along_with_another_is_given_up(make_colony: MakeColony) -> None:
    """It drops some of the rows of the one before, so a replica that has neither brings both in one step."""
    colony = make_colony(3)
    one, two, three = colony
    one.is_frozen = three.is_frozen = True
    for partition in (1, 2):
        stage(two, partition, [10 + partition])
    commit(two)
    two.is_frozen = True
    stage(one, 2, [22], transaction="y")
    stage(two, 3, [23], transaction="y")
    with pytest.raises(PandoError, match="repeat the COMMIT"):
        commit(two, "y", overwrite=Overwrite.PARTITIONS)
    one.crash()
    one.wipe()
    colony.end_zombies()
    for node in colony:
        node.is_frozen = False
    one.force_restore_all = True
    one.start()
    colony.settle(300)
    colony.check_equal()
    assert [keys(node) for node in colony] == [[11, 12]] * 3


def catch_up(colony: Colony, late: Node, wanted: set[tuple[int, ...]]) -> None:
    """What the replica shows meanwhile, at every request of anybody, is among ``wanted``."""
    seen: set[tuple[int, ...]] = set()
    for _ in range(20):  # the parts as they were committed are gone
        colony.now += 1000
        for node in colony:
            if not node.is_frozen:
                node.step_all()
    late.is_frozen = False
    colony.on_request = lambda node, kind, path: seen.add(tuple(keys(late))) if node is not late else None
    colony.on_failpoint = lambda node, name: seen.add(tuple(keys(late)))
    colony.settle()
    colony.on_request, colony.on_failpoint = lambda node, kind, path: None, lambda node, name: None
    seen.add(tuple(keys(late)))
    colony.check_equal()
    assert seen <= wanted, seen


def test_an_insert_that_is_only_left_merged_with_rows_of_a_transaction(make_colony: MakeColony) -> None:
    """The merged part must not come for the INSERT alone: it would show some of the transaction."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    two.is_frozen = True
    one.insert(1, [1])
    stage(one, 1, [10])
    stage(one, 2, [11])
    commit(one)
    one.optimize()
    catch_up(colony, two, {(), (1,), (1, 10, 11)})


def test_rows_of_two_transactions_that_are_only_left_merged(make_colony: MakeColony) -> None:
    """The merged part comes for both in one step."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    two.is_frozen = True
    for number, partition in enumerate((2, 3, 4)):
        stage(one, 1, [number], transaction=f"{number}")
        stage(one, partition, [10 + number], transaction=f"{number}")
        commit(one, f"{number}")
    one.optimize()
    catch_up(colony, two, {(), (0, 10), (0, 1, 10, 11), (0, 1, 2, 10, 11, 12)})


def test_rows_of_a_transaction_of_which_the_next_has_taken_some_places(make_colony: MakeColony) -> None:
    """The first is never seen without those."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    one.insert(1, [1])
    one.insert(2, [2])
    colony.settle()
    two.is_frozen = True
    for partition in (1, 2):
        stage(one, partition, [10 + partition])
    commit(one, overwrite=Overwrite.PARTITIONS)
    for partition in (2, 3):
        stage(one, partition, [20 + partition], transaction="y")
    commit(one, "y", overwrite=Overwrite.PARTITIONS)
    catch_up(colony, two, {(1, 2), (11, 12), (11, 22, 23)})


def test_an_insert_of_more_parts_than_a_request_tells_of_leaves_nothing(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch
) -> None:
    colony = make_colony(2)
    one, two = colony
    monkeypatch.setattr("coordination.packets.MAX_REQUEST_BYTES", 3000)
    with pytest.raises(PandoError) as large:
        one.insert(list(range(20)), list(range(20)), transaction="x")
    monkeypatch.undo()
    assert large.value.code == 290
    assert not one.table.store.staged.places(name_of("x"))
    stage(one, 1, [1])
    assert commit(two, rows=1).rows == 1


def test_a_replica_that_is_dropped_takes_its_staged_rows_along(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [10])
    stage(two, 1, [11])
    one.crash()
    colony.end_zombies()
    drop_replica(two.keeper, two.table.paths, "r1", own_session=False)
    with pytest.raises(PandoError, match="replica r1, which held rows of it, was dropped") as gone:
        commit(two)
    assert gone.value.code == 649
    two.step_all()
    colony.now += 3600
    two.step_all()
    assert keys(two) == []
    assert not two.table.store.staged.transactions()


@pytest.mark.parametrize("point", ["exchange.before", "exchange.after"])
def test_a_replica_that_dies_while_a_merged_part_comes_instead(make_colony: MakeColony, point: str) -> None:
    """A start takes the merged part for what it is, and shows the transaction whole."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    two.is_frozen = True
    stage(one, 1, [10])
    stage(one, 2, [11])
    commit(one)
    one.optimize()
    for _ in range(20):
        colony.now += 1000
        one.step_all()
    died: list[str] = []

    def on_failpoint(node: Node, name: str) -> None:
        if name == point and node is two and not died:
            died.append(name)
            node.die()

    colony.on_failpoint = on_failpoint
    two.is_frozen = False
    for _ in range(20):
        if two.is_up:
            two.step_all()
    assert died
    seen: set[tuple[int, ...]] = set()
    colony.calm()
    colony.on_request = lambda node, kind, path: seen.add(tuple(keys(two))) if node is one else None
    colony.settle()
    colony.on_request = lambda node, kind, path: None
    colony.check_equal()
    assert seen <= ({(1, 10, 11)} if point == "exchange.after" else {(1,), (1, 10, 11)})
    assert not list(two.path.glob("detached/*"))


def test_what_a_lost_disk_listed_and_another_has_still_staged_comes_back(make_colony: MakeColony) -> None:
    """r1 has carried the entry out and loses its disk, while r2, which staged half of it, stands still."""
    colony = make_colony(3)
    one, two, three = colony
    one.insert(1, [1])
    colony.settle()
    stage(two, 1, [10])
    stage(two, 2, [11])
    two.is_frozen = three.is_frozen = True
    commit(one)
    assert keys(one) == [1, 10, 11]
    one.crash()
    one.wipe()
    colony.end_zombies()
    one.force_restore_all = True
    one.start()
    for _ in range(60):
        colony.now += 30.0
        one.step_all()
    two.is_frozen = three.is_frozen = False
    colony.settle(300)
    colony.check_equal()
    assert keys(one) == keys(two) == keys(three) == [1, 10, 11]


def test_an_insert_beside_a_commit_is_in_it_or_refused(make_colony: MakeColony) -> None:
    """Into another replica, at any request of the COMMIT up to the first behind its decision."""
    colony = make_colony(2)
    one, two = colony
    answers: list[str] = []
    expected: list[int] = []
    for number in itertools.count(1):
        name, count, is_over = f"{number}", 0, False
        stage(one, 1, [2 * number], transaction=name)
        expected.append(2 * number)
        answers.append("")

        def on_request(node: Node, kind: str, path: str, name: str = name, at: int = number) -> None:
            nonlocal count, is_over
            if node is not one or is_over:
                return
            count, is_over = count + 1, (kind, path) == ("sync", one.table.paths.log)
            if count == at:
                answers[-1] = insert_beside(two, name, 2 * at + 1)

        colony.on_request = on_request
        outcome = commit(one, name)
        colony.on_request = lambda node, kind, path: None
        if answers[-1] == "ok":
            expected.append(2 * number + 1)
        assert outcome.rows == 1 + (answers[-1] == "ok")
        assert keys(one) == sorted(expected)
        if not answers[-1]:
            break
    assert answers[-2] == "649"
    assert set(answers[:-2]) == {"ok"}
    assert len(answers) > 10
    colony.settle()
    colony.check_equal()


def insert_beside(node: Node, transaction: str, key: int) -> str:
    try:
        stage(node, 1, [key], transaction=transaction)
    except PandoError as error:
        return str(error.code)
    return "ok"


def test_inserts_do_not_hinder_one_another(make_colony: MakeColony) -> None:
    """Each makes as many requests as it makes alone, though another comes between any two of them."""
    colony = make_colony(2)
    one, two = colony
    stage(two, 1, [1])
    requests: list[str] = []
    inner = itertools.count(100)

    def count_only(node: Node, kind: str, path: str) -> None:
        requests.append(kind)

    def on_request(node: Node, kind: str, path: str) -> None:
        if node is one:
            requests.append(kind)
            stage(two, 1, [next(inner)])

    colony.on_request = count_only
    stage(one, 1, [2])
    alone, requests = requests, []
    colony.on_request = on_request
    stage(one, 1, [3])
    colony.on_request = lambda node, kind, path: None
    assert requests == alone
    assert commit(one).rows == 3 + next(inner) - 100


def test_an_insert_whose_answer_was_lost_takes_nothing_away(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The COMMIT took it, and its keys are forgotten, before it asks what became of it."""
    colony = make_colony(2)
    one, two = colony
    stage(two, 1, [1])

    def lose_answer(keeper: MemoryKeeper, ops: Sequence[Op]) -> NoReturn:
        monkeypatch.undo()
        keeper.multi(ops)
        late = CommitOptions(timeout_seconds=0.0)
        with pytest.raises(PandoError, match="repeat the COMMIT"):
            two.call(lambda table: table.transactions.commit(CommitRequest("x"), late))
        clean_transactions(two.keeper, two.table.paths, colony.now)
        raise KeeperConnectionLoss

    monkeypatch.setattr(MemoryKeeper, "multi", lose_answer)
    with pytest.raises(PandoError, match="was committed before") as unknown:
        stage(one, 1, [2])
    assert unknown.value.code == 319
    colony.settle()
    colony.check_equal()
    assert keys(two) == [1, 2]


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_a_commit_that_loses_its_connection_leaves_no_numbers(make_colony: MakeColony, fault: Fault) -> None:
    """Its session lives on, and merges would wait for them."""
    colony = make_colony(2)
    one, _ = scenario(colony)

    def on_request(node: Node, kind: str, path: str) -> Fault | None:
        return fault if node is one and kind == "multi" and "/log/" in path else None

    colony.on_request = on_request
    with pytest.raises(PandoError):
        commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
    colony.on_request = lambda node, kind, path: None
    one.keeper.reconnect()
    colony.settle()
    colony.check_equal()
    finish(colony)


def test_every_replica_tells_of_all_transactions(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [1, 2], transaction="open")
    stage(two, 2, [3], transaction="open")
    stage(two, 1, [4], transaction="decided")
    commit(one, "decided")
    colony.now += 60
    stage(two, 1, [5], transaction="open")
    for node in colony:
        decided, still_open = sorted(node.table.transactions.known(), key=lambda known: known.id)
        assert (still_open.state, still_open.rows, still_open.staged_parts) == (State.OPEN, 4, 3)
        assert still_open.replicas == ("r1", "r2")
        assert still_open.staged_bytes > 0
        assert still_open.changed - still_open.created >= 60
        assert (decided.state, decided.rows, decided.replicas) == (State.COMMITTED, 1, ())
    colony.now += 8 * 86_400
    colony.settle()
    colony.settle()
    assert [known.state for known in one.table.transactions.known()] == [State.ABORTED]


def test_the_last_decided_transactions_are_remembered(make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep asks one thing of each, however many there are."""
    monkeypatch.setattr("coordination.transactions.MOST_REMEMBERED", 3)
    colony = make_colony(2)
    one, two = colony
    stage(two, 1, [99], transaction="open")
    for number in range(6):
        stage(one, 1, [number], transaction=f"{number}")
        commit(one, f"{number}")
        colony.now += 1
    colony.now += 3600
    colony.settle()
    colony.settle()
    assert sorted(known.id for known in two.table.transactions.known()) == ["3", "4", "5", "open"]
    requests: list[str] = []
    colony.on_request = lambda node, kind, path: requests.append(path)
    one.call(lambda table: clean_transactions(one.keeper, table.paths, colony.now))
    colony.on_request = lambda node, kind, path: None
    known = [two.table.paths.transaction(name_of(f"{number}")) for number in range(3, 6)]
    assert [requests.count(path) for path in known] == [1, 1, 1]
    assert commit(two, "open").rows == 1
    assert commit(one, "5").verdict is Verdict.REPEATED
