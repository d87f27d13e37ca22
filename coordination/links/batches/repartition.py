"""The changes of a batch whose rows go to other partitions at the target than at the source.

With another partition key a block of the source may become several parts, in partitions of the target. Commands cover
blocks by partition and number, so none of them can be carried out there: such a link takes inserts alone. The parts get
numbers in the order of their blocks in the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordination.links.positions import Position
from coordination.links.stream.change import Block, Change
from coordination.log.log_entry import StagedPart
from parts.common.part_name import PartName

Pieces = Mapping[tuple[Position, PartName], Sequence[StagedPart]]
"""By change and part at the sender, the parts that its rows became here. Of their names only the partitions count."""
_PARTITION_OF_LOST = "all"
"""A lost block keeps its place in the change, but its rows would have gone to partitions that nobody knows."""


def is_aligned(pieces: Pieces) -> bool:
    """Tells whether each block became one part of its own partition."""
    return all(
        len(parts) == 1 and parts[0].part.partition_id == part.partition_id for (_, part), parts in pieces.items()
    )


def find_command(changes: Sequence[Change]) -> Change | None:
    """Returns the first change that has a command, or ``None``.

    A mutation of no partition is none: it touches nothing.
    """
    return next((each for each in changes if each.drops or any(m.numbers for m in each.mutations)), None)


def repartition(
    changes: Sequence[Change], pieces: Pieces
) -> tuple[tuple[Change, ...], dict[tuple[Position, PartName], StagedPart]]:
    """Returns the changes with a block for each piece, and the pieces by change and part.

    The changes have no commands.
    """
    assert find_command(changes) is None
    last: dict[str, int] = {}
    staged: dict[tuple[Position, PartName], StagedPart] = {}

    def name(partition_id: str) -> PartName:
        last[partition_id] = number = last.get(partition_id, -1) + 1
        return PartName(partition_id, number, number, 0)

    renamed = []
    for change in changes:
        blocks: list[Block] = []
        for block in change.blocks:
            if block.is_lost:
                blocks.append(replace(block, part=name(_PARTITION_OF_LOST), block_id=""))
                continue
            for piece in pieces[change.position, block.part]:
                part = name(piece.part.partition_id)
                staged[change.position, part] = piece
                blocks.append(Block(part, piece.content_hash, piece.rows, piece.size_bytes))
        renamed.append(replace(change, blocks=tuple(blocks)))
    return tuple(renamed), staged
