"""Generated rows of every type: the borders of its range first and often, ordinary values between them.

A column named ``s…`` holds small, tame values of the same type, so that a call that fails on a border is still compared
on values that it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from parts.table.table_description import Column, TableSchema
from parts.types import DataType, parse_type

_Rng = np.random.Generator
_Make = Callable[[_Rng, int], Sequence[Any]]

_TEXTS = [
    "", "a", "ab", "abc", "ABC", "aBcAbC", " ", "  two  words ", "\t\n", "a\0b", "\0", "ünïcödé", "ÜBER", "日本語",
    "日本x", "🙂", "ß", "İı", "0", "1", "-1", "+5", "007", "1.5", "1e3", "-0.0", "inf", "nan", "0x1F", "2020-01-01",
    "2020-02-30", "2020-01-01 00:00:00", "1960-01-01 00:00:00", "2150-01-01", "true", "false", "{}", "[]",
    '{"a":1}', "http://a.b/c?d=e#f", "a,b,,c", ",", "a,b;c", "%", "_", "a%b_c", "\\", "it's", '"quoted"', "hello world",
    "Hello World foo", "aaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x" * 300, "é" * 40, "1.2.3.4", "::1", "61f0c404-5cb3-11e7-907b-a6006ad3d003", "null", "NULL",
]  # fmt: skip
_WORDS = ["", "a", "b", "abc", "hello", "Hello World", "foo bar baz", "one,two,three", "a-b-c", "aXbXc", "zzz", "key=1"]
_NUMBERS = [
    "0", "1", "-1", "+1", "127", "128", "-128", "-129", "255", "256", "32767", "32768", "65535", "65536", "2147483647",
    "2147483648", "-2147483648", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "18446744073709551615", "18446744073709551616", "1.5", "-1.5", ".5", "5.", "1e3", "1E-3",
    "1e400", "-1e400", "inf", "-inf", "nan", "NaN", "", " ", " 1", "1 ", "abc", "12abc", "0x10", "1_000", "1,5", "--1",
    "+-1", "00012", "-0", "0.1", "123456789.987654321", "99999999999999999999999999999999999999", "1e-400", "1e5",
]  # fmt: skip
_DATE_TEXTS = [
    "1970-01-01", "2149-06-06", "2149-06-07", "1969-12-31", "1900-01-01", "1899-12-31", "2299-12-31", "2300-01-01",
    "2020-02-29", "2021-02-29", "2020-1-5", "2020-13-01", "20200105", "2020/01/05", "", "abc", "2020-01-01 10:00:00",
    "2024-06-15", "1999-12-31", "0000-00-00", "2020-01-05x", "18000", "2000-01-01T00:00:00",
]  # fmt: skip
_INSTANT_TEXTS = [
    "1970-01-01 00:00:00", "2106-02-07 06:28:15", "2106-02-07 06:28:16", "1960-01-01 00:00:00", "2020-02-29 23:59:59",
    "2020-06-01 12:34:56.789", "2020-06-01T12:34:56", "2020-06-01T12:34:56Z", "2020-06-01", "1577836800", "0", "",
    "abc", "2020-06-01 25:00:00", "2020-06-01 12:34", "2020-6-1 1:2:3", "2020-03-29 02:30:00", "2020-10-25 02:30:00",
    "1577836800.5", "2020-06-01 12:34:56+02:00", "1", "12345", "99999999999",
]  # fmt: skip
_TAME_INSTANT_TEXTS = ["2020-02-29 23:59:59", "1999-12-31 00:00:00", "2024-06-15 12:34:56", "1970-01-02 03:04:05"]
_JSON = [
    '{"a":5}', '{"a":"text"}', '{"a":1.5}', '{"a":-7}', '{"a":true}', '{"a":false}', '{"a":null}', '{"a":[1,2,3]}',
    '{"a":{"b":[1,"x"]}}', '{"b":1}', "[1,2]", '"text"', "5", "", "{", "not json", '{"a":18446744073709551615}',
    '{"a":1e30}', '{"a":"12"}', '{"a":"\\u00e9\\n"}', '{"a": [ 1 , {"b" : 2} ] }', '{"a":"tru"}',
    '{"a":9223372036854775808}',
    '{"a":"é"}', '{"a":1,"a":2}', '{"a":""}', '{"a":{}}', '{"a":[]}', "null", "true", '{"a":300}', '{"a":-1.9}',
]  # fmt: skip
_URLS = [
    "http://example.com", "https://www.example.com/a/b?x=1&y=2#frag", "ftp://user:pw@host.org:21/f", "//cdn.net/x.js",
    "example.com/path", "http://", "", "mailto:a@b.c", "http://a.b?q#", "http://a.b/#f?q", "HTTP://WWW.Example.COM/P",
    "http://127.0.0.1:80/", "http://[::1]/x", "/just/path?q=1", "http://wwwx.org", "http://www.co.uk/?", "a b c",
    "https://ünï.de/ä?ö=ü#ß", "http://a.b/c;d?e=f%20g", "svn+ssh://h/p", "http://www.www.org/", "http://a_b.com/",
]  # fmt: skip
_UUIDS = [
    "61f0c404-5cb3-11e7-907b-a6006ad3d003", "00000000-0000-0000-0000-000000000000",
    "FFFFFFFF-ffff-ffff-ffff-ffffffffffff", "", "61f0c4045cb311e7907ba6006ad3d003", "not-a-uuid",
]  # fmt: skip
_IPS = ["1.2.3.4", "0.0.0.0", "255.255.255.255", "256.1.1.1", "1.2.3", "", "::1", "2001:db8::8a2e:370:7334", "::",
        "::ffff:1.2.3.4", "fe80::1%eth0", "abc", "01.2.3.4", "1.2.3.4.5"]  # fmt: skip


def _pick(values: Sequence[Any], rng: _Rng, n: int) -> list[Any]:
    return [values[i] for i in rng.integers(0, len(values), n)]


def _integers(bits: int, signed: bool, rng: _Rng, n: int) -> list[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    borders = [low, high, low + 1, high - 1, 0, 1, 2, 3, 7, 10, 100, high // 2, high // 2 + 1]
    borders += [
        v for v in (-1, -2, -3, -7, -10, -100, 255, 256, 32768, 65535, 2**31, 2**32, 2**53 + 1) if low <= v <= high
    ]
    wild = rng.integers(low, high, n, dtype=np.int64 if signed else np.uint64, endpoint=True)
    return [int(wild[i]) if c else borders[k] for i, (c, k) in enumerate(_choices(rng, n, len(borders)))]


def _choices(rng: _Rng, n: int, count: int) -> list[tuple[bool, int]]:
    return list(zip((rng.random(n) < 0.5).tolist(), rng.integers(0, count, n).tolist(), strict=True))


def _floats(bits: int, rng: _Rng, n: int) -> np.ndarray:
    kind = np.float32 if bits == 32 else np.float64
    tiny = float(np.finfo(kind).smallest_subnormal)
    limits = np.finfo(kind)
    borders = np.array(
        [
            0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, tiny, -tiny, float(limits.tiny),
            float(limits.max), float(limits.min), 0.1, 1e10, -1e10, 1e-10, 1e18, 9.3e18, 1.9e19, 255.0, 256.0,
            2147483648.0, 3.14159, 1e20, 1e300 if bits == 64 else 1e30, 123456.789, 1e15, 1e16, 1e17, 1e21, 1e-5, 1e-7,
        ],
        kind,
    )  # fmt: skip
    wild = (rng.normal(0, 1, n) * 10.0 ** rng.integers(-6, 9, n)).astype(kind)
    return np.where(rng.random(n) < 0.5, wild, borders[rng.integers(0, len(borders), n)])


def _decimals(digits: int, scale: int, rng: _Rng, n: int) -> list[Decimal]:
    top = 10**digits - 1
    borders = [0, 1, -1, top, -top, 5 * 10 ** (scale - 1), 15 * 10 ** (scale - 1), -25 * 10 ** (scale - 1), 10**scale]
    wild = rng.integers(-(10 ** min(digits, 18)), 10 ** min(digits, 18), n)
    units = [int(wild[i]) if c else borders[k] for i, (c, k) in enumerate(_choices(rng, n, len(borders)))]
    return [Decimal(f"{unit}E-{scale}") for unit in units]


def _days(low: int, high: int, rng: _Rng, n: int) -> pa.Array:
    borders = np.array([low, high, low + 1, high - 1, 0, 1, 58, 59, 365, 10956, 11016, 18262, 18321, 18627])
    borders = borders[(borders >= low) & (borders <= high)]
    days = np.where(rng.random(n) < 0.6, rng.integers(low, high, n, endpoint=True), rng.choice(borders, n))
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def _ticks(low: int, high: int, scale: int, rng: _Rng, n: int) -> np.ndarray:
    unit = 10**scale
    near = [low, high, 0, 1, 59, 86399, 86400, 951782400, 1577836800, 1585443600, 1603587600, 1585440000, 1603584000]
    borders = np.array([moment * unit for moment in near if low <= moment <= high] + [low * unit, high * unit])
    wild = rng.integers(low * unit, high * unit, n, endpoint=True)
    return np.where(rng.random(n) < 0.6, wild, rng.choice(borders, n))


def _instants(unit: str, low: int, high: int, rng: _Rng, n: int) -> pa.Array:
    scale = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    return pa.array(_ticks(low, high, scale, rng, n)).cast(pa.timestamp(unit))


def _texts(borders: Sequence[str], rng: _Rng, n: int) -> list[str]:
    letters = list("abcXYZ019 ,.-_%/äß日")
    wild = ["".join(_pick(letters, rng, int(size))) for size in rng.integers(0, 24, n // 4 + 1)]
    return [wild[i // 4] if c and i % 2 else borders[k] for i, (c, k) in enumerate(_choices(rng, n, len(borders)))]


def _lists(item: _Make, longest: int, rng: _Rng, n: int) -> list[list[Any]]:
    sizes = rng.integers(0, longest + 1, n)
    items = list(item(rng, int(sizes.sum())))
    result, start = [], 0
    for size in sizes.tolist():
        result.append(items[start : start + size])
        start += size
    return result


def _nullable(make: _Make, rng: _Rng, n: int) -> list[Any]:
    values = make(rng, n)
    if isinstance(values, pa.Array):
        values = values.to_pylist()
    return [None if hidden else value for hidden, value in zip((rng.random(n) < 0.25).tolist(), values, strict=True)]


def _small(low: int, high: int, rng: _Rng, n: int) -> list[int]:
    return [int(v) for v in rng.integers(low, high, n, endpoint=True)]


def _small_floats(rng: _Rng, n: int) -> list[float]:
    return [float(v) for v in np.round(rng.uniform(-10, 10, n), 3)]


def _maps(rng: _Rng, n: int) -> list[list[tuple[str, int]]]:
    sizes = rng.integers(0, 4, n).tolist()
    numbers = _integers(32, True, rng, sum(sizes) + 1)
    return [[(key, numbers.pop()) for key in ["a", "b", "", "日"][:size]] for size in sizes]


def _tuples(names: tuple[str, str], rng: _Rng, n: int) -> list[dict[str, Any]]:
    pairs = zip(_integers(32, True, rng, n), _pick(_WORDS, rng, n), strict=True)
    return [dict(zip(names, pair, strict=True)) for pair in pairs]


def _bytes(size: int, rng: _Rng, n: int) -> list[bytes]:
    wild = rng.bytes(size * n)
    fixed = [bytes(size), b"\xff" * size, bytes(size - 1) + b"\x01", bytes(10) + b"\xff\xff" + bytes(size - 12)]
    return [wild[i * size : (i + 1) * size] if c else fixed[k] for i, (c, k) in enumerate(_choices(rng, n, 4))]


def _fixed(rng: _Rng, n: int) -> list[bytes]:
    return [
        text.encode().ljust(8, b"\0")
        for text in _pick(["", "a", "abc", "12345678", "a\0b", "HELLO", " x ", "é"], rng, n)
    ]


_FIRST_MOMENT, _LAST_MOMENT = -2208988800, 10413791999  # 1900-01-01 and 2299-12-31 23:59:59
_DAY_1990, _DAY_2030 = 7305, 21915

COLUMNS: dict[str, tuple[str, _Make]] = {
    **{
        f"{'i' if signed else 'u'}{bits}": (f"{'' if signed else 'U'}Int{bits}", partial(_integers, bits, signed))
        for bits in (8, 16, 32, 64)
        for signed in (False, True)
    },
    "si8": ("Int8", partial(_small, -20, 20)), "su8": ("UInt8", partial(_small, 1, 20)),
    "si32": ("Int32", partial(_small, -1000, 1000)), "su64": ("UInt64", partial(_small, 0, 500)),
    "si64": ("Int64", partial(_small, 1, 9)),
    "f32": ("Float32", partial(_floats, 32)), "f64": ("Float64", partial(_floats, 64)),
    "sf32": ("Float32", _small_floats), "sf64": ("Float64", _small_floats),
    "b": ("Bool", lambda rng, n: (rng.random(n) < 0.5).tolist()),
    "d9": ("Decimal(9, 2)", partial(_decimals, 9, 2)), "d18": ("Decimal(18, 4)", partial(_decimals, 18, 4)),
    "d38": ("Decimal(38, 10)", partial(_decimals, 38, 10)), "sd9": ("Decimal(9, 2)", partial(_decimals, 5, 2)),
    "sd18": ("Decimal(18, 4)", partial(_decimals, 7, 4)),
    "d": ("Date", partial(_days, 0, 65535)), "d32": ("Date32", partial(_days, -25567, 120529)),
    "dt": ("DateTime", partial(_instants, "s", 0, 2**32 - 1)),
    "dtb": ("DateTime('Europe/Berlin')", partial(_instants, "s", 86400, 2**32 - 86401)),
    "dt3": ("DateTime64(3)", partial(_instants, "ms", _FIRST_MOMENT, _LAST_MOMENT)),
    "dt6": ("DateTime64(6, 'America/New_York')", partial(_instants, "us", _FIRST_MOMENT + 86400, _LAST_MOMENT)),
    "dt9": ("DateTime64(9)", partial(_instants, "ns", -2208988800, 9214646400)),
    "sd": ("Date", partial(_days, _DAY_1990, _DAY_2030)), "sd32": ("Date32", partial(_days, _DAY_1990, _DAY_2030)),
    "sdt": ("DateTime", partial(_instants, "s", _DAY_1990 * 86400, _DAY_2030 * 86400)),
    "sdtb": ("DateTime('Europe/Berlin')", partial(_instants, "s", _DAY_1990 * 86400, _DAY_2030 * 86400)),
    "sdt3": ("DateTime64(3)", partial(_instants, "ms", _DAY_1990 * 86400, _DAY_2030 * 86400)),
    "sdt6": ("DateTime64(6, 'America/New_York')", partial(_instants, "us", _DAY_1990 * 86400, _DAY_2030 * 86400)),
    "s": ("String", partial(_texts, _TEXTS)), "sw": ("String", partial(_texts, _WORDS)),
    "ascii": ("String", partial(_pick, [t for t in _TEXTS if t.isascii()])),
    "numbers": ("String", partial(_pick, _NUMBERS)),
    "digits": ("String", lambda rng, n: [str(v) for v in _small(0, 99, rng, n)]),
    "dates": ("String", partial(_pick, _DATE_TEXTS)), "instants": ("String", partial(_pick, _INSTANT_TEXTS)),
    "tame_instants": ("String", partial(_pick, _TAME_INSTANT_TEXTS)),
    "json": ("String", partial(_pick, _JSON)), "url": ("String", partial(_pick, _URLS)),
    "uuids": ("String", partial(_pick, _UUIDS)), "ips": ("String", partial(_pick, _IPS)),
    "fs": ("FixedString(8)", _fixed), "lc": ("LowCardinality(String)", partial(_pick, _WORDS)),
    "uid": ("UUID", partial(_bytes, 16)), "ip4": ("IPv4", partial(_integers, 32, False)),
    "ip6": ("IPv6", partial(_bytes, 16)),
    "e8": ("Enum8('red' = 1, 'green' = 2, 'blue' = -3)", partial(_pick, [1, 2, -3])),
    "e16": ("Enum16('x' = 0, 'y' = 1000)", partial(_pick, [0, 1000])),
    "nu8": ("Nullable(UInt8)", partial(_nullable, partial(_integers, 8, False))),
    "ni64": ("Nullable(Int64)", partial(_nullable, partial(_integers, 64, True))),
    "nf64": ("Nullable(Float64)", partial(_nullable, partial(_floats, 64))),
    "nd18": ("Nullable(Decimal(18, 4))", partial(_nullable, partial(_decimals, 7, 4))),
    "ns": ("Nullable(String)", partial(_nullable, partial(_pick, _WORDS))),
    "nd": ("Nullable(Date)", partial(_nullable, partial(_days, _DAY_1990, _DAY_2030))),
    "ndt": ("Nullable(DateTime)", partial(_nullable, partial(_instants, "s", 0, 2**31))),
    "lcn": ("LowCardinality(Nullable(String))", partial(_nullable, partial(_pick, _WORDS))),
    "ai": ("Array(Int32)", partial(_lists, partial(_integers, 32, True), 5)),
    "asi": ("Array(Int32)", partial(_lists, partial(_small, -3, 3), 6)),
    "au": ("Array(UInt8)", partial(_lists, partial(_integers, 8, False), 4)),
    "al": ("Array(Int64)", partial(_lists, partial(_integers, 64, True), 4)),
    "af": ("Array(Float64)", partial(_lists, partial(_floats, 64), 4)),
    "at": ("Array(String)", partial(_lists, partial(_pick, _WORDS), 4)),
    "an": ("Array(Nullable(Int32))", partial(_lists, partial(_nullable, partial(_small, -3, 3)), 5)),
    "ant": ("Array(Nullable(String))", partial(_lists, partial(_nullable, partial(_pick, _WORDS)), 4)),
    "ad": ("Array(Date)", partial(_lists, lambda rng, n: _days(_DAY_1990, _DAY_2030, rng, n).to_pylist(), 3)),
    "adec": ("Array(Decimal(9, 2))", partial(_lists, partial(_decimals, 5, 2), 4)),
    "aa": ("Array(Array(Int32))", partial(_lists, partial(_lists, partial(_small, -3, 3), 3), 3)),
    "m": ("Map(String, Int32)", _maps),
    "t": ("Tuple(Int32, String)", partial(_tuples, ("1", "2"))),
    "tn": ("Tuple(x Int32, y String)", partial(_tuples, ("x", "y"))),
}  # fmt: skip


def schema() -> TableSchema:
    columns = [
        Column("id", parse_type("UInt32")),
        *(Column(name, parse_type(text)) for name, (text, _) in COLUMNS.items()),
    ]
    return TableSchema(tuple(columns))


def table(rows: int, seed: int = 1) -> pa.Table:
    """The block of ``rows`` rows, in storage types."""
    arrays = [pa.array(range(rows), pa.uint32())]
    for position, (text, make) in enumerate(COLUMNS.values()):
        arrays.append(_array(make(np.random.default_rng([seed, position]), rows), parse_type(text)))
    return pa.Table.from_arrays(arrays, schema=schema().arrow)


def _array(values: Any, type_: DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_dictionary(type_.arrow):
        return pa.array(values, type_.arrow.value_type).dictionary_encode().cast(type_.arrow)
    return pa.array(values, type_.arrow)
