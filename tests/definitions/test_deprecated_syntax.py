"""``MergeTree(date, [sampling,] (key), 8192)``: understood or refused as ClickHouse does."""

from __future__ import annotations

import pytest

from tests.definitions.conftest import Both
from tests.engine.conftest import Local

ALLOW = "SET allow_deprecated_syntax_for_merge_tree = 1;"


def test_only_where_it_is_allowed(both: Both) -> None:
    both.compare(
        f"""
        CREATE TABLE t (d Date, a Int32) ENGINE = MergeTree(d, a, 8192);
        {ALLOW}
        CREATE TABLE t (d Date, a Int32) ENGINE = MergeTree(d, a, 8192) COMMENT 'c';
        SET allow_deprecated_syntax_for_merge_tree = 0;
        SHOW CREATE TABLE t;
        CREATE TABLE u AS t;
        DETACH TABLE t;
        ATTACH TABLE t;
        RENAME TABLE t TO v;
        SHOW CREATE TABLE v
        """
    )


def test_what_it_says(both: Both) -> None:
    both.compare(
        f"""
        {ALLOW}
        CREATE TABLE a (d Date, a Int32) ENGINE = MergeTree(d, a, 8192);
        CREATE TABLE b (d Date, a UInt32) ENGINE = MergeTree(d, intHash32(a), (a, intHash32(a)), 100);
        CREATE TABLE c (d DEFAULT today(), a Int32) ENGINE = MergeTree(d, tuple(), 8192);
        CREATE TABLE e AS b;
        CREATE TABLE f ENGINE = MergeTree(d, a, 8192) AS SELECT toDate('2020-02-03') AS d, 1 AS a;
        SELECT name, partition_key, sorting_key, primary_key, sampling_key, engine_full
        FROM system.tables WHERE database = currentDatabase() ORDER BY name;
        SHOW CREATE TABLE c;
        INSERT INTO b SELECT toDate('2020-01-01') + number, number FROM numbers(100);
        SELECT DISTINCT _partition_id FROM b ORDER BY 1;
        SELECT count() FROM b SAMPLE 1 / 2;
        ALTER TABLE b ADD COLUMN x Int8 DEFAULT 7;
        ALTER TABLE b DROP PARTITION 202002;
        SELECT sum(x) FROM b;
        SHOW CREATE TABLE b;
        ALTER TABLE b MODIFY SETTING old_parts_lifetime = 1;
        ALTER TABLE b ADD INDEX i a TYPE minmax;
        ALTER TABLE b DROP COLUMN d
        """
    )


@pytest.mark.parametrize(
    "rest",
    [
        "(d, a, 8192) SETTINGS index_granularity = 10",
        "(d, a, 8192) ORDER BY a",
        "(d, a, 8192) PARTITION BY a",
        "(t, a, 8192)",
        "(x, a, 8192)",
        "(d, x, 8192)",
        "('d', a, 8192)",
        "(toDate(d), a, 8192)",
        "(d, a, 'x')",
        "(d, a)",
        "(d)",
        "(d, a, a, a, 8192)",
        "(d, intHash32(a), a, 8192)",
    ],
)
def test_what_is_wrong(both: Both, rest: str) -> None:
    both.compare(f"{ALLOW} CREATE TABLE t (d Date, t DateTime, a Int32) ENGINE = MergeTree{rest}")


def test_an_index_beside_it(both: Both) -> None:
    both.compare(f"{ALLOW} CREATE TABLE t (d Date, a Int32, INDEX i a TYPE minmax) ENGINE = MergeTree(d, a, 8192)")


def test_it_survives_a_restart(local: Local) -> None:
    local.run("SET allow_deprecated_syntax_for_merge_tree = 1")
    local.run("CREATE TABLE t (d Date, a Int32) ENGINE = MergeTree(d, a, 128)")
    local.run("INSERT INTO t VALUES ('2020-02-03', 1)")
    shown = local.run("SHOW CREATE TABLE t")
    local.restart()
    assert local.run("SHOW CREATE TABLE t") == shown
    assert local.engine.catalog.table("default", "t").definition.settings.index_granularity == 128
    assert local.value("SELECT partition FROM system.parts WHERE table = 't'") == "202002"


def test_what_create_fills_in(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE a (d Date, a Int32) PRIMARY KEY a;
        CREATE TABLE b (d Date, a Int32, PRIMARY KEY (d, a));
        CREATE TABLE c (d Date, a Int32);
        CREATE TABLE e ENGINE = MergeTree AS SELECT 1 AS a;
        CREATE TABLE f ORDER BY a AS SELECT 1 AS a;
        CREATE TABLE g (a Int32) ENGINE = MergeTree PARTITION BY a;
        SHOW CREATE TABLE a;
        SHOW CREATE TABLE b;
        SHOW CREATE TABLE c;
        SHOW CREATE TABLE e;
        SHOW CREATE TABLE f;
        SHOW CREATE TABLE g;
        SET default_table_engine = 'Log';
        CREATE TABLE h (a Int32);
        SHOW CREATE TABLE h;
        SET default_table_engine = 'None';
        CREATE TABLE i (a Int32);
        SET create_table_empty_primary_key_by_default = 0;
        CREATE TABLE j (a Int32) ENGINE = MergeTree
        """
    )


def test_engines_that_reduce_rows(both: Both) -> None:
    both.compare(
        f"""
        {ALLOW}
        CREATE TABLE r (d Date, k UInt8, v UInt8) ENGINE = ReplacingMergeTree(d, k, 8192, v);
        CREATE TABLE s (d Date, k UInt8, v Int8)
        ENGINE = CollapsingMergeTree(d, intHash32(k), (k, intHash32(k)), 100, v);
        INSERT INTO r VALUES ('2020-01-01', 1, 2), ('2020-01-02', 1, 1), ('2020-02-02', 1, 1);
        INSERT INTO s VALUES ('2020-01-01', 1, 1), ('2020-01-02', 1, -1), ('2020-02-02', 1, 1);
        SELECT * FROM r ORDER BY ALL;
        SELECT * FROM s FINAL ORDER BY ALL;
        SHOW CREATE TABLE r;
        SHOW CREATE TABLE s
        """
    )
