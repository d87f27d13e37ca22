"""Ranges of keys in all parts of a table, as arrays.

They are made once per list of parts, not for every query. Where few parts are left in a query, and nobody made the
ranges yet, they are made for those parts only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pyarrow as pa

from parts.read.key_mapping import map_primary_index
from parts.read.part_reader import Part
from parts.store.part_list import PartList
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.part_name_columns import NAME_COLUMNS
from parts.table.table_description import Key
from sql.pruning.key_ranges import KeyRanges, make_closed_ranges, make_point_ranges

_FEW_PARTS_DIVISOR = 8
"""Chosen parts are few if at most one part in this many is chosen."""
_Make = Callable[[Sequence[Part]], KeyRanges | None]


class PartBounds:
    """Ranges of keys in the parts that have rows.

    ``chosen`` are positions among these parts. ``None`` instead of ranges means that the key may be anything.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = [part for part in parts if part.rows]
        self.marks = np.array([part.marks for part in self.parts], np.int64)
        self._made: dict[Hashable, KeyRanges | None] = {}

    @classmethod
    def of(cls, parts: Sequence[Part]) -> PartBounds:
        """Returns the bounds of the parts, which a ``PartList`` keeps."""
        return parts.get_or_make("bounds", lambda: cls(parts)) if isinstance(parts, PartList) else cls(parts)

    def extremes(self, column: str, chosen: np.ndarray) -> KeyRanges | None:
        """Returns ranges of a partition key's column, or of a column that the part's name gives."""
        return self._get_ranges(column, lambda parts: _find_extremes(parts, column), chosen)

    def partition_value(self, number: int, chosen: np.ndarray) -> KeyRanges | None:
        """Returns the values of a partition key's expression, by its number."""
        return self._get_ranges(number, lambda parts: _find_partition_values(parts, number), chosen)

    def first_key(self, key: Key, chosen: np.ndarray) -> KeyRanges | None:
        """Returns ranges of the first expression of the sorting key."""
        return self._get_ranges(key, lambda parts: _find_first_keys(parts, key), chosen)

    def _get_ranges(self, what: Hashable, make: _Make, chosen: np.ndarray) -> KeyRanges | None:
        if what not in self._made:
            if len(chosen) * _FEW_PARTS_DIVISOR < len(self.parts):
                return make([self.parts[position] for position in chosen])
            self._made[what] = make(self.parts)
        found = self._made[what]
        return found if found is None or len(chosen) == len(self.parts) else found.take(chosen)


def read_part_name_column(column: str, part: Part) -> str:
    """Returns the value of a column that the part's name gives (``_part``, ``_partition_id``)."""
    return str(part.name) if column == "_part" else part.name.partition_id


def _find_extremes(parts: Sequence[Part], column: str) -> KeyRanges | None:
    if column == BLOCK_NUMBER:
        blocks = np.array([(part.name.min_block, part.name.max_block) for part in parts], np.uint64)
        return make_closed_ranges(pa.array(blocks[:, 0]), pa.array(blocks[:, 1]))
    if column in NAME_COLUMNS:
        return make_point_ranges(pa.array([read_part_name_column(column, part) for part in parts], pa.string()))
    arrays = [part.minmax_arrays.get(column) for part in parts]
    if any(array is None or len(array) != 2 for array in arrays):
        return None
    return _make_ranges_of_pairs(arrays)


def _find_partition_values(parts: Sequence[Part], number: int) -> KeyRanges | None:
    try:
        return make_point_ranges(pa.concat_arrays([part.partition_arrays[number][2] for part in parts]))
    except (pa.ArrowInvalid, IndexError):
        return None


def _find_first_keys(parts: Sequence[Part], key: Key) -> KeyRanges | None:
    keys = [map_primary_index(part, key).keys for part in parts]
    return _make_ranges_of_pairs([each[0] for each in keys]) if all(keys) else None


def _make_ranges_of_pairs(arrays: Sequence[pa.Array]) -> KeyRanges | None:
    """Makes ranges from the first value of each array to its last."""
    ends = np.cumsum([len(array) for array in arrays])
    try:
        joined = pa.concat_arrays(arrays)
    except pa.ArrowInvalid:  # of several types
        return None
    starts = np.concatenate(([0], ends[:-1]))
    return make_closed_ranges(joined.take(pa.array(starts)), joined.take(pa.array(ends - 1)))
