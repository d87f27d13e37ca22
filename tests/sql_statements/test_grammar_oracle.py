"""Statements that are read as in ClickHouse, and what of ClickHouse's grammar is refused by name."""

from __future__ import annotations

import re

import pytest

from parts.errors import PandoError, UserError
from parts.types import parse_type
from tests.alter.following import Pando
from tests.sql_statements.oracle import Oracle


def answer(server: Oracle | Pando, statement: str) -> str:
    """The text of the answer, or the code of the error."""
    try:
        return server.query(statement).decode()
    except (PandoError, RuntimeError) as error:
        return "error " + "".join(re.findall(r"^Code: (\d+)", str(error)))


def answers(server: Oracle | Pando, statements: list[str]) -> list[str]:
    return [answer(server, statement) for statement in statements]


SPACES = "\u0085\u00a0\u180e\u2000\u200a\u200b\u200c\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\v\f"


@pytest.mark.parametrize("space", SPACES, ids=[f"{ord(space):x}" for space in SPACES])
def test_white_space(oracle: Oracle, pando: Pando, space: str) -> None:
    for statement in (f"SELECT{space}1{space}+{space}1", f"{space}SELECT 1", f"SELECT '{space}a'"):
        assert answer(pando, statement) == answer(oracle, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1.5_",
        "SELECT 1_",
        "SELECT 1__0",
        "SELECT 1._5",
        "SELECT .1_1",
        "SELECT 0x_1",
        "SELECT 0x1.8_",
        "SELECT 0x1p5000",
        "SELECT x'4g'",
        "SELECT b'2'",
        "SELECT x '41'",
        "SELECT xx'41'",
        "SELECT 1 AS $",
        "SELECT 1 AS $$",
        "SELECT $a$ text",
        "SELECT 1 AS $alias$name$, $alias$name$ + 1",
        "SELECT CAST('2020-01-01 00:00:00' AS DateTime(10))",
        "SELECT CAST('2020-01-01 00:00:00' AS DateTime32(2))",
        "SELECT CAST(1 AS UInt8 NOT NULL)",
        "SELECT CAST(1, 'UInt8 NULL')",
        "SELECT CAST(1 AS String(10) UNSIGNED)",
    ],
)
def test_same_refusal(oracle: Oracle, pando: Pando, statement: str) -> None:
    expected = answer(oracle, statement)
    assert expected.startswith("error ")
    assert answer(pando, statement) == expected


def test_numbers_and_bytes_in_values(oracle: Oracle, pando: Pando) -> None:
    statements = [
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (f Float64, s String, u UInt8) ENGINE = MergeTree ORDER BY tuple()",
        "INSERT INTO t VALUES (0x1.f7ced916872b0p-4, x'41', 1)",
        "INSERT INTO t VALUES (1.00_00_01, b'01000010', 1_0), (12.3_4, '', 2), (0x1F, x'', 0x1F)",
        "INSERT INTO t VALUES (-0x1p3, b'', 0x1p3)",
        "SELECT * FROM t ORDER BY ALL",
    ]
    assert answers(pando, statements) == answers(oracle, statements)


def test_types_of_columns(oracle: Oracle, pando: Pando) -> None:
    statements = [
        "DROP TABLE IF EXISTS t",
        """CREATE TABLE t (a DateTime(), b DateTime(2), c DateTime32('UTC'), d Array( /* Hello */ UInt32 /* World */ ),
        e INT UNSIGNED NULL, f DOUBLE PRECISION, g BIGINT SIGNED NOT NULL, h DateTime(3, 'UTC'))
        ENGINE = MergeTree ORDER BY tuple()""",
        "SELECT name, type FROM system.columns WHERE table = 't'",
    ]
    assert answers(pando, statements) == answers(oracle, statements)


@pytest.mark.parametrize(
    "text",
    [
        "Int128", "UInt128", "Int256", "UInt256", "Decimal256(2)", "Decimal(76, 2)", "BFloat16", "Dynamic", "JSON",
        "json", "JSON(a UInt8, max_dynamic_paths = 2)", "Variant(UInt8, String)", "Object('json')", "Point", "Ring",
        "LineString", "MultiLineString", "Polygon", "MultiPolygon", "Geometry", "IntervalDay", "IntervalNanosecond",
        "Time", "Time64(3)", "QBit(Float32, 1)", "AggregateFunction(sum, UInt8)", "Array(Nullable(Int128))",
    ],
)  # fmt: skip
def test_known_types_are_refused_by_name(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_type(text)
    assert caught.value.name == "NOT_IMPLEMENTED"
    assert re.findall(r"\w+", text)[-1 if "Array" in text else 0].lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT number FROM numbers(3) ORDER BY toString(number) COLLATE 'ru'",
        "SELECT number FROM numbers(3) ORDER BY toString(number) DESC NULLS LAST COLLATE 'en'",
        "SELECT number AS n FROM numbers(3) ORDER BY n WITH FILL STEP 1 STALENESS 3",
        "SELECT number AS n, 1 AS x FROM numbers(3) ORDER BY n WITH FILL TO 5 INTERPOLATE (x AS x + 1)",
        "SELECT number FROM numbers(3) ORDER BY ALL NULLS FIRST",
        "SELECT number FROM numbers(3) ORDER BY ALL ASC NULLS FIRST",
        "SELECT number FROM numbers(3) LIMIT 1 BY ALL",
        "SELECT number, count() FROM numbers(3) GROUP BY number WITH TOTALS",
        "SELECT sum(number) OVER (ORDER BY number GROUPS CURRENT ROW) FROM numbers(2)",
        "SELECT sum(number) OVER (ORDER BY number GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM numbers(2)",
        "SELECT * FROM (SELECT 1, 2) AS t(x, y)",
        "SELECT * FROM (SELECT 1, 2) t (x, y)",
        "SELECT 1 FROM numbers(3) PASTE JOIN numbers(3)",
        "SELECT * FROM numbers(2) AS a NATURAL JOIN numbers(2) AS b",
        "SELECT a.COLUMNS(b) FROM (SELECT 2 AS b) AS a",
        "SELECT * LIKE 'n%' FROM (SELECT 1 AS number, 2 AS b)",
        "SELECT 'a' ~ 'a'",
        "SELECT 'a' !~ 'a'",
        "SELECT 'x' LIKE 'x' ESCAPE '!'",
        "SELECT toDate('2020-01-01') + INTERVAL '1 DAY 2 HOUR'",
        "SELECT toDate('2020-01-01') + INTERVAL '2-1' YEAR TO MONTH",
        "SELECT EXTRACT(EPOCH FROM toDateTime('2020-01-02 00:00:00', 'UTC'))",
    ],
)
def test_clauses_are_refused_by_name(oracle: Oracle, pando: Pando, query: str) -> None:
    assert not answer(oracle, query).startswith("error ")
    assert answer(pando, query) == "error 48"
