"""Choose how many rows a part's granules have: ``index_granularity``, or fewer if rows are long.

A part has one granularity, for all its granules but the last (ClickHouse's ``use_const_adaptive_granularity``). With n
bytes in memory it has at least n / ``index_granularity_bytes`` granules. The bytes are those of ClickHouse's columns
and depend only on the rows, so replicas divide a part alike. For nested values they differ slightly from ClickHouse's.
"""

from __future__ import annotations

from parts.table.table_description import PartSettings, TableSchema
from parts.types import (
    ArrayType,
    DataType,
    DateTimeType,
    DateType,
    DecimalType,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
)

_SHORT_DECIMAL = 9


def choose_granularity(
    settings: PartSettings, schema: TableSchema, rows: int, uncompressed_bytes: int, window_bytes: int
) -> int:
    """Returns the granularity of a part with these rows and uncompressed bytes (``count_content_bytes``).

    Whatever the settings, a granule of average rows does not exceed a window, which is never divided. A granule of 8192
    rows of 300 KB would exceed a string array.
    """
    granularity = settings.index_granularity
    if not rows:
        return granularity
    limit = settings.index_granularity_bytes
    size = uncompressed_bytes + rows * sum(_more_in_memory(column.type) for column in schema.columns)
    if limit and size >= limit:
        granularity = min(granularity, rows // (size // limit))
    if uncompressed_bytes > window_bytes:
        granularity = min(granularity, rows * window_bytes // uncompressed_bytes)
    return max(1, granularity)


def _more_in_memory(type_: DataType) -> int:
    """Returns how many bytes a value of ClickHouse's column has beyond those of ``count_content_bytes``."""
    match type_:
        case NullableType(inner):
            return 1 + _more_in_memory(inner)
        case TupleType():
            return sum(_more_in_memory(inner) for _, inner in type_.elements)
        case StringType() | ArrayType() | MapType():
            return 4
        case LowCardinalityType():
            return -3
        case DateType():
            return -2
        case DateTimeType():
            return -4
        case DecimalType() if type_.precision <= _SHORT_DECIMAL:
            return -4
    return 0
