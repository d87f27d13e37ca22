"""Filters that find the wanted rows of a batch by some of its columns, before the others are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from parts.table.row_exists_column import ROW_EXISTS

ReadValues = Callable[[str], pa.Array]
"""Returns the values of a column."""


class RowFilter(Protocol):
    """Finds rows of a batch. It may be used by many threads at once."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""

    @property
    def is_exact(self) -> bool:
        """Whether all rows that it does not find are left out; otherwise they may be given."""

    def match_rows(self, read: ReadValues, rows: int) -> np.ndarray:
        """Returns a mask of ``rows`` rows."""


@dataclass(frozen=True)
class AllOf:
    """Finds the rows that all filters find. Each sees only those that the former ones have found."""

    filters: Sequence[RowFilter]
    is_exact: bool = True

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the filters read."""
        return frozenset().union(*(each.columns for each in self.filters))

    def match_rows(self, read: ReadValues, rows: int) -> np.ndarray:
        """Returns a mask of ``rows`` rows."""
        mask = np.ones(rows, bool)
        for each in self.filters:
            left = np.flatnonzero(mask)
            if not len(left):
                break
            mask[left] = each.match_rows(read if len(left) == rows else _take(read, pa.array(left)), len(left))
        return mask


def _take(read: ReadValues, chosen: pa.Array) -> ReadValues:
    return lambda name: read(name).take(chosen)


@dataclass(frozen=True)
class ExistingRows:
    """Finds the rows that no lightweight DELETE has deleted."""

    columns: frozenset[str] = frozenset({ROW_EXISTS})
    is_exact: bool = True

    def match_rows(self, read: ReadValues, rows: int) -> np.ndarray:
        """Returns a mask of ``rows`` rows."""
        mask: np.ndarray = read(ROW_EXISTS).to_numpy().astype(bool)
        return mask


def filter_batches(
    batches: Iterator[pa.RecordBatch], test: RowFilter, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields of each batch the rows that pass the test, with only the columns ``names``."""
    for batch in batches:
        mask = test.match_rows(batch.column, batch.num_rows)
        yield batch.select(list(names)).filter(pa.array(mask))
