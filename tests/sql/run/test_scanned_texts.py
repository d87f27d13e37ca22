"""What scans read of texts is what ClickHouse reads: usual and odd ones in one column, and usual ones alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sql.relations import ArrowRelation
from tests.portions import one_in
from tests.sql.run.dataset import Engines, MemoryCatalog, MemoryRelation, same_cell, schema_of

_DAYS = ["2020-01-01", "1970-01-01", "2149-06-06", "2020-02-29", "1999-12-31 10:20:30", "2106-02-07 00:00:00"]
_TIMES = [
    *_DAYS, "2020-02-30", "2020-13-01", "2020.01.02", "2020/01/05 10:00:00", "2020-01-01T10:20:30", "2149-06-07",
    "2020-01-01 25:61:61", "2020-01-01 10:20:30.5", "2020-01-01 10:20:30.123456789", "2020-01-01 10:20:30.", "20200102",
    "12345", "99999999999", "18446744073709551616", "1e5", "1", "2020-1-2", "1969-12-31",
    "1969-12-31 23:59:59", "2106-02-07 06:28:16", "2020-01-01x", "1577836800.5", "\0",
    "2020-01-01 10:20", "9999-12-31", "2020-00-10", "2020-01-00", "1600-05-05", "20201301", "12-12",
    "2020-03-29 02:30:00", "2020-10-25 02:30:00", "2020-01-01 10:20:30Z", "x2020-01-01",
    "-5", "-12345.678", "-1.5", "12345.6789012345", "2020-1-02", "2020/12/3 10:20:30.1234567890",
    "2020-01-01 10:20:30.12345678901234", "--1", "2020-1-2x", "2020日1日2", "2020-02-30 1", "-0",
]  # fmt: skip
_NAMED = [
    "Jan 5 2020", "5 Jan 2020", "5 January 2020 10:20:30", "Mon, 05 Jan 2020 10:20:30", "Sun, 5 Jan 2020 10:20:30 GMT",
    " 2020-01-05", "20200105T101112", "20200105 101112", "05.01.2020", "5/1/2020", "2020-01", "2020-1-5 1:2",
    "1577836800.5", "1577836800123", "2020-01-05 10:20:30 +0200", "2020-01-05 10", "1-2-2020", "December 31 2020",
    "jan 5 2020",
]  # fmt: skip
_NUMBERS = [
    "0", "1", "-1", "+1", "127", "128", "-128", "-129", "255", "256", "65535", "65536", "-32768", "2147483647", "-0",
    "2147483648", "-2147483648", "4294967295", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "99999999999999999999", "1.5", ".5", "5.",
    "000000000000000000000000007", "12345678", "123456789", "1234567812345678", "1e3", "1E-3", "inf", "-inf", "nan",
    "", " ", " 1", "1 ", "abc", "12abc", "0x10", "1,5", "--1", "+-1", "-", "+", ".", "-.5", "1.2.3", "0.1", "é1", "1é",
    "123456789.987654321", "0.30000000000000004", "1234567.125", "99999.999", "-7.005", "16777217", "0.1e1",
]  # fmt: skip
_DECIMALS = [
    *_NUMBERS, "-.", "1..2", ".e1", "e1", "1.e1", "1e", "1e+", "1e2.5", "1.2399e1", "0.019", "00000000000001", "1e-400",
    "12345678901e-4", "123456789e-7", "0000000000012345678901.5", "1.23456789012345678901234", "1E+05",
]  # fmt: skip
_ADDRESSES = [
    "1.2.3.4", "255.255.255.255", "0.0.0.0", "256.1.1.1", "1.2.3", "1.2.3.4.5", "", "::", "::1", "1::",
    "2001:db8::7334", "2001:0DB8:0:0:0:8a2e:370:7334", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::",
    "1:2:3:4:5:6:7", ":1:2:3:4:5:6:7", "1::2::3", "12345::", "g::", "fe80::1%eth0", "abc",
    "é::", ".1.2.3", "1.2.3.", "::.", "::1.2.3.4", "64:ff9b::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4",
    "::FFFF:1.2.3.4", "::ffff:1.2.3", "1.2.3.4::", "::ffff:1.2.::ffff:3.4", "::1.2.3.4.5", "1::1:2:3:4:5:6:7",
    "::00001", "1:2:3:4:5:6:7:8::", "1:2:3:4:5:6:7::8", "::1:2:3:4:5:6:7:8", ":::",
]  # fmt: skip
_ADDRESSES += ["01.2.3.4", "00.2.3.4", "0.1.2.3", "1.02.3.4", "::01.2.3.4"]
_URLS = [
    "http://example.com", "https://www.example.com/a?x=1#f", "ftp://user:pw@host.org:21/f", "//cdn.net/x.js", "", "/",
    "http://", "example.com/path", "mailto:a@b.c", "http://a.b?q#", "HTTP://WWW.Example.COM/P", "http://127.0.0.1:80/",
    "http://[::1]/x", "/just/path?q=1.2", "http://wwwx.org", "http://www.co.uk/?", "https://ünï.de/ä", "svn+ssh://h.x/p",
    "http://a_b.com/", "http://me@a.b/", "me@a.b", "http://.a/", "http://a./", "http://.", "//", "://a.b", "a b.c",
    "www.a.b", "//www.a.b:80", "http://a.b/\\0", "x" * 40, "http://a.b c/", "http://a.b@c.d/", "http:/a.b", "日本.jp",
    "http://a.b.", "http://www.org/", "www.a", "a.b..c", "1c..", "http://a.b.:80", "http://www.a.b", "a.b.?x",
    "http:///a.b", "a.b:c", "http://www.", "wwwa.b.c", "a.b://c", "a.b://", "1a.b://c.d", "+://a.b", "a_b.c://d",
    "me@a.b://c", "//a.b://c", ".a.b://c", "a?b#c?d", "#a?b", "?", "a#", "a?b?c#d#e",
]  # fmt: skip
_NO_URLS = ["a.b@c", "a.b://c@d"]
"""Of these ClickHouse finds other hosts."""
_READERS = {
    "urls": (_URLS, "domain(x) domainWithoutWWW(x) path(x) queryString(x) fragment(x) cutQueryString(x)"),
    "addresses": (_ADDRESSES, "toIPv6OrNull(x) toIPv6OrZero(x) toIPv4OrNull(x) toIPv4OrZero(x)"),
    "spelled_addresses": (["::ffff:1.2.3.4", "64:ff9b::1.2.3.4", "1:2::7", "::9.8.7.6", "::"], "toIPv6(x)"),
    "spelled_uuids": (["61f0c404-5cb3-11e7-907b-a6006ad3d003", "00000000-0000-0000-0000-0000000000FF",
                       "61f0c4045cb311e7907ba6006ad3d003"], "toUUID(x) toString(toUUID(x)) toUUIDOrNull(x)"),
    "no_uuids": (["", "abc", "61f0c404-5cb3-11e7-907b-a6006ad3d003", "z" * 36, "6" * 31, "é" * 18],
                 "toUUIDOrNull(x) toUUIDOrZero(x)"),
    "months": (["2020-1", "2020-12", "2020/1", "January 2020", "jan 2020", "Jan 2020 ", "JAN 2020", "6 Jan 2020"],
               "toDateTime(x)"),
    "strings": (["", "a", "example.com/a-b", "Hello World", "ab ab", "日abc", "abc日", "é", "a,b,,c", "ÉA", "aaa",
                 "\0a", "one two", "TWO one1", "ak", "-one-", " ", "a" * 70],
                "position(x,'b') position(x,'日') positionCaseInsensitive(x,'É') positionCaseInsensitive(x,'O') "
                "ascii(x) hasToken(x,'abc') hasToken(x,'one') hasToken(x,'é') countSubstrings(x,'a') "
                "countSubstrings(x,'aa') trimBoth(x,'a') trimLeft(x,'-') initcap(x) trimBoth(x) trimRight(x) "
                "leftUTF8(x,2) leftUTF8(x,-2) leftUTF8(x,0) rightUTF8(x,2) rightUTF8(x,-2) rightUTF8(x,0) "
                "substringUTF8(x,2) substringUTF8(x,-2) substringUTF8(x,-3,2) substringUTF8(x,2,2) "
                "substringUTF8(x,-5,3) substringIndex(x,',',-1) substringIndex(x,'a',-2) "
                "replaceAll(x,'a','ü') replaceAll(x,'ab','') appendTrailingCharIfAbsent(x,'b') "
                "splitByChar(',',x) splitByString('ab',x,2) "
                "alphaTokens(x) alphaTokens(x,1) splitByWhitespace(x) "
                "splitByNonAlpha(x) splitByNonAlpha(x,1) substringIndex(x,'a',1) substringIndex(x,',',2) "
                "ilike(x,'%_S') ilike(x,'%K%') ilike(x,'%_k') ilike(x,'_%O%') ilike(x,'i%') notILike(x,'%a') "
                "lower(x) hex(MD5(x)) splitByChar(',',x,1) positionUTF8(x,'b') positionUTF8(x,'a',2) "
                "positionUTF8(x,'',3) positionUTF8(x,'aa',2) "
                "positionUTF8(x,'c',toUInt8(length(x)%5)) positionUTF8(x,'日',0) positionCaseInsensitiveUTF8(x,'É') "
                "positionCaseInsensitiveUTF8(x,'O',5) positionCaseInsensitiveUTF8(x,'',toUInt8(2))"),
    "letters": (["", "a", "abc", "Hello World", "ab ab", " ", "a" * 70, "-x-"],
                "leftPad(x,5) rightPad(x,5,'xy') leftPad(x,5,'xy') leftPad(x,0) rightPad(x,7,'') "
                "leftPad(x,toUInt8(length(x)%4)) left(x,2) left(x,-2) right(x,2) right(x,-2) right(x,0) left(x,0) "
                "left(x,toInt8(length(x))-4) right(x,toInt8(length(x))-4) toFixedString(x,70) "
                "trimRight(toFixedString(x,70),'a') space(toInt8(length(x))-2) toFixedString(toFixedString(x,70),80)"),
    "numbers": (_NUMBERS, "toUInt8OrNull(x) toInt8OrZero(x) toUInt16OrNull(x) toInt32OrNull(x) toUInt32OrZero(x) "
                "toInt64OrNull(x) toUInt64OrNull(x) toFloat64OrNull(x) toFloat32OrNull(x) toFloat64OrZero(x)"),
    "decimals": (_DECIMALS, "toDecimal32OrNull(x,2) toDecimal64OrZero(x,3) toDecimal64OrNull(x,0) "
                 "toDecimal128OrNull(x,3) toDecimal64OrNull(x,12)"),
    "integers": (["0", "7", "255", "256", "65536", "4294967296", "18446744073709551615", "+5", "12345678", "123456789",
                  "18446744073709551617", "9" * 25, "+" + "7" * 40, "123456789" * 12, "0" * 90 + "12"],
                 "toUInt8(x) toInt8(x) toUInt32(x) toInt64(x) toUInt64(x) toInt16(x)"),
    "times": (_TIMES, "toDateOrNull(x) toDateOrZero(x) toDate32OrNull(x) toDateTimeOrNull(x) toDateTimeOrZero(x) "
              "toDateTime64OrNull(x,6) toDateTime64OrNull(x,3,'Asia/Tokyo') "
              "toDateTime64OrNull(x,0) toDateTimeOrNull(x,'Asia/Tokyo') toDateTimeOrZero(x,'Asia/Kolkata')"),
    "days": (_DAYS, "toDate(x) toDate32(x) toDateOrNull(x) "
             "toDateTime(x,'Europe/Berlin') toDateTime64OrNull(x,9) toStartOfHour(toDateTime(x))"),
}  # fmt: skip
_CALLS = [(name, call) for name, (_, calls) in _READERS.items() for call in calls.split()]


@pytest.fixture(scope="module")
def catalog() -> MemoryCatalog:
    """A table of each kind of texts, with every text three times, and in two types."""
    schema = schema_of("x String, n Nullable(String)")
    tables: dict[str, Any] = {}
    for name, (texts, _) in _READERS.items():
        column = pa.array(texts * 3)
        some = pa.array([text if number % 5 else None for number, text in enumerate(texts * 3)])
        table: ArrowRelation = MemoryRelation(schema, pa.table([column, some], schema=schema.arrow))
        tables[name] = table
    return MemoryCatalog(tables)


@pytest.mark.parametrize("column", ["x", "n"])
@pytest.mark.parametrize(("name", "call"), one_in(15, _CALLS), ids=[f"{name}-{call}" for name, call in _CALLS])
def test_same_values(engines: Engines, catalog: MemoryCatalog, name: str, call: str, column: str) -> None:
    if column == "n":
        call = call.replace("(x", f"({column}").replace(",x", f",{column}")
    table = catalog.tables[name]
    assert isinstance(table, MemoryRelation)
    values = ", ".join("NULL" if value is None else f"'{_written(value)}'" for value in table.table[column].to_pylist())
    type_ = "String" if column == "x" else "Nullable(String)"
    rows = f"(SELECT arrayJoin([{values}]::Array({type_})) AS {column})"
    _, (type_name,), expected = engines.clickhouse(f"SELECT {call} AS r FROM {rows}")
    for source in (name, f"(SELECT * FROM {name})"):
        _, _, own = engines.pando(f"SELECT {call} AS r FROM {source}", catalog)
        for value, (cell,), (ours,) in zip(table.table[column].to_pylist(), expected, own, strict=True):
            assert same_cell(cell, ours, type_name), f"{value!r}: ClickHouse {cell!r}, Pando {ours!r}, {source}"


@pytest.mark.parametrize(
    ("texts", "calls"),
    [
        ([*_NO_URLS, *_URLS], "domain(x), domainWithoutWWW(x), protocol(x)"),
        ([*_TIMES, *_NAMED], "toDateTimeOrDefault(x), accurateCastOrNull(x, 'DateTime64(3, \\'Asia/Tokyo\\')')"),
    ],
    ids=["hosts", "instants"],
)
def test_scans_find_what_duckdb_finds(engines: Engines, texts: list[str], calls: str) -> None:
    schema = schema_of("x String")
    table = MemoryRelation(schema, pa.table([pa.array(texts)], schema=schema.arrow))
    catalog = MemoryCatalog({"texts": table})
    query = f"SELECT {calls} FROM "
    assert engines.pando(f"{query}texts", catalog) == engines.pando(f"{query}(SELECT * FROM texts)", catalog)


def _written(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")


@pytest.mark.parametrize(
    "call",
    ["toUInt8(n)", "toInt64(n)", "toFloat64(n)", "toDate(n)", "toDate32(n)", "toDateTime(n)", "toUnixTimestamp(n)",
     "toDateTime(n, 'Asia/Tokyo')", "toDecimal32(n, 2)", "toUUID(n)", "toIPv4(n)", "toIPv6(n)"],
)  # fmt: skip
def test_a_wrong_text_in_a_nullable_is_null(engines: Engines, catalog: MemoryCatalog, call: str) -> None:
    rows = "(SELECT arrayJoin(['abc', NULL, '', '300x']::Array(Nullable(String))) AS n)"
    expected = engines.clickhouse(f"SELECT {call} AS r FROM {rows}")
    assert expected[2] == [["\\N"]] * 4
    assert engines.pando(f"SELECT {call} AS r FROM {rows}", catalog) == expected


def test_two_functions_that_leave_texts_over(engines: Engines) -> None:
    """Each has a column of its own, though both are made of the same one."""
    schema = schema_of("x String")
    table = MemoryRelation(schema, pa.table([pa.array(["1960-01-01 10:00:00.5", "2020-01-01"])], schema=schema.arrow))
    query = "SELECT accurateCastOrNull(x, 'DateTime'), accurateCastOrNull(x, 'DateTime64(1)') FROM "
    catalog = MemoryCatalog({"texts": table})
    assert engines.pando(f"{query}texts", catalog) == engines.pando(f"{query}(SELECT * FROM texts)", catalog)
