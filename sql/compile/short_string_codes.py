"""Codes of short strings: DuckDB groups and counts integers several times as fast as strings.

The code of a string of at most 7 bytes is a UInt64: its bytes from the highest byte down, then zeros, and its length in
the lowest byte. Different strings have different codes, in the same order. A longer string has none, and a scan that
meets one ends with ``LongStringError``; nearly always in its first rows, which are read before all else.

Codes are used for keys of GROUP BY and arguments of distinct counts that are columns of the one table which the
outermost SELECT reads. Such a query returns nothing before all rows are read, so one that meets a long string is
started again without codes (``sql.run.query_engine``).

Invariant: the code of the column ``"<n>.c"`` has the name ``"<n>#c"``, which nothing else in a statement has.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parts.types import StringType, strip_nullable
from sql.compile.compiled_query import Scan
from sql.grammar.syntax_tree import NamedTable, Select
from sql.typing.duckdb.sql_fragments import Fragment, fragment, leaf
from sql.typing.typed_expressions import column_label, quote_identifier

FIRST_ROWS = 8192
"""The number of first rows that show whether a column has codes."""
_MAX_BYTES = 7
_ROWS_AT_ONCE = 16_384
_MASKS = np.array([(1 << 64) - (1 << (8 * (8 - length))) for length in range(_MAX_BYTES + 1)], np.uint64)


class LongStringError(Exception):
    """A string is too long for a code."""


# Values ---------------------------------------------------------------------------------------------------------------


def encode_strings(array: pa.Array) -> pa.Array:
    """Returns the codes (uint64, NULL for NULL) of an array or dictionary of strings.

    Raises LongStringError.
    """
    if pa.types.is_dictionary(array.type):
        return encode_strings(array.dictionary).take(array.indices)
    if not len(array):
        return pa.array([], pa.uint64())
    array = array.cast(pa.string())
    rows = len(array)
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, rows + 1, array.offset * 4)
    begin, end = int(offsets[0]), int(offsets[-1])
    if begin == end:
        numbers = np.zeros(rows, np.uint64)
    else:
        numbers = _compute_codes(np.frombuffer(data, np.uint8, end - begin, begin), offsets)
    return pa.array(numbers, mask=array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None)


def _compute_codes(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns the codes of texts given by bytes and offsets. Raises LongStringError."""
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    if longest > _MAX_BYTES:
        raise LongStringError
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    if longest == int(lengths.min()):  # rows of equal size need no gathering
        numbers = np.ndarray(len(lengths), ">u8", padded, 0, (longest,)).astype(np.uint64)
        numbers &= _MASKS[longest]
        numbers |= np.uint64(longest)
        return numbers
    numbers = np.empty(len(lengths), np.uint64)
    for first in range(0, len(lengths), _ROWS_AT_ONCE):  # small arrays stay in the processor's cache: twice as fast
        some = lengths[first : first + _ROWS_AT_ONCE]
        begins = offsets[first : first + len(some)]
        begin = int(begins[0] - offsets[0])
        unaligned = np.ndarray(int(begins[-1] - begins[0]) + 1, ">u8", padded, begin, (1,))
        found = unaligned.take(begins - begins[0], mode="clip").byteswap(inplace=True).view(np.uint64)
        found &= _MASKS.take(some, mode="clip")
        found |= some.view(np.uint32)
        numbers[first : first + len(some)] = found
    return numbers


def decode_string(code: Fragment) -> Fragment:
    """Returns the SQL of the string with a code."""
    return fragment("decode((CAST(CAST({code} AS BIT) AS BLOB))[1:CAST({code} & 255 AS BIGINT)])", code=code)


# Columns --------------------------------------------------------------------------------------------------------------


def code_column_name(number: int, name: str) -> str:
    """Returns the name of the code of a column of scan ``number``."""
    return column_label(number, name).replace(".", "#", 1)


class ShortStrings:
    """The columns of one statement that have codes; none before ``begin``."""

    def __init__(self) -> None:
        self._columns: dict[Fragment, tuple[Scan, str]] = {}

    def begin(self, select: Select, scans: list[Scan]) -> None:
        """Allows codes for string columns of ``scans``, if the outermost SELECT groups one table."""
        if len(scans) != 1 or not isinstance(select.source, NamedTable) or select.grouping in ("ROLLUP", "CUBE"):
            return
        (scan,) = scans
        for name, column in scan.source.columns.items():
            if isinstance(strip_nullable(column.type), StringType):
                self._columns[column.sql] = (scan, name)

    def code(self, sql: Fragment) -> Fragment | None:
        """Returns the code of a column, which its scan returns from now on; ``None`` for anything else."""
        scan, name = self._columns.get(sql, (None, ""))
        if scan is None:
            return None
        scan.coded[name] = None
        return leaf(quote_identifier(code_column_name(scan.source.number, name)))


def drop_encoded_strings(scan: Scan, sql: Fragment) -> None:
    """Stops a scan from returning strings that the statement reads only as codes."""
    read = {node for node in sql.nodes() if not node.parts} if scan.coded else set()
    for name in scan.coded:
        if scan.source.columns[name].sql not in read:
            scan.source.used.pop(name, None)
