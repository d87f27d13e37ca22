"""Converts between instants and wall clocks of a time zone, for Arrow times of any unit.

It uses the tables of ``sql.typing.times.zone_offset_tables``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.times.zone_offset_tables import zone_table

_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICROS = 1_000_000
_MOST_SECONDS = 2**62 // _MICROS


def to_wall_clock(instants: pa.Array, zone: str) -> pa.Array:
    """Converts UTC instants (timestamps without a zone) to the clock of ``zone``, of the same type."""
    return _shift(instants, _find_offsets(instants, zone, is_local=False))


def to_utc(local: pa.Array, zone: str) -> pa.Array:
    """Converts times of the zone's clock to UTC.

    A time that a change of the clock repeats is the earlier one. For one that it skips the offset is the one after the
    change, as in ClickHouse: 02:30 of a spring night is shown as 01:30.
    """
    return _shift(local, -_find_offsets(local, zone, is_local=True))


def _find_offsets(times: pa.Array, zone: str, *, is_local: bool) -> np.ndarray:
    """Returns the zone's offsets in ticks of the unit of ``times``."""
    per_second = _TICKS[times.type.unit]
    ticks = np.asarray(pc.fill_null(pc.cast(times, pa.int64()), 0))
    seconds = np.clip(ticks // per_second, -_MOST_SECONDS, _MOST_SECONDS)
    return zone_table(zone, is_local).offsets(seconds * _MICROS) // _MICROS * per_second


def _shift(times: pa.Array, by: np.ndarray) -> pa.Array:
    return pc.cast(pc.add(pc.cast(times, pa.int64()), pa.array(by)), times.type)
