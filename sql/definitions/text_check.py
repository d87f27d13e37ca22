"""Checks that texts to be stored are valid UTF-8."""

from __future__ import annotations

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import StringType, strip_nullable
from sql.grammar.text_escapes import is_valid_utf8


def check_text(values: pa.ChunkedArray, column: Column, first_row: int) -> None:
    """Raises 117 for a String that is not UTF-8, naming column and row."""
    if not isinstance(strip_nullable(column.type), StringType):
        return
    row = first_row
    for chunk in values.chunks:
        texts = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
        if not is_valid_utf8(texts):
            decoded = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
            for index, value in enumerate(decoded.cast(pa.binary()).to_pylist()):
                if value is not None and not _is_utf8(value):
                    raise UserError(
                        "INCORRECT_DATA",
                        f"Invalid UTF-8 in column {column.name} at row {row + index}: {value[:40]!r}: "
                        "String columns hold valid UTF-8",
                    )
        row += len(chunk)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
