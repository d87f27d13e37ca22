"""What a statement may cost before anything is read: its depth, its size, its constants, its time."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from parts.common.errors import CancelledError, UserError
from parts.common.query_status import QueryStatus
from parts.types import parse_type
from sql.grammar.queries.literal_lists import MIN_LIST_LITERALS
from sql.grammar.statement_parser import parse_statements
from sql.run.query_engine import QueryEngine
from sql.settings.session_settings import (
    make_settings,
)
from tests.portions import one_in
from tests.sql.run.dataset import Engines, MemoryCatalog

pytestmark = pytest.mark.long

NOTHING = MemoryCatalog({})


def rows(query: str, **settings: object) -> list[tuple[Any, ...]]:
    result = QueryEngine().select(query, catalog=NOTHING, settings=make_settings(settings))
    return [tuple(row.values()) for row in result.read_all().to_pylist()]


def code(query: str, **settings: object) -> int:
    with pytest.raises(UserError) as raised:
        rows(query, **settings)
    return raised.value.code


def nested(opening: str, inner: str, closing: str, times: int) -> str:
    return f"SELECT {opening * times}{inner}{closing * times} FROM numbers(1)"


def doubling(first: str, times: int) -> str:
    return f"SELECT {first} AS a0" + "".join(f", a{n} + a{n} AS a{n + 1}" for n in range(times)) + " FROM numbers(2)"


REFUSED = {
    "brackets": nested("(", "number", ")", 5000),
    "calls": nested("abs(", "number", ")", 600),
    "arrays": nested("[", "number", "]", 600),
    "subqueries": "SELECT " + "(SELECT " * 100 + "1" + ")" * 100,
    "tables": "SELECT * FROM " + "(SELECT * FROM " * 120 + "numbers(1)" + ")" * 120,
    "sums": "SELECT number" + " + 1" * 600 + " FROM numbers(1)",
    "minus": nested("- ", "number", "", 600),
    "not": nested("NOT ", "number", "", 600),
    "case": nested("CASE WHEN number = 1 THEN 1 ELSE ", "1", " END", 600),
    "ands": "SELECT count() FROM numbers(1) WHERE " + " AND ".join(["number=1"] * 15_000),
    "scale of a decimal": "SELECT round(toDecimal32(1, 2), -1000000000)",
    "scale of a float": "SELECT round(1.5, 1000000)",
    "digits": "SELECT " + "1" * 100_000,
    "hexadecimal digits": "SELECT 0x" + "f" * 1000,
    "an empty interval": "SELECT now() + INTERVAL '' DAY",
    "no interval": "SELECT INTERVAL ''",
    "a type in CAST": "SELECT CAST([], '" + "Array(" * 5000 + "Int8" + ")" * 5000 + "')",
    "a time zone": "SELECT toDateTime('2020-01-01 00:00:00', 'Foo/Bar')",
    "columns of no pattern": "SELECT COLUMNS('(') FROM numbers(1)",
    "repeat": "SELECT repeat('a', 1000000000000)",
    "range": "SELECT range(1000000000000)",
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED)
def test_refused_with_clickhouses_code(engines: Engines, query: str) -> None:
    with pytest.raises(Exception, match="Code: ") as raised:
        engines.session.query(query, "TabSeparated")  # type: ignore[attr-defined]
    expected = int(re.search(r"Code: (\d+)", str(raised.value)).group(1))  # type: ignore[union-attr]
    assert code(query) == expected


ALLOWED = {
    "brackets": nested("(", "1", ")", 190),
    "calls": nested("abs(", "number", ")", 300),
    "sums": "SELECT number" + " + 1" * 60 + " FROM numbers(1)",
    "minus": nested("- ", "number", "", 60),
    "not": nested("NOT ", "number", "", 300),
    "subqueries": "SELECT " + "(SELECT " * 80 + "1" + ")" * 80,
    "tables": "SELECT * FROM " + "(SELECT * FROM " * 90 + "numbers(1)" + ")" * 90,
    "ands": "SELECT count() FROM numbers(9) WHERE " + " AND ".join(["number<3"] * 2000),
    "calls of position and substring": nested("substring(", "toString(number)", ", 1, 2)", 2),
    "aliases": doubling("number", 9),
    "aliases of aggregates": "SELECT sum(number) AS a, a + a AS b, b + b AS c, c * a AS d FROM numbers(5)",
    "aliases in lambdas": "SELECT number + 1 AS a, arrayMap(a -> a * 2, [1, 2]), arrayMap(x -> a + x, [1]) "
    "FROM numbers(2)",
    "an alias of its column": "SELECT number + 1 AS number, number * 2 AS twice FROM numbers(3)",
    "long sums": "SELECT number" + " + 1" * 490 + ", 0" + " - number" * 490 + " FROM numbers(3)",
    "a long sum that wraps around": "SELECT toInt8(number) - toUInt8(3)"
    + "".join(f" {'+-'[n % 2]} ({2**64 - 1 - n} - toInt64(number) * {n})" for n in range(100))
    + " FROM numbers(3)",
    "a long sum of NULLs": "SELECT 0" + " + if(number = 1, NULL, number)" * 90 + " FROM numbers(3)",
    "a long sum of floats": "SELECT 0" + " + number / 3 - 1e17 * number" * 200 + " FROM numbers(3)",
    "a long sum of decimals": "SELECT toDecimal64(number, 2)" + " + toDecimal64(0.01, 2)" * 300 + " FROM numbers(3)",
    "long products": "SELECT 3" + " * number" * 300 + ", 3.5" + " / (number + 1)" * 200 + " FROM numbers(3)",
    "a long sum without a table": "SELECT 3" + " * 3" * 200 + " AS x WHERE x > 5" + " + 1" * 300,
    "long sums of groups": f"WITH number{' * number' * 150} AS k SELECT if(number = 1, k + 1, 0), k, "
    f"sum(k){' + 1' * 300} FROM numbers(3) GROUP BY k, number HAVING count(){' * count()' * 150} > 0 ORDER BY number",
    "long products before and after WHERE": f"SELECT number{' * 3' * 150} AS x, intDiv(6, number){' * 5' * 150} "
    f"FROM numbers(9) WHERE number / 2{' * 2' * 150} > 0 AND number < 8 ORDER BY x DESC, number LIMIT 3",
    "a long product in a branch": f"SELECT if(number = 0, 0, intDiv(6, number){' * 3' * 60}) FROM numbers(3)",
    "long products of a window": f"SELECT sum(number{' * number' * 100}) OVER (ORDER BY number) AS s, s{' * 3' * 50} "
    "FROM numbers(3) WHERE number > 0",
    "long products of arrayJoin": f"SELECT arrayJoin([1, 2, number]) AS x, x{' * x' * 100} FROM numbers(3) WHERE x > 0",
    "long products of a join": f"SELECT a.number{' * 3' * 150} + b.number AS y FROM numbers(3) AS a "
    "JOIN numbers(3) AS b ON a.number = b.number WHERE y >= 0 ORDER BY y",
    "a correlated long product": f"SELECT (SELECT sum(number{' * 3' * 100}) FROM numbers(3)) FROM numbers(2)",
    "many aliases that double": doubling("number", 15),
    "many aliases that double in groups": doubling("sum(number)", 12) + " GROUP BY number HAVING a12 > 9",
    "aliases of WITH that double": "WITH" + doubling("number", 12)[6:-16] + " SELECT a12 FROM numbers(9) WHERE a12 > 9",
    "calls of position and substring, many": nested("substring(", "toString(number)", ", 1, 2)", 30),
    "dates of texts of dates": nested("toDate(toString(", "toDate('2020-01-01') + number", "))", 4),
    "rounds": nested("round(", "number / 3", ", 1)", 50),
    "concatenation": "SELECT " + " || ".join(["toString(number)"] * 500) + " FROM numbers(2)",
    "limit by nothing": "SELECT 1 LIMIT 1 BY ()",
    "round far away": "SELECT round(15, -100), round(1.5, 1000), floor(toDecimal32(1, 2), -1000)",
}


@pytest.mark.parametrize("query", one_in(4, ALLOWED.values()), ids=ALLOWED)
def test_allowed_as_in_clickhouse(engines: Engines, query: str) -> None:
    _, types, expected = engines.clickhouse(query)
    _, our_types, ours = engines.pando(query)
    assert our_types == types
    assert [list(map(str, row)) for row in ours] == [list(map(str, row)) for row in expected]


def test_aliases_that_double_are_counted_not_written_out() -> None:
    assert code(doubling("number", 40)) in (36, 168)
    assert code("SELECT 1 AS a0, toTypeName(a0) AS b0" + "".join(
        f", toTypeName((a{n}, a{n})) AS b{n + 1}, 1 + a{n} + a{n} AS a{n + 1}" for n in range(40)
    )) in (36, 168)  # fmt: skip


def test_calls_that_macros_write_out_many_times_are_refused_where_no_column_can_have_them() -> None:
    assert code("SELECT arrayMap(x -> " + "substring(" * 30 + "x" + ", 1, 2)" * 30 + ", ['a'])") == 168


def test_ordinary_calls_have_no_layers() -> None:
    query = (
        "SELECT substring(toString(number), 1, 2), number + 1 + 2 + 3, round(number / 3, 1) AS r, r + r FROM numbers(1)"
    )
    _, _, compiled = QueryEngine()._compile(query, NOTHING, make_settings({}), "default", None, None, None)
    assert ' AS "e' not in compiled.sql.render()


def test_limits_are_settings() -> None:
    query = nested("abs(", "number", ")", 20)
    assert rows(query) == [(0,)]
    assert code(query, max_ast_depth=10) == 167
    assert code(query, max_ast_elements=10) == 168
    assert code(nested("(", "number", ")", 20), max_parser_depth=50) == 306
    assert code(doubling("number", 5), max_expanded_ast_elements=20) == 36


def lambdas(levels: int) -> str:
    text = f"x{levels - 1} + 1"
    for level in reversed(range(levels)):
        text = f"arrayMap(x{level} -> {text}, [{f'x{level - 1}' if level else '1, 2'}])"
    return f"SELECT length({text})"


def test_lambdas_in_lambdas_count_as_often_as_they_are_planned() -> None:
    """Each level doubles what is planned: 18 took half a minute and gigabytes before the first look at a limit."""
    assert rows(lambdas(8)) == [(2,)]
    assert code(lambdas(18)) == code(lambdas(40)) == 36
    assert code(lambdas(40), max_expanded_ast_elements=0) == 168
    alias = "WITH arrayMap(x -> x + 1, [1]) AS a0"
    names = "".join(f", arrayMap(x -> a{n}, [1]) AS a{n + 1}" for n in range(18))
    assert code(f"{alias}{names} SELECT a18") == 36


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("generate_series(0, 18446744073709551615)", 36),
        ("generate_series(0, 10, 0)", 36),
        ("numbers(0, 10, 0)", 36),
        ("numbers(18446744073709551616)", 43),
        ("generate_series(0, 18446744073709551616)", 43),
    ],
)
def test_more_numbers_than_there_are(engines: Engines, source: str, expected: int) -> None:
    with pytest.raises(Exception, match=f"Code: {expected}"):
        engines.clickhouse(f"SELECT * FROM {source} LIMIT 1")
    assert code(f"SELECT * FROM {source} LIMIT 1") == expected


@pytest.mark.parametrize(("open_", "levels"), [("Array(", 59), ("Tuple(", 59), ("Map(Int8, ", 29)])
def test_types_as_deep_as_values_can_be(open_: str, levels: int) -> None:
    """Deeper ones could be created, but no value of theirs be read."""
    assert str(parse_type(f"{open_ * levels}Int8{')' * levels}")).count("(") == levels
    assert code(f"SELECT CAST([], '{open_ * 140}Int8{')' * 140}')") == 306


@pytest.mark.parametrize("count", [MIN_LIST_LITERALS - 1, MIN_LIST_LITERALS])
def test_lists_of_any_length_mean_the_same(engines: Engines, count: int) -> None:
    numbers, negative = ", ".join(map(str, range(count))), ",".join(f"{n - 50}" for n in range(count))
    texts = ", ".join(f"'it''s {n}\\n'" for n in range(count))
    days = ", ".join(f"'{2020 + n % 5}-01-{1 + n % 28:02}'" for n in range(count))
    query = f"""SELECT count(), sum(u8 IN ({numbers})), sum(i32 NOT IN ({negative})), sum(ni IN ({negative})),
    sum(d IN ({days})), sum(s IN ({texts})), sum(f64 IN (1.5, {numbers})), sum(u64 IN [{numbers}]),
    sum(id + 1 IN ({numbers})), sum(lc NOT IN ({texts})) FROM types WHERE id IN ({numbers})"""
    assert engines.pando(query)[2] == engines.clickhouse(query)[2]
    arrays = (
        f"SELECT length([{numbers}]), has([{texts}], 'it''s 5\\n'), arraySum([{negative}]), toTypeName([{negative}])"
    )
    assert engines.pando(arrays)[2] == engines.clickhouse(arrays)[2]


def test_a_list_that_is_a_scan_means_the_same(engines: Engines) -> None:
    numbers = ", ".join(map(str, range(3, 6003)))
    query = f"SELECT count(), sum(ni NOT IN ({numbers})), sum(id + 1 IN ({numbers})) FROM types WHERE id IN ({numbers})"
    assert engines.pando(query)[2] == engines.clickhouse(query)[2]
    texts = ", ".join(f"'str{n} Über'" for n in range(6000))
    query = f"SELECT count() FROM types WHERE s IN ({texts})"
    assert engines.pando(query)[2] == engines.clickhouse(query)[2]


@pytest.mark.parametrize("count", one_in(2, [1000, MIN_LIST_LITERALS - 1]))
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("(u8, i8)", "({n} % 300, {n} % 90 - 60)"),
        ("(u64, i64)", "({n} * 7919000055433, -123456789 * {n})"),
        ("(id, s)", "({n}, 'str{m}')"),
        ("(s, lc)", "('str{m} Über', 'lc{k}')"),
        ("(ni, id)", "({n} - 20, {n})"),
        ("(ns, lcn)", "('n{m}', 'lcn{k}')"),
        ("(u8, id, i16)", "({n}, {n}, {n} - 50)"),
        ("t", "({n}, 't{k}')"),
    ],
)
def test_lists_of_tuples_mean_the_same(engines: Engines, left: str, right: str, count: int) -> None:
    def evaluated(text: str) -> str:
        return re.sub(r"-?\d[\d %*-]*[%*-][\d %*-]*\d", lambda found: str(eval(found.group())), text)

    tuples = []
    for n in range(count):
        text = right.format(n=n, m=n % 13, k=n % 3)
        tuples.append(evaluated(text))
    listed = ", ".join(tuples)
    query = f"SELECT count(), sum({left} IN ({listed})), sum({left} NOT IN ({listed})) FROM types"
    assert engines.pando(query)[2] == engines.clickhouse(query)[2]
    query = f"SELECT id FROM types WHERE {left} IN ({listed}) ORDER BY id"
    assert engines.pando(query)[2] == engines.clickhouse(query)[2]


def test_a_hundred_thousand_tuples_are_compiled_quickly() -> None:
    listed = ", ".join(f"({n}, {n + 1})" for n in range(100_000))
    query = f"SELECT count() FROM numbers(200000) WHERE (number, number + 1) IN ({listed})"
    started = time.thread_time()
    assert rows(query, max_query_size=10_000_000) == [(100_000,)]
    assert time.thread_time() - started < 3


def test_a_million_in_a_set_is_compiled_quickly() -> None:
    query = f"SELECT count() FROM numbers(10) WHERE number IN ({','.join(map(str, range(1_000_000)))})"
    started = time.thread_time()
    QueryEngine().describe(query, catalog=NOTHING)
    assert time.thread_time() - started < 10
    assert rows(query.replace("(10)", "(1000003)")) == [(1_000_000,)]


def test_compiling_ends_when_the_query_is_stopped() -> None:
    status = QueryStatus()
    query = "SELECT " + ", ".join(f"number + {n} AS a{n}" for n in range(12_000)) + " FROM numbers(1)"
    threading.Timer(0.2, status.stop).start()
    with pytest.raises(CancelledError) as raised:
        QueryEngine().describe(query, catalog=NOTHING, status=status)
    assert raised.value.code == 394


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE t (" + ",".join(f"c{n} Int8" for n in range(100_000)) + ") ENGINE = MergeTree ORDER BY c0", 168),
        ("SELECT " + "(" * 2_000_000, 306),
        ("SELECT '" + "''" * 1_000_000, 62),
        ("SELECT 1 /*" + "* /" * 1_000_000, 62),
    ],
    ids=["columns", "brackets", "quotes", "comment"],
)
def test_statements_are_split_in_linear_time(text: str, expected: int) -> None:
    started = time.thread_time()
    with pytest.raises(UserError) as raised:
        parse_statements(text)
    assert raised.value.code == expected
    assert time.thread_time() - started < 10


def test_words_between_dollars_are_read_in_linear_time() -> None:
    started = time.thread_time()
    assert len(parse_statements("SELECT " + ",".join(f"$a{n}$" for n in range(50_000)))) == 1
    assert time.thread_time() - started < 10


def test_a_wrong_query_in_many_brackets_is_read_once() -> None:
    started = time.thread_time()
    assert code("SELECT * FROM " + "((SELECT * FROM " * 45 + "numbers(1 1)" + "))" * 45) == 62
    assert time.thread_time() - started < 5
