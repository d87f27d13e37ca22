"""Which rows of a part are left: ``_row_exists``, a UInt8 column of parts of which a lightweight DELETE took rows.

1 for a row that is there, 0 for one that is gone. A part without it has all its rows. Readers leave out the rows that
are gone (:meth:`parts.read.part_reader.Part.read`), merges do not copy them; ``Part.rows`` counts them still. Where
positions in the part matter, a reader asks for all rows (``with_deleted``).

``_part_offset`` is the number of a row in its part, which no part stores.
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
"""What parts store beside the columns of a table, which may have none of these names."""
ROW_EXISTS_VERSION = (4, 0)
"""Older readers would show the rows that are gone."""


@dataclass(frozen=True)
class _AllExist:
    """Implements ``parts.table.table_description.ColumnDefault``."""

    columns: Sequence[str] = ()

    def evaluate(self, _: pa.Table, rows: int) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(np.ones(rows, np.uint8))])


ROW_EXISTS_COLUMN = Column(ROW_EXISTS, parse_type("UInt8"), default=_AllExist())
PART_OFFSET_COLUMN = Column(PART_OFFSET, parse_type("UInt64"))


def get_existing_rows(exists: pa.Array) -> pa.Array | None:
    """The rows that are there, as a mask; ``None`` for all."""
    values = exists.to_numpy()
    return None if values.all() else pa.array(values.astype(bool))
