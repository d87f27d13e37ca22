"""What wrong queries get, and how running ones behave."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import chdb
import numpy as np
import pyarrow as pa
import pytest

from parts.common.errors import CancelledError, PandoError
from sql.functions.registry import (
    list_functions,
)
from sql.run.query_engine import QueryEngine
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation, schema_of
from tests.sql.run.part_tables import describe

SCHEMA = schema_of("a UInt32, s String, d Date, n Nullable(Int32)")
BLOCK = pa.table(
    {
        "a": pa.array([1, 2, 3], pa.uint32()), "s": pa.array(["x", "y", "7"]),
        "d": pa.array([18262, 18263, 18264], pa.int32()).cast(pa.date32()), "n": pa.array([1, None, 3], pa.int32()),
    }
)  # fmt: skip
CATALOG = MemoryCatalog({"t": MemoryRelation(SCHEMA, BLOCK)})


def rows(query: str, **options: object) -> list[tuple[object, ...]]:
    table = QueryEngine().select(query, catalog=CATALOG, **options).read_all()  # type: ignore[arg-type]
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_rows else []


@pytest.mark.parametrize(
    "mark",
    [
        "<scan 1>", """<\'"scan 1"\'>""", """<\'\'"scan 1"\'\'>""", "/*run*/", "pando_room(\'/*run*/;", "/*watch*/",
        """/*\'"watch"\'*/""", """/*\'"watched"\'*/""", "\x01\x02",
    ],
)  # fmt: skip
def test_no_text_of_the_user_is_taken_for_a_mark_of_the_compilers(mark: str) -> None:
    literal = "'" + mark.replace("'", "\\'") + "'"
    twice = f"arrayMap(x -> repeat({literal}, x), [materialize(2)])[1]"
    source = f"(SELECT a AS `{mark}` FROM t)"
    assert rows(
        f"SELECT {literal}, max({literal}), {twice} FROM {source} WHERE `{mark}` = 1 AND {literal} = {literal}"
    ) == [(mark, mark, mark * 2)]
    assert rows(f"SELECT arrayMap(x -> x + `{mark}`, [1]) FROM {source} WHERE `{mark}` = 2") == [([3],)]


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELECT", 62, "position"), ("SELECT a FROM", 62, "Expected"), ("SELECT (1", 62, "position 10"),
        ("SELECT 1 1", 62, ""), ("SELECT 1e400", 62, "1e400"),
        ("SELECT -1::UInt8", 72, "-1"), ("SELECT 1.5::Int32", 6, "1.5"), ("SELECT toUInt8('')", 32, "UInt8"),
        ("SELECT toDecimal32(1, 50)", 69, "50"), ("SELECT toDecimal64OrNull('1', 19)", 69, "19"),
        ("SELECT nth_value(a) OVER () FROM t", 42, "nth_value"), ("SELECT ntile() OVER () FROM t", 42, "ntile"),
        ("SELECT accurateCast(300, 'UInt8')", 70, "UInt8"), ("SELECT CAST(5 AS Enum8('a' = 1))", 691, "5"),
        ("SELECT toHour(toDate('2020-01-01'))", 43, "time of day"), ("SELECT toDateTime('12345')", 41, "12345"),
        ("SELECT a FROM t WHERE", 62, ""), ("SELECT nope FROM t", 47, "nope"), ("SELECT nope(1)", 46, "nope"),
        ("SELECT a FROM t PREWHERE arrayJoin([a]) = 1", 182, "WHERE"),
        ("SELECT arrayJoin([a]) AS n FROM t PREWHERE n + 1 = 2", 182, "WHERE"),
        ("SELECT 1 FROM t ASOF JOIN (SELECT a, s FROM t) AS r ON t.a = r.a AND t.s >= r.s", 169, "String"),
        ("SELECT 1 FROM t ASOF JOIN (SELECT a, s FROM t) AS r USING (a, s)", 169, "String"),
        ("SELECT 1 FROM t SETTINGS parallel_replicas_count = 2", 48, "parallel_replicas_count"),
        ("SELECT lenght(s) FROM t", 46, "length"), ("SELECT a FROM missing", 60, "missing"),
        ("SELECT 'x' + INTERVAL 1 DAY", 41, "'x'"), ("SELECT 1 IN (toDecimal32(1, 2))", 53, "Decimal"),
        ("SELECT toDate('2020-01-01') IN (18262.0)", 53, "Float64"), ("SELECT today() IN (true)", 53, "Bool"),
        ("SELECT now() IN (toDateTime64(1, 3))", 53, "DateTime64"),
        ("SELECT toFloat64(1) IN (toDecimal32(1, 2))", 53, "Decimal"),
        ("SELECT 1 FROM (SELECT 1 SETTINGS max_rows_to_read = 1)", 48, "max_rows_to_read"),
        ("SELECT toFixedString('a', 1) + INTERVAL 1 DAY", 43, "FixedString"),
        ("SELECT dateDiff('day', '2020-01-01', toDate('2020-01-03'))", 43, "String"),
        ("SELECT length(1)", 43, "length"), ("SELECT length()", 42, "length"), ("SELECT 'a' + 1", 43, "String"),
        ("SELECT a, count() FROM t", 215, "a"), ("SELECT a FROM t WHERE count() > 1", 184, "count"),
        ("SELECT sum(sum(a)) FROM t", 184, "sum"), ("SELECT s FROM t WHERE s", 59, "String"),
        ("SELECT [1, 'a']", 386, "supertype"), ("SELECT toInt32(s) FROM t", 6, "'x'"),
        ("SELECT intDiv(1, a - 1) FROM t", 153, ""),
        ("SELECT 1 UNION ALL SELECT 1, 2", 258, ""), ("SELECT 1 UNION SELECT 2", 36, "UNION ALL"),
        ("SELECT (SELECT a FROM t)", 125, "more than one"), ("SELECT sumState(a) FROM t", 48, "State"),
        ("SELECT count() FROM t GROUP BY a WITH TOTALS", 48, "TOTALS"), ("SELECT {x:UInt8}", 456, "x"),
        ("SELECT throwIf(a = 3, 'three') FROM t", 395, "three"), ("SELECT a FROM t LIMIT -1", 36, "LIMIT"),
        ("SELECT map('a', 1)[0]", 43, "Map"), ("SELECT map(1, 2)['a']", 43, "Map"),
        ("SELECT map(1.5, 2)[1.5]", 43, "Map"),
        ("SELECT map(toDate('2020-01-01'), 2)['2020-01-01']", 43, "Map"), ("SELECT map([1], 2)[[1]]", 43, "Map"),
        ("SELECT mapContains(map('a', 1), 0)", 386, "supertype"), ("SELECT char('a')", 43, "String"),
        ("SELECT char(toDecimal32(66.9, 2))", 43, "Decimal"), ("SELECT splitByChar('', '')", 36, "separator"),
        ("SELECT arrayDifference([toDecimal32(100, 0), -2147483647])", 407, "Decimal"),
        ("SELECT tuple() = tuple()", 48, "empty"), ("SELECT (1, 2) = (1, 2, 3)", 43, "Tuple"),
        ("SELECT a FROM t SAMPLE 0.1", 141, "sampling"), ("SELECT metroHash64(a) FROM t", 46, "metroHash64"),
        ("SELECT d + 'x' FROM t", 43, ""), ("SELECT read_csv('/etc/passwd')", 46, "read_csv"),
        ("SELECT * FROM read_csv('/etc/passwd')", 46, "read_csv"), ("SELECT a AS x, s AS x FROM t", 179, "x"),
        ("SELECT tupleElement((a, s), a) FROM t", 43, "constant"),
        ("SELECT arrayMap(x -> x, a) FROM t", 43, "Array"), ("SELECT CAST(NULL AS UInt8)", 349, "NULL"),
        ("SELECT a FROM t WHERE a = 'x'", 53, "'x'"), ("SELECT a FROM t WHERE a IN (1, '-1')", 53, "UInt32"),
        ("SELECT a FROM t WHERE d > 'x'", 38, "Date"), ("SELECT a FROM t WHERE d = '2020-01-01 10:00:00'", 53, "Date"),
        ("SELECT a FROM t WHERE d > 5", 43, "Date"), ("SELECT a FROM t WHERE s = 5", 386, "supertype"),
        ("SELECT now() > 'x'", 41, "DateTime"), ("SELECT toFloat64(1) = 'x'", 72, "Float64"),
        ("SELECT generateUUIDv4() = 'x'", 376, "UUID"), ("SELECT toIPv4('1.2.3.4') = '::1'", 675, "IPv4"),
        ("SELECT toIPv6('::1') = 'x'", 676, "IPv6"), ("SELECT toIPv6('1::2::3')", 676, "1::2::3"),
        ("SELECT toIPv6('1:2:3:4:5:6:7:8:9')", 676, ""), ("SELECT true = 'maybe'", 467, "Bool"),
        ("SELECT toDateTime64('2020-01-01', 3) % 3", 43, "DateTime64"), ("SELECT arrayJoin([])", 43, "Nothing"),
        ("SELECT toDecimal32(99999999999, 2)", 407, ""), ("SELECT CAST('x' AS Enum8('a' = 1))", 691, "x"),
    ],
)  # fmt: skip
def test_error_codes(query: str, code: int, words: str) -> None:
    with pytest.raises(PandoError) as caught:
        rows(query)
    assert caught.value.code == code, str(caught.value)
    assert words in caught.value.message


def test_parameters() -> None:
    given = {"n": "2", "s": "it's", "d": "2020-01-02", "l": "[1,2]", "x": "5"}
    assert rows("SELECT a FROM t WHERE a >= {n:UInt32} ORDER BY a", parameters=given) == [(2,), (3,)]
    assert rows("SELECT {s:String}, {n:Nullable(Int8)}, {l:Array(UInt8)}", parameters=given) == [("it's", 2, [1, 2])]
    assert rows("SELECT count() FROM t WHERE d = {d:Date}", parameters=given) == [(1,)]
    assert rows("SELECT a FROM t ORDER BY a LIMIT {n:UInt64}", parameters=given) == [(1,), (2,)]
    with pytest.raises(PandoError, match="cannot be parsed"):
        rows("SELECT {s:UInt8}", parameters=given)


@pytest.mark.parametrize(
    ("type_", "text"),
    [("String", "a\\tb\\'c"), ("String", "\\x41\\\\"), ("String", "\\qb"), ("Nullable(String)", "\\N"),
     ("Array(String)", r"['a\'b']"), ("LowCardinality(String)", "a\\nb"), ("FixedString(3)", "[\\tb"), ("String", ""),
     ("Tuple(String, UInt8)", r"('ab', 1)"), ("Int64", "-5"), ("Array(Int8)", "[-1,2]")],
)  # fmt: skip
def test_parameters_are_in_escaped_form(type_: str, text: str) -> None:
    query = f"SELECT toString({{p:{type_}}}), toTypeName({{p:{type_}}})"
    expected = chdb.query(query, "JSONCompactEachRow", params={"p": text}).data()
    assert [list(row) for row in rows(query, parameters={"p": text})] == [json.loads(expected)]


@pytest.mark.parametrize(
    ("type_", "text", "code"),
    [("String", "a\tb", 457), ("String", "a\\", 25), ("UInt8", "1_0", 457), ("UInt8", "\xb2", 457),
     ("Int32", " 1", 457),
     ("Array(UInt8)", "[(SELECT 1)]", 457), ("Array(UInt64)", "[now()]", 457), ("Array(String)", "x", 457)],
)  # fmt: skip
def test_parameters_that_are_no_values(type_: str, text: str, code: int) -> None:
    with pytest.raises(PandoError) as caught:
        rows(f"SELECT {{p:{type_}}}", parameters={"p": text})
    assert caught.value.code == code


def test_constants() -> None:
    constants = {
        "hostName": "h1",
        "version": "1.2.3",
        "currentDatabase": "db",
        "currentUser": "me",
        "timezone": "Asia/Tokyo",
    }
    query = "SELECT hostName(), version(), currentDatabase(), currentUser(), timezone(), toString(toDateTime(0))"
    assert rows(query, constants=constants) == [("h1", "1.2.3", "db", "me", "Asia/Tokyo", "1970-01-01 09:00:00")]


def test_storage_types_come_out() -> None:
    query = (
        "SELECT toUInt8(1) AS a, toDateTime(5) AS b, toDateTime64('2020-01-01 00:00:00.5', 3) AS c, toUUID("
        "'61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS d, toFixedString('x', 2) AS e, toLowCardinality('q') AS f,"
        " [toNullable(1)] AS g, map('k', 1) AS h, (1, 'x') AS i, toDecimal64(1, 3) AS j, toIPv4('1.2.3.4') AS k,"
        " CAST('a', 'Enum8(\\'a\\' = 1)') AS l,"
        " [toDateTime(1)] AS m, (toDateTime(1), [toLowCardinality('z')]) AS n, map('x', toDateTime64(1, 3)) AS o"
    )
    result = QueryEngine().select(query, catalog=CATALOG)
    for (name, type_), column in zip(result.columns, result.read_all().columns, strict=True):
        assert column.type == type_.arrow, name


def test_describe_reads_nothing() -> None:
    columns = QueryEngine().describe("SELECT a + 1 AS x, n FROM t", catalog=CATALOG)
    assert [(name, str(type_)) for name, type_ in columns] == [("x", "UInt64"), ("n", "Nullable(Int32)")]


def test_cancelling_ends_the_query() -> None:
    result = QueryEngine().select("SELECT sum(number % 7) FROM numbers(1000000000000)", catalog=CATALOG)
    threading.Timer(0.2, result.cancel).start()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        result.read_all()
    assert time.monotonic() - started < 10


def test_an_early_close_releases_the_snapshot(tmp_path: Path) -> None:
    table = describe("a UInt32", "a", granularity=1024)
    table.insert(
        tmp_path, pa.table({"a": pa.array(np.arange(300_000, dtype=np.uint32))}, schema=table.description.schema.arrow)
    )
    result = QueryEngine().select("SELECT a FROM t", catalog=MemoryCatalog({"t": table}))
    first = next(iter(result.batches))
    assert first.num_rows
    result.close()
    assert [snapshot.released for snapshot in table.snapshots] == [1]


def test_many_queries_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: rows(f"SELECT sum(a) + {n} FROM t"), range(64)))
    assert answers == [[(6 + n,)] for n in range(64)]


def test_sampling_is_a_range_of_the_key(tmp_path: Path) -> None:
    table = describe("u UInt32", "intHash32(u)", "", "intHash32(u)", granularity=64)
    table.insert(
        tmp_path, pa.table({"u": pa.array(np.arange(20_000, dtype=np.uint32))}, schema=table.description.schema.arrow)
    )
    catalog = MemoryCatalog({"t": table})

    def read(sample: str) -> set[int]:
        result = QueryEngine().select(f"SELECT u FROM t {sample}", catalog=catalog)
        return set(result.read_all().column(0).to_pylist())

    first, second = read("SAMPLE 1/2"), read("SAMPLE 1/2 OFFSET 1/2")
    assert not first & second
    assert len(first | second) == 20_000
    assert 1500 < len(read("SAMPLE 0.1")) < 2500
    result = QueryEngine().select("SELECT count() FROM t SAMPLE 0.1", catalog=catalog)
    result.read_all()
    assert result.statistics.read_rows < 4000


def test_alias_and_virtual_columns(tmp_path: Path) -> None:
    from dataclasses import replace

    from parts.table.table_description import Column, TableSchema
    from parts.types import parse_type

    table = describe("a UInt32, d Date", "a", "toYYYYMM(d)")
    schema = table.description.schema
    block = pa.table({"a": [1, 2], "d": [18262, 18300]}).cast(
        pa.schema([("a", pa.uint32()), ("d", pa.int32())])
    ).cast(schema.arrow)  # fmt: skip
    table.insert(tmp_path, block)
    double = Column("b", parse_type("UInt64"), default_kind="ALIAS", default_expression="a * 2")
    table.description = replace(table.description, schema=TableSchema((*schema.columns, double)))
    catalog = MemoryCatalog({"t": table})

    def read(query: str) -> list[dict[str, object]]:
        return QueryEngine().select(query, catalog=catalog).read_all().to_pylist()

    assert read("SELECT b FROM t WHERE b > 2") == [{"b": 4}]
    assert list(read("SELECT * FROM t ORDER BY a LIMIT 1")[0]) == ["a", "d"]
    assert read("SELECT _partition_id, count() AS c FROM t GROUP BY _partition_id ORDER BY 1") == [
        {"_partition_id": "202001", "c": 1},
        {"_partition_id": "202002", "c": 1},
    ]


def test_every_function_has_a_name() -> None:
    names = list_functions()
    assert len(names) > 300
    assert ("sum", True) in names
    assert ("length", False) in names


def test_a_query_costs_little() -> None:
    engine = QueryEngine()
    engine.select("SELECT 1", catalog=CATALOG).read_all()
    times = []
    for _ in range(30):
        started = time.perf_counter()
        engine.select("SELECT a + 1, upper(s) FROM t WHERE a > 1 ORDER BY a", catalog=CATALOG).read_all()
        times.append(time.perf_counter() - started)
    assert sorted(times)[5] < 0.02
