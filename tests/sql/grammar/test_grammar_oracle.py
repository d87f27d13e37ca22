"""Statements that are read as in ClickHouse, and what of ClickHouse's grammar is refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config
from parts.common.errors import PandoError, UserError
from parts.types import parse_type
from sql.formats.registry import write_blocks
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.alter.following import Pando
from tests.sql.oracle import Oracle


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
        "SELECT name, type FROM system.columns WHERE table = 't' AND database = currentDatabase()",
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


def test_parameters_of_a_session(oracle: Oracle, tmp_path: Path) -> None:
    engine = Engine(Config.local(tmp_path))
    engine.start()
    session = Session()

    def here(statement: str) -> str:
        try:
            result = engine.execute(statement, session, None)
            return b"".join(write_blocks("TSV", result.columns, result.batches, settings=DEFAULT_SETTINGS)).decode()
        except PandoError as error:
            return f"error {error.code}"

    statements = [
        "SET param_num = 42",
        "SELECT {num:UInt8}",
        "SET param_s = 'a b', param_d = '2020-01-01', max_threads = 1",
        "SELECT {s:String}, {d:Date}, {num:UInt8}",
        "SET param_a = [1, 2], param_t = (1, 'x'), param_b = true, param_i = -5, param_f = 1.5",
        "SELECT {a:Array(UInt8)}, {t:Tuple(UInt8, String)}, {b:Bool}, {i:Int8}, {f:Float64}",
        "SET param_w = my_word, param_u = 1_000, param_A = 1, param_q = '1', param_q = '2'",
        "SELECT {w:String}, {u:String}, {A:String}, {a:Array(UInt8)}, {q:String}",
        "SELECT {none:UInt8}",
        "SET param_ = 1",
        "SET param_num = DEFAULT",
        "SELECT {num:String}",
    ]
    try:
        assert [here(statement) for statement in statements] == answers(oracle, statements)
    finally:
        engine.stop()


def test_dates_with_other_separators(oracle: Oracle, pando: Pando) -> None:
    statements = [
        "DROP TABLE IF EXISTS t",
        """CREATE TABLE t (k UInt8, t DateTime('UTC') DEFAULT 0, u DateTime64(3, 'UTC') DEFAULT 0, d Date DEFAULT 0,
        e Date32 DEFAULT '2000-01-01', n Nullable(Date)) ENGINE = MergeTree ORDER BY k""",
        "INSERT INTO t (k, t) VALUES (1, '2017/01/08 01:02:03'), (2, '2017/1/8 01:02:03'), (3, '2017/01/08')",
        "INSERT INTO t (k, t) FORMAT TSV 4\t2017/1/8 01:02:03",
        "INSERT INTO t (k, u) VALUES (5, '2017/01/08 01:02:03.5'), (6, '2017/1/8'), (7, '2017-1-8 01:02:03')",
        """INSERT INTO t (k, d) VALUES (10, '2017/01/02'), (11, '2017/1/02'), (12, '2017/01/2'), (13, '2017/1/2'),
        (14, '2017.1.2'), (15, '2017_01-02'), (16, '2017-1-2'), (17, '20170102')""",
        "INSERT INTO t (k, d) FORMAT CSV 20,2017/1/3",
        "INSERT INTO t (k, e) FORMAT TSV 21\t2017/1/3",
        "INSERT INTO t (k, n) FORMAT TSV 22\t2017/1/3",
        'INSERT INTO t (k, d) FORMAT JSONEachRow {"k": 23, "d": "2017/1/5"}',
        "INSERT INTO t (k, d, e) SELECT 24, '2017/1/5', '2017/1/5'",
        "INSERT INTO t (k, d) VALUES (25, '2017102')",
        "SELECT * FROM t ORDER BY k",
    ]
    assert answers(pando, statements) == answers(oracle, statements)


def test_numbers_that_json_has_not(oracle: Oracle, pando: Pando) -> None:
    statements = [
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (c Float64, s String, a Array(Float32)) ENGINE = MergeTree ORDER BY tuple()",
        'INSERT INTO t FORMAT JSONEachRow {"c":.1, "s": ":.1 \\" +1", "a": [.5, 1., -.25]} {"c": -.5}\n{"c": 1.}',
        'INSERT INTO t FORMAT JSONEachRow {"c":+1, "s": "[.5"} {"c": 01} {"c": .5e1} {"c": -0.0}',
        "INSERT INTO t (c) FORMAT JSONCompactEachRow [.1]\n[1.]",
        "SELECT * FROM t ORDER BY ALL",
    ]
    assert answers(pando, statements) == answers(oracle, statements)


def test_settings_of_insert_go_before_those_of_select(oracle: Oracle, pando: Pando) -> None:
    most = "SETTINGS max_partitions_per_insert_block ="
    statements = [
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n PARTITION BY n",
        f"INSERT INTO t {most} 100 SELECT number FROM numbers(3) {most} 1",
        f"INSERT INTO t {most} 1 SELECT number FROM numbers(3) {most} 100",
        f"INSERT INTO t SELECT number FROM numbers(3) {most} 1",
        f"INSERT INTO t {most} 1 SELECT number FROM numbers(3)",
        f"INSERT INTO t {most} 100 SELECT number FROM (SELECT number FROM numbers(3) {most} 1)",
        "SELECT n FROM t ORDER BY n",
    ]
    assert answers(pando, statements) == answers(oracle, statements)


@pytest.mark.parametrize(
    "value",
    [
        "-0.5", "-1", "0.5", "'-0.5'", "'abc'", "''", "1e30", "1e10", "'10s'", "'1.5x'", "' 1'", "'1 '", "'1e2'",
        "'+1'", "'0x10'", "'inf'", "'nan'", "'infinity'", "true", "9223372036854", "9223372036855", "-9223372036855",
        "0x1p-2",
    ],
)  # fmt: skip
def test_seconds(oracle: Oracle, pando: Pando, value: str) -> None:
    query = f"SELECT getSetting('max_execution_time') SETTINGS max_execution_time = {value}"
    assert answer(pando, query) == answer(oracle, query)


@pytest.mark.parametrize("query", ["SELECT sum(number) FROM numbers(1000000) SETTINGS max_execution_time = -0.5"])
def test_no_limit(oracle: Oracle, pando: Pando, query: str) -> None:
    assert answer(pando, query) == answer(oracle, query)


@pytest.mark.parametrize(
    "source",
    [
        "numbers(1e2)", "numbers(10.0)", "numbers(1e2, 1e1)", "numbers(0, 1e2, 1e1)", "numbers(toFloat32(10))",
        "numbers(10 * 1e1)", "numbers(pow(10, 2))", "numbers(-0.0)", "numbers_mt(1e2)", "numbers(1.5)", "numbers(-1.0)",
        "numbers(1e20)", "numbers(nan)", "generate_series(1e0, 1e2)", "generate_series(1e0, 1e2, 1e1)",
        "generateSeries(0, 1e2)", "numbers(100) LIMIT 1.0", "(SELECT 1 FROM numbers(9) LIMIT 3e0 OFFSET 2.0)",
        "(SELECT number FROM numbers(9) LIMIT 1e0 BY number % 2)",
    ],
)  # fmt: skip
def test_whole_floats_as_counts(oracle: Oracle, pando: Pando, source: str) -> None:
    query = f"SELECT count() FROM {source}"
    assert answer(pando, query) == answer(oracle, query)
