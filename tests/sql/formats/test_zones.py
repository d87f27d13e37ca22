"""Wall clocks of zones, also in years that Arrow's tables do not reach: ``zoneinfo`` is the oracle."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sql.formats.converters.wall_clocks import to_utc, to_wall_clock
from tests.sql.oracle import Oracle, columns_of, read

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Tokyo", "America/Santiago", "Asia/Kolkata"]
# Every 37 days and some hours from 1980 to 2299, with a null
SECONDS = [*range(315532800, 10413000000, 37 * 86400 + 4567), None]


def _shown(second: int, zone: str) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_there_and_back(zone: str, unit: str) -> None:
    moments = pa.array(SECONDS, pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    local = to_wall_clock(moments, zone)
    assert local.type == moments.type
    assert local.to_pylist() == [None if second is None else _shown(second, zone) for second in SECONDS]
    assert to_wall_clock(to_utc(local, zone), zone).equals(local)  # a repeated hour may be the other one


def test_a_repeated_hour_is_the_earlier_one_and_a_skipped_one_has_the_offset_behind() -> None:
    local = pa.array(["2060-03-28 02:30:00", "2060-10-31 02:30:00"]).cast(pa.timestamp("s"))
    found = to_utc(local, "Europe/Berlin")
    assert [str(moment) for moment in found.to_pylist()] == ["2060-03-28 00:30:00", "2060-10-31 00:30:00"]


CHANGES = ["2023-10-29 02:30:00", "2023-10-29 02:00:00", "2023-03-26 02:30:00", "2023-03-26 02:00:00"]


@pytest.mark.parametrize("type_", ["DateTime('Europe/Berlin')", "DateTime64(3, 'Europe/Berlin')"])
@pytest.mark.parametrize("format", ["CSV", "TSV", "JSONEachRow", "Values"])
def test_inserted_texts_are_the_instants_of_clickhouse(oracle: Oracle, format: str, type_: str) -> None:
    body = {
        "CSV": "\n".join(f'"{text}"' for text in CHANGES),
        "TSV": "\n".join(CHANGES),
        "JSONEachRow": "\n".join(f'{{"t": "{text}"}}' for text in CHANGES),
        "Values": ", ".join(f"('{text}')" for text in CHANGES),
    }[format]
    literal = body.replace("'", "''")
    type_literal = type_.replace("'", "''")
    asked = f"SELECT toUnixTimestamp(t) FROM format({format}, 't {type_literal}', '{literal}')"
    expected = [int(line) for line in oracle.query(asked).split()]
    table = read(body.encode(), columns_of({"t": type_}), format)
    seconds = table.column("t").cast(pa.int64()).to_pylist()
    assert [second // (1000 if "64" in type_ else 1) for second in seconds] == expected


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()
