"""The block number of every row: ``_block_number``, a column that no INSERT names and no ``*`` shows.

The rows of a part of one block have its number. A merge mixes blocks: with the table's setting
``enable_block_number_column`` it stores the column, a UInt64 like any other of the part (and of its content hash). In a
merged part without it the numbers are forgotten, and every row has the part's smallest, as in ClickHouse. What is
forgotten stays so: where the setting came later, a merge with such a part stores none, and whoever needs the numbers is
told that they are not known, and not told wrong ones.
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
    """Implements ``parts.table.table_description.ColumnDefault``."""

    number: int
    columns: Sequence[str] = ()

    def evaluate(self, _: pa.Table, rows: int) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(np.full(rows, self.number, np.uint64))])


def make_block_number_column(part: PartName | None = None) -> Column:
    """As the parts store it; with what it is in ``part``, which does not."""
    return Column(BLOCK_NUMBER, _TYPE, default=_SameNumber(part.min_block) if part is not None else None)


def has_known_block_numbers(part: PartName, schema: TableSchema) -> bool:
    """Whether the number of every row of a part with this schema is known."""
    return part.min_block == part.max_block or BLOCK_NUMBER in schema


def describe_merge_result(
    description: TableDescription, sources: Iterable[tuple[PartName, TableSchema]]
) -> TableDescription:
    """What a merge writes: the table's stored columns, and the number if it is to be kept and known of all rows."""
    if not description.settings.enable_block_number_column:
        return description
    if not all(has_known_block_numbers(*source) for source in sources):
        return description
    return replace(description, schema=TableSchema((*description.schema.stored.columns, make_block_number_column())))
