"""Kernels read and write what Python's own libraries do, keep NULL, and take any slice of a column."""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from sql.compile.macros_and_kernels import KERNELS
from sql.typing.times.zone_offset_tables import zone_table

_COMPUTE = {kernel.name: kernel.compute for kernel in KERNELS}


def _texts(name: str, values: list[bytes | None]) -> list[object]:
    return _COMPUTE[name](pa.array(values, pa.binary())).to_pylist()


@pytest.mark.parametrize("name", sorted(_COMPUTE))
def test_null_stays_null_and_slices_are_taken(name: str) -> None:
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == name)
    samples = {
        "BLOB": pa.array([b"A1 b", None, b"\x07" * 16, b"2020-02-29", b"1.2.3.4"], pa.binary()),
        "UTINYINT": pa.array([8] * 5, pa.uint8()),
        "UINTEGER": pa.array([1, None, 5, 2**32 - 1, 0], pa.uint32()),
        "FLOAT": pa.array([1.5, None, -2.0, float("nan"), 1e30], pa.float32()),
        "UINTEGER[]": pa.array([[3, 1], None, [], [7], [2, 2]], pa.list_(pa.uint32())),
        "UBIGINT[]": pa.array([[3, 1], None, [], [7], [2, 2**64 - 1]], pa.list_(pa.uint64())),
        "BIGINT": pa.array([-1, None, 5, 7, 0], pa.int64()),
        "UBIGINT": pa.array([1, None, 5, 2**64 - 1, 0], pa.uint64()),
        "DOUBLE": pa.array([1.5, None, -2.0, float("nan"), 1e300]),
        "INTEGER": pa.array([0] * 5, pa.int32()),
        "bigint[]": pa.array([[3, None, 1], None, [], [7], [2, 2, 5]], pa.list_(pa.int64())),
        "ubigint[]": pa.array([[3, 1], None, [], [7], [2, 2, 2**64 - 1]], pa.list_(pa.uint64())),
        "double[]": pa.array([[3.5, float("nan")], None, [], [7.0], [2.0, None, 5.0]], pa.list_(pa.float64())),
        "varchar[]": pa.array([["b", "a"], None, [], ["é"], ["x", None, "x"]], pa.list_(pa.string())),
        "DOUBLE[]": pa.array([[0.0, 0.5, 1.0]] * 5),
        "TIMESTAMP": pa.array([0, None, 1_600_000_000_000_000, -5, 3], pa.timestamp("us")),
    }
    if "INTEGER" in kernel.arguments:
        from sql.typing.times.zone_offset_tables import register_zone

        samples["INTEGER"] = pa.array([register_zone("Europe/Berlin")] * 5, pa.int32())
    columns = [samples[argument] for argument in kernel.arguments]
    whole = kernel.compute(*columns).to_pylist()
    assert whole[1] is None
    assert repr(kernel.compute(*(column.slice(1, 3) for column in columns)).to_pylist()) == repr(whole[1:4])
    assert kernel.compute(*(column.slice(0, 0) for column in columns)).to_pylist() == []


def test_values_at_levels_of_short_and_of_long_lists() -> None:
    values = np.random.default_rng(5).integers(0, 10**6, 30_000)
    lists = [sorted(values[:20_000].tolist()), sorted(values[20_000:].tolist())]
    levels = [0.0, 0.29, 0.5, 1.0]
    expected = [[one[min(int(level * len(one)), len(one) - 1)] for level in levels] for one in lists]
    many = [values[:20_000].tolist(), values[20_000:].tolist()]
    for repeated in (1, 100):
        short = [one[:200] for one in many] if repeated > 1 else many
        wanted = [[sorted(one)[min(int(level * 200), 199)] for level in levels] for one in short]
        given = pa.array(short * repeated, pa.list_(pa.int64()))
        found = _COMPUTE["pando_levels_bigint"](given, pa.array([levels] * len(given)))
        assert found.to_pylist() == (wanted if repeated > 1 else expected) * repeated


def test_frequent_values() -> None:
    given = pa.array([["b", "a", "b", None, "c"], [], ["x"] * 3 + ["y"] * 3], pa.list_(pa.string()))
    found = _COMPUTE["pando_frequent_varchar"](given, pa.array([2, 2, 1]))
    assert found.to_pylist() == [["b", "a"], [], ["x"]]


def test_ipv6_texts() -> None:
    rng = np.random.default_rng(3)
    values = [bytes((rng.integers(0, 256, 16) * (rng.random(16) < rng.random())).astype(np.uint8)) for _ in range(3000)]
    values += [bytes(16), b"\xff" * 16, bytes(15) + b"\x01", b"\x01" + bytes(15)]
    values = [value for value in values if value[:10] != bytes(10) or value[10:14] == bytes(4)]
    expected = [ipaddress.IPv6Address(value).compressed for value in values]
    short = [bytes(10) + b"\xff\xff\x01\x02\x03\xff", bytes(12) + b"\0\x01\0\0", bytes(10) + b"\xff\xff" + bytes(4)]
    expected += ["::ffff:1.2.3.255", "::0.1.0.0", "::ffff:0.0.0.0"]
    assert _texts("pando_ipv6_text", [*values, *short]) == expected


def test_ipv4_addresses() -> None:
    wrong = [b"256.1.1.1", b"1.2.3", b"1.2.3.4.5", b"", b"1..2.3", b"a.b.c.d", b".1.2.3", b"1.2.3.", b"0255.1.1.1"]
    right = [bytes(4), b"\xff" * 4, b"\x01\x02\x03\xfa"]
    spelled = [str(ipaddress.IPv4Address(value)).encode() for value in right]
    found = _texts("pando_plain_ipv4", [*wrong, *spelled, b"01.02.003.255"])
    assert found == [None] * len(wrong) + [int.from_bytes(value, "big") for value in right] + [0x010203FF]


def test_uuids() -> None:
    right = [uuid.UUID(int=n * 0x0123456789ABCDEF0123456789ABCDEF % 2**128) for n in range(50)]
    wrong = [b"61F0c404-5cb3-11e7-907b-a6006ad3d00g", b"61f0c404-5cb3-11e7-907b+a6006ad3d003", b"x"]
    texts = [str(value).encode() for value in right] + [str(value).upper().encode() for value in right]
    assert _texts("pando_plain_uuid", [*texts, *wrong]) == [v.bytes for v in right] * 2 + [None] * 3


def test_case_of_ascii_letters_alone() -> None:
    texts = ["Hello World foo", "ÜBER ünï 9ab", "", "İı"]
    values = [text.encode() for text in texts]
    assert _texts("pando_ascii_lower", [*values]) == ["hello world foo", "Über ünï 9ab", "", "İı"]
    assert _texts("pando_ascii_upper", [*values]) == ["HELLO WORLD FOO", "ÜBER üNï 9AB", "", "İı"]
    assert _texts("pando_initcap", [*values]) == ["Hello World Foo", "ÜBer üNï 9ab", "", "İı"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_zones_in_every_century(zone: str) -> None:
    seconds = np.arange(-2_300_000_000, 20_000_000_000, 1_234_567, dtype=np.int64)
    rules, epoch = ZoneInfo(zone), datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    expected = [(epoch + datetime.timedelta(seconds=int(s))).astimezone(rules).utcoffset() for s in seconds]
    found = zone_table(zone, False).offsets(seconds * 1_000_000) // 1_000_000
    assert found.tolist() == [int(offset.total_seconds()) for offset in expected if offset is not None]
    back = zone_table(zone, True).offsets((seconds + found) * 1_000_000) // 1_000_000
    assert (back != found).mean() < 0.001  # but for hours that a clock shows twice


def test_a_clock_that_is_changed() -> None:
    def instant(text: str) -> str:
        local = np.array([text], "datetime64[us]").astype(np.int64)
        return str((local - zone_table("Europe/Berlin", True).offsets(local)).astype("datetime64[us]")[0])

    assert instant("2020-03-29T02:30:00") == "2020-03-29T00:30:00.000000"  # skipped: with the offset behind
    assert instant("2020-10-25T02:30:00") == "2020-10-25T00:30:00.000000"  # repeated: the earlier one
