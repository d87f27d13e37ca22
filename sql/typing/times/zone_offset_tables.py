"""Tables of time zone offsets, and the kernels that convert times with them.

DuckDB's own conversions take forty times as long.

A table cuts time into equal pieces, so short that the clock changes at most once in each. For each piece it has the
offset at its beginning, the moment of the change and the offset after it. Tables end in 2437: by then the rules repeat
with the calendar, every 400 years. A zone gets a number when a statement first names it. Its table is built when a
value first needs it, which takes some hundredths of a second.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import Kernel, fixed_width_column, fixed_width_values

_FIRST, _LAST = -3786825600, 14736470400
"""The beginnings of 1850 and of 2437, in seconds."""
_CYCLE = 146097 * 86400 * 1_000_000
_STEP = 7 * 86400
_LONGEST_PIECE = 41
"""The binary logarithm of the longest piece in microseconds: 25 days."""
_NEVER = 2**63 - 1
_INFINITE = 2**63 - 2

_names: list[str] = []
_lock = threading.Lock()


def register_zone(zone: str) -> int:
    """Returns the number that stands for the zone in this process's statements."""
    with _lock:
        if zone not in _names:
            _names.append(zone)
        return _names.index(zone)


@dataclass(frozen=True)
class ZoneTable:
    """The offsets of one zone, in microseconds; piece 0 begins at ``first << shift``."""

    shift: int
    first: int
    before: np.ndarray
    change: np.ndarray
    after: np.ndarray

    def offsets(self, times: np.ndarray) -> np.ndarray:
        """Returns the offsets at times of the clock for which the table was built."""
        latest = times.max(initial=0)
        if latest >= _LAST * 1_000_000:
            late = times >= _LAST * 1_000_000
            times = np.where(late, times - ((times - _LAST * 1_000_000) // _CYCLE + 1) * _CYCLE, times)
        piece = np.clip((times >> self.shift) - self.first, 0, len(self.before) - 1)
        return np.where(times >= self.change[piece], self.after[piece], self.before[piece])

    def instants(self, clocks: np.ndarray) -> np.ndarray:
        """Returns the UTC instants of local times, for a table of the zone's clock."""
        return clocks - self.offsets(clocks)


def _find_offset_changes(zone: str) -> tuple[list[int], list[int]]:
    """Returns the seconds at which offsets begin, and the offsets; the first begins before all times."""
    rules = ZoneInfo(zone)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

    def offset(second: int) -> int:
        moment = (epoch + datetime.timedelta(seconds=second)).astimezone(rules)
        return int((moment.utcoffset() or datetime.timedelta()).total_seconds())

    starts, offsets = [-_NEVER], [offset(_FIRST)]
    for start in range(_FIRST, _LAST, _STEP):
        low, end = start, start + _STEP
        while offset(end) != offsets[-1]:
            high = end
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
            starts.append(high)
            offsets.append(offset(high))
            low = high
    return starts, offsets


@cache
def zone_table(zone: str, is_local: bool, of_days: bool = False) -> ZoneTable:
    """Builds the table of a zone for UTC times, or for local times if ``is_local``.

    A local time that the clock repeats is the earlier one. A local time that the clock skips takes the offset after the
    change, as in ClickHouse; with ``of_days`` it may take the offset before it, so that a day without midnight begins
    with the change.
    """
    starts, offsets = _find_offset_changes(zone)
    shifts = np.array(offsets, np.int64) * 1_000_000
    times = np.array(starts[1:], np.int64) * 1_000_000
    if is_local:
        times = times + (np.maximum(shifts[:-1], shifts[1:]) if of_days else shifts[:-1])
    shift = _LONGEST_PIECE
    while len(np.unique(times >> shift)) < len(times):
        shift -= 1
    first = (_FIRST * 1_000_000) >> shift
    begins = np.arange(first, ((_LAST * 1_000_000) >> shift) + 1, dtype=np.int64) << shift
    before = shifts[np.searchsorted(times, begins, side="right")]
    change, after = np.full(len(begins), _NEVER, np.int64), before.copy()
    pieces = (times >> shift) - first
    change[pieces] = times
    after[pieces] = shifts[1:]
    return ZoneTable(shift, first, before, change, after)


@cache
def has_whole_hours(zone: str) -> bool:
    """Tells whether the zone's offset has been whole hours since 1970."""
    starts, offsets = _find_offset_changes(zone)
    ends = [*starts[1:], _NEVER]
    return all(offset % 3600 == 0 for end, offset in zip(ends, offsets, strict=True) if end > 0)


def utc_to_wall_clock(zone: str, times: pa.Array) -> pa.Array:
    """Converts instants of any unit to what a zone's clocks show (TIMESTAMP)."""
    return _shift_ticks(zone_table(zone, False), pc.cast(times, pa.timestamp("us"), safe=False), False)


def wall_clock_to_utc(zone: str, clocks: pa.Array, of_days: bool = False) -> pa.Array:
    """Converts a zone's wall clocks to instants (TIMESTAMP).

    ``of_days``: to the instants when these days begin.
    """
    return _shift_ticks(zone_table(zone, True, of_days), pc.cast(clocks, pa.timestamp("us"), safe=False), True)


def _kernel(name: str, table: Callable[[str], ZoneTable], *, is_local: bool) -> Kernel:
    def move(zones: pa.Array, times: pa.Array) -> pa.Array:
        return (
            _shift_ticks(table(_names[fixed_width_values(zones, np.int32)[0]]), times, is_local)
            if len(times)
            else times
        )

    return Kernel(name, ("INTEGER", "TIMESTAMP"), "TIMESTAMP", move)


def _shift_ticks(table: ZoneTable, times: pa.Array, is_local: bool) -> pa.Array:
    if not len(times):
        return times
    ticks = fixed_width_values(times, np.int64)
    offsets = table.offsets(ticks)
    moved = ticks - offsets if is_local else ticks + offsets
    if ticks.max() >= _INFINITE or ticks.min() <= -_INFINITE:
        moved = np.where((ticks >= _INFINITE) | (ticks <= -_INFINITE), ticks, moved)
    return fixed_width_column(moved, times.type, times)


KERNELS = (
    _kernel("pando_to_zone", lambda zone: zone_table(zone, False), is_local=False),
    _kernel("pando_from_zone", lambda zone: zone_table(zone, True), is_local=True),
    _kernel("pando_from_zone_day", lambda zone: zone_table(zone, True, True), is_local=True),
    _kernel("pando_from_zone_as_utc", lambda zone: zone_table(zone, False), is_local=True),
)
