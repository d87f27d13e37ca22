"""A commit that replaces what its client read: it is refused if that has changed, and loses nothing of others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from coordination.inserts.block_numbers import BlockLock, allocate_block_number, release_block_number
from coordination.keeper.interface import Create, Delete, MultiFailed, SetData
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.transactions.commit_request import Overwrite
from coordination.transactions.read_state import ReadState
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError, UnavailableError
from sql.grammar.statements.mutate_table import parse_stored_mutations
from sql.mutations.mutation import Mutation
from tests.engine.tables.replicated.mutations import mutate
from tests.engine.tables.replicated.staging import MakeColony, commit, keys, stage
from tests.portions import one_in

Act = Callable[[SimulatedNode], object]
ONE = frozenset({"1"})
CHANGED = 650
UNFINISHED = 341
"""It is committed, and its rows are not visible yet."""


def read(node: SimulatedNode, partition_ids: frozenset[str] | None = ONE) -> ReadState:
    """What a scan on the node would record."""
    with node.acting():
        snapshot, is_settled = node.table.settled_snapshot()
        names = [part.name for part in snapshot.parts]
        snapshot.release()
        return ReadState.of(names, node.table.description.metadata_version, partition_ids, is_settled=is_settled)


def replace(node: SimulatedNode, state: ReadState) -> int:
    """Commits what is staged in place of partition 1; returns the error's code."""
    try:
        commit(node, overwrite=Overwrite.PARTITIONS, partition_ids=ONE, unchanged=state)
    except PandoError as error:
        return error.code
    return 0


def filled(colony: SimulatedCluster) -> tuple[SimulatedNode, SimulatedNode]:
    """Two parts of partition 1, one of partition 2, and a staged row of partition 3."""
    one, two = colony
    one.insert(1, [1])
    two.insert(1, [2])
    two.insert(2, [20])
    colony.settle()
    stage(one, 3, [30])
    return one, two


def delete(node: SimulatedNode) -> None:
    mutate(node, "DELETE WHERE k = 1")


def drop(node: SimulatedNode) -> None:
    node.call(lambda table: table.partitions.drop("1"))


def merge(node: SimulatedNode) -> None:
    node.optimize()


def insert_into(partition: int) -> Act:
    return lambda node: node.insert(partition, [partition * 10 + 5])


def insert_and_merge(node: SimulatedNode) -> None:
    node.insert(1, [15])
    node.cluster.settle()  # type: ignore[attr-defined]
    node.optimize()


@pytest.mark.parametrize("partition_ids", [ONE, None])
@pytest.mark.parametrize(
    ("act", "code", "code_of_table", "rest"),
    [
        (lambda _: None, 0, 0, {1, 2}),
        (merge, 0, 0, {1, 2}),
        (insert_into(2), 0, 650, {1, 2, 25}),
        (insert_into(4), 0, 650, {1, 2, 45}),
        (insert_into(1), 650, 650, {1, 2, 15}),
        (insert_and_merge, 650, 650, {1, 2, 15}),
        (delete, 650, 650, {2}),
        (drop, 650, 650, set()),
    ],
)
def test_what_others_did_meanwhile(
    make_colony: MakeColony,
    act: Act,
    code: int,
    code_of_table: int,
    rest: set[int],
    partition_ids: frozenset[str] | None,
) -> None:
    """Rows of partition 1 go only if they are those that were read; with IN TABLE nothing else may have come either."""
    expected = code if partition_ids else code_of_table
    colony = make_colony(2)
    one, two = filled(colony)
    state = read(one, partition_ids)
    act(two)
    assert replace(one, state) == expected
    colony.settle()
    colony.check_equal()
    assert set(keys(one)) == set(keys(two)) == ({20} | rest if expected else {20, 30} | (rest - {1, 2}))


def test_what_was_inserted_and_not_brought_yet_counts(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = filled(colony)
    state = read(one)
    one.is_frozen = True
    two.insert(1, [3])
    one.is_frozen = False
    assert replace(one, state) == 650
    assert replace(one, state) == 650  # the transaction is still open
    colony.settle()
    assert replace(one, read(one)) == 0
    colony.settle()
    colony.check_equal()
    assert keys(two) == [20, 30]


def test_what_was_inserted_elsewhere_is_waited_for(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = filled(colony)
    two.insert(1, [3])
    two.insert(4, [40])
    state = read(one, None)
    assert state.is_settled
    assert {(part.partition_id, part.max_block) for part in state.parts} == {
        ("1", 2),
        ("1", 0),
        ("1", 1),
        ("2", 0),
        ("4", 0),
    }
    assert replace(one, state) == 0
    colony.settle()
    assert keys(two) == [20, 30, 40]


def test_a_replica_that_does_not_get_what_was_inserted_does_not_begin(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = filled(colony)
    one.table.allow(StoppableAction.FETCHES, False)
    two.insert(1, [3])
    with pytest.raises(UnavailableError, match=r"Replica r1 .* does not have part 1_2_2_0 yet"):
        read(one)
    assert len(read(two).parts) == 3


def test_a_mutation_that_waits_counts(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = filled(colony)
    one.is_frozen = two.is_frozen = True
    delete(two)
    assert replace(one, read(one)) == 650  # it was read without the deletion
    one.is_frozen = two.is_frozen = False
    colony.settle()
    assert replace(one, read(one)) == 0
    colony.settle()
    colony.check_equal()
    assert keys(two) == [20, 30]


def test_a_merge_over_a_number_between_what_was_read(make_colony: MakeColony) -> None:
    """The block of the number may have come later; that is known of what was read when none could come."""
    colony = make_colony(2)
    one, two = filled(colony)
    lock = allocate_block_number(one.keeper, one.table.replication.paths, "1")
    assert isinstance(lock, BlockLock)
    two.insert(1, [3])
    colony.settle()
    hasty = read(one)  # after some waiting
    assert not hasty.is_settled
    release_block_number(one.keeper, lock)
    settled = read(one)
    assert settled.is_settled
    two.optimize()
    colony.settle()
    assert {part.partition("_")[2] for part in one.parts() if part.startswith("1_")} == {"0_3_1"}
    assert replace(one, hasty) == CHANGED
    assert replace(one, settled) == 0
    colony.settle()
    colony.check_equal()
    assert keys(two) == [20, 30]


@pytest.mark.parametrize("partition_ids", one_in(2, [ONE, None]))
@pytest.mark.parametrize("act", [insert_into(1), delete, drop, merge], ids=["insert", "delete", "drop", "merge"])
@pytest.mark.long
def test_at_whichever_request_of_the_commit_something_comes_in_between(
    tmp_path: Path, act: Act, partition_ids: frozenset[str] | None
) -> None:
    """The commit is before it or after it: what was inserted stays, and what was deleted does not come back."""
    codes = set()
    for number in range(1, 200):
        colony = SimulatedCluster(tmp_path / str(number), 2, 0)
        one, two = filled(colony)
        stage(one, 1, [1])  # an UPDATE that keeps the row with the key 1
        state, requests = read(one, partition_ids), 0

        def watch(
            node: SimulatedNode,
            kind: str,
            path: str,
            number: int = number,
            one: SimulatedNode = one,
            two: SimulatedNode = two,
        ) -> None:
            nonlocal requests
            if node is one:
                requests += 1
                if requests == number:
                    act(two)

        colony.on_request = watch
        code = replace(one, state)
        colony.calm()
        colony.settle()
        colony.check_equal()
        codes.add(code)
        found = set(keys(one))
        assert 20 in found
        assert (30 in found) == (code != CHANGED), (number, code)
        if requests >= number:
            if act is delete:
                assert 1 not in found, number
            elif act is drop:
                assert not found & {1, 2}, number
            elif act is not merge:
                assert 15 in found, number
        colony.end()
        if requests < number:
            break
    assert number > 10
    assert codes - {UNFINISHED} == ({0} if act is merge else {0, CHANGED})


def begin_mutation(node: SimulatedNode) -> Callable[[], None]:
    """Takes the number of a deletion of the key 1; returns what creates it."""
    keeper, paths = node.keeper, node.table.replication.paths
    lock = allocate_block_number(keeper, paths, "1", owner=node.name)
    assert isinstance(lock, BlockLock)
    text = Mutation(parse_stored_mutations("DELETE WHERE k = 1"), "db").encode()
    mutation = MutationEntry("", 0.0, node.name, text, {"1": lock.number})
    create = Create(paths.mutation_prefix, mutation.to_bytes(), sequential=True)
    return lambda: keeper.multi([create, SetData(paths.mutations, b""), Delete(lock.path)]) and None


@pytest.mark.long
def test_a_mutation_takes_its_number_at_any_request_and_comes_just_before_the_commit(tmp_path: Path) -> None:
    """The rows that come have larger numbers, so it would not change them."""
    last = 0
    for number in range(200):
        colony = SimulatedCluster(tmp_path / str(number), 2, 0)
        one, two = filled(colony)
        stage(one, 1, [1])
        requests, created = 0, []
        steps: list[Callable[[], None]] = []

        def watch(
            node: SimulatedNode,
            kind: str,
            path: str,
            number: int = number,
            one: SimulatedNode = one,
            two: SimulatedNode = two,
            steps: list[Callable[[], None]] = steps,
            created: list[int] = created,
        ) -> None:
            nonlocal requests, last
            if node is not one:
                return
            requests += 1
            if requests == number:
                steps.append(begin_mutation(two))
            if number == 0 and kind == "multi" and path.startswith(f"{one.table.replication.paths.log}/"):
                last = last or requests
            elif requests == last and steps:
                created.append(requests)
                with contextlib.suppress(MultiFailed):
                    steps.pop()()

        colony.on_request = watch
        replace(one, read(one))
        for step in steps:
            step()
        colony.calm()
        colony.settle()
        colony.check_equal()
        assert number == 0 or not created or 1 not in keys(one), number
        colony.end()
        if number == last - 1:
            break
    assert last > 5
