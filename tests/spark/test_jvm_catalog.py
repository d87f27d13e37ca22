"""The catalog ``spark.sql.catalog.pando``: databases and tables of the servers, by Spark's statements."""

from __future__ import annotations

import pytest

from tests.portions import one_in
from tests.spark.catalog import Session, database, quote, sql
from tests.spark.test_jvm_read import plan

__all__ = ["database", "sql"]

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

HOSTILE = ["a b", "it's", 'say "x"', "tick`ed", "back\\slash", "semi;colon", "da--sh", "ünï", "per%cent", "{x:String}"]


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
