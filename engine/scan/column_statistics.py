"""Statistics of columns for Spark's cost-based optimizer: bounds, distinct values, NULLs.

They are computed of whole parts, once: parts never change. Distinct values are estimated from the least hashes of a
part's values, which parts can merge. Of a table that would take too much reading there are none: half of the figures
would mislead Spark more than no figures.

Spark also learns how many rows a condition leaves. That is estimated from a few granules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from engine.scan.arrow_stream import read_batches
from engine.scan.slot_planning import Chosen
from parts.common.lru_cache import LruCache
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.read.row_filters import RowFilter
from parts.table.table_description import Column
from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    IntegerType,
    LowCardinalityType,
    StringType,
    strip_nullable,
)

MOST_VALUES = 64 << 20
"""Values that one plan reads for statistics that are not known yet."""
_KEPT_HASHES = 1024
_SAMPLED_GRANULES = 16


@dataclass(frozen=True)
class PartColumn:
    """The statistics of a column in one part.

    ``hashes`` are the least ones of its distinct values, in order.
    """

    least: object
    greatest: object
    nulls: int
    hashes: np.ndarray


_known: LruCache[tuple[str, str, str], PartColumn] = LruCache(8192)


def describe_columns(parts: Sequence[Part], columns: Sequence[Column]) -> dict[str, dict[str, Any]]:
    """Returns ``distinct`` and ``nulls`` of columns, and ``min`` and ``max`` of what is no text.

    Dates are days since 1970, times microseconds, decimals texts. Columns of other types have none, nor has any column
    if more than ``MOST_VALUES`` would be read.
    """
    wanted = [column for column in columns if _is_described(column.type)]
    missing = [(part, column) for part in parts for column in wanted if _known.find(_key(part, column)) is None]
    if sum(part.rows for part, _ in missing) > MOST_VALUES or not any(part.rows for part in parts):
        return {}
    return {column.name: _merge([_of_part(part, column) for part in parts if part.rows]) for column in wanted}


def estimate_share(chosen: Chosen, columns: Sequence[Column], keep: RowFilter | None) -> float:
    """Returns the share of the chosen granules' rows for which the condition holds; never 0."""
    granules = [(part, mark) for part, ranges in chosen for item in ranges for mark in range(item.begin, item.end)]
    if keep is None or not granules:
        return 1.0
    places = sorted({len(granules) * turn // _SAMPLED_GRANULES for turn in range(_SAMPLED_GRANULES)})
    sample = [(granules[place][0], [MarkRange(granules[place][1], granules[place][1] + 1)]) for place in places]
    rows = sum(min(part.granularity, part.rows - item[0].begin * part.granularity) for part, item in sample)
    kept = sum(batch.num_rows for batch in read_batches(sample, columns[:1], keep))
    return (kept + 0.5) / (rows + 1)


def _is_described(type_: DataType) -> bool:
    type_ = _strip(type_)
    if isinstance(type_, DateTime64Type):
        return type_.unit != "ns"
    return isinstance(type_, StringType | IntegerType | DecimalType | DateType | Date32Type | DateTimeType)


def _strip(type_: DataType) -> DataType:
    type_ = strip_nullable(type_)
    return strip_nullable(type_.inner) if isinstance(type_, LowCardinalityType) else type_


def _key(part: Part, column: Column) -> tuple[str, str, str]:
    return part.content_hash, column.name, str(column.type)


def _of_part(part: Part, column: Column) -> PartColumn:
    def read() -> PartColumn:
        batches = read_batches([(part, [MarkRange(0, part.marks)])], [column])
        return reduce(_join, (_describe(batch.column(0), _strip(column.type)) for batch in batches))

    return _known.get(_key(part, column), read)


def _join(one: PartColumn, other: PartColumn) -> PartColumn:
    """Returns the statistics of both batches: one of them is in memory at a time."""
    hashes = _keep_least([one.hashes, other.hashes])
    bounds = [item for item in (one, other) if item.least is not None]
    least: Any = min((item.least for item in bounds), default=None)  # type: ignore[type-var]
    greatest: Any = max((item.greatest for item in bounds), default=None)  # type: ignore[type-var]
    return PartColumn(least, greatest, one.nulls + other.nulls, hashes)


def _describe(values: pa.Array, type_: DataType) -> PartColumn:
    distinct = pc.unique(values).drop_null()
    if pa.types.is_dictionary(distinct.type):
        distinct = distinct.cast(distinct.type.value_type)
    hashes = _keep_least([pl.Series(pl.from_arrow(distinct)).hash().to_numpy()])
    if isinstance(type_, StringType) or not len(distinct):
        return PartColumn(None, None, values.null_count, hashes)
    bounds = pc.min_max(distinct)
    return PartColumn(_to_number(bounds["min"], type_), _to_number(bounds["max"], type_), values.null_count, hashes)


def _to_number(value: pa.Scalar, type_: DataType) -> object:
    if isinstance(type_, DateType | Date32Type):
        return value.cast(pa.int32()).as_py() if not pa.types.is_integer(value.type) else value.as_py()
    if isinstance(type_, DateTimeType | DateTime64Type):
        return value.cast(pa.timestamp("us")).cast(pa.int64()).as_py()
    return value.as_py()


def _merge(found: Sequence[PartColumn]) -> dict[str, Any]:
    whole = reduce(_join, found)
    merged: dict[str, Any] = {"distinct": _estimate_distinct(whole.hashes), "nulls": whole.nulls}
    if whole.least is not None:
        merged |= {"min": str(whole.least), "max": str(whole.greatest)}
    return merged


def _keep_least(hashes: Sequence[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(hashes))[:_KEPT_HASHES]


def _estimate_distinct(least: np.ndarray) -> int:
    """Returns the number of distinct hashes: exact if all are there, else from how dense the least ones lie."""
    if len(least) < _KEPT_HASHES:
        return len(least)
    return round((_KEPT_HASHES - 1) / (int(least[-1]) / 2**64))
