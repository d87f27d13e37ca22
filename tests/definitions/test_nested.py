"""``n Nested(a T, b U)``: columns ``n.a`` and ``n.b``, arrays of one length in every row."""

from __future__ import annotations

import pytest

from tests.definitions.conftest import Both
from tests.engine.conftest import Local


@pytest.mark.parametrize("engine", ["MergeTree ORDER BY k", "Memory", "Log"])
def test_rows(both: Both, engine: str) -> None:
    both.compare(
        f"""
        CREATE TABLE t (k UInt8, n Nested(a Int8, b String), c Int8 DEFAULT 7) ENGINE = {engine};
        SHOW CREATE TABLE t;
        INSERT INTO t VALUES (1, [1, 2], ['x', 'y'], 3);
        INSERT INTO t VALUES (1, [1, 2], ['x'], 3);
        INSERT INTO t (k, n.a) VALUES (2, [5, 6, 7]);
        INSERT INTO t (k, c) VALUES (3, 4);
        INSERT INTO t (k, n) VALUES (3, []);
        INSERT INTO t (k, n.a, n.b) SELECT 4, [1, 2, 3], ['4', '5'];
        INSERT INTO t SELECT k + 10, n.a, n.b, c FROM t;
        SELECT * FROM t ORDER BY k;
        SELECT n.a, length(n.b) FROM t WHERE has(n.a, 6) ORDER BY k;
        SELECT k, n.a, n.b FROM t ARRAY JOIN n ORDER BY k, n.a;
        SELECT k, x.a, x.b, n.a FROM t ARRAY JOIN n AS x ORDER BY k, x.a;
        SELECT k, n.a FROM t LEFT ARRAY JOIN n ORDER BY k, n.a;
        SELECT k, y, n.b FROM t ARRAY JOIN n.a AS y, n.b ORDER BY k, y;
        SELECT n.a, n.b FROM t ARRAY JOIN n AS n ORDER BY k, n.a;
        DESCRIBE (SELECT n.a, n.b, t.k, t.n.a FROM t);
        DESCRIBE (SELECT n.a, x.a, x.b FROM t ARRAY JOIN n AS x);
        DESCRIBE (SELECT n.a, y FROM t ARRAY JOIN n.b AS y);
        CREATE TABLE u ENGINE = Memory AS SELECT n.a, n.b FROM t;
        DESCRIBE TABLE u;
        CREATE TABLE v (`x.a` Array(Int8), `x.b` Array(Int8)) ENGINE = Log;
        INSERT INTO v VALUES ([1], [1, 2])
        """
    )


def test_alter(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE t (k UInt8, n Nested(a Int8, b LowCardinality(String)), c Int8 DEFAULT 7)
        ENGINE = MergeTree ORDER BY k;
        INSERT INTO t VALUES (1, [1, 2], ['x', 'y'], 3), (2, [], [], 4);
        ALTER TABLE t ADD COLUMN n.d Array(LowCardinality(String)) AFTER n.a;
        ALTER TABLE t ADD COLUMN n.e Array(Array(UInt8)), ADD COLUMN n.f Array(Int8);
        SELECT * FROM t ORDER BY k;
        INSERT INTO t (k, n.f) VALUES (3, [5, 1]);
        OPTIMIZE TABLE t FINAL;
        SELECT * FROM t ORDER BY k;
        ALTER TABLE t ADD COLUMN m Nested(p Int8, q String) AFTER k, ADD COLUMN o Nested(r Int8, s Int8) FIRST;
        SHOW CREATE TABLE t;
        SELECT m.p, o.s FROM t ORDER BY k;
        ALTER TABLE t ADD COLUMN m Nested(r Int8);
        ALTER TABLE t ADD COLUMN IF NOT EXISTS m Nested(r Int8);
        ALTER TABLE t RENAME COLUMN m.p TO m.x;
        ALTER TABLE t RENAME COLUMN m.x TO x;
        ALTER TABLE t RENAME COLUMN c TO m.c;
        ALTER TABLE t RENAME COLUMN m.x TO n.x;
        ALTER TABLE t RENAME COLUMN m TO z;
        ALTER TABLE t DROP COLUMN m;
        ALTER TABLE t DROP COLUMN n.a;
        ALTER TABLE t MODIFY COLUMN n.f Array(String);
        ALTER TABLE t COMMENT COLUMN n.e 'about e';
        DESCRIBE TABLE t
        """
    )


def test_small_and_large_parts_after_merges(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt32, n Nested(a UInt32)) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO t SELECT number, range(number % 5) FROM numbers(50000)")
    local.run("ALTER TABLE t ADD COLUMN n.b Array(String)")
    local.run("INSERT INTO t SELECT number, range(number % 3) AS r, arrayMap(x -> 'b', r) FROM numbers(50000)")
    wanted = "SELECT count() FROM t WHERE length(n.a) != length(n.b)"
    assert local.value(wanted) == 0
    local.run("OPTIMIZE TABLE t FINAL")
    assert local.value(wanted) == 0
    assert local.value("SELECT sum(length(n.b)) FROM t") == local.value("SELECT sum(length(n.a)) FROM t") == 149999
