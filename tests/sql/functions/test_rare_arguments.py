"""Arguments that few queries have: the least number of a type as or beside a divisor, values of type Nothing, NULL as
the needle of a search in an array."""

from __future__ import annotations

import re

import pytest

from parts.common.errors import PandoError
from tests.alter.following import Pando
from tests.portions import one_in
from tests.sql.oracle import Oracle

_DIVISIONS = [
    *(f"SELECT {left} % {right} FROM numbers(3)"
      for left in ("-number", "toInt32(number)", "toInt16(number)", "toUInt32(number)", "toNullable(-number)", "5")
      for right in ("-128", "-32768", "-2147483648", "-9223372036854775808", "-1", "materialize(-1)")),
    *(f"SELECT {function}({least}, {right})"
      for function in ("intDiv", "intDivOrZero", "modulo", "moduloOrZero")
      for least in ("toInt8(-128)", "toInt64(-9223372036854775808)", "materialize(toInt16(-32768))",
                    "materialize(toInt32(-2147483648))", "materialize(toInt64(-9223372036854775808))")
      for right in ("-1", "materialize(-1)", "toInt64(-1)")),
    "SELECT positiveModulo(-number, -128), 1 FROM numbers(3)",
    "SELECT positiveModulo(toInt32(number), -128) FROM numbers(3)",
    "SELECT if(number > 100, -number % -128, 0) FROM numbers(3)",
    "SELECT -number % -9223372036854775807, intDiv(-number, -9223372036854775808) FROM numbers(3)",
    "SELECT CAST(NULL, 'Nullable(Int64)') % -1, intDiv(CAST(NULL, 'Nullable(Int64)'), -1)",
]  # fmt: skip
_OF_NOTHING = [
    "SELECT arrayMap(x -> (x, 1), []).1",
    "SELECT arrayMap(x -> (x, 1), []) AS r, toTypeName(r) FROM numbers(2)",
    "SELECT arrayMap(x -> (x, 'a'), []).2 AS r, toTypeName(r)",
    "SELECT arrayMap(x -> tuple(x), []).1, arrayMap(x -> ((x, 1), 2), []).1.1",
    "SELECT arrayMap(x -> map('a', x), []), arrayMap(x -> (x, [x]), [])",
    "SELECT arrayConcat(arrayMap(x -> (x, 1), []), [(1, 2)]).2",
    "SELECT arraySort(x -> x.2, arrayMap(x -> (x, 1), [])).2, arrayFilter(x -> x.2 > 0, arrayMap(x -> (x, 1), []))",
    "SELECT groupArray(arrayMap(x -> (x, 1), [])), count(), map('a', arrayMap(x -> (x, 1), []))",
    "SELECT arrayJoin(arrayMap(x -> (x, 1), []))",
]


_BESIDE_FLOATS = [
    *(f"SELECT {left} {operator} {right}"
      for operator in ("=", "!=", "<", "<=", ">", ">=")
      for left, right in (("9007199254740993", "9007199254740992."),
                          ("materialize(9223372036854775807)", "materialize(9223372036854775808.)"),
                          ("-9007199254740992.", "materialize(toInt64(-9007199254740993))"),
                          ("materialize(toInt64(16777217))", "materialize(toFloat32(16777216))"),
                          ("toUInt32(4294967295)", "materialize(toFloat32(4294967296))"))),
    "SELECT count() FROM numbers(9007199254740990, 6) WHERE number = 9007199254740992.",
    "SELECT x < nan, x > nan, x = nan, x < inf, x > -inf, x < 1e300, x = 5. FROM (SELECT materialize(toInt64(5)) AS x)",
    "SELECT k = f, k < f, f < k FROM "
    "(SELECT toNullable(number + 9007199254740991) AS k, toFloat64(k) AS f FROM numbers(4))",
    "SELECT arrayMap(x -> x > 9007199254740992., [9007199254740993])",
]  # fmt: skip
_MORE = [
    "SELECT position(s, ''), positionCaseInsensitive(s, ''), position(s, '', 2) FROM "
    "(SELECT arrayJoin([NULL, 'a', '']) AS s)",
    r"SELECT 'abc' LIKE 'a\\', 1",
    r"SELECT materialize('abc') NOT LIKE '%\\'",
    r"SELECT 'abc' LIKE materialize('a\\')",
    r"SELECT materialize('a\\bc') LIKE 'a\\bc', 'abc' LIKE 'a\\bc'",
    r"SELECT 'a%c' LIKE 'a\\%c', 'x\\' LIKE '%\\\\', 'A\\BC' ILIKE 'a\\bc'",
    "SELECT avgWeighted(x, w) FROM values('x Nullable(Int8), w Int8', (4, 1), (NULL, 7), (10, 2))",
    "SELECT avgWeightedIf(x, w, x != 4) FROM "
    "values('x Nullable(Int8), w Nullable(Int8)', (4, 1), (NULL, 7), (9, NULL), (3, 2))",
    "SELECT avgWeighted(toDecimal32(1, 2), 2)",
    "SELECT avgWeighted(2, toDecimal64(1, 2))",
    "SELECT avgWeighted(toDecimal32(1, 2), toDecimal32(1, 2))",
    "SELECT arrayMap(d -> dateDiff('week', toDate32('1970-01-01'), toDate32('1969-12-10') + d), range(40))",
    "SELECT dateDiff('week', toDate32('1925-01-01'), toDate('2000-01-01'))",
    "SELECT dateDiff('week', toDate('1970-01-01'), toDate('1970-01-05'))",
]


def answer(server: Oracle | Pando, query: str) -> str:
    try:
        return server.query(query).decode()
    except (PandoError, RuntimeError) as error:
        return "error " + "".join(re.findall(r"^Code: (\d+)", str(error)))


@pytest.mark.parametrize("query", one_in(3, _DIVISIONS))
def test_least_numbers(oracle: Oracle, pando: Pando, query: str) -> None:
    assert answer(pando, query) == answer(oracle, query)


@pytest.mark.parametrize("query", [*_BESIDE_FLOATS, *_MORE])
def test_as_in_clickhouse(oracle: Oracle, pando: Pando, query: str) -> None:
    assert answer(pando, query) == answer(oracle, query)


def test_a_key_beside_a_float(oracle: Oracle, pando: Pando) -> None:
    """What is left out by the primary key is what the comparison leaves out."""
    for server in (oracle, pando):
        server.query("DROP TABLE IF EXISTS exact")
        server.query(
            "CREATE TABLE exact (k Int64) ENGINE = MergeTree ORDER BY k SETTINGS index_granularity = 2, "
            "index_granularity_bytes = 0"
        )
        server.query("INSERT INTO exact SELECT number + 9007199254740988 FROM numbers(9)")
    for condition in ("> 9007199254740992.", "= 9007199254740992.", "!= 9007199254740992.", "<= 9007199254740993.",
                      "BETWEEN 9007199254740990.5 AND 9007199254740992."):  # fmt: skip
        query = f"SELECT k FROM exact WHERE k {condition} ORDER BY k"
        assert answer(pando, query) == answer(oracle, query)


def test_an_endless_query_is_refused_before_it_begins(pando: Pando) -> None:
    assert answer(pando, "SELECT -number % -9223372036854775808 FROM system.numbers") == "error 153"


@pytest.mark.parametrize("query", _OF_NOTHING)
def test_values_of_nothing(oracle: Oracle, pando: Pando, query: str) -> None:
    assert answer(pando, query) == answer(oracle, query)


def test_a_map_of_nothing_is_refused_by_name(pando: Pando) -> None:
    with pytest.raises(PandoError, match=r"Map\(Nothing, UInt8\) is not supported"):
        pando.query("SELECT arrayMap(x -> map(x, 1), [])")


@pytest.mark.parametrize("needle", ["Nullable(String)", "LowCardinality(Nullable(String))"])
@pytest.mark.parametrize("function", ["has", "indexOf", "countEqual"])
def test_null_is_not_the_empty_string(oracle: Oracle, pando: Pando, function: str, needle: str) -> None:
    """ClickHouse answers so for arrays that are constant, and for numbers. In a column of arrays of strings it compares
    the bytes that happen to lie under the NULL, and finds ''."""
    constant = f"SELECT {function}(['', 'a'], materialize(CAST(NULL, '{needle}')))"
    assert answer(pando, constant) == answer(oracle, constant) == "0\n"
    assert answer(pando, constant.replace("['', 'a']", "materialize(['', 'a'])")) == "0\n"
