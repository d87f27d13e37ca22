"""``_part`` and ``_partition_id``: hidden columns with the names of each row's part and partition.

No part stores them, no INSERT names them and no ``*`` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from parts.common.part_name import PartName
from parts.table.table_description import Column
from parts.types import parse_type

NAME_COLUMNS = ("_part", "_partition_id")
_TYPE = parse_type("String")


@dataclass(frozen=True)
class _SameText:
    """The default of the column in one part: a text for all rows. Implements ``ColumnDefault``."""

    text: str
    columns: Sequence[str] = ()

    def evaluate(self, _: pa.Table, rows: int) -> pa.ChunkedArray:
        return pa.chunked_array([pa.repeat(pa.scalar(self.text, _TYPE.arrow), rows)])


def make_name_column(name: str, part: PartName | None = None) -> Column:
    """Returns one of the columns; with ``part``, its default is what the part's rows have."""
    if part is None:
        return Column(name, _TYPE)
    return Column(name, _TYPE, default=_SameText(str(part) if name == "_part" else part.partition_id))
