"""Finds the end of a stream's next batch: a block boundary within the row limit.

A batch takes the blocks of each partition in order, up to where the table's blocks are decided. With a row limit it
takes the next block from the partition with the fewest rows so far, so that a busy partition starves none. It takes at
least one block, however large.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from engine.scan.block_filter import NO_BLOCK, count_rows_by_block
from parts.read.part_reader import Part


def find_batch_end(
    parts: Sequence[Part], after: Mapping[str, int], until: Mapping[str, int], max_rows: int | None
) -> dict[str, int]:
    """Returns, by partition, the end of the batch that begins after ``after`` and ends by ``until``.

    Partitions of which the batch takes nothing stay at their position.
    """
    ends = dict(after)
    for partition_id, number in until.items():
        ends[partition_id] = max(number, after.get(partition_id, NO_BLOCK))
    moving = [name for name, end in ends.items() if end > after.get(name, NO_BLOCK)]
    if max_rows is not None:
        for name, number in _limit_rows(parts, after, {name: ends[name] for name in moving}, max_rows).items():
            ends[name] = max(number, after.get(name, NO_BLOCK))
    return ends


def _limit_rows(
    parts: Sequence[Part], after: Mapping[str, int], ends: Mapping[str, int], max_rows: int
) -> dict[str, int]:
    """Returns new ends for partitions that must end earlier: before the first block not taken."""
    turns = [(0, name, _list_blocks(parts, name, after.get(name, NO_BLOCK), end)) for name, end in sorted(ends.items())]
    waiting = [(rows, name, *first, blocks) for rows, name, blocks in turns if (first := next(blocks, None))]
    taken = 0
    while waiting:
        rows_of_partition, name, _, rows, blocks = waiting[0]
        if taken and taken + rows > max_rows:
            break
        taken += rows
        following = next(blocks, None)
        if following is None:
            heapq.heappop(waiting)
        else:
            heapq.heapreplace(waiting, (rows_of_partition + rows, name, *following, blocks))
    return {name: number - 1 for _, name, number, _, _ in waiting}


def _list_blocks(parts: Sequence[Part], partition_id: str, after: int, until: int) -> Iterator[tuple[int, int]]:
    """Yields number and rows of each of the partition's blocks, in order."""
    of_partition = (part for part in parts if part.name.partition_id == partition_id and part.rows)
    for part in sorted(of_partition, key=lambda part: part.name):
        if part.name.max_block > after and part.name.min_block <= until:
            numbers, rows = count_rows_by_block(part)
            wanted = (numbers > after) & (numbers <= until)
            yield from zip(numbers[wanted].tolist(), rows[wanted].tolist(), strict=True)
