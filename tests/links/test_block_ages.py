"""Ages of blocks: never more than they are, whatever clocks do."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.link_store.block_ages import BlockAges
from engine.link_store.outbox_retention import OutboxBlock
from parts.common.part_name import PartName

COMMIT_MS = 1_800_000_000_000
DAY = 86_400.0


class World:
    def __init__(self) -> None:
        self.monotonic = 500.0
        self.ages = BlockAges(lambda: self.monotonic)

    def age_seconds(self, kept_at: float | None = None) -> float:
        part = PartName("p", 1, 1, 0)
        return self.ages.age_ms(OutboxBlock(1, part, COMMIT_MS, 10, Path("p"), kept_at)) / 1000


def test_a_block_that_was_kept_here_ages_from_then_on() -> None:
    world = World()
    world.ages.note_time(COMMIT_MS + int(DAY * 1000))  # another leader's clock
    kept_at = world.ages.now()
    world.monotonic += 30
    assert world.age_seconds(kept_at) == 30


def test_a_block_of_a_former_process_has_zookeepers_age() -> None:
    world = World()
    world.monotonic += 5
    assert world.age_seconds() == 5  # no session yet
    world.ages.note_time(COMMIT_MS + 700_000)
    assert world.age_seconds() == 700
    world.monotonic += 60
    assert world.age_seconds() == 760


def test_zookeepers_clock_may_step_either_way_afterwards() -> None:
    for step in (-10 * DAY, 10 * DAY):
        world = World()
        world.ages.note_time(COMMIT_MS + 1000)
        world.monotonic += 60
        world.ages.note_time(COMMIT_MS + 61_000 + int(step * 1000))
        assert world.age_seconds() == 61


def test_a_block_of_zookeepers_future_ages_from_the_start() -> None:
    world = World()
    world.ages.note_time(COMMIT_MS - int(DAY * 1000))
    world.monotonic += 20
    assert world.age_seconds() == 20


@given(st.floats(0, DAY), st.floats(0, 100), st.floats(0, DAY), st.booleans())
def test_an_age_is_never_too_large_and_not_much_too_small(
    before: float, late: float, after: float, found: bool
) -> None:
    """``late``: what passes until the block is kept, or until the session after the start."""
    world = World()
    if found:
        world.monotonic += late
        world.ages.note_time(COMMIT_MS + int((before + late) * 1000))
        world.monotonic += after
        true_age = before + late + after
    else:
        world.monotonic += late
        kept_at = world.ages.now()
        world.monotonic += after
        true_age = late + after
    age = world.age_seconds(None if found else kept_at)
    assert true_age - late - 0.01 <= age <= true_age + 0.01
