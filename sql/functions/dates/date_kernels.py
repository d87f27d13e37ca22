"""Scan kernels that add units to dates and times.

Days and seconds are numbers that wrap around; months use tables of days (``sql.typing.times.day_tables``).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DateTimeType, DateType, IntegerType
from sql.typing.column_kernels.kernels import fixed_width_values, validity_buffer
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.sql_fragments import Fragment
from sql.typing.times import day_tables
from sql.typing.typed_expressions import Typed

_DAY_MASK, _SECOND_MASK = 65535, 4294967295
_DAY_SECONDS = 86400
_SECONDS = {"Second": 1, "Minute": 60, "Hour": 3600, "Day": _DAY_SECONDS, "Week": 7 * _DAY_SECONDS}
_MONTHS = {"Month": 1, "Quarter": 3, "Year": 12}
_MAX_UNITS = 100_000
"""Largest number of units: all 16-bit numbers are below it, and DuckDB can add as many without an error."""


def add_units_in_scan(sql: Fragment, value: Typed, count: Typed, unit: str, sign: int, result: Typed) -> Fragment:
    """Adds a scan kernel to ``sql``, which adds units to a Date or a DateTime in UTC."""
    known = count.value if count.is_literal else None
    if count.is_literal:
        if type(known) is not int or abs(known) > _MAX_UNITS:
            return sql
    elif not isinstance(count.type, IntegerType) or count.type.bits > 16:
        return sql
    if not isinstance(value.type, (DateType, DateTimeType)) or type(result.type) is not type(value.type):
        return sql
    if unit in _SECONDS:
        step = sign * _SECONDS[unit]
        compute = partial(_add_seconds, step if isinstance(value.type, DateTimeType) else step // _DAY_SECONDS, known)
    elif unit in _MONTHS:
        compute = partial(_add_months, sign * _MONTHS[unit], known)
    else:
        return sql
    type_ = pa.date32() if isinstance(value.type, DateType) else pa.timestamp("us")
    columns = () if count.is_literal else (count.sql,)
    return Scannable(sql, (value.sql, *columns), compute, type_)


def _add_seconds(step: int, count: int | None, times: pa.Array, *counts: pa.Array) -> pa.Array:
    """Adds seconds to times, or days to dates."""
    moments = _to_numbers(times) + step * _unit_counts(count, counts)
    return _build_column(moments & (_DAY_MASK if pa.types.is_date32(times.type) else _SECOND_MASK), times, counts)


def _add_months(step: int, count: int | None, times: pa.Array, *counts: pa.Array) -> pa.Array:
    moments, is_date = _to_numbers(times), pa.types.is_date32(times.type)
    days = moments if is_date else moments // _DAY_SECONDS
    there = day_tables.add_months(days, step * _unit_counts(count, counts))
    if not is_date:
        there = there * _DAY_SECONDS + (moments - days * _DAY_SECONDS)
    mask = _DAY_MASK if is_date else _SECOND_MASK
    return _build_column(np.where(there < 0, 0, there & mask), times, counts)


def _unit_counts(count: int | None, counts: tuple[pa.Array, ...]) -> np.ndarray | int:
    return np.asarray(counts[0].fill_null(0)).astype(np.int64) if count is None else count


def _to_numbers(times: pa.Array) -> np.ndarray:
    """Returns dates as days and times as seconds."""
    if pa.types.is_date32(times.type):
        return fixed_width_values(times, np.int32).astype(np.int64)
    return fixed_width_values(pc.cast(times, pa.timestamp("s"), safe=False), np.int64)


def _build_column(moments: np.ndarray, times: pa.Array, counts: tuple[pa.Array, ...]) -> pa.Array:
    known = [np.asarray(pc.is_valid(array)) for array in (times, *counts) if array.null_count]
    nulls = validity_buffer(np.logical_and.reduce(known)) if known else None
    is_date = pa.types.is_date32(times.type)
    values = moments.astype(np.int32) if is_date else moments * 1_000_000
    type_ = pa.date32() if is_date else pa.timestamp("us")
    return pa.Array.from_buffers(type_, len(values), [nulls, pa.py_buffer(values)])
