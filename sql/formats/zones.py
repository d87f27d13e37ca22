"""Instants and wall clocks of a time zone.

Arrow's time zones end in 2037: behind it they stay on the last offset, an hour wrong every summer. From then on the
rule at the end of the zone's file goes on, as ``zoneinfo`` reads it: a table of the changes of each zone until 2300,
made when a zone first needs it (some milliseconds).
"""

from __future__ import annotations

import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FIRST = 2130105600  # 2037-07-02: Arrow is right until here
_DAYS = 96_000  # until 2300
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def wall_clock(instants: pa.Array, zone: str) -> pa.Array:
    """UTC instants (timestamps without a zone) as the clock of ``zone`` shows them, of the same type."""
    unit = instants.type.unit
    near = pc.local_timestamp(pc.cast(pc.cast(instants, pa.int64()), pa.timestamp(unit, zone)))
    late = _late(instants)
    if late is None:
        return near
    starts, offsets = _changes(zone)
    ticks = _ticks(instants)
    position = np.searchsorted(starts, ticks // _TICKS[unit], side="right") - 1
    return pc.if_else(late, _moved(instants, offsets[np.maximum(position, 0)] * _TICKS[unit]), near)


def instants(local: pa.Array, zone: str) -> pa.Array:
    """The reverse. A time that a change of the clock repeats is the earlier one; one that it skips moves forward."""
    unit = local.type.unit
    zoned = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    near = pc.cast(pc.cast(zoned, pa.int64()), local.type)
    late = _late(local)
    if late is None:
        return near
    starts, offsets = _changes(zone)
    changes = starts + np.maximum(offsets, np.concatenate([offsets[:1], offsets[:-1]]))
    position = np.searchsorted(changes, _ticks(local) // _TICKS[unit], side="right") - 1
    return pc.if_else(late, _moved(local, -offsets[np.maximum(position, 0)] * _TICKS[unit]), near)


def _late(times: pa.Array) -> pa.Array | None:
    """Which are behind Arrow's years; ``None`` if none is."""
    first = pa.scalar(_FIRST * _TICKS[times.type.unit])
    latest = pc.max(times).cast(pa.int64())
    if not latest.is_valid or latest.as_py() < first.as_py():
        return None
    return pc.greater_equal(pc.cast(times, pa.int64()), first)


def _ticks(times: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.cast(times, pa.int64()), 0))


def _moved(times: pa.Array, by: np.ndarray) -> pa.Array:
    return pc.cast(pc.add(pc.cast(times, pa.int64()), pa.array(by)), times.type)


@lru_cache(maxsize=64)
def _changes(zone: str) -> tuple[np.ndarray, np.ndarray]:
    """Seconds at which an offset begins, and the offsets; the first is the one at ``_FIRST``."""
    rules = ZoneInfo(zone)

    def offset(second: int) -> int:
        moment = datetime.datetime.fromtimestamp(second, datetime.UTC).astimezone(rules)
        return int((moment.utcoffset() or datetime.timedelta()).total_seconds())

    starts, offsets = [_FIRST], [offset(_FIRST)]
    step = 14 * 86400
    for low in range(_FIRST, _FIRST + _DAYS * 86400, step):
        high, new = low + step, offset(low + step)
        if new == offsets[-1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
        starts.append(high)
        offsets.append(new)
    return np.array(starts, np.int64), np.array(offsets, np.int64)
