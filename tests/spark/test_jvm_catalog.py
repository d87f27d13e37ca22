"""The catalog ``spark.sql.catalog.pando``: databases and tables of the servers, by Spark's statements."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from parts.common.errors import UserError
from spark_connector import use_catalog
from tests.portions import one_in
from tests.spark.conftest import SECRET, Pando, rows
from tests.spark.edges import CONDITIONS, LEFT_TO_SPARK, make_table_of_edges
from tests.spark.test_jvm_read import Between, plan
from tests.spark.test_spark_scans import free_port

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

HOSTILE = ["a b", "it's", 'say "x"', "tick`ed", "back\\slash", "semi;colon", "da--sh", "ünï", "per%cent", "{x:String}"]
REFUSED = LEFT_TO_SPARK | {"s LIKE '_ä%'", "s LIKE 'a\\\\%_'", "isnan(f)", "lc LIKE 'x_'"}
"""Conditions that Spark does not give to a source, or that a server may understand otherwise."""
_numbers = itertools.count(1)


class Session:
    """Spark's SQL with the catalogs ``pando`` (both replicas) and ``alone`` (the first)."""

    def __init__(self, spark: SparkSession, pando: Pando) -> None:
        self.spark = spark
        self.pando = pando
        use_catalog(spark, ",".join(pando.urls.values()))
        use_catalog(spark, pando.urls["r1"], "alone", partitions="2")

    def __call__(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    def refuse(self, sql: str, message: str) -> None:
        with pytest.raises(Exception, match=message):
            self(sql)

    def server(self, sql: str, replica: str = "r1") -> list[tuple[object, ...]]:
        return rows(self.pando[replica], sql)

    def new_name(self) -> str:
        return f"c{next(_numbers)}"


@pytest.fixture(scope="module")
def sql(jvm_session: SparkSession, pando: Pando) -> Session:
    return Session(jvm_session, pando)


@pytest.fixture
def database(sql: Session) -> Iterator[str]:
    name = f"db{next(_numbers)}"
    sql(f"CREATE DATABASE pando.{name}")
    yield name
    sql(f"DROP DATABASE IF EXISTS pando.{name} CASCADE")


def quote(name: str) -> str:
    """A name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


# -- creating ---------------------------------------------------------------------------------------------------------


def test_a_table_is_made_on_all_replicas_and_read(sql: Session, database: str) -> None:
    sql(
        f"CREATE TABLE pando.{database}.hits (id BIGINT COMMENT 'the key', day DATE, s STRING, n DECIMAL(9, 2)) "
        "PARTITIONED BY (months(day)) COMMENT 'what''s up' "
        "TBLPROPERTIES (order_by = 'day, id', 'setting.index_granularity' = '128', 'type.s' = 'LowCardinality(String)')"
    )
    for replica in ("r1", "r2"):
        shown = str(sql.server(f"SELECT create_table_query FROM system.tables WHERE database = '{database}'", replica))
        assert "`id` Int64 COMMENT 'the key', `day` Date32, `s` LowCardinality(String)" in shown
        assert "`n` Nullable(Decimal(9, 2))" in shown
        assert f"ReplicatedMergeTree('/clickhouse/tables/{{shard}}/{database}/hits', '{{replica}}')" in shown
        assert "PARTITION BY (toYYYYMM(day)) ORDER BY (day, id) SETTINGS index_granularity = 128" in shown
    sql.pando["r2"].execute(f"INSERT INTO {database}.hits SELECT number, '2026-11-20', 'x', 1.5 FROM numbers(1000)")
    sql.pando.sync(f"{database}.hits")
    assert sql(f"SELECT count(*), max(id), min(day) FROM pando.{database}.hits WHERE id >= 990")[0][:2] == (10, 999)
    frame = sql.spark.table(f"pando.{database}.hits").where("id < 5").groupBy("s").count()
    assert frame.collect() == [("x", 5)]
    assert "GROUP BY" in plan(frame)
    assert f"BatchScan pando.{database}.hits" in plan(frame)
    described = {row[0]: row[1:] for row in sql(f"DESCRIBE TABLE EXTENDED pando.{database}.hits")}
    assert described["id"] == ("bigint", "the key")
    assert described["Comment"][0] == "what's up"
    assert sql(f"SHOW TABLES IN pando.{database}") == [(database, "hits", False)]


@pytest.mark.long
def test_what_spark_shows_of_a_table_makes_it_again(sql: Session, database: str) -> None:
    """SHOW CREATE TABLE, under another name and with a path of its own, makes a table of the same definition."""
    sql(
        f"CREATE TABLE alone.{database}.first (a INT NOT NULL COMMENT 'it''s', b ARRAY<STRING>, "
        "c STRUCT<x: INT, y: DATE>, d MAP<STRING, DOUBLE>, e TIMESTAMP, f BOOLEAN, g STRING, h TINYINT, "
        "i SMALLINT, j FLOAT) "
        "PARTITIONED BY (a, days(e)) TBLPROPERTIES (engine = 'ReplacingMergeTree(h)', order_by = 'a, g, intHash32(i)', "
        "primary_key = 'a, g', sample_by = '', 'type.g' = 'Enum8(\\'one\\' = 1, \\'t,w)o\\' = 2)', "
        "'setting.index_granularity' = '99', 'setting.merge_with_ttl_timeout' = '77', 'type.h' = 'UInt8', "
        "'type.i' = 'UInt32')"
    )
    properties = dict(sql(f"SHOW TBLPROPERTIES alone.{database}.first"))
    assert properties["engine"] == "ReplacingMergeTree(h)"
    assert properties["setting.merge_with_ttl_timeout"] == "77"
    assert properties["type.g"] == "Enum8('one' = 1, 't,w)o' = 2)"
    shown = str(sql(f"SHOW CREATE TABLE alone.{database}.first")[0][0])
    sql(shown.replace(f"alone.{database}.first", f"alone.{database}.again"))
    found = sql.server(f"SELECT replace(create_table_query, name, '') FROM system.tables WHERE database = '{database}'")
    assert len(found) == 2
    assert found[0] == found[1]
    one, two = (sql.spark.table(f"alone.{database}.{name}").schema for name in ("first", "again"))
    assert one == two


@pytest.mark.long
def test_defaults_of_a_table_at_one_server(sql: Session, database: str) -> None:
    sql(f"CREATE TABLE alone.{database}.plain (k INT, s STRING)")
    shown = str(sql.server(f"SELECT create_table_query FROM system.tables WHERE database = '{database}'"))
    assert "(`k` Nullable(Int32), `s` Nullable(String)) ENGINE = MergeTree ORDER BY tuple()" in shown
    sql(f"CREATE TABLE IF NOT EXISTS alone.{database}.plain (k INT)")
    sql.refuse(f"CREATE TABLE alone.{database}.plain (k INT)", "TABLE_OR_VIEW_ALREADY_EXISTS")
    sql(f"CREATE TABLE alone.{database}.path (k INT) TBLPROPERTIES (zookeeper_path = '/tables/{database}/path')")
    assert "ReplicatedMergeTree('/tables" in dict(sql(f"SHOW TBLPROPERTIES alone.{database}.path"))["engine"]


@pytest.mark.parametrize(
    ("statement", "message"),
    one_in(
        4,
        [
            ("(k INT) PARTITIONED BY (bucket(4, k))", "Partitioning by bucket.* is not offered"),
            ("(k INT) CLUSTER BY (k)", "is not offered"),
            ("(k INT) USING parquet", "leave USING parquet out"),
            ("(k INT) LOCATION '/tmp/x'", "LOCATION is not offered"),
            ("(k INT) OPTIONS (url 'http://127.0.0.1')", "OPTIONS is not offered"),
            ("(k INT) TBLPROPERTIES (ttl = 'k')", "The property 'ttl' is not offered"),
            ("(k INT) TBLPROPERTIES ('type.q' = 'UInt8')", "'type.q' names a column that is not there"),
            (
                "(k INT) TBLPROPERTIES (engine = 'Memory')",
                "'Memory' is not offered: tables are of the MergeTree family",
            ),
            ("(k INT) TBLPROPERTIES (engine = 'MergeTree')", "A MergeTree table is on one server"),
            ("(k INT) TBLPROPERTIES ('setting.a b' = '1')", "no name of a setting"),
            ("(k INT) TBLPROPERTIES ('setting.nope' = '1')", r"Code: 115\. .*UNKNOWN_SETTING"),
            ("(k INT) TBLPROPERTIES (order_by = 'nope')", r"Code: 47\."),
            ("(k INT) TBLPROPERTIES (order_by = 'k) SETTINGS (')", r"Code: 62\."),
            ("(k INT) PARTITIONED BY (k) TBLPROPERTIES (partition_by = 'k')", "not both"),
            ("(k TIMESTAMP_NTZ)", "TIMESTAMP_NTZ has no counterpart; use TIMESTAMP"),
            ("(k VARCHAR(3))", "no counterpart; use STRING"),
            ("(k BINARY)", "BINARY has no counterpart"),
            ("(k STRING COLLATE UNICODE)", "no counterpart; use STRING"),
            ("(k INTERVAL DAY)", "no counterpart"),
            ("(k INT DEFAULT 3)", "default"),
            ("(k INT PRIMARY KEY)", "constraint"),
            ("AS SELECT CAST('a' AS BINARY) AS k", "BINARY has no counterpart"),
        ],
    ),
)
def test_what_cannot_be_made_is_refused_by_name(sql: Session, database: str, statement: str, message: str) -> None:
    with pytest.raises(Exception, match=f"(?is){message}"):
        sql(f"CREATE TABLE pando.{database}.t {statement}")
    assert sql.server(f"SELECT name FROM system.tables WHERE database = '{database}'") == []


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_in(10, HOSTILE))
@pytest.mark.long
def test_any_name_is_quoted(sql: Session, name: str) -> None:
    database, column = f"d {name}", f"c {name}"
    full = f"pando.{quote(database)}.{quote(name)}"
    text = name.replace("\\", "\\\\").replace("'", "\\'")
    sql(f"CREATE DATABASE pando.{quote(database)}")
    try:
        sql(
            f"CREATE TABLE {full} ({quote(column)} INT NOT NULL COMMENT '{text}', v STRING) PARTITIONED BY "
            f"({quote(column)}) COMMENT '{text}' TBLPROPERTIES (zookeeper_path = '/tables/{sql.new_name()}')"
        )
        assert (quote(database),) in sql("SHOW DATABASES IN pando")
        assert [row[1] for row in sql(f"SHOW TABLES IN pando.{quote(database)}")] == [name]
        facts = sql.server(f"SELECT name, comment FROM system.tables WHERE database = 'd {text}'", "r2")
        assert facts == [(name, name)]
        described = sql(f"DESCRIBE TABLE EXTENDED {full}")
        assert (column, "int", name) in described
        client = sql.pando["r1"]
        there = "`" + database.replace("\\", "\\\\").replace("`", "\\`") + "`.`"
        there += name.replace("\\", "\\\\").replace("`", "\\`") + "`"
        client.execute(f"INSERT INTO {there} SELECT 1, 'x' UNION ALL SELECT 2, 'y'")
        sql(f"DELETE FROM {full} WHERE {quote(column)} = 1")
        sql(f"ALTER TABLE {full} ADD COLUMN {quote('new ' + name)} STRING COMMENT '{text}' AFTER {quote(column)}")
        sql(f"ALTER TABLE {full} RENAME COLUMN v TO {quote('v ' + name)}")
        assert sql.spark.table(full).columns == [column, "new " + name, "v " + name]
        assert sql(f"SELECT * FROM {full}") == [(2, None, "y")]
        sql(f"ALTER TABLE {full} RENAME TO {quote(database)}.{quote('r ' + name)}")
        sql(f"DROP TABLE pando.{quote(database)}.{quote('r ' + name)}")
    finally:
        sql(f"DROP DATABASE pando.{quote(database)} CASCADE")
    assert (quote(database),) not in sql("SHOW DATABASES IN pando")


# -- changing ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_columns_are_changed_on_all_replicas(sql: Session, database: str) -> None:
    table = f"pando.{database}.t"
    sql(f"CREATE TABLE {table} (k INT, a INT, b STRING NOT NULL, c FLOAT) TBLPROPERTIES (order_by = 'k')")
    sql.pando["r1"].execute(f"INSERT INTO {database}.t VALUES (1, 2, 'x', 0.5)")
    sql.pando.sync(f"{database}.t")
    sql(f"ALTER TABLE {table} ADD COLUMNS (d DATE COMMENT 'new' FIRST, e ARRAY<INT> AFTER k)")
    sql(f"ALTER TABLE {table} ALTER COLUMN a TYPE BIGINT")
    sql(f"ALTER TABLE {table} ALTER COLUMN c TYPE DOUBLE")
    sql(f"ALTER TABLE {table} ALTER COLUMN b DROP NOT NULL")
    sql(f"ALTER TABLE {table} ALTER COLUMN b COMMENT 'say ''b'''")
    sql(f"ALTER TABLE {table} ALTER COLUMN c FIRST")
    sql(f"ALTER TABLE {table} RENAME COLUMN a TO z")
    sql(f"ALTER TABLE {table} DROP COLUMN d")
    sql(f"ALTER TABLE {table} DROP COLUMN IF EXISTS nope")
    assert sql(f"SELECT * FROM {table}") == [(0.5, 1, [], 2, "x")]
    for replica in ("r1", "r2"):
        found = sql.server(
            f"SELECT name, type, comment FROM system.columns WHERE database = '{database}' ORDER BY position", replica
        )
        assert found == [
            ("c", "Nullable(Float64)", ""),
            ("k", "Int32", ""),
            ("e", "Array(Nullable(Int32))", ""),
            ("z", "Nullable(Int64)", ""),
            ("b", "Nullable(String)", "say 'b'"),
        ]


@pytest.mark.long
def test_settings_and_comments_are_changed_on_each_server(sql: Session, database: str) -> None:
    table = f"pando.{database}.t"
    sql(f"CREATE TABLE {table} (k INT) COMMENT 'old'")
    sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('setting.old_parts_lifetime' = '9')")
    sql(f"COMMENT ON TABLE {table} IS 'it''s new'")
    for replica in ("r1", "r2"):
        shown = sql.server(f"SELECT engine_full, comment FROM system.tables WHERE database = '{database}'", replica)[0]
        assert "old_parts_lifetime = 9" in str(shown[0])
        assert shown[1] == "it's new"
    sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('setting.old_parts_lifetime', 'comment')")
    properties = dict(sql(f"SHOW TBLPROPERTIES {table}"))
    assert not properties.keys() & {"setting.old_parts_lifetime", "comment"}
    sql.refuse(f"ALTER TABLE {table} SET TBLPROPERTIES (order_by = 'k')", "Only the properties 'comment' and")


@pytest.mark.parametrize(
    ("statement", "message"),
    one_in(
        4,
        [
            ("ADD COLUMN n INT DEFAULT 3", "(?i)default"),
            ("ADD COLUMN s.z INT", "cannot be changed by itself"),
            ("ADD COLUMN n TIMESTAMP_NTZ", "has no counterpart"),
            ("ALTER COLUMN k TYPE BIGINT", r"Code: 524\."),
            ("DROP COLUMN k", r"Code: \d+\. DB::Exception"),
            ("DROP COLUMN nope", "nope"),
            ("ALTER COLUMN v TYPE SMALLINT", "NOT_SUPPORTED_CHANGE_COLUMN"),
            ("ALTER COLUMN v SET NOT NULL", "(?i)nullable"),
            ("ALTER COLUMN s DROP NOT NULL", "cannot become nullable"),
            ("ADD CONSTRAINT c CHECK (k > 0)", "(?i)constraint"),
            ("CLUSTER BY (k)", "not offered"),
        ],
    ),
)
@pytest.mark.long
def test_changes_that_cannot_be_are_refused(sql: Session, database: str, statement: str, message: str) -> None:
    table = f"alone.{database}.t"
    sql(f"CREATE TABLE {table} (k INT, v INT, s STRUCT<x: INT> NOT NULL) TBLPROPERTIES (order_by = 'k')")
    before = sql.server(f"SELECT create_table_query FROM system.tables WHERE database = '{database}'")
    sql.refuse(f"ALTER TABLE {table} {statement}", message)
    assert sql.server(f"SELECT create_table_query FROM system.tables WHERE database = '{database}'") == before


@pytest.mark.long
def test_tables_are_renamed_emptied_and_dropped(sql: Session, database: str) -> None:
    table = f"pando.{database}.t"
    sql(f"CREATE TABLE {table} (k INT) TBLPROPERTIES (order_by = 'k')")
    sql(f"CREATE TABLE pando.{database}.other (k INT)")
    sql.pando["r2"].execute(f"INSERT INTO {database}.t SELECT number FROM numbers(10)")
    sql.pando.sync(f"{database}.t")
    sql.refuse(f"ALTER TABLE {table} RENAME TO {database}.other", "TABLE_OR_VIEW_ALREADY_EXISTS")
    sql(f"ALTER TABLE {table} RENAME TO u")
    assert [row[1] for row in sql(f"SHOW TABLES IN pando.{database}")] == ["other", "u"]
    assert sql.server(f"SELECT count() FROM {database}.u", "r2") == [(10,)]
    sql(f"TRUNCATE TABLE pando.{database}.u")
    assert sql(f"SELECT count(*) FROM pando.{database}.u") == [(0,)]
    assert sql.server(f"SELECT count() FROM {database}.u", "r2") == [(0,)]
    sql(f"DROP TABLE pando.{database}.u")
    sql(f"DROP TABLE IF EXISTS pando.{database}.u")
    for statement in ("DROP TABLE", "SELECT * FROM", "TRUNCATE TABLE", "DESCRIBE", "DELETE FROM"):
        sql.refuse(f"{statement} pando.{database}.u", "TABLE_OR_VIEW_NOT_FOUND")
    sql.refuse(f"DROP TABLE pando.{database}.more.u", "TABLE_OR_VIEW_NOT_FOUND|NAMESPACE")
    assert sql.server(f"SELECT name FROM system.tables WHERE database = '{database}'", "r2") == [("other",)]
    sql(f"CREATE TABLE {table} (s STRING)")
    assert sql(f"SELECT count(s) FROM {table}") == [(0,)]


@pytest.mark.long
def test_namespaces(sql: Session) -> None:
    name = sql.new_name()
    sql(f"CREATE NAMESPACE pando.{name}")
    sql(f"CREATE NAMESPACE IF NOT EXISTS pando.{name}")
    sql.refuse(f"CREATE NAMESPACE pando.{name}", "SCHEMA_ALREADY_EXISTS")
    assert (name,) in sql("SHOW NAMESPACES IN pando")
    assert not {("system",), ("INFORMATION_SCHEMA",)} & set(sql("SHOW NAMESPACES IN pando"))
    sql(f"CREATE TABLE pando.{name}.t (k INT)")
    sql.refuse(f"DROP NAMESPACE pando.{name}", "SCHEMA_NOT_EMPTY")
    sql(f"DROP NAMESPACE pando.{name} CASCADE")
    assert sql.server(f"SELECT count() FROM system.databases WHERE name = '{name}'", "r2") == [(0,)]
    sql.refuse(f"DROP NAMESPACE pando.{name}", "SCHEMA_NOT_FOUND")
    sql(f"DROP NAMESPACE IF EXISTS pando.{name}")
    sql.refuse(f"SHOW TABLES IN pando.{name}", "SCHEMA_NOT_FOUND")
    sql.refuse(f"CREATE TABLE pando.{name}.t (k INT)", "SCHEMA_NOT_FOUND")
    sql.refuse(f"SELECT * FROM pando.{name}.t", "TABLE_OR_VIEW_NOT_FOUND")
    sql.refuse(f"CREATE NAMESPACE pando.{name}.deep", "one part")
    sql.refuse(f"CREATE NAMESPACE pando.{name} COMMENT 'x'", "no property 'comment'")
    sql.refuse("ALTER NAMESPACE pando.default SET PROPERTIES (a = 'b')", "A database has no properties")


@pytest.mark.long
def test_the_catalog_can_be_the_current_one(sql: Session, database: str) -> None:
    sql(f"CREATE TABLE pando.{database}.t (k INT)")
    before = sql.spark.catalog.currentCatalog()
    try:
        sql("USE pando")
        assert sql("SELECT current_catalog(), current_schema()") == [("pando", "default")]
        sql(f"USE {database}")
        assert sql("SELECT count(*) FROM t") == [(0,)]
        assert sql.spark.catalog.tableExists("t")
    finally:
        sql.spark.catalog.setCurrentCatalog(before)


# -- deleting ---------------------------------------------------------------------------------------------------------


class Edges:
    """A table with values at which the two could differ, and its rows in Spark's memory."""

    def __init__(self, sql: Session) -> None:
        self.name = make_table_of_edges(sql.pando)
        options = {"url": sql.pando.urls["r1"], "table": self.name}
        self.oracle = sql.spark.read.format("pando").options(**options).load().cache()

    def keys(self, condition: str) -> list[int]:
        return sorted(row.k for row in self.oracle.where(condition).select("k").collect())


@pytest.fixture(scope="module")
def edges(sql: Session) -> Edges:
    return Edges(sql)


@pytest.mark.long
@pytest.mark.parametrize("place", range(0, len(CONDITIONS), 6))
def test_delete_takes_the_rows_that_spark_would_take(sql: Session, edges: Edges, place: int) -> None:
    """Also where Spark has to look for them itself."""
    client = sql.pando["r1"]
    for condition in CONDITIONS[place : place + 6]:
        name = sql.new_name()
        client.execute(f"CREATE TABLE {name} AS {edges.name} ENGINE = MergeTree ORDER BY tuple()")
        client.execute(f"INSERT INTO {name} SELECT * FROM {edges.name}")
        expected = edges.keys(f"NOT coalesce({condition}, false)")
        sql(f"DELETE FROM alone.default.{name} WHERE {condition}")
        is_by_spark = sql.server(f"SELECT count() FROM system.transactions WHERE table = '{name}'") != [(0,)]
        assert not is_by_spark or condition in REFUSED, condition
        assert [row[0] for row in sql.server(f"SELECT k FROM {name} ORDER BY k")] == expected, condition
        client.execute(f"DROP TABLE {name}")


def test_delete_on_replicas(sql: Session, database: str) -> None:
    table = f"pando.{database}.t"
    sql(f"CREATE TABLE {table} (k INT, s STRING, f DOUBLE) TBLPROPERTIES (order_by = 'k')")
    values = "(1, 'a', 0.5), (2, NULL, nan), (3, 'it''s', -0.0), (4, 'b', NULL)"
    sql.pando["r1"].execute(f"INSERT INTO {database}.t VALUES {values}")
    sql.pando.sync(f"{database}.t")
    sql(f"DELETE FROM {table} WHERE s = 'it\\'s' AND k > 1")
    sql(f"DELETE FROM {table} WHERE f > 1e300")
    for replica in ("r1", "r2"):
        assert sql.server(f"SELECT k FROM {database}.t ORDER BY k", replica) == [(1,), (4,)]
    sql(f"DELETE FROM {table} WHERE (k < 3 AND length(s) = 9) OR k = 5")
    sql(f"DELETE FROM {table} WHERE k IN (SELECT 5)")
    assert sql(f"SELECT count(*) FROM {table}") == [(2,)]
    sql(f"DELETE FROM {table} WHERE s IS NOT NULL AND k IN (4, 9)")
    assert sql(f"SELECT k FROM {table}") == [(1,)]
    sql(f"DELETE FROM {table}")
    assert sql(f"SELECT count(*) FROM {table}") == [(0,)]


# -- servers ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_server_that_is_away(sql: Session, database: str) -> None:
    """Rows and columns are changed at another one; of definitions the error tells who has them."""
    dead = f"http://127.0.0.1:{free_port()}"
    name = f"half_{database}"
    use_catalog(sql.spark, f"{dead},{sql.pando.urls['r2']}", name, retries="0")
    late = f"late_{database}"
    use_catalog(sql.spark, f"{sql.pando.urls['r2']},{dead}", late, retries="0")
    sql(f"CREATE TABLE pando.{database}.t (k INT) TBLPROPERTIES (order_by = 'k')")
    sql.pando["r1"].execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    sql.pando.sync(f"{database}.t")
    sql(f"DELETE FROM {name}.{database}.t WHERE k = 1")
    sql(f"ALTER TABLE {name}.{database}.t ADD COLUMN n INT")
    assert sql(f"SELECT * FROM {name}.{database}.t") == [(2, None)]
    sql.refuse(f"CREATE TABLE {name}.{database}.u (k INT)", f"Cannot connect to {dead}")
    assert sql.server(f"SELECT count() FROM system.tables WHERE database = '{database}'", "r2") == [(1,)]
    sql.refuse(f"CREATE TABLE {late}.{database}.u (k INT)", f"{sql.pando.urls['r2']} carried it out, {dead} did not")
    assert sql.server(f"SELECT count() FROM system.tables WHERE database = '{database}'", "r2") == [(2,)]


def test_a_statement_is_never_sent_twice(sql: Session, database: str) -> None:
    """Its answer is lost: nobody knows whether it was carried out, at one server or at each."""
    sql(f"CREATE TABLE pando.{database}.t (k INT) TBLPROPERTIES (order_by = 'k')")
    name = f"cut_{database}"
    with Between(sql.pando.urls["r1"]) as between:
        use_catalog(sql.spark, between.url, name)
        assert sql(f"SELECT count(*) FROM {name}.{database}.t") == [(0,)]
        between.loses = "ALTER TABLE"
        sql.refuse(f"ALTER TABLE {name}.{database}.t ADD COLUMN n INT", "The connection was lost before the answer")
        assert between.lost == 1
        between.loses = "MODIFY COMMENT"
        sql.refuse(f"COMMENT ON TABLE {name}.{database}.t IS 'lost'", "The connection was lost before the answer")
        assert between.lost == 2
    assert sql.spark.table(f"pando.{database}.t").columns == ["k", "n"]


# -- options and secrets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tabel": "x"}, "A catalog has no option 'tabel'. Its options are compression"),
        ({"table": "x"}, "A catalog has no option 'table'"),
        ({"filter": "k = 1"}, "A catalog has no option 'filter'"),
        ({"partitions": "many"}, "the option 'partitions' has a wrong value: 'many'"),
        ({"url": "http://u:hidden@127.0.0.1"}, "the option 'url' has a wrong value: expected http"),
        ({"urls": "http://127.0.0.1"}, "Give 'url' or 'urls', not both"),
        ({"password_env": "PANDO_NOT_SET"}, "'PANDO_NOT_SET', named by the option 'password_env', is not set"),
        ({"password_file": "/nope/x"}, "/nope/x"),
        ({"password_file": "/nope/x", "password_env": "X"}, "give one of"),
        ({"user": "nobody"}, r"Code: 516\."),
        ({"retries": "0", "url": "http://127.0.0.1:1"}, "Cannot connect to http://127.0.0.1:1"),
    ],
)
def test_wrong_options(sql: Session, options: dict[str, str], message: str) -> None:
    name, given = sql.new_name(), {"url": sql.pando.urls["r1"], **options}

    def show_tables() -> None:
        use_catalog(sql.spark, name=name, **given)
        sql(f"SHOW TABLES IN {name}.default")

    with pytest.raises(Exception, match=message) as refused:
        show_tables()
    assert "hidden" not in str(refused.value)


def test_a_name_is_given_once(sql: Session) -> None:
    """After wrong options it may be given again. A catalog can be used first in another thread."""
    name, url = sql.new_name(), sql.pando.urls["r1"]
    with pytest.raises(Exception, match="'retries' has a wrong value"):
        use_catalog(sql.spark, url, name, retries="many")
    use_catalog(sql.spark, url, name, retries="1")
    use_catalog(sql.spark, url, name, retries="1")
    for other in ({"retries": "2"}, {}):
        with pytest.raises(UserError, match="with other options"):
            use_catalog(sql.spark, url, name, **other)
    with pytest.raises(UserError, match="must be a word"):
        use_catalog(sql.spark, url, "a.b")
    with ThreadPoolExecutor(1) as threads:
        assert ("default",) in threads.submit(sql, f"SHOW NAMESPACES IN {name}").result(60)


@pytest.mark.long
def test_a_password_is_nowhere_to_be_read(
    sql: Session, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    name = f"ada_{database}"
    use_catalog(sql.spark, sql.pando.urls["r1"], name, user="ada", password_file=str(file))
    table = f"{name}.{database}.t"
    sql(f"CREATE TABLE {table} (k INT) TBLPROPERTIES (order_by = 'k')")
    sql.pando["r1"].execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    frame = sql.spark.table(table).where("k > 1")
    assert frame.collect() == [(2,)]
    shown = io.StringIO()
    with redirect_stdout(shown):
        for mode in ("extended", "cost", "formatted"):
            frame.explain(mode=mode)
    texts = [shown.getvalue(), frame.schema.json(), plan(frame)]
    for statement in (
        "DESCRIBE TABLE EXTENDED",
        "SHOW TBLPROPERTIES",
        "SHOW CREATE TABLE",
        "EXPLAIN EXTENDED DELETE FROM",
    ):
        texts.append(repr(sql(f"{statement} {table}")))
    texts.append(repr(sql("SET")))
    assert "BatchScan" in texts[2]
    assert not [text for text in texts if SECRET in text]
    with pytest.raises(UserError, match="must not have a password"):
        use_catalog(sql.spark, sql.pando.urls["r1"], "secret", password=SECRET)
    sql.spark.conf.set("spark.sql.catalog.leaky", "pando.spark.PandoCatalog")
    sql.spark.conf.set("spark.sql.catalog.leaky.url", sql.pando.urls["r1"])
    sql.spark.conf.set("spark.sql.catalog.leaky.password", "hunter2")
    try:
        with pytest.raises(Exception, match="must not have a password") as refused:
            sql("SHOW TABLES IN leaky.default")
        assert "hunter2" not in str(refused.value)
    finally:
        sql.spark.conf.unset("spark.sql.catalog.leaky.password")
        sql.spark.conf.unset("spark.sql.catalog.leaky")


@pytest.mark.long
def test_options_of_one_read(sql: Session, database: str) -> None:
    sql(f"CREATE TABLE alone.{database}.t (k INT) TBLPROPERTIES (order_by = 'k')")
    sql.pando["r1"].execute(f"INSERT INTO {database}.t SELECT number FROM numbers(100)")
    reader = sql.spark.read
    assert reader.option("filter", "k % 2 = 0").table(f"alone.{database}.t").count() == 50
    with pytest.raises(Exception, match="'table' is not of a read of a catalog's table"):
        sql.spark.read.option("table", "x").table(f"alone.{database}.t").count()
    sql.spark.conf.set("spark.pando.filter", "k < 3")
    try:
        sql.refuse(f"SELECT * FROM alone.{database}.t", "spark.pando.filter and spark.pando.columns must not be set")
    finally:
        sql.spark.conf.unset("spark.pando.filter")
