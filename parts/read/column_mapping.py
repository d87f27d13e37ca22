"""Map a part's columns to those of its table, whose definition may have changed since.

A column whose type has changed is treated as missing and computed from the stored one
(:mod:`parts.read.missing_columns`). The stored column then has a name that no user can give.
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
"""Prefix of the name of a column that must be converted, as the part stores it."""


@dataclass(frozen=True)
class ColumnMapping:
    """The columns of a part as its table reads them.

    ``positions``: the position in the part of every column that can be read as it is. ``converted``: the columns that
    are stored with another type.
    """

    positions: Mapping[str, int]
    converted: Mapping[str, Column]


@dataclass(frozen=True)
class _Converted:
    """Computes a column from the stored one of another type. Implements ``ColumnDefault``."""

    columns: Sequence[str]
    stored_type: DataType
    version: int
    convert: ColumnConversion

    def evaluate(self, block: pa.Table, _: int) -> pa.ChunkedArray:
        return self.convert(block.column(0), self.stored_type, self.version)


@functools.lru_cache(maxsize=1024)
def map_columns(written: TableSchema, version: int, table: TableSchema | None) -> ColumnMapping:
    """Maps the columns ``written`` under ``version`` of the definition to the current one, ``table``.

    ``table`` is ``None`` if unknown.
    """
    positions = {column.name: position for position, column in enumerate(written.columns)}
    if table is None or table.history.version <= version:
        return ColumnMapping(positions, {})
    # Columns that are not the table's may be read too (block numbers); dropped ones are never read.
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
