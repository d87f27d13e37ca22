"""Damaged values that ClickHouse refuses are refused here, and what stands beside them is read alike."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.portions import one_in
from tests.sql.formats.test_column_names import stored
from tests.sql.oracle import Oracle

_ESCAPED = {
    "Int32": "\\x31", "Nullable(Int32)": "1\\N", "Float64": "1\\x2e5", "Decimal(9, 2)": "1\\x2e5", "Bool": "tru\\x65",
    "Date": "2020-01-0\\x31", "Date32": "2020-01-0\\x31", "DateTime('UTC')": "2020-01-01 00:00:0\\x31",
    "DateTime64(3, 'UTC')": "2020-01-01 00:00:0\\x31", "UUID": "\\x300000000-0000-0001-8a9a-000000000002",
    "IPv4": "1.2.3.\\x34", "IPv6": "::\\x31", "String": "\\x61\\Nb", "Nullable(String)": "\\x61",
    "FixedString(2)": "\\x61", "Enum8('a' = 1)": "\\x61", "Nullable(Enum8('a' = 1))": "\\x61",
    "LowCardinality(String)": "\\x61", "LowCardinality(Nullable(String))": "\\x61\\N",
}  # fmt: skip
_CASES = [
    *((f"a {type_}", "TSV", text) for type_, text in _ESCAPED.items()),
    *(
        (f"a {type_}", format, before + f"2020{separators[0]}10{separators[1]}25{time}" + behind)
        for type_, time in (("Date", ""), ("DateTime('UTC')", " 07:28:15"), ("DateTime64(3, 'UTC')", " 07:28:15"))
        for format, before, behind in (("TSV", "", "\n"), ("JSONStringsEachRow", '{"a":"', '"}'))
        for separators in ("--", "//", "..", "::", "__", "  ", "-/", "-e", "-}", "-ü", "/_", ".;")
    ),
    *(
        (f"a {type_}", format, text)
        for type_, value in (
            ("Float64", "2."), ("Int32", "2"), ("Nullable(UInt8)", "2"), ("Decimal(9, 2)", "2"), ("Date", "2020-01-01"),
            ("Date32", "2020-01-01"), ("UUID", "00000000-0000-0001-8a9a-000000000002"), ("IPv4", "1.2.3.4"),
        )
        for format, text in (
            ("TSV", f"{value} \n"), ("CSV", f" {value} \n"), ("JSONStringsEachRow", f'{{"a":"{value} "}}'),
            ("JSONStringsEachRow", f'{{"a":"{value}\\t"}}'),
            ("JSONEachRow", f'{{"a":" {value}"}}'), ("JSONCompactStringsEachRow", f'[" {value}"]'),
        )
    ),
    *(
        (f"a {type_}", format, data)
        for type_ in ("DateTime('UTC')", "DateTime64(3, 'UTC')")
        for time in ("7:28:15", "07:8:15", "7:8:5", "7:28:15.5", "7:28")
        for format, data in (("CSV", f"2020-10-25 {time}\n"), ("TSV", f"2020-1-5T{time}\n"))
    ),
    *((f"a {type_}", "Values", f"('{value} ')") for type_, value in (("Int8", 2), ("Date", "2020-01-01"))),
    *(
        ("a Int8, b String", "CSV", text)
        for text in ("1,2,\n3,4,\n", '1,"a",\n', "1,2,,\n", "1,2,x\n", "1,2,\\N\n", '1,2,""\n', "1,2,\r\n3,4,\r\n")
    ),
    ("a Float64, b Int8", "TSVWithNames", "a\tb\\\n1\t2\n"),
    *(
        ("a Float64", "Values", text)
        for text in ("(1),{2),(3)", "(1),[2),(3)", "{1)", "(1],(3)", "(1),(2]", "([1)", "((1))", "(1),(2)")
    ),
    *(
        (f"a {type_}", "Values", text)
        for type_, text in (
            ("Array(String)", "(['a'b])"), ("Array(String)", "(['a'b]),(['c'])"), ("Array(String)", "(['a']b),(['c'])"),
            ("Array(String)", "(['a:],[]),(-2147483648,0,['aü]),(['b'])"), ("String", "('a'b)"), ("String", "('a' b)"),
            ("Int8", "(1 b)"), ("Int8", "(1 + 1 b)"), ("Int8", "((1 AS b))"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("types", "format", "data"), one_in(4, _CASES), ids=range(len(_CASES)))
def test_damage_is_refused(oracle: Oracle, pando: Pando, types: str, format: str, data: str) -> None:
    insert = f"FORMAT {format} {data}"
    ours, theirs = stored(pando, types, insert), stored(oracle, types, insert)
    assert ours == theirs or (ours.startswith("error") and theirs.startswith("error"))
