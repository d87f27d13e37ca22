"""ReplacingMergeTree: one row of a key stays, the last inserted one of the greatest version.

Source: ClickHouse documentation, "ReplacingMergeTree".

With an ``is_deleted`` column the row that stays may mark its key as deleted. Merges keep it, because an older version
may still come. FINAL leaves it out, and so does the merge of a whole partition by OPTIMIZE … CLEANUP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.blocks.sort_order import encode_keys
from parts.common.errors import UserError
from parts.merge.engine_columns import UINT8, check_column_type, check_version_type, find_stored_column
from parts.table.merge_mode import KeyColumns, MergeMode, SortedRows
from parts.table.table_description import TableSchema
from parts.write.block_preparation import take_rows


@dataclass(frozen=True)
class Replacing(MergeMode):
    """The mode of ReplacingMergeTree. ``version`` and ``is_deleted`` are columns or ``""``."""

    version: str = ""
    is_deleted: str = ""
    leaves_out_deleted: bool = False

    @property
    def name(self) -> str:
        return "Replacing"

    @property
    def role_columns(self) -> tuple[tuple[str, str], ...]:
        found = ((self.version, "version"), (self.is_deleted, "is_deleted"))
        return tuple(role for role in found if role[0])

    @property
    def is_final_when_merged(self) -> bool:
        return not self.is_deleted

    def for_final(self) -> Replacing:
        """Returns the mode that leaves out deleted rows."""
        return replace(self, leaves_out_deleted=bool(self.is_deleted))

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Keeps one row of each key."""
        starts = np.flatnonzero(rows.key_starts)
        if not len(starts):
            return rows.block
        stays = self._last_of_each(rows.block, starts)
        if self.leaves_out_deleted:
            deleted = rows.block.column(self.is_deleted).to_numpy()
            stays = stays[deleted[stays] == 0]
        return rows.block if len(stays) == rows.block.num_rows else take_rows(rows.block, stays)

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Reduces a key. A deleted row replaces all older ones of its key and is removed at the end."""
        for block in MergeMode.reduce_one_key(replace(self, leaves_out_deleted=False), blocks):
            yield block.filter(pc.equal(block.column(self.is_deleted), 0)) if self.leaves_out_deleted else block

    def _last_of_each(self, block: pa.Table, starts: np.ndarray) -> np.ndarray:
        """Returns the row that stays for each key."""
        rows = block.num_rows
        if not self.version or len(starts) == rows:
            return np.append(starts[1:], rows) - 1
        versions = encode_keys([block.column(self.version)], rows)[0].codes
        sizes = np.diff(starts, append=rows)
        greatest = np.repeat(np.maximum.reduceat(versions, starts), sizes)
        places = np.where(versions == greatest, np.arange(rows), -1)
        return np.maximum.reduceat(places, starts)


def make_mode(arguments: Sequence[str], schema: TableSchema, _keys: KeyColumns) -> Replacing:
    """Makes the mode from the version and is_deleted columns. Raises 16, 36 or 169."""
    version, is_deleted = (*arguments, "", "")[:2]
    if version:
        check_version_type("ReplacingMergeTree", find_stored_column(schema, version, "Version"))
    if is_deleted:
        check_column_type(
            "ReplacingMergeTree", find_stored_column(schema, is_deleted, "is_deleted"), "is_deleted", UINT8
        )
        if is_deleted == version:
            message = f"The version and is_deleted column cannot be the same column ({version})"
            raise UserError("BAD_ARGUMENTS", message)
    return Replacing(version, is_deleted)
