"""The power of one server goes: what it acknowledged is on its disk, and what it took back or dropped stays away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import OptimizeOptions
from parts.common.part_name import PartName
from parts.format.hashed_file import sync_descriptor
from tests.engine.tables.replicated.staging import commit, stage
from tests.power_cut import power_cut

MakeColony = Callable[..., SimulatedCluster]
DURABLE = {"fsync_after_insert": True, "fsync_part_directory": True}


@pytest.fixture
def cut(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> object:
    """``cut(colony, name, action)``: the node's disk after ``action`` and a power cut takes the place of its disk."""
    fetch_part = SimulatedNode.fetch_part

    def fetch_and_sync(
        node: SimulatedNode, url: str, endpoint: str, part: PartName, directory: Path, stop: object
    ) -> None:
        """As the client of the part exchange does."""
        fetch_part(node, url, endpoint, part, directory, stop)  # type: ignore[arg-type]
        for file in directory.iterdir():
            with open(file, "rb") as stream:
                sync_descriptor(stream.fileno())

    monkeypatch.setattr(SimulatedNode, "fetch_part", fetch_and_sync)

    def run(colony: SimulatedCluster, name: str, action: Callable[[], object]) -> None:
        with power_cut(colony.root, tmp_path_factory.mktemp("image") / "root") as image:
            action()
        node = colony.nodes[name]
        node.crash()
        node.path = image / name
        colony.heal()
        colony.check_equal()

    return run


Cut = Callable[[SimulatedCluster, str, Callable[[], object]], None]


def test_acknowledged_insert(make_colony: MakeColony, cut: Cut) -> None:
    colony = make_colony(1, **DURABLE)
    (one,) = colony
    cut(colony, "r1", lambda: one.insert([1, 1, 2], [1, 2, 3]))
    assert one.keys() == [1, 2, 3]
    assert one.insert([1, 1, 2], [1, 2, 3]) == 0


def test_first_part_of_a_new_replica(make_colony: MakeColony, cut: Cut) -> None:
    """Quorum: the new replica's copy counts, so it must last."""
    colony = make_colony(2, **DURABLE)
    one, _ = colony

    def grow() -> None:
        colony.add_node("r3").step_all()
        one.insert(1, [1], quorum=3)

    cut(colony, "r3", grow)
    three = colony.nodes["r3"]
    assert three.keys() == one.keys() == [1]
    assert not three.table.store.list_detached()
    identities = [(path / "replica_identity").read_text() for path in (colony.root / "r3", three.path)]
    assert identities[0] == identities[1], "it would wait for its former session as for another server's"


def test_merge(make_colony: MakeColony, cut: Cut) -> None:
    colony = make_colony(1, **DURABLE)
    (one,) = colony
    for key in range(4):
        one.insert(1, [key])
    cut(colony, "r1", lambda: one.call(lambda table: table.optimize(OptimizeOptions(final=True))))
    assert one.keys() == [0, 1, 2, 3]
    assert not one.table.store.list_detached()


def test_merge_whose_sources_were_deleted(make_colony: MakeColony, cut: Cut) -> None:
    colony = make_colony(1, **DURABLE)
    (one,) = colony
    for key in range(4):
        one.insert(1, [key])

    def merge_and_clean() -> None:
        one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
        colony.now += 1000
        colony.settle()
        assert len(one.directories()) == 1

    cut(colony, "r1", merge_and_clean)
    assert one.keys() == [0, 1, 2, 3]


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_truncate(make_colony: MakeColony, cut: Cut, is_cleaned: bool) -> None:
    colony = make_colony(1, **DURABLE)
    (one,) = colony
    for key in range(4):
        one.insert(1, [key])
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))

    def truncate() -> None:
        one.call(lambda table: table.truncate())
        if is_cleaned:
            colony.now += 1000
            colony.settle()

    cut(colony, "r1", truncate)
    assert one.keys() == []


def test_fetched_part_of_a_quorum(make_colony: MakeColony, cut: Cut) -> None:
    """The inserter is lost with its disk; the other's copy is all there is."""
    colony = make_colony(2, **DURABLE)
    one, two = colony
    one.insert(1, [0])
    colony.settle()

    def insert_and_lose() -> None:
        assert one.insert(1, [1, 2], quorum=2) == 2
        one.crash()
        one.wipe()

    cut(colony, "r2", insert_and_lose)
    assert two.keys() == one.keys() == [0, 1, 2]


def test_part_that_a_check_replaced(make_colony: MakeColony, cut: Cut) -> None:
    """The good copy takes the broken part's place for good, and the broken one is kept."""
    colony = make_colony(2, **DURABLE)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()

    def break_and_check() -> None:
        (directory,) = two.directories()
        data = next(directory.glob("*.bin"))
        data.chmod(0o644)
        content = data.read_bytes()
        data.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        two.call(lambda table: table.part_checks.schedule_check(PartName.parse(directory.name)))
        two.step(two.task("check parts"))
        assert any(name.startswith("broken") for name in two.table.store.list_detached())
        one.crash()
        one.wipe()

    cut(colony, "r2", break_and_check)
    assert two.keys() == [1, 2]
    assert two.table.store.list_detached()


def test_staged_rows_of_a_transaction(make_colony: MakeColony, cut: Cut) -> None:
    """The first of the table: the directories above the part are new too."""
    colony = make_colony(1, **DURABLE)
    (one,) = colony
    cut(colony, "r1", lambda: stage(one, 1, [1, 2]))
    assert commit(one).rows == 2
    assert one.keys() == [1, 2]


def test_detached_partition(make_colony: MakeColony, cut: Cut) -> None:
    colony = make_colony(1, **DURABLE)
    (one,) = colony
    one.insert(1, [1, 2])
    cut(colony, "r1", lambda: one.call(lambda table: table.partitions.drop("1", detach=True)))
    assert one.keys() == []
    assert one.table.store.list_detached() == ["1_0_0_0"]
