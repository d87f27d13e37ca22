"""Where a part has the columns of its table, whose definition may have changed since the part was written.

A column of another type than the part's is one more that the part lacks, computed from what it has
(:mod:`parts.read.missing_columns`): the stored column goes by a name there that no user can give.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column, ColumnConversion, TableSchema
from parts.types import DataType

STORED_PREFIX = "\0stored "
"""Before the name of a converted column: what the part has."""


@dataclass(frozen=True)
class ColumnMapping:
    """``positions``: the place among the part's columns of every column that can be read from it as it is.
    ``converted``: the columns that are there with another type."""

    positions: Mapping[str, int]
    converted: Mapping[str, Column]


@dataclass(frozen=True)
class _Converted:
    """Implements ``parts.table.table_description.ColumnDefault``."""

    columns: Sequence[str]
    stored_type: DataType
    version: int
    convert: ColumnConversion

    def evaluate(self, block: pa.Table, _: int) -> pa.ChunkedArray:
        return self.convert(block.column(0), self.stored_type, self.version)


@functools.lru_cache(maxsize=1024)
def map_columns(written: TableSchema, version: int, table: TableSchema | None) -> ColumnMapping:
    """``written`` under ``version`` of the table's definition; ``table`` is the definition now, if it is known."""
    positions = {column.name: position for position, column in enumerate(written.columns)}
    if table is None or table.history.version <= version:
        return ColumnMapping(positions, {})
    # What is no column of the table may be stored nevertheless (block numbers); what was one is not asked for.
    found = {name: position for name, position in positions.items() if name not in table}
    converted = {}
    for column in table.columns:
        former = table.history.get_name_in_part(version, column.name)
        if former not in positions or not column.is_stored:
            continue
        stored_type = written.columns[positions[former]].type
        if stored_type == column.type:
            found[column.name] = positions[former]
        else:
            source = STORED_PREFIX + column.name
            found[source] = positions[former]
            conversion = _Converted((source,), stored_type, version, _conversion(column))
            converted[column.name] = replace(column, default=conversion)
    return ColumnMapping(found, converted)


def _conversion(column: Column) -> ColumnConversion:
    if column.convert is None:
        raise UserError("LOGICAL_ERROR", f"Column {column.name} has no conversion from the type it was stored with")
    return column.convert
