"""Wall clocks of zones, also in years that Arrow's tables do not reach: ``zoneinfo`` is the oracle."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sql.formats.zones import instants, wall_clock

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Tokyo", "America/Santiago", "Asia/Kolkata"]
# Every 37 days and some hours from 1980 to 2299, with a null
SECONDS = [*range(315532800, 10413000000, 37 * 86400 + 4567), None]


def _shown(second: int, zone: str) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_there_and_back(zone: str, unit: str) -> None:
    moments = pa.array(SECONDS, pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    local = wall_clock(moments, zone)
    assert local.type == moments.type
    assert local.to_pylist() == [None if second is None else _shown(second, zone) for second in SECONDS]
    assert wall_clock(instants(local, zone), zone).equals(local)  # a repeated hour may be the other one


def test_a_repeated_hour_is_the_earlier_one_and_a_skipped_one_moves_forward() -> None:
    local = pa.array(["2060-03-28 02:30:00", "2060-10-31 02:30:00"]).cast(pa.timestamp("s"))
    found = instants(local, "Europe/Berlin")
    assert [str(moment) for moment in found.to_pylist()] == ["2060-03-28 01:30:00", "2060-10-31 00:30:00"]
