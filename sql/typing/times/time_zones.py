"""Conversions between UTC instants and wall clocks, as DuckDB expressions."""

from __future__ import annotations

import datetime
from functools import cache, partial
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import Date32Type, DateType, strip_nullable
from sql.typing.column_kernels.kernels import fixed_width_column, fixed_width_values
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.times.date_ranges import clamp_date
from sql.typing.times.zone_offset_tables import register_zone, utc_to_wall_clock, wall_clock_to_utc
from sql.typing.typed_expressions import Typed

SERVER_ZONE = "UTC"
DAY_MICROS = 86400 * 1_000_000
_LAST_DAY = 65535
_THURSDAY = 3
"""The epoch's day of the week, counted from Monday as 0."""


def wall_clock(value: Typed, zone: str) -> Fragment:
    """Returns the wall clock of a date or time as TIMESTAMP.

    The zone is the type's own, or ``zone`` if the type names none.
    """
    type_ = strip_nullable(value.type)
    if isinstance(type_, (DateType, Date32Type)):
        return fragment("CAST({} AS TIMESTAMP)", value.sql)
    name = type_.timezone or zone  # type: ignore[attr-defined]
    return utc_to_zone(value.sql, name)


def utc_to_zone(sql: Fragment, zone: str) -> Fragment:
    """Converts a UTC instant to the wall clock of ``zone``."""
    if zone in ("UTC", "Etc/UTC", "GMT"):
        return sql
    moved = fragment("pando_to_zone({}, CAST({} AS TIMESTAMP))", register_zone(zone), sql)
    return Scannable(moved, sql, partial(utc_to_wall_clock, zone), pa.timestamp("us"))


def zone_to_utc(sql: Fragment, zone: str) -> Fragment:
    """Converts the wall clock of ``zone`` to a UTC instant."""
    if zone in ("UTC", "Etc/UTC", "GMT"):
        return sql
    moved = fragment("pando_from_zone({}, CAST({} AS TIMESTAMP))", register_zone(zone), sql)
    return Scannable(moved, sql, partial(wall_clock_to_utc, zone), pa.timestamp("us"))


def day_from_zone(sql: Fragment, zone: str) -> Fragment:
    """Converts a midnight in ``zone`` to the UTC instant when that day begins."""
    if zone in ("UTC", "Etc/UTC", "GMT"):
        return sql
    moved = fragment("pando_from_zone_day({}, CAST({} AS TIMESTAMP))", register_zone(zone), sql)
    return Scannable(moved, sql, partial(wall_clock_to_utc, zone, of_days=True), pa.timestamp("us"))


def from_zone_as_utc(sql: Fragment, zone: str) -> Fragment:
    """Converts a wall clock with the offset that the zone has when a UTC clock shows the same."""
    if zone in ("UTC", "Etc/UTC", "GMT"):
        return sql
    return fragment("pando_from_zone_as_utc({}, CAST({} AS TIMESTAMP))", register_zone(zone), sql)


def zone_epoch_offset(zone: str) -> int:
    """Returns the zone's offset from UTC at the epoch, in seconds."""
    shift = datetime.datetime.fromtimestamp(0, ZoneInfo(zone)).utcoffset() or datetime.timedelta()
    return int(shift.total_seconds())


def start_of_clock(time: Fragment, width: int, period: int = DAY_MICROS) -> Fragment:
    """Floors a time to a multiple of ``width`` within its ``period``, both in microseconds."""
    sql = fragment("pando_start_of_clock({}, {}, {})", time, period, width)
    if width == period == DAY_MICROS:
        sql = fragment("date_trunc('day', {})", time)
    if not isinstance(time, Scannable):  # DuckDB is as fast as a scan
        return sql
    return Scannable(sql, time, partial(_floor_times, period, width), pa.timestamp("us"))


def _floor_times(period: int, width: int, times: pa.Array) -> pa.Array:
    times = pc.cast(times, pa.timestamp("us"), safe=False)
    ticks = fixed_width_values(times, np.int64)
    return fixed_width_column(ticks - ticks % period % width, times.type, times)


def start_of_iso_year(local: Fragment) -> Fragment:
    """Returns the Monday of the week with January 4th, within Date's range."""
    day = clamp_date(fragment("CAST({} AS DATE)", local))
    sql = fragment("CAST(date_trunc('week', make_date(isoyear({}), 1, 4)) AS DATE)", day)
    return Scannable(sql, local, _look_up_iso_years, pa.date32())


def _look_up_iso_years(times: pa.Array) -> pa.Array:
    days = fixed_width_values(pc.cast(times, pa.date32(), safe=False), np.int32)
    return fixed_width_column(_iso_year_table()[np.clip(days, 0, _LAST_DAY)], pa.date32(), times)


@cache
def _iso_year_table() -> np.ndarray:
    days = np.arange(_LAST_DAY + 1)
    thursdays = days - (days + _THURSDAY) % 7 + 3
    fourth = thursdays.astype("datetime64[D]").astype("datetime64[Y]").astype("datetime64[D]").astype(np.int32) + 3
    return (fourth - (fourth + _THURSDAY) % 7).astype(np.int32)
