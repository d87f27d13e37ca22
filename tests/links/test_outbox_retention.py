"""Which blocks an outbox gives up: the rules beside their description, for random blocks and limits."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.link_store.outbox_retention import BlockRange, OutboxBlock, RetentionLimits, count_expired, describe_range
from parts.common.part_name import PartName

NOW_MS = 1_800_000_000_000


def block(zxid: int, age_seconds: float, size_bytes: int = 10) -> OutboxBlock:
    part = PartName("p", zxid, zxid, 0)
    return OutboxBlock(zxid, part, NOW_MS - int(age_seconds * 1000), size_bytes, Path(str(part)))


def get_age_ms(each: OutboxBlock) -> int:
    return NOW_MS - each.commit_time_ms


def count(blocks: list[OutboxBlock], released: int = 0, free: int = 0, freed: int | None = None, **limits: int) -> int:
    def get_freed(each: OutboxBlock) -> int:
        return each.size_bytes if freed is None else freed

    return count_expired(blocks, RetentionLimits(**limits), get_age_ms, released, free, get_freed)


def test_the_least_time_goes_before_the_rest() -> None:
    blocks = [block(n, 100 - n) for n in range(1, 11)]
    assert count(blocks, released=5, min_seconds=0) == 5
    assert count(blocks, released=5, min_seconds=98) == 2
    assert count(blocks, max_bytes=30, min_seconds=98) == 2
    assert count(blocks, released=5) == 0


def test_the_longest_time_counts_above_the_least_only() -> None:
    blocks = [block(n, 1000 - n) for n in range(1, 11)]
    assert count(blocks, max_seconds=995) == 4
    assert count(blocks, max_seconds=995, min_seconds=995) == 0
    assert count(blocks, max_seconds=0) == 0


def test_bytes_are_those_of_all_blocks() -> None:
    blocks = [block(n, 1000) for n in range(1, 11)]
    assert count(blocks, max_bytes=100) == 0
    assert count(blocks, max_bytes=99) == 1
    assert count(blocks, max_bytes=45) == 6
    assert count(blocks, max_bytes=1) == 9


def test_the_disk_goes_before_everything() -> None:
    blocks = [block(n, 0) for n in range(1, 11)]
    assert count(blocks, min_free_bytes=100, free=100) == 0
    assert count(blocks, min_free_bytes=100, free=75) == 3
    assert count(blocks, min_free_bytes=100, free=0) == 9
    assert count(blocks, min_free_bytes=100, free=0, freed=0) == 0


def test_a_block_of_the_future_is_young() -> None:
    assert count([block(1, -50), block(2, 1000), block(3, 0)], released=2) == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000), st.integers(0, 100)), max_size=12),
    st.integers(0, 40),
    st.integers(0, 200),
    st.builds(
        RetentionLimits, st.integers(0, 900), st.integers(0, 900), st.integers(0, 400), st.sampled_from([0, 150])
    ),
)
def test_every_block_that_goes_may_go_and_the_next_may_not(
    facts: list[tuple[int, int, int]], released: int, free: int, limits: RetentionLimits
) -> None:
    zxid, blocks = 1, []
    for step, age, size in facts:
        zxid += step
        blocks.append(block(zxid, age, size))
    gone = count_expired(blocks, limits, get_age_ms, released, free, lambda each: each.size_bytes)

    def may_go(place: int) -> bool:
        each = blocks[place]
        age = (NOW_MS - each.commit_time_ms) / 1000
        left = sum(other.size_bytes for other in blocks[place:])
        is_old = limits.max_seconds > limits.min_seconds and age > limits.max_seconds
        is_given_up = is_old or (limits.max_bytes > 0 and left > limits.max_bytes)
        return age >= limits.min_seconds and (each.zxid <= released or is_given_up)

    def frees_too_little(place: int) -> bool:
        return free + sum(each.size_bytes for each in blocks[:place]) < limits.min_free_bytes

    for place in range(gone):
        assert blocks[place].zxid < blocks[-1].zxid
        assert may_go(place) or frees_too_little(place)
    if gone < len(blocks) and blocks[gone].zxid < blocks[-1].zxid:
        assert not may_go(gone)
        assert not frees_too_little(gone) or not blocks[gone].size_bytes


def test_ranges() -> None:
    assert describe_range([]) is None
    blocks = [block(3, 0, 5), block(9, 0, 7)]
    assert describe_range(blocks) == BlockRange(3, 9, 2, 12)
    assert BlockRange(3, 9, 2, 12).join(None) == BlockRange(3, 9, 2, 12)
    assert BlockRange(12, 15, 1, 1).join(BlockRange(3, 9, 2, 12)) == BlockRange(3, 15, 3, 13)
