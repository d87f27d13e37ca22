"""Texts and the statements they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from sql.grammar.clause_types import (
    ColumnClause,
    ColumnMatcher,
    TableRef,
)
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.query_limits import QueryGuard
from sql.grammar.statement_parser import parse_statement, parse_statements
from sql.grammar.statements import statement as s
from sql.grammar.statements.statement import (
    CreateTable,
    EngineClause,
)
from sql.grammar.tokens import TokenStream, skip_space, unquote_string

T = TableRef(None, "t")

STATEMENTS: list[tuple[str, s.Statement]] = [
    ("SELECT 1", s.SelectQuery("SELECT 1")),
    ("select a from t settings max_threads = 4, x='y'", s.SelectQuery("select a from t", {"max_threads": 4, "x": "y"})),
    ("WITH x AS (SELECT 1 SETTINGS a = 1) SELECT * FROM x",
     s.SelectQuery("WITH x AS (SELECT 1 SETTINGS a = 1) SELECT * FROM x")),
    ("(SELECT 1) UNION ALL (SELECT 2)", s.SelectQuery("(SELECT 1) UNION ALL (SELECT 2)")),
    ("SELECT format, settings FROM t", s.SelectQuery("SELECT format, settings FROM t")),
    ("SELECT format('{}', 1)", s.SelectQuery("SELECT format('{}', 1)")),
    ("/* c */ SELECT 1 -- end\n", s.SelectQuery("SELECT 1")),
    ("EXPLAIN SELECT 1", s.Explain("PLAN", {}, "SELECT 1")),
    ("EXPLAIN indexes = 1, actions=0 SELECT 1", s.Explain("PLAN", {"indexes": 1, "actions": 0}, "SELECT 1")),
    ("EXPLAIN QUERY TREE run_passes = 0 SELECT 1", s.Explain("QUERY TREE", {"run_passes": 0}, "SELECT 1")),
    ("EXPLAIN SYNTAX SELECT 1", s.Explain("SYNTAX", {}, "SELECT 1")),
    ("CREATE DATABASE IF NOT EXISTS d ENGINE = Atomic", s.CreateDatabase("d", True)),
    ("CREATE DATABASE d ENGINE = Ordinary", s.CreateDatabase("d")),
    ("ATTACH DATABASE d", s.CreateDatabase("d", attach=True)),
    ("DROP DATABASE IF EXISTS `a b` SYNC", s.DropDatabase("a b", True)),
    ("DETACH DATABASE d", s.DropDatabase("d", detach=True)),
    ("DROP TABLE IF EXISTS d.t SYNC", s.DropTable(TableRef("d", "t"), True, sync=True)),
    ("DROP TABLE t NO DELAY", s.DropTable(T, sync=True)),
    ("DETACH TABLE t", s.DropTable(T, detach=True)),
    ("ATTACH TABLE IF NOT EXISTS t", s.AttachTable(T, True)),
    ("RENAME TABLE a TO b, d.c TO \"e f\".g",
     s.RenameTables(((TableRef(None, "a"), TableRef(None, "b")), (TableRef("d", "c"), TableRef("e f", "g"))))),
    ("RENAME TABLE a TO b, IF EXISTS c TO d",
     s.RenameTables(((TableRef(None, "a"), TableRef(None, "b")), (TableRef(None, "c"), TableRef(None, "d"))),
                    frozenset({1}))),
    ("TRUNCATE t", s.TruncateTable(T)),
    ("TRUNCATE TABLE IF EXISTS t", s.TruncateTable(T, True)),
    ("EXISTS t", s.ExistsTable(T)),
    ("EXISTS TABLE d.t", s.ExistsTable(TableRef("d", "t"))),
    ("EXISTS DATABASE d", s.ExistsDatabase("d")),
    ("SHOW DATABASES LIKE 'a%'", s.ShowDatabases("a%")),
    ("SHOW TABLES", s.ShowTables()),
    ("SHOW TABLES FROM d NOT LIKE '%x'", s.ShowTables("d", "%x", True)),
    ("SHOW CREATE TABLE t", s.ShowCreateTable(T)),
    ("SHOW CREATE t", s.ShowCreateTable(T)),
    ("SHOW CREATE DATABASE d", s.ShowCreateDatabase("d")),
    ("SHOW PROCESSLIST", s.ShowProcesslist()),
    ("DESCRIBE TABLE t", s.DescribeTable(T)),
    ("desc d.t", s.DescribeTable(TableRef("d", "t"))),
    ("DESCRIBE (SELECT 1)", s.DescribeQuery("SELECT 1")),
    ("DESCRIBE TABLE (SELECT 1)", s.DescribeQuery("SELECT 1")),
    ("DESCRIBE numbers(10)", s.DescribeQuery("SELECT * FROM numbers(10)")),
    ("USE d", s.Use("d")),
    ("SET a = 1, b = 'x', c = -2.5, d = true, e", s.SetSettings({"a": 1, "b": "x", "c": -2.5, "d": True, "e": True})),
    ("OPTIMIZE TABLE t", s.OptimizeTable(T)),
    ("OPTIMIZE TABLE t PARTITION 202001 FINAL DEDUPLICATE BY a, b",
     s.OptimizeTable(T, "202001", None, True, True, (ColumnMatcher(("a",)), ColumnMatcher(("b",))))),
    ("OPTIMIZE TABLE t DEDUPLICATE BY * EXCEPT (a, b), COLUMNS('^c') EXCEPT cc, COLUMNS(d, e)",
     s.OptimizeTable(T, None, None, False, True, (ColumnMatcher(excluded=("a", "b")),
                     ColumnMatcher(pattern="^c", excluded=("cc",)), ColumnMatcher(("d", "e"))))),
    ("OPTIMIZE TABLE t PARTITION ID '2020' DEDUPLICATE", s.OptimizeTable(T, None, "2020", False, True)),
    ("OPTIMIZE TABLE t PARTITION (1, 'final') FINAL", s.OptimizeTable(T, "(1, 'final')", None, True)),
    ("SYSTEM SYNC REPLICA d.t STRICT", s.SystemCommand("SYNC REPLICA", TableRef("d", "t"), "STRICT")),
    ("system stop  merges", s.SystemCommand("STOP MERGES")),
    ("SYSTEM START REPLICATED SENDS t", s.SystemCommand("START REPLICATED SENDS", T)),
    ("SYSTEM STOP PULLING REPLICATION LOG", s.SystemCommand("STOP PULLING REPLICATION LOG")),
    ("SYSTEM SYNC REPLICA t IF EXISTS PULL", s.SystemCommand("SYNC REPLICA", T, "PULL", True)),
    ("SYSTEM FLUSH LOGS part_log, query_log", s.SystemCommand("FLUSH LOGS", None, "part_log,query_log")),
    ("SYSTEM RELOAD CONFIG", s.SystemCommand("RELOAD CONFIG")),
    ("SYSTEM RESTART REPLICAS", s.SystemCommand("RESTART REPLICAS")),
    ("SYSTEM RESTORE REPLICA d.t", s.SystemCommand("RESTORE REPLICA", TableRef("d", "t"))),
    ("CHECK TABLE d.t", s.CheckTable(TableRef("d", "t"))),
    ("CHECK TABLE t PARTITION 202001", s.CheckTable(T, partition="202001")),
    ("CHECK TABLE t PARTITION ID 'all'", s.CheckTable(T, partition_id="all")),
    ("CHECK TABLE t PART 'all_1_1_0'", s.CheckTable(T, part="all_1_1_0")),
    ("SYSTEM FLUSH LOGS", s.SystemCommand("FLUSH LOGS")),
    ("SYSTEM DROP REPLICA 'r1'", s.DropReplica("r1")),
    ("SYSTEM DROP REPLICA 'r1' FROM TABLE d.t", s.DropReplica("r1", table=TableRef("d", "t"))),
    ("SYSTEM DROP REPLICA 'r1' FROM DATABASE d", s.DropReplica("r1", database="d")),
    ("SYSTEM DROP REPLICA 'r1' FROM ZKPATH '/a/b'", s.DropReplica("r1", zookeeper_path="/a/b")),
    ("KILL QUERY WHERE query_id = 'abc' SYNC", s.KillQuery("abc")),
    ("INSERT INTO t VALUES (1, ';')", s.Insert(T, format="Values", inline_data=b" (1, ';')")),
    ("INSERT INTO TABLE d.t (a, `b c`) SETTINGS async_insert = 0 VALUES (1)",
     s.Insert(TableRef("d", "t"), ("a", "b c"), format="Values", inline_data=b" (1)", settings={"async_insert": 0})),
    ("INSERT INTO t (* EXCEPT(a, b)) SELECT 1", s.Insert(T, (), ("a", "b"), "SELECT 1")),
    ("INSERT INTO t (t.* EXCEPT(a, b)) SELECT 1", s.Insert(T, (), ("a", "b"), "SELECT 1")),
    ("INSERT INTO t (db.t.*) SELECT 1", s.Insert(T, (), (), "SELECT 1")),
    ("INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x", s.Insert(T, select="WITH x AS (SELECT 1) SELECT * FROM x")),
    ("INSERT INTO t (SELECT 1)", s.Insert(T, select="(SELECT 1)")),
    ("INSERT INTO t FORMAT CSV\n1;2\n", s.Insert(T, format="CSV", inline_data=b"1;2\n")),
    ("INSERT INTO t FORMAT TSV", s.Insert(T, format="TSV")),
    ("CREATE TABLE t AS d.other", CreateTable(T, (), None, as_table=TableRef("d", "other"))),
    ("CREATE TABLE t ENGINE = MergeTree ORDER BY a AS SELECT 1 AS a",
     CreateTable(T, (), EngineClause("MergeTree"), order_by="a", as_select="SELECT 1 AS a")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), STATEMENTS, ids=[text[:50] for text, _ in STATEMENTS])
def test_statement(text: str, expected: s.Statement) -> None:
    assert parse_statement(text).statement == expected


def test_create_table_in_the_modern_syntax() -> None:
    parsed = parse_statement(
        "CREATE TABLE IF NOT EXISTS d.hits (CounterID UInt32 CODEC(Delta, ZSTD(1)), EventDate Date DEFAULT today(),"
        " `a b` String NULL COMMENT 'it''s', m ALIAS CounterID + 1, n Int8 MATERIALIZED 1 COMMENT 'x',)"
        " ENGINE = ReplicatedMergeTree('/clickhouse/tables/{layer}-{shard}/hits', '{replica}')"
        " PARTITION BY toYYYYMM(EventDate) ORDER BY (CounterID, intHash32(UserID)) SAMPLE BY intHash32(UserID)"
        " PRIMARY KEY CounterID SETTINGS index_granularity = 1024, x = 'a' COMMENT 'a table'"
    ).statement
    assert parsed == CreateTable(
        TableRef("d", "hits"),
        (
            ColumnClause("CounterID", "UInt32", codec="Delta, ZSTD(1)"),
            ColumnClause("EventDate", "Date", "DEFAULT", "today()"),
            ColumnClause("a b", "Nullable(String)", comment="it's"),
            ColumnClause("m", "", "ALIAS", "CounterID + 1"),
            ColumnClause("n", "Int8", "MATERIALIZED", "1", comment="x"),
        ),
        EngineClause("ReplicatedMergeTree", ("'/clickhouse/tables/{layer}-{shard}/hits'", "'{replica}'")),
        if_not_exists=True,
        partition_by="toYYYYMM(EventDate)",
        order_by="(CounterID, intHash32(UserID))",
        primary_key="CounterID",
        sample_by="intHash32(UserID)",
        settings={"index_granularity": 1024, "x": "a"},
        comment="a table",
    )


def test_create_table_in_the_deprecated_syntax() -> None:
    parsed = parse_statement(
        "CREATE TABLE hits (a UInt32) ENGINE = ReplicatedMergeTree('/p', '{replica}', EventDate, intHash32(UserID),"
        " (CounterID, EventDate), 8192)"
    ).statement
    assert isinstance(parsed, CreateTable)
    assert parsed.engine is not None
    assert parsed.engine.arguments == (
        "'/p'", "'{replica}'", "EventDate", "intHash32(UserID)", "(CounterID, EventDate)", "8192",
    )  # fmt: skip


def test_columns_named_as_keywords() -> None:
    parsed = parse_statement("CREATE TABLE t (index String, comment UInt8, constraint Array(UInt8)) ENGINE = MergeTree")
    assert isinstance(parsed.statement, CreateTable)
    assert [column.name for column in parsed.statement.columns] == ["index", "comment", "constraint"]


@pytest.mark.parametrize(
    ("text", "output", "outfile"),
    [
        ("SELECT 1 FORMAT JSON", "JSON", None),
        ("SELECT 1 INTO OUTFILE 'x.csv' FORMAT CSV", "CSV", "x.csv"),
        ("SELECT 1 FORMAT CSV SETTINGS a = 1", "CSV", None),
        ("SHOW TABLES FORMAT Vertical", "Vertical", None),
        ("EXISTS t FORMAT JSON", "JSON", None),
        ("DESCRIBE TABLE t FORMAT TSV", "TSV", None),
    ],
)
def test_output_clauses(text: str, output: str, outfile: str | None) -> None:
    parsed = parse_statement(text)
    assert (parsed.format, parsed.outfile) == (output, outfile)


def test_several_statements() -> None:
    parsed = parse_statements(
        "USE a; ; INSERT INTO t VALUES (1, 'a;b');SELECT ';' ;\nINSERT INTO t FORMAT CSV\n1;\n2;\n"
    )
    assert [type(item.statement).__name__ for item in parsed] == ["Use", "Insert", "SelectQuery", "Insert"]
    last = parsed[-1].statement
    assert isinstance(last, s.Insert)
    assert last.inline_data == b"1;\n2;\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a TTL d TO DISK 'default'", "TO DISK"),
        ("CREATE TABLE t (a UInt8, PROJECTION p (SELECT a)) ENGINE = MergeTree", "PROJECTION"),
        ("CREATE TABLE t (a UInt8 EPHEMERAL) ENGINE = MergeTree", "EPHEMERAL"),
        ("CREATE OR REPLACE DICTIONARY t (a UInt8)", "OR REPLACE"),
        ("CREATE LIVE VIEW v AS SELECT 1", "LIVE"),
        ("CREATE DATABASE d ENGINE = Replicated", "Replicated"),
        ("SYSTEM RELOAD USERS", "SYSTEM RELOAD USERS"),
        ("INSERT INTO FUNCTION url('x') SELECT 1", "FUNCTION"),
        ("SHOW GRANTS FOR ada", "SHOW GRANTS FOR another"),
        ("RENAME DATABASE a TO b", "RENAME DATABASE"),
        ("EXPLAIN INSERT INTO t VALUES", "EXPLAIN of INSERT"),
    ],
)
def test_what_is_not_supported_is_named(text: str, named: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_statements(text)
    assert caught.value.code == 48
    assert named in caught.value.message


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("SELEC 1", "position 1 (SELEC) (line 1, col 1)", "SELECT"),
        ("SELECT 1;\nDROP TABEL t", "position 16 (TABEL) (line 2, col 6)", "TABLE"),
        ("CREATE TABLE t (a UInt8,, b UInt8)", "position 25 (,) (line 1, col 25)", "column name"),
        ("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a, b", "position 55 (,)", "(a, b)"),
        ("CREATE TABLE t (a UInt8", "position 24 (end of query)", ")"),
        ("SELECT 'abc", "position 8 (')", "closing '"),
        ("SELECT (1", "position 8 (()", "closing )"),
        ("SELECT 1)", "position 9 ())", "end of query"),
        ("INSERT INTO t (a b) VALUES (1)", "position 18 (b)", ")"),
        ("INSERT INTO t", "position 14 (end of query)", "VALUES"),
        ("SET a = ", "position 9 (end of query)", "literal"),
        ("DROP TABLE 't'", "position 12 ('t')", "table name"),
        ("SELECT 1 /* x", "position 10", "*/"),
    ],
)
def test_syntax_errors_say_where(text: str, position: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_statements(text)
    assert caught.value.code == 62
    assert f"Syntax error: failed at {position}" in caught.value.message
    assert expected in caught.value.message.split("Expected")[1]


def test_one_statement_is_wanted() -> None:
    for text in ("", "  -- nothing\n", "SELECT 1; SELECT 2"):
        with pytest.raises(UserError, match="expected one statement"):
            parse_statement(text)


def test_large_insert_is_not_tokenised() -> None:
    data = "(1, 'x;y'),\n" * 200_000
    (parsed,) = parse_statements("INSERT INTO t VALUES " + data)
    assert isinstance(parsed.statement, s.Insert)
    assert len(parsed.statement.inline_data) == len(data) + 1


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("1", "1"), (" \t\n1", "1"), ("-- a\n 1", "1"), ("# a\n1", "1"), ("#!a\n1", "1"), ("#1", "#1"), ("-1", "-1"),
        ("/**/1", "1"), ("/* * / ** */ /***/1", "1"), (" /*/1", "/*/1"), ("/* 1", "/* 1"), ("-- a", ""), ("/1", "/1"),
        (" " * 1_000_001 + "1", "1"), (" --\n" * 1001 + "/**/" * 1001 + "1", "1"), ("\u00a01", "1"),
    ],
)  # fmt: skip
def test_blanks_and_comments(text: str, rest: str) -> None:
    assert text[skip_space(text, 0) :] == rest


def test_many_comments_are_looked_at_piece_by_piece() -> None:
    """A match holds the interpreter, and sees no deadline, from its beginning to its end."""

    class Status(QueryStatus):
        checks = 0

        def check(self) -> None:
            self.checks += 1

    status = Status()
    assert TokenStream("/**/" * 10_000 + "1", guard=QueryGuard(status=status)).peek().text == "1"
    assert status.checks > 30


@given(st.lists(st.sampled_from([r"\\", r"\n", r"\d", r"\'", r"\`", "''", "a", "é", "\\\n", r"\é", "b" * 99])))
def test_escapes_mean_the_same_in_whatever_company(sequences: list[str]) -> None:
    alone = [unquote_string(f"'{sequence}'") for sequence in sequences]
    assert unquote_string(f"'{''.join(sequences)}'") == "".join(alone)


def test_a_long_text_is_unescaped_in_pieces() -> None:
    assert unquote_string("'" + r"\n\\\\d''" * 100_000 + "'") == "\n\\\\d'" * 100_000


@pytest.mark.parametrize("text", [b"DROP TABLE `a\xff`", b"SET log_comment = '\xc3''\xff'", b'DROP TABLE "\xff"'])
def test_names_and_literals_are_text(text: bytes) -> None:
    with pytest.raises(UserError, match="Invalid UTF-8 in the statement") as caught:
        parse_statement(text.decode("utf-8", "surrogateescape"))
    assert caught.value.code == 117


def test_comments_need_not_be_text() -> None:
    parsed = parse_statement(b"DROP TABLE t -- \xff".decode("utf-8", "surrogateescape"))
    assert parsed == parse_statement("DROP TABLE t")


@pytest.mark.parametrize("text", ["SELECT '2024\udbc4'", "SELECT `\udcff`", "SELECT '\ud800\udcff'"])
def test_a_text_that_is_not_unicode_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_query(text)
    assert caught.value.code == 117


@pytest.mark.parametrize("text", ["INSERT INTO t VALUES (\udf43 + 1)", "INSERT INTO t FORMAT CSV \ud800"])
def test_the_data_of_an_insert_are_no_half_surrogates(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_statement(text)
    assert caught.value.code == 117
