"""VersionedCollapsingMergeTree: rows of one version with opposite signs cancel in pairs, in any order.

Source: ClickHouse documentation, "VersionedCollapsingMergeTree".

The version is the last column of the sorting key, so a key has one version. A row cancels the last remaining row before
it that has the other sign, as a bracket closes the last open one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.merge.engine_columns import INT8, check_column_type, check_version_type, find_stored_column
from parts.table.merge_mode import KeyColumns, MergeMode, SortedRows
from parts.table.table_description import TableSchema
from parts.write.block_preparation import take_rows


@dataclass(frozen=True)
class VersionedCollapsing(MergeMode):
    """The mode of VersionedCollapsingMergeTree."""

    sign: str
    version: str

    @property
    def name(self) -> str:
        return "VersionedCollapsing"

    @property
    def role_columns(self) -> tuple[tuple[str, str], ...]:
        return ((self.sign, "sign"), (self.version, "version"))

    @property
    def last_key_column(self) -> str:
        return self.version

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Cancels the rows of each key in pairs."""
        starts = np.flatnonzero(rows.key_starts)
        if not len(starts):
            return rows.block
        steps = np.where(rows.block.column(self.sign).to_numpy() > 0, 1, -1).astype(np.int64)
        count = len(steps)
        sizes = np.diff(starts, append=count)
        levels = np.cumsum(steps)
        levels -= np.repeat(levels[starts] - steps[starts], sizes)
        stays = _opened_for_good(levels, steps, starts, sizes) | _opened_for_good(-levels, -steps, starts, sizes)
        return rows.block if stays.all() else take_rows(rows.block, np.flatnonzero(stays))


def _opened_for_good(levels: np.ndarray, steps: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the rows that raise the level above zero, where their key's level does not fall below again."""
    # Each key above the last one's levels: the lowest level from a row on is then that of its own key.
    above = np.repeat(np.arange(len(starts)) * (2 * len(levels) + 1), sizes)
    lowest = np.minimum.accumulate((levels + above)[::-1])[::-1] - above
    return (steps > 0) & (levels > 0) & (lowest >= levels)


def make_mode(arguments: Sequence[str], schema: TableSchema, _keys: KeyColumns) -> VersionedCollapsing:
    """Makes the mode from the sign and version columns. Raises 16 or 169."""
    sign, version = arguments
    check_column_type("VersionedCollapsingMergeTree", find_stored_column(schema, sign, "Sign"), "Sign", INT8)
    check_version_type("VersionedCollapsingMergeTree", find_stored_column(schema, version, "Version"))
    return VersionedCollapsing(sign, version)
