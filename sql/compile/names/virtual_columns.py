"""Virtual columns: the columns that a table has beside its own.

Those of :data:`sql.compile.names.scope.VIRTUAL_COLUMNS` are read with the parts. The others are expressions, as ALIAS
columns are: constants of the table and of the query, and the values of the partition key, which all rows of a part
share.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from parts.table.part_name_columns import NAME_COLUMNS
from parts.table.row_exists_column import ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.table.row_version import ROW_VERSION_NAMES, make_row_version_columns
from parts.table.table_description import Column
from parts.types import DataType, LowCardinalityType, TupleType, UUIDType
from sql.compile.names.scope import VIRTUAL, VIRTUAL_COLUMNS
from sql.grammar.tokens import quote_string
from sql.relations import PartsRelation
from sql.typing.typed_expressions import FLOAT64, STRING, UINT64

_NAME = LowCardinalityType(STRING)
_TYPES: dict[str, DataType] = {
    **dict.fromkeys(NAME_COLUMNS, _NAME),
    ROW_EXISTS: ROW_EXISTS_COLUMN.type,
    **{column.name: column.type for column in make_row_version_columns()},
}
"""Types of virtual columns that are read; the others are UInt64."""
_MAX_FACTOR = 1e308
_NO_UUID = "00000000-0000-0000-0000-000000000000"


def virtual_columns(relation: PartsRelation, database: str, table: str, sample: Fraction | None) -> Iterator[Column]:
    """Yields a table's virtual columns; ``sample`` is the share of rows that SAMPLE leaves."""
    description = relation.description
    yield _expression_column("_table", _NAME, quote_string(table))
    yield _expression_column("_database", _NAME, quote_string(database))
    if not description.has_parts:
        return
    for name in VIRTUAL_COLUMNS:
        if name not in ROW_VERSION_NAMES or description.merge_mode.has_row_versions:
            yield Column(name, _TYPES.get(name, UINT64))
    yield _expression_column("_part_uuid", UUIDType(), f"toUUID('{_NO_UUID}')")
    factor = min(1 / sample, Fraction(_MAX_FACTOR)) if sample else 1.0
    yield _expression_column("_sample_factor", FLOAT64, f"toFloat64({float(factor)!r})")
    key = description.partition_key
    if key.expressions:
        type_ = TupleType(tuple((None, inner) for inner in key.types))
        yield _expression_column("_partition_value", type_, f"tuple({', '.join(key.expressions)})")


def _expression_column(name: str, type_: DataType, expression: str) -> Column:
    return Column(name, type_, default_kind=VIRTUAL, default_expression=expression)
