"""Joins the rows of many small parts into larger batches.

A consumer pays as much for a batch of ten rows as for one of thousands.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parts.read.batch_plan import (
    RowRange,
)
from sql.pruning.pruned_parts import PrunedPart

_MANY_PARTS = 8
_MOST_PART_ROWS, _MOST_PART_BYTES = 8_192, 1 << 20
_ENOUGH_ROWS, _ENOUGH_BYTES = 16_384, 8 << 20


class SmallParts:
    """Columns of small parts that were read and not yet passed on, in the order of the parts."""

    def __init__(self, parts: Sequence[PrunedPart], names: Sequence[str]) -> None:
        self._names = names
        self._is_worth_it = len(parts) >= _MANY_PARTS and bool(names)
        self._read: list[list[pa.Array]] = []
        self._rows = self._bytes = 0

    def take(self, pruned: PrunedPart, rows: Sequence[RowRange]) -> bool:
        """Reads the part's rows; returns ``False`` if it is not small or cannot be read at once."""
        part = pruned.part
        if not self._is_worth_it or len(rows) != 1 or part.rows > _MOST_PART_ROWS:
            return False
        if part.data_uncompressed_bytes > _MOST_PART_BYTES:
            return False
        arrays = part.read_row_range(self._names, rows[0])
        if arrays is None:
            return False
        self._read.append(arrays)
        self._rows += rows[0].rows
        self._bytes += part.data_uncompressed_bytes
        return True

    @property
    def is_enough(self) -> bool:
        """Returns whether the rows so far fill a batch."""
        return self._rows >= _ENOUGH_ROWS or self._bytes >= _ENOUGH_BYTES

    @property
    def is_empty(self) -> bool:
        """Returns whether no rows are held."""
        return not self._read

    def take_batch(self) -> tuple[list[pa.Array], int]:
        """Returns the rows so far, in storage types, with their number, and forgets them."""
        columns, rows = list(zip(*self._read, strict=True)), self._rows
        self._read, self._rows, self._bytes = [], 0, 0
        return [_concatenate(pieces) for pieces in columns], rows


def _concatenate(pieces: Sequence[pa.Array]) -> pa.Array:
    if len(pieces) == 1:
        return pieces[0]
    if pa.types.is_dictionary(pieces[0].type):
        pieces = pa.chunked_array(pieces).unify_dictionaries().chunks
    return pa.concat_arrays(pieces)
