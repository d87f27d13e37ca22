"""``_row_exists``: a UInt8 column that marks the rows deleted by a lightweight DELETE.

1 for an existing row, 0 for a deleted one. A part without the column has all its rows. Readers leave deleted rows out
(:meth:`parts.read.part_reader.Part.read`), and merges do not copy them; ``Part.rows`` still counts them. A reader that
needs positions in the part asks for all rows (``with_deleted``).

``_part_offset`` is the number of a row in its part. No part stores it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.table_description import Column
from parts.types import parse_type

ROW_EXISTS = "_row_exists"
PART_OFFSET = "_part_offset"
RESERVED_COLUMN_NAMES = (BLOCK_NUMBER, ROW_EXISTS)
"""Columns that parts store besides the table's, which may not have these names."""
ROW_EXISTS_VERSION = (4, 0)
"""Format version of parts with the column: older readers would show deleted rows."""


@dataclass(frozen=True)
class _AllExist:
    """The default of parts without the column: all rows exist. Implements ``ColumnDefault``."""

    columns: Sequence[str] = ()

    def evaluate(self, _: pa.Table, rows: int) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(np.ones(rows, np.uint8))])


ROW_EXISTS_COLUMN = Column(ROW_EXISTS, parse_type("UInt8"), default=_AllExist())
PART_OFFSET_COLUMN = Column(PART_OFFSET, parse_type("UInt64"))


def get_existing_rows(exists: pa.Array) -> pa.Array | None:
    """Returns the mask of existing rows; ``None`` if all exist."""
    values = exists.to_numpy()
    return None if values.all() else pa.array(values.astype(bool))
