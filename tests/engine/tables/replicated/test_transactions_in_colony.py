"""Transactions on real replicas: all or nothing, once, whatever fails at whatever request."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from coordination.transactions.commit_request import CommitOutcome, CommitVerdict, Overwrite
from coordination.transactions.transaction_nodes import (
    TransactionState,
    clean_transactions,
    read_transaction,
    transaction_node_name,
)
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.store.part_states import (
    Snapshot,
)
from tests.engine.tables.replicated.staging import NEW, OLD, MakeColony, commit, keys, scenario, stage


def test_rows_of_several_replicas_come_at_once(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    stage(one, 1, [1, 2])
    stage(two, 1, [3])
    stage(three, 2, [4])
    colony.settle()
    assert keys(one) == []
    assert commit(two).verdict is CommitVerdict.COMMITTED
    assert keys(two) == [1, 2, 3, 4]
    colony.settle()
    colony.check_equal()
    assert keys(one) == keys(three) == [1, 2, 3, 4]
    assert commit(one).verdict is CommitVerdict.REPEATED
    one.optimize()
    colony.settle()
    colony.check_equal()
    assert keys(three) == [1, 2, 3, 4]
    assert not any(node.table.store.staged.list_transactions() for node in colony)


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


@pytest.mark.long
def test_an_overwrite_that_comes_while_the_one_before_is_brought(tmp_path: Path) -> None:
    """At whichever request of the replica that brings it: readers see the rows of one of them."""
    seen: set[tuple[int, ...]] = set()
    for number in itertools.count(1):
        colony = SimulatedCluster(tmp_path / str(number), 2, 0)
        one, two = colony
        one.insert(1, [1])
        colony.settle()
        two.is_frozen = True
        for partition in (1, 2):
            stage(one, partition, [10 + partition])
        commit(one, overwrite=Overwrite.TABLE)
        stage(one, 1, [20], transaction="y")
        two.step(two.task("pull log"))
        requests = 0
        seen.clear()

        def watch(
            node: SimulatedNode, kind: str, path: str, colony: SimulatedCluster = colony, number: int = number
        ) -> None:
            nonlocal requests
            one, two = colony
            if node is two and two.task("execute queue 0") in two.pool.running:
                requests += 1
                if requests == number:
                    commit(one, "y", overwrite=Overwrite.TABLE)
                    two.step(two.task("pull log"))
            seen.add(tuple(keys(two)))

        colony.on_request = watch
        two.step(two.task("execute queue 0"))
        two.is_frozen = False
        colony.settle()
        colony.calm()
        if requests < number:
            commit(one, "y", overwrite=Overwrite.TABLE)
            colony.settle()
        colony.check_equal()
        assert seen <= {(1,), (11, 12), (20,)}, (number, seen)
        assert keys(two) == [20]
        colony.end()
        if requests < number:
            break
    assert number > 10


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


@pytest.mark.parametrize("overwrite", [Overwrite.NOTHING, Overwrite.TABLE])
def test_two_commits_at_once_decide_it_once(make_colony: MakeColony, overwrite: Overwrite) -> None:
    colony = make_colony(2)
    one, two = scenario(colony)
    inner: list[CommitOutcome] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is one and kind == "multi" and not inner and "log/" in path:
            inner.append(commit(two, overwrite=overwrite, attempts=("",), rows=4))

    colony.on_request = on_request
    outer = commit(one, overwrite=overwrite, attempts=("",), rows=4)
    colony.on_request = lambda node, kind, path: None
    assert inner
    assert {inner[0].verdict, outer.verdict} == {CommitVerdict.COMMITTED, CommitVerdict.REPEATED}
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
    host = two.table.replication.replica.host
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
    assert two.table.store.staged.list_transactions() == []
    assert one.table.store.staged.list_transactions() == [transaction_node_name("x")]
    colony.now += 3_600
    colony.settle()
    colony.settle()
    assert one.table.store.staged.list_transactions() == []
    with pytest.raises(PandoError, match="nothing was inserted"):
        commit(two)


def test_an_insert_that_comes_after_its_rollback_is_refused(make_colony: MakeColony) -> None:
    """Nothing had been told of the transaction before: the INSERT was on its way."""
    colony = make_colony(2)
    one, two = colony
    one.call(lambda table: table.transactions.rollback("x"))
    with pytest.raises(PandoError, match="it was rolled back") as late:
        stage(two, 1, [10])
    assert late.value.code == 649
    assert two.table.store.staged.list_transactions() == []
    commit(one, "y", application="a", version=1)
    assert commit(one, "z", application="a", version=1).verdict is CommitVerdict.SKIPPED
    with pytest.raises(PandoError, match="had committed this version"):
        stage(two, 1, [10], transaction="z")


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

        def on_request(node: SimulatedNode, kind: str, path: str, name: str = name, at: int = number) -> None:
            nonlocal count, is_over
            if node is not one or is_over:
                return
            count, is_over = count + 1, (kind, path) == ("sync", one.table.replication.paths.log)
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


def insert_beside(node: SimulatedNode, transaction: str, key: int) -> str:
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

    def count_only(node: SimulatedNode, kind: str, path: str) -> None:
        requests.append(kind)

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
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
        assert (still_open.state, still_open.rows, still_open.staged_parts) == (TransactionState.OPEN, 4, 3)
        assert still_open.replicas == ("r1", "r2")
        assert still_open.staged_bytes > 0
        assert still_open.changed - still_open.created >= 60
        assert (decided.state, decided.rows, decided.replicas) == (TransactionState.COMMITTED, 1, ())
    colony.now += 8 * 86_400
    colony.settle()
    colony.settle()
    assert [known.state for known in one.table.transactions.known()] == [TransactionState.ABORTED]


def test_the_last_decided_transactions_are_remembered(make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep asks one thing of each, however many there are."""
    monkeypatch.setattr("coordination.transactions.transaction_nodes.MAX_REMEMBERED_TRANSACTIONS", 3)
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
    one.call(lambda table: clean_transactions(one.keeper, table.replication.paths))
    colony.on_request = lambda node, kind, path: None
    known = [two.table.replication.paths.transaction(transaction_node_name(f"{number}")) for number in range(3, 6)]
    assert [requests.count(path) for path in known] == [1, 1, 1]
    assert commit(two, "open").rows == 1
    assert commit(one, "5").verdict is CommitVerdict.REPEATED


def test_a_staged_part_with_other_content_than_was_committed_is_not_taken(make_colony: MakeColony) -> None:
    """What the replica that staged it sends first is another part."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    stage(one, 1, [10])
    stage(one, 2, [11])
    lend, sent = one.table.served_parts.open_staged_part, list[str]()

    def lend_another(transaction: str, place: str, name: PartName) -> tuple[Snapshot, Path]:
        sent.append(place)
        return (
            one.table.served_parts.pin_part(PartName("1", 0, 0, 0))
            if len(sent) == 1
            else lend(transaction, place, name)
        )

    one.table.served_parts.open_staged_part = lend_another  # type: ignore[method-assign]
    commit(one)
    colony.settle()
    assert sent.count(sent[0]) == 2, "it was asked for again"
    colony.check_equal()
    assert keys(one) == keys(two) == [1, 10, 11]


def test_an_overwrite_of_the_table_takes_along_a_partition_that_comes_meanwhile(tmp_path: Path) -> None:
    """Each time the commit looks at the partitions. Only what comes behind the commit stays."""
    for number in itertools.count(1):
        colony = SimulatedCluster(tmp_path / str(number), 2, 0)
        one, two = colony
        one.insert(1, [1])
        colony.settle()
        stage(one, 1, [10])
        looks: list[str] = []
        was_committed: list[bool] = []

        def insert(
            node: SimulatedNode,
            kind: str,
            path: str,
            colony: SimulatedCluster = colony,
            number: int = number,
            looks: list[str] = looks,
            was_committed: list[bool] = was_committed,
        ) -> None:
            one, two = colony
            if node is one and path == one.table.replication.paths.block_numbers:
                looks.append(path)
                if len(looks) == number:
                    found = read_transaction(
                        colony.ensemble.connect(), one.table.replication.paths, transaction_node_name("x")
                    )
                    was_committed.append(found is not None and found.state is TransactionState.COMMITTED)
                    two.insert(2, [20])

        colony.on_request = insert
        commit(one, overwrite=Overwrite.TABLE)
        colony.on_request = lambda node, kind, path: None
        colony.settle()
        assert keys(two) == keys(one) == ([10, 20] if was_committed == [True] else [10])
        colony.end()
        if not was_committed:
            break
    assert number > 3


def test_a_staged_part_that_is_another_than_was_committed_is_fetched(make_colony: MakeColony) -> None:
    """The disk of the replica that staged it has changed it, and the other replica has the right one."""
    colony = make_colony(2)
    one, two = colony
    for key in (10, 11):
        stage(one, 1, [key])
    one.is_frozen = True
    commit(two)
    first, second = sorted((one.path / "staged" / transaction_node_name("x")).iterdir())
    shutil.rmtree(first)
    shutil.copytree(second, first)
    one.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert keys(one) == keys(two) == [10, 11]
