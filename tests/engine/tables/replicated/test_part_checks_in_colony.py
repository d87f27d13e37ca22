"""A part that is broken on the disk gives way to a good copy, and to nothing else."""

from __future__ import annotations

from collections.abc import Callable

from engine.simulator.simulated_cluster import SimulatedCluster
from parts.common.part_name import PartName

MakeColony = Callable[..., SimulatedCluster]


def test_a_copy_with_other_content_than_was_committed_does_not_take_the_place_of_a_broken_part(
    make_colony: MakeColony,
) -> None:
    """The other replica sends another part first. Reads fail until the right one has come."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(1, [3, 4])
    colony.settle()
    data = next((two.path / "1_0_0_0").glob("*.bin"))
    content = data.read_bytes()
    data.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    lend, asked = one.table.served_parts.pin_part, list[PartName]()

    def lend_another(name: PartName) -> object:
        asked.append(name)
        return lend(PartName("1", 1, 1, 0) if len(asked) == 1 else name)

    one.table.served_parts.pin_part = lend_another  # type: ignore[method-assign, assignment]
    two.call(lambda table: table.part_checks.schedule_check(PartName("1", 0, 0, 0)))
    two.step(two.task("check parts"))
    assert len(asked) == 1
    assert not two.table.store.list_detached(), "nothing has taken its place"
    colony.now += 60
    colony.settle()
    colony.check_equal()
    assert len(asked) == 2
    assert two.keys() == [1, 2, 3, 4]
    assert two.table.store.list_detached() == ["broken_1_0_0_0"]
