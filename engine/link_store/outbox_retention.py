"""Decides which blocks an outbox gives up: by age, bytes, free disk, and need. No I/O.

Blocks go in the order of their positions, so one position says what is gone. The blocks of the newest position always
stay. Of two rules that contradict each other the first of this list counts:

1. Less than ``min_free_bytes`` on the disk: the oldest blocks go until there is enough again, as far as their removal
   frees anything. A block whose files the table still has frees nothing.
2. A block younger than ``min_seconds`` stays.
3. A block that every link has acknowledged goes.
4. A block older than ``max_seconds`` goes, and so do the oldest blocks beyond ``max_bytes``, though a link needs them.

Source: YugabyteDB's flags log_min_seconds_to_retain, log_max_seconds_to_retain and log_stop_retaining_min_disk_mb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parts.common.part_name import PartName

_MS = 1000


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How long an outbox keeps blocks."""

    min_seconds: int = 300
    """``link_log_min_seconds_to_retain``."""
    max_seconds: int = 0
    """``link_log_max_seconds_to_retain``; ignored if it is not above ``min_seconds``."""
    max_bytes: int = 0
    """``link_log_max_bytes_to_retain``; 0: any number."""
    min_free_bytes: int = 0
    """``link_log_stop_retaining_min_disk_mb`` in bytes; 0: however full the disk is."""


@dataclass(frozen=True, slots=True)
class OutboxBlock:
    """A level-0 part in an outbox."""

    zxid: int
    """The position: the commit of the block."""
    part: PartName
    commit_time_ms: int
    """ZooKeeper's time of the commit, in milliseconds since 1970."""
    size_bytes: int
    folder: Path
    kept_at: float | None = field(default=None, compare=False)
    """When this process kept it, by the monotonic clock; ``None`` if it found it at its start."""

    @property
    def key(self) -> tuple[int, PartName]:
        return self.zxid, self.part


@dataclass(frozen=True, slots=True)
class BlockRange:
    """A run of blocks in the order of their positions."""

    first: int
    """Position of the first block."""
    last: int
    """Position of the last block."""
    blocks: int
    size_bytes: int

    def __contains__(self, zxid: int) -> bool:
        return self.first <= zxid <= self.last

    def join(self, other: BlockRange | None) -> BlockRange:
        """Returns the range of both, which share no block."""
        if other is None:
            return self
        return BlockRange(
            min(self.first, other.first),
            max(self.last, other.last),
            self.blocks + other.blocks,
            self.size_bytes + other.size_bytes,
        )


def describe_range(blocks: Sequence[OutboxBlock]) -> BlockRange | None:
    """Returns the range of blocks that are sorted by position; ``None`` for none."""
    if not blocks:
        return None
    return BlockRange(blocks[0].zxid, blocks[-1].zxid, len(blocks), sum(block.size_bytes for block in blocks))


def count_expired(
    blocks: Sequence[OutboxBlock],
    limits: RetentionLimits,
    get_age_ms: Callable[[OutboxBlock], int],
    released: int,
    free_bytes: int,
    get_freed_bytes: Callable[[OutboxBlock], int],
) -> int:
    """Returns how many blocks go, from the first on. ``blocks`` are sorted by position.

    ``get_age_ms`` returns the least age of a block (:mod:`engine.link_store.block_ages`). ``released``: the position up
    to which every link has acknowledged. ``get_freed_bytes`` returns what the removal of
    a block gives back to the disk; it is called only while the disk is too full.
    """
    most = _count_before_newest(blocks)
    count = _count_by_disk(blocks[:most], limits.min_free_bytes - free_bytes, get_freed_bytes)
    return count + _count_by_age_and_size(blocks[count:], most - count, limits, get_age_ms, released)


def _count_before_newest(blocks: Sequence[OutboxBlock]) -> int:
    count = len(blocks)
    while count and blocks[count - 1].zxid == blocks[-1].zxid:
        count -= 1
    return count


def _count_by_age_and_size(
    blocks: Sequence[OutboxBlock],
    most: int,
    limits: RetentionLimits,
    get_age_ms: Callable[[OutboxBlock], int],
    released: int,
) -> int:
    """Returns how many blocks go, at most ``most``."""
    left = sum(block.size_bytes for block in blocks) if limits.max_bytes else 0
    for count, block in enumerate(blocks[:most]):
        age_ms = get_age_ms(block)
        is_old = limits.max_seconds > limits.min_seconds and age_ms > limits.max_seconds * _MS
        is_too_much = 0 < limits.max_bytes < left
        if age_ms < limits.min_seconds * _MS or not (block.zxid <= released or is_old or is_too_much):
            return count
        left -= block.size_bytes
    return most


def _count_by_disk(blocks: Sequence[OutboxBlock], missing: int, get_freed_bytes: Callable[[OutboxBlock], int]) -> int:
    """Returns how many blocks go until ``missing`` bytes are freed; none behind the last that frees some."""
    useful = 0
    for count, block in enumerate(blocks, 1):
        if missing <= 0:
            break
        if (freed := get_freed_bytes(block)) > 0:
            missing -= freed
            useful = count
    return useful
