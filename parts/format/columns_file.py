"""Contents of a part's small files: ``columns``, numbers, and the values of ``minmax``.

``columns`` is JSON: ``{"version", "granularity", "columns": [[name, type, codec], …], "sorting_key": [text, …]}``.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import CorruptionError, PandoError
from parts.format.array_file import to_plain_array
from parts.format.file_names import COLUMNS, FIRST_VERSION
from parts.table.table_description import Column, TableSchema
from parts.types import DataType, parse_type, strip_low_cardinality


@dataclass(frozen=True)
class ColumnsFile:
    """The content of ``columns``."""

    schema: TableSchema
    granularity: int
    sorting_key: tuple[str, ...]

    @functools.lru_cache(maxsize=1024)  # noqa: B019 (small and equal for all parts of a table)
    def encode(self) -> bytes:
        """Returns the file's bytes."""
        return _encode_columns(self)

    @classmethod
    def decode(cls, data: bytes, part: str) -> ColumnsFile:
        """Parses the file. Raises ``CorruptionError``."""
        try:
            return _decode_columns(data)
        except (ValueError, KeyError, TypeError, PandoError) as error:
            message = f"Columns cannot be read ({error})"
            raise CorruptionError(message, part=part, file=COLUMNS, offset=0, name="CORRUPTED_DATA") from error


@functools.lru_cache(maxsize=1024)
def _encode_columns(columns: ColumnsFile) -> bytes:
    """Encodes once for all parts that a table has until it is altered, as :func:`_decode_columns`."""
    body = {
        "version": FIRST_VERSION[0],
        "granularity": columns.granularity,
        "columns": [[column.name, column.type.name, column.codec] for column in columns.schema.columns],
        "sorting_key": list(columns.sorting_key),
    }
    return json.dumps(body, ensure_ascii=False).encode()


@functools.lru_cache(maxsize=1024)
def _decode_columns(data: bytes) -> ColumnsFile:
    body = json.loads(data)
    columns = tuple(Column(name, parse_type(type_), codec) for name, type_, codec in body["columns"])
    return ColumnsFile(TableSchema(columns), int(body["granularity"]), tuple(body["sorting_key"]))


def decode_number(data: bytes, part: str, file: str) -> int:
    """Parses a decimal number. Raises ``CorruptionError``."""
    if not data.isdigit():
        raise CorruptionError("Not a number", part=part, file=file, offset=0, name="CORRUPTED_DATA")
    return int(data)


class MinMaxCollector:
    """Smallest and largest value of some columns over blocks, without NULL and NaN; ``None`` for no value."""

    def __init__(self, schema: TableSchema, columns: Sequence[str]) -> None:
        self._columns = [schema.column(name) for name in columns]
        self._seen: dict[str, list[pa.Array]] = {name: [] for name in columns}

    def update(self, block: pa.Table) -> None:
        """Adds the rows of a block."""
        for column in self._columns:
            self._seen[column.name].append(_extremes(block.column(column.name), column))
            if len(self._seen[column.name]) > 64:
                self._shrink(column)

    def to_named_arrays(self) -> list[tuple[str, DataType, pa.Array]]:
        """Returns (name, type, [min, max]) for ``encode_named_arrays``."""
        for column in self._columns:
            self._shrink(column)
        return [(column.name, column.type, self._seen[column.name][0]) for column in self._columns]

    def _shrink(self, column: Column) -> None:
        joined = pa.chunked_array(self._seen[column.name], strip_low_cardinality(column.type).arrow)
        self._seen[column.name] = [_extremes(joined, column)]


def _extremes(values: pa.ChunkedArray, column: Column) -> pa.Array:
    array = to_plain_array(values, column.type)
    if pa.types.is_floating(array.type):
        array = array.filter(pc.invert(pc.is_nan(array)))
    if pa.types.is_nested(array.type):
        return pa.nulls(2, array.type)
    if pa.types.is_fixed_size_binary(array.type):
        bounds = pc.min_max(array.cast(pa.binary()))
        return pa.array([bounds["min"].as_py(), bounds["max"].as_py()], array.type)
    bounds = pc.min_max(array)
    return pa.array([bounds["min"], bounds["max"]], array.type)


def to_python_value(scalar: pa.Scalar, *, upper: bool = False) -> object:
    """Returns the Python value. Nanoseconds are rounded to microseconds: down, or with ``upper`` up."""
    if scalar.is_valid and isinstance(scalar, pa.TimestampScalar) and scalar.type.unit == "ns":
        micros = -(-int(scalar.value) // 1000) if upper else int(scalar.value) // 1000
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(np.int64(micros)))
    return scalar.as_py()
