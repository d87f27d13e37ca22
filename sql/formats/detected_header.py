"""Detects a header in plain CSV or TabSeparated (``input_format_csv_detect_header`` and its twin).

As in ClickHouse the first row is a header if each of its fields is a column's name, or each column's name is one of its
fields. Upper and lower case differ. The row behind it tells types if each of its fields is a type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.streams.row_chunks import MAX_HEADER_BYTES


def tells_names(fields: Sequence[str], columns: Sequence[Column]) -> bool:
    """Returns whether the fields of the first row name the columns."""
    names, found = {column.name for column in columns}, set(fields)
    return found <= names or names <= found


def tells_types(fields: Sequence[str]) -> bool:
    """Returns whether each of the fields is a type."""
    try:
        for field in fields:
            parse_type(field)
    except UserError:
        return False
    return True


def peek_row(stream: BinaryIO, data: bytes, end_of: Callable[[bytes], int]) -> tuple[bytes, int]:
    """Returns ``data``, with more of the stream behind it if needed, and where its first row ends.

    ``end_of`` finds the line feed that ends it. The place is -1 if the row is longer than a header may be.
    """
    while (end := end_of(data)) < 0 and len(data) <= MAX_HEADER_BYTES:
        more = stream.read(max(1 << 16, len(data)))
        if not more:
            return data, len(data)
        data += more
    return data, end
