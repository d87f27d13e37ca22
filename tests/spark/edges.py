"""A table of values at which Spark and the servers could differ, and conditions over it."""

from __future__ import annotations

from spark_connector.shared.options import escape_string
from tests.spark.conftest import Pando

COLUMNS = """
    k UInt32, i8 Nullable(Int8), u64 UInt64, f Nullable(Float64), f32 Float32, dec Nullable(Decimal(10, 2)), b Bool,
    s Nullable(String), lc LowCardinality(String), e Nullable(Enum8('a' = 3, 'b' = 2, 'c' = 1)), id UUID,
    fs FixedString(3), d Date, d32 Nullable(Date32), ts Nullable(DateTime('Asia/Tokyo')),
    ms DateTime64(3, 'UTC'), ns DateTime64(9), a Array(UInt8)
"""
CONDITIONS = [
    "k < 700", "k >= 4000000000", "k = 5.0", "k <=> 7", "k IN (1, 2, 3, 5000000000)", "k NOT IN (1, 2, 3)",
    "k NOT IN (1, 4294967297)", "k != 4294967299", "i8 = -3", "i8 > 2.5", "i8 <=> NULL", "i8 <=> -3", "i8 IN (1, NULL)",
    "i8 NOT IN (1, 2)", "i8 NOT IN (1, NULL)", "i8 NOT IN (1, 257)", "u64 = 18446744073709551615", "u64 > -1",
    "u64 < 9223372036854775808", "u64 IN (0, 18446744073709551615)", "f = 1.5", "f > 1.5", "f >= CAST('NaN' AS DOUBLE)",
    "f < 1.5", "f <= -0.0", "f != 1.5", "isnan(f)", "f IN (1.5, -1.5)", "f NOT IN (1.5, 2.5)", "f IN (0.0, 2.5)",
    "f > 1e300", "f32 = 0.1", "f32 = CAST(0.1 AS FLOAT)", "f32 <= 0.1", "f32 > 0.1", "f32 NOT IN (0.1, 0.5)",
    "dec = 1.5", "dec > 1.5", "dec < 1.505", "dec <= 99999999999", "dec IN (1.5, 2.25)", "dec > -1e3",
    "dec NOT IN (1.505, 1.5)", "b", "NOT b", "b = true", "s = 'a%b'", "s > 'b'", "s < 'ä'", "s LIKE 'a%'",
    "s LIKE '%b'", "s LIKE '%''%'", "s LIKE '_ä%'", "s LIKE 'a\\\\%_'", "s NOT LIKE '%a%'", "startswith(s, 'a')",
    "endswith(s, '\\\\')", "contains(s, '')", "s IN ('a', 'B', '')",
    "s IN ('a', '', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'a%b')", "s = ''", "lc != 'x'", "lc >= 'y'",
    "lc LIKE 'x_'", "e = 'a'", "e > 'a'", "e = 'zz'", "e IN ('a', 'c')", "id > '8'",
    "id = '00000000-0000-0000-0000-000000000001'", "upper(id) = 'A'", "fs = 'ab'", "fs > 'a'", "d = DATE'2024-03-10'",
    "d < DATE'2200-01-01'", "d IN (DATE'2024-03-10', DATE'1960-01-01')",
    "d BETWEEN DATE'2024-02-01' AND DATE'2024-03-11'", "d > '2024-03-01'", "d32 < DATE'1950-01-01'",
    "d32 >= DATE'1850-01-01'", "ts = TIMESTAMP'2024-03-10 01:30:00'", "ts >= '2024-03-10 03:30:00'",
    "ts < TIMESTAMP'2024-03-10 08:00:00.5'", "ts > TIMESTAMP'1900-01-01 00:00:00'",
    "ms > TIMESTAMP'2024-03-10 01:30:00.001Z'", "ms <= TIMESTAMP'2024-11-03 01:30:00-05:00'",
    "ms = TIMESTAMP'2024-03-10 06:30:00.123UTC'", "ms NOT IN (TIMESTAMP'2024-03-10 06:30:00.1234UTC')",
    "ms != TIMESTAMP'2024-03-10 06:30:00.1234UTC'",
    "ts NOT IN (TIMESTAMP'2024-03-10 06:30:00.5UTC', TIMESTAMP'2200-01-01 00:00:00UTC')",
    "ns >= TIMESTAMP'2024-03-10 06:30:00Z'", "year(d) = 2024", "CAST(ts AS DATE) = DATE'2024-03-10'", "length(s) > 1",
    "s IS NULL", "i8 IS NOT NULL", "e IS NULL", "d32 IS NOT NULL", "size(a) = 1", "a IS NULL", "k % 2 = 0", "k = u64",
    "s RLIKE 'a+'",
]  # fmt: skip
LEFT_TO_SPARK = {
    "k NOT IN (1, 4294967297)", "k != 4294967299", "k IN (1, 2, 3, 5000000000)", "f IN (0.0, 2.5)",
    "f32 NOT IN (0.1, 0.5)", "dec NOT IN (1.505, 1.5)", "i8 NOT IN (1, 257)",
    "ms != TIMESTAMP'2024-03-10 06:30:00.1234UTC'",
    "ms NOT IN (TIMESTAMP'2024-03-10 06:30:00.1234UTC')",
    "ts NOT IN (TIMESTAMP'2024-03-10 06:30:00.5UTC', TIMESTAMP'2200-01-01 00:00:00UTC')",
    "i8 IN (1, NULL)", "i8 NOT IN (1, NULL)", "f >= CAST('NaN' AS DOUBLE)", "f32 = 0.1", "dec <= 99999999999",
    "dec > -1e3", "upper(id) = 'A'", "fs = 'ab'", "fs > 'a'", "d < DATE'2200-01-01'",
    "d IN (DATE'2024-03-10', DATE'1960-01-01')", "d32 >= DATE'1850-01-01'", "ns >= TIMESTAMP'2024-03-10 06:30:00Z'",
    "year(d) = 2024", "length(s) > 1", "size(a) = 1", "a IS NULL", "k % 2 = 0", "k = u64", "s RLIKE 'a+'",
}  # fmt: skip
"""Of which, or of whose contrary, not all is said."""


def make_table_of_edges(pando: Pando) -> str:
    """Values at which the two could differ."""
    name = pando.new_table(COLUMNS, "k", settings="index_granularity = 128", partition="toYYYYMM(d)")
    cases = {
        "i8 Nullable(Int8)": [None, "-128", "-3", "0", "1", "2", "127"],
        "u64 UInt64": ["0", "1", "9223372036854775807", "9223372036854775808", "18446744073709551615"],
        "f Nullable(Float64)": [None, "nan", "-inf", "inf", "-1.5", "-0.0", "0.0", "1.5", "2.5"],
        "f32 Float32": ["0.1", "nan", "-0.0", "0.5"],
        "dec Nullable(Decimal(10, 2))": [None, "-99999999.99", "-1.5", "0", "1.5", "1.51", "2.25", "99999999.99"],
        "s Nullable(String)": [None, "", "a", "B", "a%b", "a%", "äb", "bä", "'", "a\\", "a\0b", "a\nb", "𝄞ä"],
        "lc String": ["x", "xy", "y", "x𝄞", ""],
        "e Nullable(String)": [None, "a", "b", "c"],
        "id UUID": [f"{first}0000000-0000-0000-0000-000000000001" for first in "08f"],
        "fs String": ["ab", "abc", "", "b"],
        "d32 Nullable(Date32)": [None, "1900-01-01", "1949-12-31", "2024-03-10", "2299-12-31"],
        "ts Nullable(UInt32)": [None, "0", "1710052199", "1710052200", "1710054000", "1710066600", "4294967295"],
        "ms Int64": ["1710052200123", "1710052200001", "1710034200001", "1730615400000", "-2000000000001"],
        "ns String": ["2024-03-10 06:30:00.000000000", "2024-03-10 06:30:00.000001000", "1970-01-01 00:00:00"],
    }
    made = []
    for place, (column, values) in enumerate(cases.items()):
        alias, _, type_ = column.partition(" ")
        texts = ", ".join("NULL" if value is None else f"'{escape_string(value)}'" for value in values)
        chosen = f"arrayElement([{texts}], 1 + intHash32(number * 31 + {place}) % {len(values)})"
        made.append(f"CAST({chosen}, '{type_}') AS {alias}_")
    pando["r1"].execute(f"""
        INSERT INTO {name} SELECT number, i8_, u64_, f_, f32_, dec_, number % 3 = 0, s_, lc_, e_, id_, fs_,
        toDate('2024-01-15') + number % 90, d32_, toDateTime(ts_), fromUnixTimestamp64Milli(ms_),
        CAST(ns_, 'DateTime64(9)'), [number % 256] FROM (SELECT number, {", ".join(made)} FROM numbers(3000))""")
    pando.sync(name)
    return name
