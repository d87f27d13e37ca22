"""CREATE VIEW: what is kept, what is shown, and what a query over it gives."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.views.conftest import Both


def _filled(both: Both) -> None:
    both.run("CREATE TABLE t (a UInt32, b String, d Date) ENGINE = MergeTree ORDER BY a")
    both.run("INSERT INTO t SELECT number, toString(number % 10), number FROM numbers(1000)")


QUERIES = [
    "SELECT a, b FROM t WHERE a < 20",
    "SELECT * FROM t WHERE d > '1970-02-01' ORDER BY a LIMIT 5, 7",
    "SELECT b, count() AS n, sum(a) s FROM t GROUP BY b HAVING n > 1",
    "SELECT a, (SELECT max(x) FROM (SELECT a AS x FROM t)) AS m FROM t WHERE a IN (1, 2, 3)",
    "WITH q AS (SELECT a FROM t WHERE a < 3) SELECT a + 1 AS z FROM q WHERE a IN (SELECT a FROM t) AND a NOT IN (2)",
    "SELECT number AS a FROM numbers(3) UNION ALL SELECT a FROM t WHERE a = 7",
    "SELECT x.a AS a, y.b AS b FROM t AS x INNER JOIN t AS y ON x.a = y.a AND y.b = '3' WHERE x.a < 100",
    "SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS r FROM t WHERE a < 30",
    "SELECT g, a FROM (SELECT a, [1, 2] AS arr FROM t WHERE a < 3) AS s ARRAY JOIN arr AS g",
    "SELECT DISTINCT b FROM t LIMIT 1 BY b",
    "SELECT a FROM t WHERE a < 9 SETTINGS max_threads = 1",
    "SELECT if(a > 3, -a, 0) AS v, a * (a + 1) AS w, b LIKE '%1' AS l, NOT (a = 1) AS n, CAST(a, 'Int64') AS i FROM t",
]


@pytest.mark.parametrize("query", one_in(2, QUERIES))
def test_a_view_is_kept_and_read_as_in_clickhouse(both: Both, query: str) -> None:
    _filled(both)
    both.run(f"CREATE VIEW v AS {query}")
    both.run("SHOW CREATE TABLE v")
    both.run("DESCRIBE v")
    both.run("SELECT engine, as_select FROM system.tables WHERE database = currentDatabase() AND name = 'v'")
    rows = both.run("SELECT * FROM v ORDER BY ALL")
    assert rows
    both.restart()
    assert both.run("SELECT * FROM v ORDER BY ALL") == rows
    both.run("SHOW CREATE VIEW v")


def test_columns_are_found_by_name_and_have_the_types_of_the_view(both: Both) -> None:
    _filled(both)
    both.run("CREATE VIEW v (b UInt8, a String) AS SELECT a, b, d FROM t")
    both.run("SELECT toTypeName(a), toTypeName(b), * FROM v WHERE a = '7' AND b = 7")
    both.run(f"SELECT {both.name}.v.a, v.b FROM {both.name}.v ORDER BY b, a LIMIT 3")
    both.run("CREATE VIEW lacks (k String) AS SELECT a FROM t")
    assert both.run("SELECT * FROM lacks") == "error 47"
    both.run("CREATE VIEW named (x, y) AS SELECT a + 1, b FROM t")
    both.run("SELECT sum(x), count(y) FROM named")


def test_a_column_of_null_alone(both: Both) -> None:
    both.run("CREATE VIEW absent AS SELECT 1 AS a, NULL AS b")
    both.restart()
    assert both.run("SELECT *, toTypeName(b) FROM absent") == "1\t\\N\tNullable(Nothing)\n"
    assert both.run("CREATE TABLE stored ENGINE = Memory AS SELECT * FROM absent") == "error 370"


def test_comments(both: Both) -> None:
    both.run("CREATE VIEW v (a UInt8 COMMENT 'one') COMMENT 'before' AS SELECT 1 AS a")
    both.run("CREATE VIEW w AS SELECT 1 AS a COMMENT 'behind'")
    for name in ("v", "w"):
        both.run(f"SHOW CREATE TABLE {name}")
        both.run(f"SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = '{name}'")


def test_a_view_shows_what_its_tables_have_now(both: Both) -> None:
    _filled(both)
    both.run("CREATE VIEW v AS SELECT * FROM t")
    both.run("CREATE VIEW w AS SELECT max(a) AS m FROM v")
    both.run("ALTER TABLE t ADD COLUMN z UInt8 DEFAULT 7")
    both.run("INSERT INTO t (a, b) VALUES (5000, 'x')")
    assert both.run("SELECT * FROM w") == "5000\n"
    both.run("SELECT * FROM v WHERE a = 5000")
    both.run("CREATE OR REPLACE VIEW v AS SELECT 1 AS a")
    assert both.run("SELECT * FROM w") == "1\n"
    both.run("DROP VIEW v")
    assert both.run("SELECT * FROM w") == "error 60"


def test_names_move_and_go(both: Both) -> None:
    _filled(both)
    both.run("CREATE VIEW v AS SELECT a FROM t WHERE a < 3")
    both.run("CREATE VIEW IF NOT EXISTS v AS SELECT 1")
    assert both.run("CREATE VIEW v AS SELECT 1") == "error 57"
    both.run("RENAME TABLE v TO w")
    both.run("CREATE VIEW v AS SELECT b FROM t WHERE a = 9")
    both.run("EXCHANGE TABLES v AND w")
    both.run("SELECT * FROM v ORDER BY 1")
    both.run("SELECT * FROM w")
    both.run("DETACH VIEW v")
    assert both.run("SELECT * FROM v") == "error 60"
    both.run("ATTACH TABLE v")
    both.run("SELECT * FROM v ORDER BY 1")
    for name in ("v", "t", "nothing"):
        both.run(f"EXISTS VIEW {name}")
    assert both.run("DROP VIEW t") == "error 80"
    both.run("DROP VIEW IF EXISTS nothing")
    both.run("DROP TABLE v")
    both.run("SHOW TABLES")


def test_a_view_takes_nothing_and_is_not_changed(both: Both) -> None:
    _filled(both)
    both.run("CREATE VIEW v AS SELECT a, b FROM t")
    for sql in (
        "INSERT INTO v SELECT 1, 'x'",
        "TRUNCATE TABLE v",
        "OPTIMIZE TABLE v",
        "CHECK TABLE v",
        "ALTER TABLE v DROP COLUMN a",
        "DELETE FROM v WHERE a = 1",
        "CREATE TABLE copy AS v",
    ):
        assert both.run(sql).startswith("error"), sql
    both.run("SELECT * FROM v PREWHERE a = 1")
    both.run("CREATE TABLE copy AS v ENGINE = Memory")
    both.run("SHOW CREATE TABLE copy")


def test_a_name_of_the_query_comes_first(both: Both) -> None:
    _filled(both)
    both.run("CREATE VIEW v AS SELECT a FROM t")
    assert both.run("WITH v AS (SELECT 5 AS a) SELECT * FROM v") == "5\n"
    both.run("SELECT count() FROM t WHERE a IN v")
    both.run("SELECT count() FROM v WHERE a IN (SELECT a FROM v WHERE a > 990)")
    both.run("SELECT count() FROM v AS x INNER JOIN v AS y ON x.a = y.a")


def test_a_circle_is_refused(both: Both) -> None:
    both.run("CREATE VIEW one AS SELECT 1 AS x")
    both.run("CREATE VIEW two AS SELECT * FROM one")
    assert both.run("CREATE OR REPLACE VIEW one AS SELECT * FROM two") == "error 269"
    both.run("DROP VIEW one")
    assert both.run("CREATE VIEW one AS SELECT * FROM two") == "error 269"


def test_a_circle_that_came_by_renaming_ends_the_query(local: Local) -> None:
    local.run("CREATE VIEW one AS SELECT 1 AS x")
    local.run("CREATE VIEW two AS SELECT * FROM one")
    local.run("DROP VIEW one")
    local.run("RENAME TABLE two TO one")
    with pytest.raises(PandoError) as caught:
        local.run("SELECT * FROM one")
    assert caught.value.code == 306


@pytest.mark.long
def test_views_that_double_end_at_the_limit_of_the_tree(local: Local) -> None:
    local.run("CREATE VIEW v0 AS SELECT 1 AS x")
    views = (f"CREATE VIEW v{n + 1} AS SELECT x FROM v{n} UNION ALL SELECT x FROM v{n}" for n in range(30))
    with pytest.raises(PandoError) as caught:
        list(map(local.run, views))
    assert caught.value.code == 168


def test_a_view_with_parameters(both: Both) -> None:
    _filled(both)
    both.run("CREATE VIEW p AS SELECT a, b FROM t WHERE a = {x:UInt32} OR d = {day:Date}")
    both.run("SHOW CREATE TABLE p")
    assert both.run("SELECT * FROM p(x = 7, day = '1970-01-04') ORDER BY a") == "3\t3\n7\t7\n"
    both.run("SELECT p.a FROM p(x = 7, day = '1970-01-04') ORDER BY 1")
    assert both.answer_here("SELECT * FROM p(x = 7)") == "error 456"


def test_a_plan_does_not_outlive_a_view(local: Local) -> None:
    local.run("CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a")
    local.run("INSERT INTO t VALUES (1), (2), (3)")
    local.run("CREATE VIEW v AS SELECT a FROM t WHERE a < 3")
    for _ in range(4):
        assert local.value("SELECT count() FROM v") == 2
        assert local.value("SELECT count() FROM t WHERE a IN v") == 2
    local.run("CREATE OR REPLACE VIEW v AS SELECT a FROM t WHERE a < 2")
    for _ in range(4):
        assert local.value("SELECT count() FROM v") == 1
        assert local.value("SELECT count() FROM t WHERE a IN v") == 1
    local.run("DROP VIEW v")
    local.run("CREATE TABLE v (a UInt32) ENGINE = MergeTree ORDER BY a")
    assert local.value("SELECT count() FROM v") == 0
