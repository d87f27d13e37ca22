"""A table read in the order of its blocks, batch by batch on any replica: every row once, whatever happens between."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from engine.scan.block_filter import make_block_filter
from engine.scan.stream_batches import find_batch_end
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.capabilities.block_history import BlockHistory, WantedBlocks
from parts.common.errors import PandoError
from parts.table.block_number_column import BLOCK_NUMBER
from tests.portions import one_in

KEPT = {"enable_block_number_column": True}


class Stream:
    """A reader that has read the blocks up to ``blocks``."""

    def __init__(self, identity: str = "") -> None:
        self.identity = identity
        self.blocks: dict[str, int] = {}
        self.keys: list[int] = []

    def look(self, node: SimulatedNode, max_rows: int | None = None) -> dict[str, int]:
        """Where its next batch ends."""
        history = node.call(lambda table: table.blocks.history())
        assert isinstance(history, BlockHistory)
        self.identity = self.identity or history.identity
        with node.table.snapshot() as snapshot:
            return find_batch_end(snapshot.parts, self.blocks, history.decided, max_rows)

    def read(self, node: SimulatedNode, end: Mapping[str, int], *, may_lack_rows: bool = False) -> list[int]:
        ranges = tuple((name, self.blocks.get(name, -1), number) for name, number in end.items())
        wanted = WantedBlocks(self.identity, ranges, may_lack_rows)
        with node.acting(), node.table.blocks.snapshot_of_blocks(wanted) as snapshot:
            keys = []
            for part in snapshot.parts:
                if wanted.overlaps(part.name):
                    test = make_block_filter(part, wanted)
                    for batch in part.read(["k", BLOCK_NUMBER], test=test):
                        keys += batch.column(0).to_pylist()
        return sorted(keys)

    def take(self, node: SimulatedNode, end: dict[str, int]) -> None:
        self.keys += self.read(node, end)
        self.blocks = end


def test_a_merge_that_is_still_to_be_done_hides_nothing(make_colony: Callable[..., SimulatedCluster]) -> None:
    """Its sources are there."""
    colony = make_colony(2, **KEPT)
    one, two = colony
    for key in range(3):
        one.insert(1, [key])
    colony.settle()
    two.is_frozen = True
    one.optimize()
    assert len(two.table.store.list_active()) == 3
    stream = Stream()
    end = stream.look(two)
    assert end == {"1": 2}
    assert stream.read(two, end) == [0, 1, 2]
    assert len(two.table.store.list_active()) == 3


@pytest.mark.parametrize("seed", one_in(4, range(12)))
@pytest.mark.long
def test_every_row_once_through_merges_restarts_and_other_replicas(
    make_colony: Callable[..., SimulatedCluster], seed: int
) -> None:
    colony = make_colony(3, seed, selects_merges=True, old_parts_lifetime=1, **KEPT)
    random, stream, written = colony.random, Stream(), 0
    replayed: tuple[dict[str, int], list[int]] | None = None
    for _ in range(60):
        node = random.choice(list(colony))
        match random.choice("iiiwwolrc"):
            case "i":
                count = random.randrange(1, 4)
                written += node.insert(random.randrange(2), list(range(written, written + count)))
            case "w":
                for _ in range(random.randrange(8)):
                    random.choice(list(colony)).step_random()
                colony.now += 3.0
            case "o" if random.random() < 0.5:
                node.optimize()
            case "l" | "r":
                before = dict(stream.blocks)
                end = stream.look(node, random.choice((None, 1, 4)))
                other = random.choice(list(colony))
                keys = stream.read(other, end)
                replayed = (before, end, keys)  # type: ignore[assignment]
                stream.take(other, end)
            case "c":
                node.restart()
                node.keeper.reconnect()
    colony.heal()
    if replayed is not None:  # as after a restart from a checkpoint
        before, end, keys = replayed  # type: ignore[misc]
        again = Stream(stream.identity)
        again.blocks = before
        assert again.read(random.choice(list(colony)), end) == keys
    node = random.choice(list(colony))
    stream.take(node, stream.look(node))
    assert sorted(stream.keys) == node.keys() == list(range(written))
    colony.check_equal()


def test_a_block_that_is_being_committed_comes_later_and_not_never(
    make_colony: Callable[..., SimulatedCluster],
) -> None:
    colony = make_colony(2, **KEPT)
    one, two = colony
    one.insert(0, [1])
    colony.settle()
    stream = Stream()
    seen: list[list[int]] = []

    def at(node: SimulatedNode, name: str) -> None:
        if node is one and name == "insert.after_rename":
            colony.on_failpoint = lambda node, name: None
            two.insert(0, [3])
            for reader in (one, two):
                seen.append(stream.read(reader, stream.look(reader)))

    colony.on_failpoint = at
    one.insert(0, [2])
    assert seen == [[1], [1]]
    assert stream.read(two, stream.look(one)) == [1, 2]  # the third is on the other one
    colony.settle()
    for reader in (one, two):
        assert stream.read(reader, stream.look(reader)) == [1, 2, 3]


def test_rows_dropped_before_they_were_read_are_not_passed_over_in_silence(
    make_colony: Callable[..., SimulatedCluster],
) -> None:
    colony = make_colony(2, **KEPT)
    one, two = colony
    one.insert([0, 1], [1, 2])
    colony.settle()
    stream = Stream()
    stream.take(one, stream.look(one))
    for _ in range(2):  # nothing was lost: all had been read, and then there was nothing
        two.truncate()
        colony.settle()
        stream.take(one, stream.look(one))
    one.insert(0, [3])
    planned = stream.look(one)
    two.truncate()
    colony.settle()
    one.insert(0, [4])
    colony.settle()
    for end in (planned, stream.look(one)):
        for reader in (one, two):
            with pytest.raises(PandoError) as raised:
                stream.read(reader, end)
            assert raised.value.code == 33
            assert "failOnDataLoss" in str(raised.value)
    assert stream.read(one, planned, may_lack_rows=True) == []
    stream.keys += stream.read(one, stream.look(one), may_lack_rows=True)
    assert stream.keys == [1, 2, 4]


def test_blocks_lost_before_they_were_read_are_not_passed_over_in_silence(
    make_colony: Callable[..., SimulatedCluster],
) -> None:
    colony = make_colony(3, **KEPT)
    one, two, _ = colony
    one.insert(1, [0])
    colony.settle()
    stream = Stream()
    stream.take(two, stream.look(two))
    for node in colony:
        node.is_frozen = node is not one
    one.insert(1, [1])
    one.crash()
    one.wipe()
    one.force_restore_all = True
    colony.end_zombies()
    for node in colony:
        node.is_frozen = False
    one.start()
    assert stream.look(two) == stream.blocks, "perhaps it comes back"
    colony.settle(300)
    two.insert(1, [2])
    with pytest.raises(PandoError) as raised:
        stream.read(two, stream.look(two))
    assert raised.value.code == 33
    assert stream.read(two, stream.look(two), may_lack_rows=True) == [2]


def test_a_replica_that_is_behind_waits_for_what_it_is_to_read(make_colony: Callable[..., SimulatedCluster]) -> None:
    colony = make_colony(2, **KEPT)
    one, two = colony
    one.insert(0, [1])
    stream = Stream()
    end = stream.look(one)
    assert stream.look(two) == {"0": -1}
    assert stream.read(two, end) == [1]
    one.insert(0, [2])
    end = stream.look(one)
    two.is_frozen = True
    with pytest.raises(PandoError) as raised:
        stream.read(two, end)
    assert raised.value.code == 369
