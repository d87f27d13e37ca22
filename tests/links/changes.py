"""Short ways to write changes in tests."""

from __future__ import annotations

from collections.abc import Iterable

from coordination.links.batches.batch_plan import BatchPlan, Target, count_numbers, plan_batch, surviving_blocks
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Block, Change, Drop, Mutation
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import StagedPart
from parts.common.part_name import PartName
from tests.links.source_model import make_origin

WEST, EAST, NORTH = make_origin(1), make_origin(2), make_origin(3)


def make_block(
    number: int, partition_id: str = "p", *, block_id: str = "", rows: int = 1, is_lost: bool = False
) -> Block:
    part = PartName(partition_id, number, number, 0)
    if is_lost:
        return Block(part, rows=rows, block_id=block_id, is_lost=True)
    return Block(part, f"{number:032x}", rows, 10, block_id)


def make_change(
    zxid: int,
    *blocks: Block,
    drops: Iterable[tuple[str, int]] = (),
    mutations: Iterable[tuple[str, dict[str, int]]] = (),
    origin: Origin = WEST,
    previous: int = 0,
    place: int = 0,
) -> Change:
    return Change(
        Position(origin, zxid),
        place or zxid,
        1000 + zxid,
        previous,
        blocks,
        tuple(Drop(*drop) for drop in drops),
        tuple(Mutation(text, tuple(numbers.items())) for text, numbers in mutations),
    )


def plan(changes: list[Change], first: int = 100, firsts: dict[str, int] | None = None) -> BatchPlan:
    """A plan at a target whose next numbers are ``firsts``, or ``first`` in every partition."""
    staged = {
        (change.position, block.part): StagedPart(block.part, block.content_hash, "t1", "place", block.rows, 10)
        for change, block in surviving_blocks(changes)
    }
    vector = VersionVector()
    for change in changes:
        vector = vector.advance(change.position)
    end = Position(WEST, max(change.place for change in changes))
    firsts = firsts or dict.fromkeys(count_numbers(changes), first)
    return plan_batch(changes, firsts, vector, end, Target("t1", 2.0, "batch", staged))
