"""The sparse primary index: the sorting key at the first row of every granule and the last row.

Entry ``i`` below ``marks`` is the key of the first row of granule ``i``; the last entry is the key of the last row. So
the rows of granule ``i`` have keys between entries ``i`` and ``i + 1``, both included (equal keys may cross granules).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from parts.types import DataType


@dataclass(frozen=True, slots=True, order=True)
class MarkRange:
    """Granules ``begin`` to ``end - 1``."""

    begin: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.begin <= self.end


@dataclass(frozen=True)
class PrimaryIndex:
    """A part's primary index. ``keys[k]`` has ``marks + 1`` plain values of ``expressions[k]``.

    It contains the whole sorting key, of which the primary key is a prefix. A part without rows has no entries.
    """

    expressions: tuple[str, ...]
    types: tuple[DataType, ...]
    keys: list[pa.Array]
    rows: int
    granularity: int

    @property
    def marks(self) -> int:
        """The number of granules."""
        return count_granules(self.rows, self.granularity)

    @cached_property
    def first_key_integers(self) -> np.ndarray | None:
        """The values of the first key column if they are integers, otherwise ``None``."""
        return get_plain_integers(self.keys[0]) if self.keys else None

    def granule_rows(self, granule: int) -> int:
        """Returns the rows in a granule: the granularity, or the rest for the last one."""
        assert 0 <= granule < self.marks
        return min(self.granularity, self.rows - granule * self.granularity)


def count_granules(rows: int, granularity: int) -> int:
    """Returns the number of granules of this many rows."""
    return -(-rows // granularity)


def normalize_mark_ranges(ranges: Iterable[MarkRange] | None, marks: int) -> Sequence[MarkRange]:
    """Returns sorted, disjoint, non-empty ranges within the part; ``None`` means everything."""
    if ranges is None:
        return [MarkRange(0, marks)] if marks else []
    result: list[MarkRange] = []
    for item in sorted(ranges):
        begin, end = item.begin, min(item.end, marks)
        if result and begin <= result[-1].end:
            result[-1] = MarkRange(result[-1].begin, max(end, result[-1].end))
        elif begin < end:
            result.append(MarkRange(begin, end))
    return result


def get_plain_integers(values: pa.Array) -> np.ndarray | None:
    """Returns the integers behind integers, dates and times without a copy; ``None`` if there are NULLs."""
    type_ = values.type
    if values.null_count or not (pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_)):
        return None
    width = type_.bit_width // 8
    kind = "u" if pa.types.is_unsigned_integer(type_) else "i"
    buffer = values.buffers()[1]
    if buffer is None:
        return None
    return np.frombuffer(buffer, f"<{kind}{width}", len(values), values.offset * width)
