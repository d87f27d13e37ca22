"""Small parts that another replica inserted are brought together, and each alone where that does not go well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from parts.common.part_name import PartName

MakeColony = Callable[..., SimulatedCluster]
_INSERTS = 5


class Behind:
    """The second replica has pulled the first one's INSERTs and brought none of them yet."""

    def __init__(self, colony: SimulatedCluster) -> None:
        self.cluster = colony
        self.one, self.two = colony
        self.two.is_frozen = True
        for key in range(_INSERTS):
            self.one.insert(1, [key])
        self.two.step(self.two.task("pull log"))
        self.exchanges: list[list[str]] = []
        self.multis = 0
        self.faults: list[Fault | None] = []
        fetch_parts, fetch_part = self.two.fetch_parts, self.two.fetch_part

        def note_all(url: str, endpoint: str, directories: Mapping[PartName, Path], stop: Callable[[], bool]) -> object:
            self.exchanges.append([str(name) for name in directories])
            self.two.fetch_part = fetch_part  # type: ignore[method-assign]
            try:
                return fetch_parts(url, endpoint, directories, stop)
            finally:
                self.two.fetch_part = note  # type: ignore[method-assign]

        def note(url: str, endpoint: str, part: PartName, directory: Path, stop: Callable[[], bool]) -> None:
            self.exchanges.append([str(part)])
            fetch_part(url, endpoint, part, directory, stop)

        def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
            if node is not self.two or kind != "multi":
                return None
            self.multis += 1
            return self.faults.pop(0) if self.faults else None

        self.two.fetch_parts, self.two.fetch_part = note_all, note  # type: ignore[method-assign, assignment]
        colony.on_request = on_request

    def execute(self) -> None:
        self.two.step(self.two.task("execute queue 0"))

    def check_well(self) -> None:
        self.cluster.heal()
        self.cluster.check_equal()
        assert self.two.keys() == list(range(_INSERTS))


@pytest.fixture
def behind(make_colony: MakeColony) -> Behind:
    return Behind(make_colony(2))


def test_one_request_brings_all_and_one_multi_commits_them(behind: Behind) -> None:
    behind.execute()
    assert behind.exchanges == [[f"1_{number}_{number}_0" for number in range(_INSERTS)]]
    assert behind.multis == 1
    assert not behind.two.table.replication.queue.list_entries()
    behind.check_well()


def test_what_the_other_replica_lacks_does_not_hold_up_the_rest(behind: Behind) -> None:
    lend = behind.one.table.served_parts.pin_part

    def lend_others(name: PartName) -> object:
        return lend(PartName.parse("1_77_77_0") if name.min_block == 2 else name)

    behind.one.table.served_parts.pin_part = lend_others  # type: ignore[method-assign, assignment]
    behind.execute()
    assert sorted(part.min_block for part in map(PartName.parse, behind.two.parts())) == [0, 1, 3, 4]
    (entry,) = behind.two.table.replication.queue.list_entries()
    assert entry.entry.new_part == PartName.parse("1_2_2_0")
    assert entry.last_exception
    behind.one.table.served_parts.pin_part = lend  # type: ignore[method-assign]
    behind.check_well()


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.EXPIRE, Fault.EXPIRE_AFTER])
def test_a_commit_of_all_that_gets_no_answer_is_settled_part_by_part(behind: Behind, fault: Fault) -> None:
    behind.faults = [fault]
    behind.execute()
    behind.check_well()


def test_a_listing_that_changes_meanwhile_makes_each_be_committed_alone(behind: Behind) -> None:
    paths = behind.one.table.replication.paths.replica("r1")

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if node is behind.two and name == "produced.after_rename" and behind.exchanges:
            behind.cluster.on_failpoint = lambda node, name: None
            behind.one.keeper.set(paths.part("1_3_3_0"), behind.one.keeper.get(paths.part("1_3_3_0"))[0])

    behind.cluster.on_failpoint = on_failpoint
    behind.execute()
    assert behind.multis > _INSERTS
    behind.check_well()


def test_with_a_replica_that_does_not_answer_each_is_tried_alone(behind: Behind) -> None:
    behind.cluster.cuts.add(frozenset(("r1", "r2")))
    for number in range(4):
        behind.two.step(behind.two.task(f"execute queue {number}"))
    assert {len(names) for names in behind.exchanges[1:]} == {1}
    assert len(behind.exchanges[0]) == _INSERTS
    assert not list(behind.two.path.glob("tmp_*"))
    behind.check_well()


def test_a_part_with_other_content_than_was_committed_is_not_taken(behind: Behind) -> None:
    """The other replica's disk has something else under the name."""
    lend = behind.one.table.served_parts.pin_part

    def lend_another(name: PartName) -> object:
        return lend(PartName.parse("1_0_0_0") if name.min_block == 2 else name)

    behind.one.table.served_parts.pin_part = lend_another  # type: ignore[method-assign, assignment]
    behind.execute()
    assert sorted(part.min_block for part in map(PartName.parse, behind.two.parts())) == [0, 1, 3, 4]
    assert not list(behind.two.path.glob("tmp_*"))
    behind.one.table.served_parts.pin_part = lend  # type: ignore[method-assign]
    behind.check_well()
