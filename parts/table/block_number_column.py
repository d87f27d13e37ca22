"""``_block_number``: a hidden column with the number of the block that each row was inserted in.

No INSERT names the column and no ``*`` shows it. The rows of a part of one block have its number. A merge mixes blocks:
with the table's setting ``enable_block_number_column`` it stores the column, a UInt64 like any other of the part (and
of its content hash). In a merged part without it the numbers are lost, and every row shows the part's smallest, as in
ClickHouse. A merge of such a part stores no numbers, even if the setting was enabled since. Code that needs the numbers
then learns that they are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parts.common.part_name import PartName
from parts.table.table_description import Column, TableDescription, TableSchema
from parts.types import parse_type

BLOCK_NUMBER = "_block_number"
_TYPE = parse_type("UInt64")


@dataclass(frozen=True)
class _SameNumber:
    """The default of parts without the column: one number for all rows. Implements ``ColumnDefault``."""

    number: int
    columns: Sequence[str] = ()

    def evaluate(self, _: pa.Table, rows: int) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(np.full(rows, self.number, np.uint64))])


def make_block_number_column(part: PartName | None = None) -> Column:
    """Returns the column. With ``part``, which does not store it, its default is the part's number."""
    return Column(BLOCK_NUMBER, _TYPE, default=_SameNumber(part.min_block) if part is not None else None)


def has_known_block_numbers(part: PartName, schema: TableSchema) -> bool:
    """Tells whether the number of every row of a part with this schema is known."""
    return part.min_block == part.max_block or BLOCK_NUMBER in schema


def describe_merge_result(
    description: TableDescription, sources: Iterable[tuple[PartName, TableSchema]]
) -> TableDescription:
    """Returns the description of the merged part: the stored columns, and the block number if it is kept.

    It is kept if the setting is enabled and the numbers of all source rows are known.
    """
    if not description.settings.enable_block_number_column:
        return description
    if not all(has_known_block_numbers(*source) for source in sources):
        return description
    return replace(description, schema=TableSchema((*description.schema.stored.columns, make_block_number_column())))
