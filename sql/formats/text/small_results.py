"""Renders a few plain values without Arrow's kernels, whose calls would take longer than the work.

It handles integers, dates and strings that are UTF-8. ``sql.formats.converters.text_rendering`` renders everything
else, and larger results, byte for byte the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from parts.types import DataType, Date32Type, DateType, IntegerType, StringType, strip_nullable
from sql.formats.format_options import FormatOptions
from sql.grammar.text_escapes import TSV_ESCAPES

MOST_TSV_ROWS, MOST_JSON_ROWS = 32, 64
_MOST_BYTES = 64 << 10
Texts = list[str | None]
_TSV_SPECIAL = re.compile("[" + re.escape("".join(TSV_ESCAPES)) + "]")
_TSV_TABLE = str.maketrans(TSV_ESCAPES)
_JSON_SPECIAL = re.compile(r'[\x00-\x1f"\\/\u2028\u2029]')


def is_small_result(batch: pa.RecordBatch, most_rows: int) -> bool:
    """Returns whether the batch has few rows and bytes."""
    return batch.num_rows <= most_rows and batch.nbytes <= _MOST_BYTES


def write_small_tsv(array: pa.Array, type_: DataType, raw: bool) -> list[str] | None:
    """Renders values as TabSeparated does; ``None`` for values that are not plain."""
    found = _plain_values(array, type_)
    if found is None:
        return None
    values, kind = found
    if kind is str and not raw:
        values = [
            value.translate(_TSV_TABLE) if value is not None and _TSV_SPECIAL.search(value) else value
            for value in values
        ]
    return ["\\N" if value is None else value for value in values] if array.null_count else values  # type: ignore[return-value]


def write_small_json(array: pa.Array, type_: DataType, options: FormatOptions) -> list[str] | None:
    """Renders values as JSON formats do; ``None`` for values that are not plain."""
    found = _plain_values(array, type_)
    if found is None:
        return None
    values, kind = found
    if kind is str and any(value is not None and _JSON_SPECIAL.search(value) for value in values):
        return None
    quoted = kind is not int or (options.quote_64bit_integers and strip_nullable(type_).bits == 64)  # type: ignore[attr-defined]
    if quoted:
        return ["null" if value is None else f'"{value}"' for value in values]
    return ["null" if value is None else value for value in values]


def _plain_values(array: pa.Array, type_: DataType) -> tuple[Texts, type] | None:
    """Returns the plain texts, and ``int`` for numbers, ``str`` for strings, or ``object``."""
    kind = _KINDS.get(type(strip_nullable(type_)))
    if kind is None:
        return None
    try:
        values = array.to_pylist()
    except (UnicodeDecodeError, OverflowError, ValueError):  # bytes that are not UTF-8, days beyond Python's years
        return None
    if kind is str:
        return values, kind
    write: Callable[[object], str] = str
    return [None if value is None else write(value) for value in values], kind


_KINDS: dict[type, type] = {IntegerType: int, StringType: str, DateType: object, Date32Type: object}
