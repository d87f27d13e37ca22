"""CollapsingMergeTree: rows of one key with opposite signs cancel.

A key keeps its last row of sign 1, its first of sign -1, both or none. Source: ClickHouse documentation,
"CollapsingMergeTree".

If one sign is more frequent, a row of it stays. If both are equally frequent and the last row has sign 1, the first of
sign -1 and the last of sign 1 stay. FINAL returns no row of sign -1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import concat_blocks
from parts.common.errors import UserError
from parts.merge.engine_columns import INT8, check_column_type, find_stored_column
from parts.table.merge_mode import KeyColumns, MergeMode, SortedRows
from parts.table.table_description import TableSchema
from parts.write.block_preparation import take_rows


@dataclass(frozen=True)
class Collapsing(MergeMode):
    """The mode of CollapsingMergeTree."""

    sign: str
    leaves_out_negative: bool = False

    @property
    def name(self) -> str:
        return "Collapsing"

    @property
    def role_columns(self) -> tuple[tuple[str, str], ...]:
        return ((self.sign, "sign"),)

    @property
    def is_final_when_merged(self) -> bool:
        return False

    def for_final(self) -> Collapsing:
        """Returns the mode without rows of sign -1."""
        return replace(self, leaves_out_negative=True)

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Cancels the rows of each key."""
        starts = np.flatnonzero(rows.key_starts)
        if not len(starts):
            return rows.block
        signs = _signs(rows.block, self.sign)
        places = np.arange(len(signs))
        ends = np.append(starts[1:], len(signs)) - 1
        positives = np.add.reduceat((signs > 0).astype(np.int64), starts)
        negatives = ends - starts + 1 - positives
        first_negative = np.minimum.reduceat(np.where(signs < 0, places, len(signs)), starts)
        last_positive = np.maximum.reduceat(np.where(signs > 0, places, -1), starts)
        keeps_negative, keeps_positive = self._kept(positives, negatives, signs[ends] > 0)
        stays = np.sort(np.concatenate([first_negative[keeps_negative], last_positive[keeps_positive]]))
        return rows.block if len(stays) == len(signs) else take_rows(rows.block, stays)

    def _kept(
        self, positives: np.ndarray, negatives: np.ndarray, ends_positive: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns for which keys the first negative and the last positive row stay."""
        is_left = ends_positive | (positives != negatives)
        keeps_negative = is_left & (positives <= negatives) & (not self.leaves_out_negative)
        return keeps_negative, is_left & (positives >= negatives)

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Cancels the rows of one key by counting both signs."""
        positives = negatives = 0
        ends_positive = False
        first_negative: pa.Table | None = None
        last_positive: pa.Table | None = None
        for block in blocks:
            if not block.num_rows:
                continue
            signs = _signs(block, self.sign)
            with_one = np.flatnonzero(signs > 0)
            positives += len(with_one)
            negatives += len(signs) - len(with_one)
            ends_positive = bool(signs[-1] > 0)
            if first_negative is None and len(with_one) < len(signs):
                first_negative = take_rows(block, np.flatnonzero(signs < 0)[:1])
            if len(with_one):
                last_positive = take_rows(block, with_one[-1:])
        if not positives + negatives:
            return
        counts = (np.array([positives]), np.array([negatives]), np.array([ends_positive]))
        (keeps_negative,), (keeps_positive,) = self._kept(*counts)
        kept = [row for row, is_kept in ((first_negative, keeps_negative), (last_positive, keeps_positive)) if is_kept]
        if found := [row for row in kept if row is not None]:
            yield concat_blocks(found)


def _signs(block: pa.Table, name: str) -> np.ndarray:
    """Returns the signs. Raises 117 (INCORRECT_DATA) for a value other than 1 and -1."""
    signs = block.column(name).to_numpy()
    wrong = (signs != 1) & (signs != -1)
    if wrong.any():
        raise UserError("INCORRECT_DATA", f"Incorrect data: Sign = {signs[wrong][0]} (must be 1 or -1).")
    return signs


def make_mode(arguments: Sequence[str], schema: TableSchema, _keys: KeyColumns) -> Collapsing:
    """Makes the mode from the sign column. Raises 16 or 169."""
    check_column_type("CollapsingMergeTree", find_stored_column(schema, arguments[0], "Sign"), "Sign", INT8)
    return Collapsing(arguments[0])
