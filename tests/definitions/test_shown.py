"""What people see of definitions and parts: SHOW CREATE, DESCRIBE and the columns of system tables."""

from __future__ import annotations

import pytest

from tests.definitions.conftest import Both

_COLUMNS = """
    k UInt64, a UInt32 DEFAULT k+1, b String DEFAULT concat('a','b') COMMENT 'x', c Array(UInt8) DEFAULT [1,2],
    d DateTime DEFAULT now()-toIntervalDay(1) TTL d+INTERVAL 1 DAY, e Map(String,UInt8) DEFAULT map('a',1),
    g UInt8 MATERIALIZED if(k>3 and a=2,1,0), h String ALIAS CAST(k AS String), i Decimal(10,2) DEFAULT 1.5,
    j UInt8 DEFAULT CASE WHEN k=1 THEN 2 ELSE 3 END, l UInt8 DEFAULT k BETWEEN 1 AND 3, n Nullable(UInt8) DEFAULT NULL,
    o Int8 DEFAULT -1, p String DEFAULT k::String, q UInt8 DEFAULT not (k in (1,2)), r UInt8 DEFAULT c[1],
    z UInt8 DEFAULT a>0 ? 1 : 2,
    t UInt8 DEFAULT (k+1), y Date DEFAULT toDate('2020-01-01'), x String CODEC(ZSTD(3)),
    INDEX i1 k*2 TYPE minmax, INDEX i4 (k) TYPE minmax,
    INDEX i2 (k,a) TYPE set(10) GRANULARITY 2, INDEX i3 lower(b) TYPE bloom_filter(0.01),
    CONSTRAINT c1 CHECK (k<100 AND a is not null), CONSTRAINT c2 CHECK b like 'a%' or k!=3
"""


def test_expressions_are_written_as_clickhouse_writes_them(both: Both) -> None:
    both.compare(
        f"""
        CREATE TABLE t ({_COLUMNS}) ENGINE = MergeTree PARTITION BY k%3 ORDER BY (k,a*2) SAMPLE BY k;
        SHOW CREATE TABLE t;
        SELECT create_table_query, sorting_key, partition_key FROM system.tables
        WHERE database = currentDatabase() AND table = 't';
        SELECT name, type, default_kind, default_expression FROM system.columns
        WHERE database = currentDatabase() AND table = 't' ORDER BY position;
        DESCRIBE TABLE t;
        INSERT INTO t (k) VALUES (7);
        SELECT column, default_kind, default_expression FROM system.parts_columns
        WHERE database = currentDatabase() AND table = 't' AND active ORDER BY column_position;
        ALTER TABLE t MODIFY COLUMN a DEFAULT k*3, ADD CONSTRAINT c3 CHECK a<>k;
        SHOW CREATE TABLE t
        """
    )


@pytest.mark.parametrize(
    "table", ["databases", "tables", "columns", "parts", "parts_columns", "events", "metrics", "clusters"]
)
def test_second_names_of_columns(both: Both, table: str) -> None:
    both.compare(
        f"""
        CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k;
        SELECT name, type, default_expression FROM system.columns
        WHERE database = 'system' AND table = '{table}' AND default_kind = 'ALIAS' ORDER BY name
        """
    )


def test_second_names_are_read(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k;
        INSERT INTO t VALUES (1);
        SELECT part_name, p.bytes = bytes_on_disk, marks_size > 0, rows FROM system.parts AS p
        WHERE database = currentDatabase() AND part_name LIKE 'all%';
        SELECT table FROM system.tables WHERE database = currentDatabase() AND table != 'x'
        """
    )


def test_columns_of_a_primary_key_that_is_shorter_than_the_sorting_key(both: Both) -> None:
    shown = """
        SELECT name, is_in_partition_key, is_in_sorting_key, is_in_primary_key, is_in_sampling_key FROM system.columns
        WHERE database = currentDatabase() AND table = '{}' ORDER BY position
    """
    both.compare(
        f"""
        CREATE TABLE p1 (a Int32, b Int32, c Int32, d Int32) ENGINE = MergeTree PRIMARY KEY (a, b) ORDER BY (a, b, c);
        {shown.format("p1")};
        CREATE TABLE p2 (a Int32, b Int32, c Int32, d Int32) ENGINE = MergeTree PARTITION BY d % 2
        PRIMARY KEY (a, intHash32(b)) ORDER BY (a, intHash32(b), c + 1) SAMPLE BY intHash32(b);
        {shown.format("p2")};
        CREATE TABLE p3 (k Int32, v Int8, s Int8) ENGINE = VersionedCollapsingMergeTree(s, v) ORDER BY k;
        {shown.format("p3")};
        CREATE TABLE p4 (k Int32, v Int8) ENGINE = MergeTree ORDER BY tuple();
        {shown.format("p4")};
        CREATE TABLE p5 (k Int32, v Int8) ENGINE = MergeTree PRIMARY KEY k;
        {shown.format("p5")}
        """
    )
