"""The setting ``dialect``: queries of other dialects give the answers of the same queries in ClickHouse's SQL."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import duckdb
import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError, UserError
from sql.settings.setting_values import DIALECTS
from tests.engine.front.conftest import RunningServer
from tests.portions import one_in

ROWS = "(1, 10, 'one', '2020-01-31', 1.5), (2, 20, 'Zwölf', '2020-02-29', NULL), (3, -30, 'three', '2021-03-01', 2.5)"


@pytest.fixture(scope="module")
def table(server: RunningServer) -> Iterator[HttpClient]:
    with server.client() as client:
        client.execute(
            "CREATE TABLE dialects (a UInt32, b Int32, s String, d Date, x Nullable(Float64)) ENGINE = MergeTree "
            "ORDER BY a"
        )
        client.execute(f"INSERT INTO dialects VALUES {ROWS}")
        yield client
        client.execute("DROP TABLE dialects")


def ask(client: HttpClient, sql: str, dialect: str = "clickhouse", **settings: object) -> str:
    return client.execute(sql, settings={"dialect": dialect, "default_format": "TSV", **settings}).text


@pytest.mark.parametrize(
    ("dialect", "query", "own"),
    [
        ("spark", "`a`, date_format(d, 'yyyy-MM')", "a, formatDateTime(d, '%Y-%m')"),
        ("spark", "date_add(d, 3), date_sub(d, 3), add_months(d, 1)", "d + 3, d - 3, addMonths(d, 1)"),
        ("spark", "datediff(d, DATE'2020-01-01')", "dateDiff('day', toDate('2020-01-01'), d)"),
        ("spark", "date_trunc('month', d), last_day(d)", "toStartOfMonth(d), toLastDayOfMonth(d)"),
        ("spark", "dayofweek(d), weekofyear(d), dayofyear(d)", "toDayOfWeek(d, 3), toISOWeek(d), toDayOfYear(d)"),
        (
            "spark",
            "nvl(x, 0), ifnull(x, 1), x <=> NULL, nvl2(x, 1, 2)",
            "ifNull(x,0), ifNull(x,1), x IS NULL, x IS NULL ? 2 : 1",
        ),
        ("spark", "CAST(a AS STRING), a::string, CAST('5' AS INT)", "toString(a), toString(a), 5"),
        ("spark", "length(s), upper(s), substring(s, 1, 3)", "lengthUTF8(s), upperUTF8(s), substringUTF8(s, 1, 3)"),
        ("spark", "instr(s, 'l'), concat(s, '!'), s || '?'", "positionUTF8(s, 'l'), concat(s, '!'), s || '?'"),
        ("spark", "s rlike 'e$', s ILIKE 'T%', split(s, 'e')", "match(s, 'e$'), s ILIKE 'T%', splitByChar('e', s)"),
        ("spark", "array(a, b)[0], size(array(a))", "a, 1"),
        ("spark", "d + INTERVAL 1 DAY, d + INTERVAL '2' MONTH", "d + INTERVAL 1 DAY, d + INTERVAL 2 MONTH"),
        ("spark", "b / 4, b div 7, b % 7", "b / 4, intDiv(b, 7), b % 7"),
        ("spark", "sum(b), count_if(a > 1), size(collect_list(a))", "sum(b), countIf(a > 1), length(groupArray(a))"),
        ("spark", "sum(b) FILTER (WHERE a > 100), max(s)", "NULL, max(s)"),
        ("spark", "lag(a) OVER (ORDER BY a)", "if(a = 1, NULL, a - 1)"),
        ("spark", "\"text\", 'it\\'s', current_date() = current_date()", "'text', 'it\\'s', 1"),
        ("postgres", "\"a\"::int, s ~ 't'", "toInt32(a), match(s, 't')"),
        ("postgres", "EXTRACT(year FROM d), EXTRACT(dow FROM d)", "toYear(d), toDayOfWeek(d, 2)"),
        (
            "postgres",
            "d + interval '1 day', x::numeric(10, 2)",
            "d + INTERVAL 1 DAY, toDecimal64OrNull(toString(x), 2)",
        ),
        ("postgres", "7 / 2, -7 / 2, 7.0 / 2, 9007199254740993 / 1", "3, -3, 3.5, 9007199254740993"),
        ("postgres", "b::double precision / 4", "b / 4"),
        ("postgres", "string_agg(s, '-'), count(*) FILTER (WHERE a > 1)", "'one-Zwölf-three', 2"),
        ("mysql", "`a`, IFNULL(x, 0), DATE_ADD(d, INTERVAL 1 MONTH)", "a, ifNull(x, 0), d + INTERVAL 1 MONTH"),
        (
            "mysql",
            "DATEDIFF(d, '2020-01-01'), b DIV 7, b / 0",
            "dateDiff('day', toDate('2020-01-01'), d), intDiv(b, 7), NULL",
        ),
        ("mysql", "GROUP_CONCAT(s), GROUP_CONCAT(s SEPARATOR ';')", "'one,Zwölf,three', 'one;Zwölf;three'"),
        (
            "tsql",
            "[a], LEN(s), ISNULL(x, 0), IIF(a > 1, 'x', 'y')",
            "a, lengthUTF8(s), ifNull(x, 0), if(a > 1, 'x', 'y')",
        ),
        (
            "tsql",
            "DATEADD(day, 1, d), DATEDIFF(month, '2020-01-01', d)",
            "d + 1, dateDiff('month', toDate('2020-01-01'), d)",
        ),
        (
            "snowflake",
            "IFF(a > 1, 1, 2), NVL(x, 0), a::int, DATEADD(day, 1, d)",
            "if(a > 1, 1, 2), ifNull(x, 0), a, d + 1",
        ),
        ("snowflake", "LISTAGG(s, '|'), LISTAGG(s), ZEROIFNULL(NULL)", "'one|Zwölf|three', 'oneZwölfthree', 0"),
        ("bigquery", "`a`, DATE_TRUNC(d, MONTH), SAFE_CAST('x' AS INT64)", "a, toStartOfMonth(d), NULL"),
        (
            "bigquery",
            "DATE_DIFF(d, DATE '2020-01-01', DAY), FORMAT_DATE('%Y', d)",
            "dateDiff('day', toDate('2020-01-01'), d), toString(toYear(d))",
        ),
        ("bigquery", "STRING_AGG(s), COUNTIF(a > 1), SAFE_DIVIDE(1, 0)", "'one,Zwölf,three', 2, NULL"),
        ("duckdb", "* EXCLUDE (s, x)", "a, b, d"),
        ("duckdb", "strftime(max(d), '%Y'), max(b) // 7, arg_max(a, b), list_value(1, 2)", "'2021', 2, 2, [1, 2]"),
        (
            "trino",
            "date_diff('day', DATE '2020-01-01', d), d + INTERVAL '1' DAY",
            "dateDiff('day', toDate('2020-01-01'), d), d + 1",
        ),
    ],
)
def test_expressions(table: HttpClient, dialect: str, query: str, own: str) -> None:
    expected = ask(table, f"SELECT {own} FROM dialects{_one(query)}")
    assert ask(table, f"SELECT {query} FROM dialects", dialect) == expected


def _one(query: str) -> str:
    """An answer of aggregates is one row."""
    aggregates = ("sum(", "count", "max(", "_agg", "agg(", "concat(s sep", "group_concat")
    return " LIMIT 1" if any(name in query.lower() for name in aggregates) else ""


@pytest.mark.parametrize(
    ("dialect", "query", "own"),
    [
        ("spark", "SELECT a FROM dialects ORDER BY x", "SELECT a FROM dialects ORDER BY x NULLS FIRST"),
        ("postgres", "SELECT a FROM dialects ORDER BY x DESC", "SELECT a FROM dialects ORDER BY x DESC NULLS FIRST"),
        ("mysql", "SELECT a FROM dialects ORDER BY a LIMIT 1, 2", "SELECT a FROM dialects ORDER BY a LIMIT 2 OFFSET 1"),
        ("tsql", "SELECT TOP 2 a FROM dialects ORDER BY b", "SELECT a FROM dialects ORDER BY b LIMIT 2"),
        (
            "postgres",
            "SELECT a FROM dialects ORDER BY a FETCH FIRST 2 ROWS ONLY",
            "SELECT a FROM dialects ORDER BY a LIMIT 2",
        ),
        ("snowflake", "SELECT a FROM dialects QUALIFY row_number() OVER (ORDER BY b) = 1", "SELECT 3"),
        ("spark", "SELECT a FROM dialects INTERSECT SELECT 2", "SELECT 2"),
        ("spark", "SELECT a FROM dialects UNION SELECT 2 ORDER BY 1", "SELECT a FROM dialects ORDER BY a"),
        ("spark", "SELECT lower(s) AS s FROM dialects WHERE s = 'Zwölf'", "SELECT 'zwölf'"),
        (
            "spark",
            "SELECT date_trunc('year', d) AS d, count(*) FROM dialects GROUP BY date_trunc('year', d) ORDER BY d",
            "SELECT toStartOfYear(d) AS y, count() FROM dialects GROUP BY y ORDER BY y",
        ),
        (
            "spark",
            "SELECT l.a, r.b FROM dialects l LEFT JOIN dialects r ON l.a = r.a + 1 ORDER BY l.a",
            "SELECT a, if(a = 1, NULL, b) FROM (SELECT a, lagInFrame(b) OVER (ORDER BY a) b FROM dialects) ORDER BY a",
        ),
        ("spark", "SELECT sum(a), max(s), count(*) FROM dialects WHERE a > 100", "SELECT NULL, NULL, 0"),
        ("duckdb", "FROM dialects SELECT a", "SELECT a FROM dialects"),
        (
            "postgres",
            "SELECT DISTINCT ON (y) y, a FROM (SELECT extract(year FROM d) y, a FROM dialects) q ORDER BY y, a",
            "SELECT toYear(d), min(a) FROM dialects GROUP BY 1 ORDER BY 1",
        ),
        ("spark", "WITH q AS (SELECT a FROM dialects) SELECT sum(a) FROM q FORMAT TSV", "SELECT 6"),
        ("spark", "/* 1 */ EXPLAIN SELECT `a` FROM dialects", "EXPLAIN SELECT a FROM dialects"),
        ("spark", "/* 1 */ SELECT explain FROM (SELECT a explain FROM dialects) q -- 2", "SELECT a FROM dialects"),
    ],
)
def test_clauses(table: HttpClient, dialect: str, query: str, own: str) -> None:
    assert ask(table, query, dialect) == ask(table, own)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, coalesce(x, 0), s || '!', CASE WHEN a > 1 THEN 'm' END FROM dialects ORDER BY a",
        "SELECT date_trunc('month', d)::date, sum(b) FROM dialects GROUP BY 1 ORDER BY 1",
        "SELECT a, row_number() OVER (ORDER BY x), lead(a) OVER (ORDER BY a) FROM dialects ORDER BY a",
        "SELECT l.a, r.x FROM dialects l LEFT JOIN dialects r ON l.a = r.a + 1 ORDER BY 1",
        "SELECT a, x FROM dialects ORDER BY x, a",
        "SELECT max(a), sum(x), count(x) FROM dialects WHERE a > 100",
        "SELECT length(s), upper(s), substring(s, 2, 2), position('l' in s) FROM dialects ORDER BY a",
        "SELECT extract(year FROM d), extract(dow FROM d), (d + INTERVAL '1 day')::date FROM dialects ORDER BY a",
        "SELECT s LIKE 'o%', s ILIKE 'T%', a IN (1, 2), a BETWEEN 2 AND 3 FROM dialects ORDER BY a",
        "SELECT a FROM dialects EXCEPT SELECT 2 ORDER BY 1",
    ],
)
def test_as_duckdb_answers(table: HttpClient, dialect: str, query: str) -> None:
    """Both dialects mean the same by these."""
    with duckdb.connect() as other:
        other.execute("CREATE TABLE dialects (a UINTEGER, b INTEGER, s VARCHAR, d DATE, x DOUBLE)")
        other.execute(f"INSERT INTO dialects VALUES {ROWS}")
        expected = other.execute(query).fetchall()
    text = ask(table, query, dialect, default_format="TSV")
    assert text == "".join("\t".join(map(_shown, row)) + "\n" for row in expected)


def _shown(value: object) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize(
    ("dialect", "query", "code", "message"),
    [
        ("spark", "SELECT (1", 62, "line 1, column 9"),
        ("spark", "SELECT 'abc", 62, "dialect spark"),
        ("spark", "SELECT 1; SELECT 2", 62, "expected one query, found 2"),
        ("spark", "SHOW TABLES", 48, "SHOW is not supported with dialect = 'spark'"),
        ("spark", "INSERT INTO dialects SELECT 1", 48, "SET dialect = 'clickhouse'"),
        ("spark", "INSERT INTO dialects VALUES (1)", 48, "SET dialect = 'clickhouse'"),
        ("spark", "DROP TABLE dialects", 48, "DROP"),
        ("spark", "WITH q AS (SELECT 1) INSERT INTO dialects SELECT * FROM q", 48, "INSERT is not a query"),
        ("postgres", "SELECT b / 4 FROM dialects", 48, "CAST one of them"),
        ("postgres", "SELECT array_agg(a ORDER BY b) FROM dialects", 48, "order"),
        ("spark", "SELECT a, sum(b) FROM dialects GROUP BY ROLLUP (a)", 48, "ROLLUP"),
        ("spark", "SELECT a NOT IN (1, NULL) FROM dialects", 48, "NULL"),
        ("spark", "SELECT upper(s) AS s FROM dialects l JOIN dialects r ON l.a = r.a WHERE s = 'x'", 48, "alias 's'"),
        ("snowflake", "SELECT TO_VARCHAR(d, 'YYYY') FROM dialects", 48, "ToChar"),
        ("snowflake", "SELECT dayofweek(d) FROM dialects", 48, "first"),
        ("spark", "SELECT months_between(d, d) FROM dialects", 46, "MONTHS_BETWEEN"),
        ("duckdb", "SELECT a FROM dialects USING SAMPLE 10%", 48, "SAMPLE"),
        ("kusto", "SELECT 1", 48, "kusto"),
        ("prql", "from t", 48, "prql"),
        ("polyglot", "SELECT 1", 48, "polyglot"),
        ("klingon", "SELECT 1", 36, "'spark'"),
        ("clickhouse", "SELECT 1 SETTINGS dialect = 'spark'", 48, "comes after the query is read"),
    ],
)
def test_what_is_refused(table: HttpClient, dialect: str, query: str, code: int, message: str) -> None:
    with pytest.raises(PandoError) as caught:
        ask(table, query, dialect)
    assert (caught.value.code, message in caught.value.message) == (code, True), caught.value
    assert ask(table, "SELECT 1", "spark") == "1\n"


HOSTILE = {
    "brackets": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "open brackets": "SELECT " + "(" * 100_000,
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 1000 + "t" + ")" * 1000,
    "cases": "SELECT " + "CASE WHEN 1 THEN " * 2000 + "1" + " END" * 2000,
    "nots": "SELECT " + "NOT " * 9000 + "1",
    "calls of types": "SELECT " + "date(" * 60 + "1" + ")" * 60,
    "types": "SELECT CAST(1 AS " + "array<" * 190 + "int" + ">" * 190 + ")",
    "types in brackets": "SELECT CAST(1 AS " + "array(" * 190 + "int" + ")" * 190 + ")",
    "tokens": "SELECT 1 IN (" + "1," * 50_000 + "1)",
    "sums": "SELECT 1" + "+1" * 4900,
    "joins": "SELECT 1 FROM a" + " JOIN a" * 1500 + " ON 1" * 1500,
    "text": "SELECT '" + "x" * 300_000 + "'",
    "casts": "SELECT 1" + "::int" * 3000,
    "unions": "SELECT 1" + " UNION ALL SELECT 1" * 500,
    "comments": "/**/" * 5000 + "!",
    "zero": "SELECT '\0', \0",
}


@pytest.mark.parametrize("name", one_in(4, HOSTILE))
@pytest.mark.long
def test_hostile_texts_end_in_time(table: HttpClient, name: str) -> None:
    started = time.monotonic()
    code = 0
    try:
        ask(table, HOSTILE[name], "postgres" if "::" in HOSTILE[name] else "spark")
    except PandoError as error:
        code = error.code
    assert code in (0, 36, 47, 48, 60, 62, 167, 168, 306, 386)
    assert time.monotonic() - started < 30
    assert ask(table, "SELECT 1", "spark") == "1\n"


def test_a_session_keeps_its_dialect_and_gets_back(server: RunningServer, table: HttpClient) -> None:
    with server.client(settings={"session_id": "speaks-spark"}) as client:
        client.execute("SET dialect = 'Spark'")
        assert client.execute("SELECT `a` FROM dialects WHERE a <=> 1").text == "1\n"
        assert client.execute("SELECT `a` FROM dialects WHERE a <=> 1").text == "1\n"
        client.execute("USE system")
        client.execute("USE default")
        with pytest.raises(UserError, match="SHOW is not supported with dialect"):
            client.execute("SHOW TABLES")
        client.execute("SET dialect = 'clickhouse'")
        assert "dialects" in client.execute("SHOW TABLES").text
        with pytest.raises(UserError):
            client.execute("SELECT nvl2(NULL, 1, 2)")


def test_own_settings_of_joins_stay(table: HttpClient) -> None:
    query = "SELECT r.b FROM dialects l LEFT JOIN dialects r ON l.a = r.a + 100 LIMIT 1"
    assert ask(table, query, "spark") == "\\N\n"
    assert ask(table, query, "spark", join_use_nulls=0) == "0\n"
    assert ask(table, query) == "0\n"


@pytest.mark.long
def test_the_command_line_has_it() -> None:
    script = "SELECT `number` FROM numbers(2); SET dialect = 'clickhouse'; SELECT toTypeName(1)"
    command = [sys.executable, "-m", "engine.cli", "local", "--dialect", "spark", "--query", script]
    answer = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert answer.stdout == b"0\n1\nUInt8\n", answer.stderr


@pytest.mark.long
def test_the_names_are_sqlglots_and_its_import_waits() -> None:
    code = "import sys, engine.cli, engine.engine; print('sqlglot' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=True)
    assert answer.stdout == b"False\n"
    from sqlglot import Dialects

    left_out = {"", "dax", "prql", "solr", "tableau"}
    assert set(DIALECTS) == {dialect.value for dialect in Dialects} - left_out
