"""A block number that was taken before the part was written: used once, or given up."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_table import SCHEMA
from engine.tables.insert_sink import InsertOutcome, PartSink, TemporaryPart
from engine.tables.statement_options import InsertOptions

MakeColony = Callable[..., SimulatedCluster]


class Worker:
    """Writes parts as a worker process does, and hands them to a sink of the node that expects them."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node

    def expecting(self, partition: int = 1, **options: object) -> PartSink:
        with self.node.acting():
            sink = self.node.table.begin_insert(InsertOptions(**options))  # type: ignore[arg-type]
            sink.allocate_block_number(str(partition))
        return sink

    def written(self, keys: list[int], partition: int = 1) -> list[TemporaryPart]:
        block = pa.table(
            {"p": [partition] * len(keys), "k": keys, "v": [f"value {key}" for key in keys]}, schema=SCHEMA.arrow
        )
        with self.node.acting():
            sink = self.node.table.begin_insert(InsertOptions())
            sink.write(block)
            return [part for part in sink._writes if isinstance(part, TemporaryPart)]

    def commit(self, sink: PartSink, parts: list[TemporaryPart]) -> InsertOutcome:
        with self.node.acting():
            try:
                return sink.commit_parts(parts)
            finally:
                sink.abort()


@pytest.fixture
def colony(make_colony: MakeColony) -> SimulatedCluster:
    return make_colony(2)


def _check(colony: SimulatedCluster, keys: list[int]) -> None:
    """``check_equal`` finds numbers that were left behind."""
    colony.heal()
    colony.check_equal()
    assert [node.keys() for node in colony] == [keys] * 2


def test_the_number_is_taken_before_and_used(colony: SimulatedCluster) -> None:
    one, two = colony
    worker = Worker(one)
    parts = worker.written([1])
    sink = worker.expecting()
    two.insert(1, [2])
    multis: list[str] = []
    colony.on_request = lambda node, kind, path: multis.append(path) if kind == "multi" else None
    outcome = worker.commit(sink, parts)
    assert outcome.part_names == ["1_0_0_0"]
    assert len(multis) == 1
    _check(colony, [1, 2])


def test_a_block_that_is_known_gives_its_number_up(colony: SimulatedCluster) -> None:
    one, _ = colony
    one.insert(1, [1])
    worker = Worker(one)
    outcome = worker.commit(worker.expecting(), worker.written([1]))
    assert (outcome.deduplicated_blocks, outcome.written_rows) == (1, 0)
    _check(colony, [1])


def test_what_is_given_up_leaves_no_number(colony: SimulatedCluster) -> None:
    one, _ = colony
    sink = Worker(one).expecting()
    with one.acting():
        sink.abort()
    _check(colony, [])


def test_parts_of_other_partitions_take_their_own(colony: SimulatedCluster) -> None:
    one, _ = colony
    worker = Worker(one)
    outcome = worker.commit(worker.expecting(1), worker.written([5], partition=2))
    assert outcome.part_names == ["2_0_0_0"]
    _check(colony, [5])


def test_a_drop_takes_the_number_away(colony: SimulatedCluster) -> None:
    """The rows are of after the drop: they stay."""
    one, _ = colony
    worker = Worker(one)
    one.insert(1, [1])
    sink = worker.expecting()
    one.call(lambda table: table.truncate())
    outcome = worker.commit(sink, worker.written([2]))
    assert outcome.written_rows == 1
    _check(colony, [2])


@pytest.mark.parametrize("is_new_session", [True, False])
def test_a_number_of_a_former_start_is_not_used(colony: SimulatedCluster, is_new_session: bool) -> None:
    one, _ = colony
    worker = Worker(one)
    sink = worker.expecting()
    if is_new_session:
        colony.ensemble.end_session(one.keeper.session_id)
        one.keeper.reconnect()
    else:
        one.call(lambda table: table.replication.restart())
    colony.settle()
    outcome = worker.commit(sink, worker.written([3]))
    assert outcome.written_rows == 1
    _check(colony, [3])
