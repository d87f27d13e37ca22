"""Filters for the rows of the blocks that a batch of a stream reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from engine.tables.capabilities.block_history import WantedBlocks
from parts.common.errors import UserError
from parts.read.part_reader import Part
from parts.table.block_number_column import BLOCK_NUMBER, has_known_block_numbers

NO_BLOCK = -1
"""The position before a partition's first block."""
_counts: WeakKeyDictionary[Part, tuple[np.ndarray, np.ndarray]] = WeakKeyDictionary()
_lock = threading.Lock()


def estimate_rows(part: Part, wanted: WantedBlocks) -> int:
    """Estimates how many rows of the part belong to wanted blocks."""
    name = part.name
    after, until = wanted.of(name.partition_id)
    common = min(until, name.max_block) - max(after + 1, name.min_block) + 1
    return part.rows * max(0, common) // (name.max_block - name.min_block + 1)


class BlockFilter:
    """A filter for rows of blocks after ``after`` and up to ``until``.

    Implements ``parts.read.row_filters.RowFilter``.
    """

    columns = frozenset({BLOCK_NUMBER})
    is_exact = True

    def __init__(self, after: int, until: int) -> None:
        self._after = after
        self._until = until

    def match_rows(self, read: Callable[[str], pa.Array], rows: int) -> np.ndarray:
        """Returns the mask of the rows that belong to wanted blocks."""
        numbers = read(BLOCK_NUMBER).to_numpy().astype(np.int64)
        mask: np.ndarray = (numbers > self._after) & (numbers <= self._until)
        return mask


def make_block_filter(part: Part, wanted: WantedBlocks) -> BlockFilter | None:
    """Returns the filter of a part, or ``None`` if all its rows are wanted.

    Raises 36 if the part does not store the block numbers of its rows.
    """
    after, until = wanted.of(part.name.partition_id)
    if after < part.name.min_block and part.name.max_block <= until:
        return None
    _require_numbers(part)
    return BlockFilter(after, until)


def count_rows_by_block(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Returns the part's block numbers in order, and the rows of each.

    Raises 36 if it does not store them. The result is cached while the part is open, because a long backlog is cut many
    times.
    """
    name = part.name
    if name.min_block == name.max_block and not part.has_deleted_rows:
        return np.array([name.min_block]), np.array([part.rows])
    _require_numbers(part)
    with _lock:
        known = _counts.get(part)
    if known is None:
        found = [np.unique(batch.column(0).to_numpy(), return_counts=True) for batch in part.read([BLOCK_NUMBER])]
        found = found or [(np.empty(0, np.uint64), np.empty(0, np.int64))]
        numbers, place = np.unique(np.concatenate([numbers for numbers, _ in found]), return_inverse=True)
        rows = np.bincount(place, np.concatenate([counts for _, counts in found])).astype(np.int64)
        known = numbers.astype(np.int64), rows
        with _lock:
            _counts[part] = known
    return known


def _require_numbers(part: Part) -> None:
    """Raises 36 if the part does not store the block numbers of its rows."""
    if not has_known_block_numbers(part.name, part.schema):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Part {part.name} was merged without the block numbers of its rows: which of them are wanted is not known",
        )
