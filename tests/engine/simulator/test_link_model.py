"""The model of linked clusters: it takes every prefix of a history, and finds what links must not do."""

from __future__ import annotations

import random

import pytest

from coordination.keeper.interface import Create
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity
from coordination.links.positions import Epoch, Origin, Position
from coordination.links.version_vector import VersionVector
from engine.simulator.links.commit_history import Commit, CommitHistory, Dropped, Inserted, Mutated, find_prefix
from engine.simulator.links.link_model import KEYS_PER_CLUSTER, LinkModel
from engine.simulator.links.topology import CHAIN, CONSOLIDATION, RING, TWO_WAY
from engine.simulator.simulated_table import TABLE
from engine.simulator.simulation_model import Block, Expectation

UUIDS = {"east": "11111111-1111-4111-8111-111111111111", "west": "22222222-2222-4222-8222-222222222222"}
EAST = Origin(UUIDS["east"], 7, Epoch(1, 5))
HISTORY: list[Commit] = [
    Inserted(10, 1, 0, (1, 2)),
    Mutated(11, {1: 1}, " m1", 2, 0),
    Inserted(12, 1, 2, (3, 4)),
    Mutated(13, {1: 3}, deleted=frozenset({4})),
    Inserted(14, 1, 4, (5,), is_refused=True),
    Dropped(15, 1, 2),
    Inserted(16, 1, 5, (6,)),
]


@pytest.mark.parametrize(
    ("shown", "length"),
    [
        ({}, 0),
        ({1: ["value 1"], 2: ["value 2"]}, 1),
        ({1: ["value 1"], 2: ["value 2 m1"]}, 2),
        ({1: ["value 1"], 2: ["value 2"], 3: ["value 3"], 4: ["value 4"]}, 3),  # the mutation has not come there
        ({1: ["value 1"], 2: ["value 2 m1"], 3: ["value 3"]}, 4),
        ({3: ["value 3"]}, 6),
        ({3: ["value 3"], 6: ["value 6"]}, 7),
    ],
)
def test_a_prefix_is_recognised(shown: dict[int, list[str]], length: int) -> None:
    assert find_prefix(HISTORY, shown) == length


@pytest.mark.parametrize(
    "shown",
    [
        {1: ["value 1"]},  # a part of a block
        {3: ["value 3"], 4: ["value 4"], 2: ["value 2"]},  # a later block without an earlier one's rows
        {1: ["value 1", "value 1"], 2: ["value 2"]},  # a row twice
        {1: ["value 1"], 2: ["value 2 m1 m1"]},  # a mutation twice
        {1: ["value 1 m1"], 2: ["value 2 m1"]},  # a row that the mutation does not touch
        {3: ["value 3"], 4: ["value 4"], 1: ["value 1"], 2: ["value 2"], 6: ["value 6"]},  # a lost drop
        {1: ["value 1"], 2: ["value 2 m1"], 3: ["value 3"], 5: ["value 5"]},  # a refused block
        {9: ["value 9"]},  # nobody inserted it
    ],
)
def test_what_no_prefix_gives_is_found(shown: dict[int, list[str]]) -> None:
    assert find_prefix(HISTORY, shown) is None


def test_every_prefix_of_random_histories_is_recognised() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        history = CommitHistory()
        for zxid in range(1, 20):
            number = zxid
            kind = rng.random()
            if kind < 0.7:
                history.add(Inserted(zxid, 1, number, (zxid * 10, zxid * 10 + 1)))
            elif kind < 0.9:
                history.add(Mutated(zxid, {1: number}, f" m{zxid}", rng.randint(1, 3), 0))
            else:
                history.add(Dropped(zxid, 1, number))
            commits = list(history.commits)
            prefix = CommitHistory(commits[: rng.randint(0, len(commits))])
            found = find_prefix(commits, prefix.final_rows())
            assert found is not None
            assert CommitHistory(commits[:found]).final_rows().keys() == prefix.final_rows().keys()


def test_final_rows_are_the_numbers_alone() -> None:
    assert CommitHistory(list(HISTORY)).final_rows() == {3: ["value 3"], 6: ["value 6"]}
    assert CommitHistory(list(HISTORY)).newest() == 16


def _model() -> tuple[LinkModel, dict[str, MemoryEnsemble]]:
    ensembles = {name: MemoryEnsemble(lambda: 1.0) for name in UUIDS}
    for name, ensemble in ensembles.items():
        ensemble.run(0, [Create("/pando"), Create(CLUSTER_PATH, ClusterIdentity(name, UUIDS[name]).to_bytes())])
    return LinkModel(ensembles, lambda what: None), ensembles


def test_a_vector_that_goes_back_is_found() -> None:
    model, _ = _model()
    model._record_vector("west", VersionVector().advance(Position(EAST, 12)))
    model._record_vector("west", VersionVector().advance(Position(EAST, 12)))
    assert model.get_applied("west", "east") == 12
    with pytest.raises(AssertionError, match="went back"):
        model._record_vector("west", VersionVector().advance(Position(EAST, 11)))
    with pytest.raises(AssertionError, match="forgot"):
        model._record_vector("west", VersionVector())


def test_a_target_shows_nothing_beyond_its_vector() -> None:
    model, _ = _model()
    model.histories["east"].add(Inserted(10, 1, 0, (1,)))
    with pytest.raises(AssertionError, match="shows 10 of east, and its vector has 0"):
        model.check_shown("west", "west r1", [(1, 1, "value 1")])
    model._record_vector("west", VersionVector().advance(Position(EAST, 10)))
    model.check_shown("west", "west r1", [(1, 1, "value 1")])
    own = KEYS_PER_CLUSTER + 1
    model.check_shown("west", "west r1", [(1, own, f"value {own}")])


def test_a_block_that_was_passed_on_and_then_refused_is_found() -> None:
    model, ensembles = _model()
    model.inserting.append(Block(1, [1], ""))
    model.histories["east"].add(Inserted(3, 1, 0, (1,)))
    model._record_vector("west", VersionVector().advance(Position(EAST, 3)))
    ensemble = ensembles["east"]
    for path in ("/tables", TABLE.root, f"{TABLE.root}/quorum", TABLE.quorum_failed_parts):
        ensemble.run(0, [Create(path)])
    with pytest.raises(AssertionError, match="whose quorum failed now"):
        ensemble.run(0, [Create(TABLE.quorum_failed_part("1_0_0_0"))])


def test_wrong_answers_and_different_rows_are_found() -> None:
    model, _ = _model()
    model.histories["east"].add(Inserted(10, 1, 0, (1,)))
    with pytest.raises(AssertionError, match="acknowledged and lacks"):
        model.check_answers("east", [Block(1, [2], "", Expectation.ONCE)])
    with pytest.raises(AssertionError, match="refused and has"):
        model.check_answers("east", [Block(1, [1], "", Expectation.NEVER)])
    block = Block(1, [1], "", Expectation.MAYBE)
    model.check_answers("east", [block])
    assert block.expected is Expectation.ONCE
    model.check_final("west r1", [(1, 1, "value 1")], ["east", "west"])
    with pytest.raises(AssertionError, match="differs"):
        model.check_final("west r1", [], ["east", "west"])


def test_rows_reach_clusters_along_links() -> None:
    assert CHAIN.origins_of("north") == ["east", "north", "west"]
    assert CHAIN.origins_of("east") == ["east"]
    assert RING.origins_of("east") == ["east", "north", "west"]
    assert CHAIN.takes_writes("east")
    assert not CHAIN.takes_writes("west")
    assert all(TWO_WAY.takes_writes(name) for name in TWO_WAY.clusters)
    assert all(CONSOLIDATION.takes_writes(name) for name in CONSOLIDATION.clusters)
