"""CREATE MATERIALIZED VIEW: what an INSERT makes of it, and what changes it."""

from __future__ import annotations

import random

import pytest

from engine.server import failpoints
from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.views.conftest import Both

_INNER = "SELECT name FROM system.tables WHERE database = currentDatabase() AND name LIKE '.inner%'"

VIEWS = [
    "ENGINE = MergeTree ORDER BY k AS SELECT a % 3 AS k, count() AS n, sum(a) AS s FROM t GROUP BY k",
    "TO wide AS SELECT a, upper(b) AS b FROM t WHERE a > 10",
    "(a UInt64, b String) ENGINE = Log AS SELECT a, b FROM t",
    "ENGINE = MergeTree ORDER BY a AS SELECT a, m, al FROM t",
    "ENGINE = Memory AS SELECT a, (SELECT count() FROM t) AS rows, a IN (SELECT a FROM t WHERE a > 9) AS i FROM t",
    "ENGINE = Memory AS SELECT x.a AS a, y.a AS next FROM t AS x LEFT JOIN t AS y ON x.a + 1 = y.a",
    "ENGINE = Memory AS WITH q AS (SELECT a FROM t) SELECT max(a) AS a FROM (SELECT a FROM q) AS s",
    "ENGINE = Memory AS SELECT a, other.v AS v FROM t INNER JOIN other ON t.a = other.k",
    "ENGINE = MergeTree ORDER BY a AS SELECT a, arrayJoin([1, 2]) AS e FROM t ORDER BY a DESC, e LIMIT 3",
]


def _tables(both: Both) -> None:
    both.run(
        "CREATE TABLE t (a UInt32, b String, m UInt32 MATERIALIZED a + 1, al UInt32 ALIAS a * 10) "
        "ENGINE = MergeTree ORDER BY a PARTITION BY a % 2"
    )
    both.run("CREATE TABLE wide (a UInt64, b String, z UInt8 DEFAULT 5) ENGINE = MergeTree ORDER BY a")
    both.run("CREATE TABLE other (k UInt32, v String) ENGINE = MergeTree ORDER BY k")
    both.run("INSERT INTO other SELECT number, toString(number) FROM numbers(30)")


@pytest.mark.parametrize("definition", one_in(3, VIEWS))
def test_each_block_goes_through_the_query(both: Both, definition: str) -> None:
    _tables(both)
    both.run(f"CREATE MATERIALIZED VIEW v {definition}")
    chance = random.Random(definition)
    for number in range(6):
        count, start = chance.randint(1, 20), chance.randint(0, 15)
        if number % 2:
            rows = ", ".join(f"({start + row}, 'v{row % 3}')" for row in range(count))
            both.run(f"INSERT INTO t VALUES {rows}")
        else:
            both.run(f"INSERT INTO t SELECT number + {start}, 'v' FROM numbers({count})")
        if number == 3:
            both.restart()
            if "Memory" in definition:  # here its rows end with the server
                both.answer_there("TRUNCATE TABLE v")
    assert both.run("SELECT * FROM v ORDER BY ALL")
    both.run("DESCRIBE v")
    both.run("SELECT name, engine, as_select FROM system.tables WHERE database = currentDatabase() AND name = 'v'")


def test_several_views_and_views_of_targets(both: Both) -> None:
    _tables(both)
    both.run("CREATE MATERIALIZED VIEW one TO wide AS SELECT a, b FROM t")
    both.run("CREATE MATERIALIZED VIEW two ENGINE = Memory AS SELECT max(a) AS a FROM wide")
    both.run("CREATE MATERIALIZED VIEW three ENGINE = Memory AS SELECT a FROM one")
    both.run("CREATE MATERIALIZED VIEW four ENGINE = Memory POPULATE AS SELECT k FROM other WHERE k < 3")
    both.run("INSERT INTO t (a, b) VALUES (1, 'x'), (7, 'y')")
    both.run("INSERT INTO four VALUES (9)")
    for name in ("one", "two", "three", "four", "wide"):
        both.run(f"SELECT * FROM {name} ORDER BY ALL")
    both.run("SELECT name, dependencies_table FROM system.tables WHERE database = currentDatabase() AND name IN ('t')")


def test_its_rows_are_the_target_s(both: Both) -> None:
    _tables(both)
    both.run("CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY a PARTITION BY a % 2 AS SELECT a, b FROM t")
    both.run("INSERT INTO t (a, b) SELECT number, 'x' FROM numbers(10)")
    both.run("ALTER TABLE v DROP PARTITION 1")
    both.run("SELECT * FROM v ORDER BY a")
    both.run("ALTER TABLE v DELETE WHERE a = 2 SETTINGS mutations_sync = 1")
    both.run("OPTIMIZE TABLE v FINAL")
    both.run("SELECT * FROM v FINAL PREWHERE a > 2 ORDER BY a")
    assert both.run("ALTER TABLE v ADD COLUMN z UInt8") == "error 48"
    assert both.run("DELETE FROM v WHERE a = 1") == "error 36"
    both.run("RENAME TABLE v TO w")
    both.run("INSERT INTO t (a, b) VALUES (100, 'y')")
    both.run("SELECT * FROM w WHERE a = 100")
    both.run("TRUNCATE TABLE w")
    both.run("SELECT count() FROM w")
    both.run("DETACH TABLE w")
    both.run("INSERT INTO t (a, b) VALUES (101, 'y')")
    both.run("ATTACH TABLE w")
    both.run("INSERT INTO t (a, b) VALUES (102, 'y')")
    assert both.run("SELECT a FROM w") == "102\n"
    assert both.run(_INNER)
    both.run("DROP VIEW w")
    assert both.run(_INNER) == ""
    both.run("INSERT INTO t (a, b) VALUES (103, 'y')")


def test_truncate_of_a_view_leaves_a_table_that_is_there(both: Both) -> None:
    _tables(both)
    both.run("CREATE MATERIALIZED VIEW v TO wide AS SELECT a, b FROM t")
    both.run("INSERT INTO t (a, b) VALUES (1, 'x')")
    both.run("TRUNCATE TABLE v")
    assert both.run("SELECT count() FROM wide") == "1\n"
    both.run("DROP TABLE v")
    assert both.run("SELECT count() FROM wide") == "1\n"


def test_what_a_view_reads_is_not_dropped(both: Both) -> None:
    _tables(both)
    both.run("ALTER TABLE t ADD COLUMN c UInt8, ADD COLUMN free UInt8")
    both.run("CREATE MATERIALIZED VIEW v ENGINE = Memory AS SELECT a, al FROM t WHERE c < 5")
    for column in ("c", "al"):
        assert both.run(f"ALTER TABLE t DROP COLUMN {column}") == "error 524"
    both.run("ALTER TABLE t CLEAR COLUMN c")
    both.run("ALTER TABLE t DROP COLUMN free")
    both.run("DROP TABLE v")
    both.run("ALTER TABLE t DROP COLUMN c")


def test_wrong_definitions(both: Both) -> None:
    _tables(both)
    for sql in (
        "CREATE MATERIALIZED VIEW v TO wide AS SELECT a, 1 AS extra FROM t",
        "CREATE MATERIALIZED VIEW v TO nothing AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW v ENGINE = Memory AS SELECT number FROM numbers(3)",
        "CREATE MATERIALIZED VIEW v TO wide ENGINE = Memory AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW v ENGINE = Memory AS SELECT nothing FROM t",
        "CREATE MATERIALIZED VIEW v ENGINE = Memory AS SELECT a FROM nothing",
        "CREATE MATERIALIZED VIEW t ENGINE = Memory AS SELECT k FROM other",
    ):
        assert both.run(sql).startswith("error"), sql
    assert both.run(_INNER) == ""
    both.run("SET allow_materialized_view_with_bad_select = 1")
    both.run("CREATE MATERIALIZED VIEW v TO wide AS SELECT a, 1 AS extra FROM t")
    both.run("SET allow_materialized_view_with_bad_select = 0")
    both.run("INSERT INTO t (a) VALUES (3)")
    both.run("SELECT * FROM wide")


def test_modify_query(both: Both) -> None:
    _tables(both)
    both.run("CREATE MATERIALIZED VIEW v (a UInt64, b String) ENGINE = Memory AS SELECT a, b FROM t")
    both.run("INSERT INTO t (a, b) VALUES (1, 'x')")
    both.run("ALTER TABLE v MODIFY QUERY SELECT a * 2 AS a, b FROM t WHERE b = 'y'")
    both.run("INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')")
    both.run("SELECT * FROM v ORDER BY a")
    both.run("SELECT as_select FROM system.tables WHERE database = currentDatabase() AND name = 'v'")
    assert both.answer_here("ALTER TABLE t MODIFY QUERY SELECT a, b FROM wide") == "error 48"


def test_a_view_that_fails_leaves_nothing_anywhere(local: Local) -> None:
    """In ClickHouse the table has the row."""
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
    local.run("CREATE MATERIALIZED VIEW fine ENGINE = MergeTree ORDER BY a AS SELECT a FROM t")
    local.run("CREATE MATERIALIZED VIEW wrong ENGINE = MergeTree ORDER BY a AS SELECT a + throwIf(a = 13) AS a FROM t")
    with pytest.raises(PandoError, match=r"while pushing to view default\.wrong") as caught:
        local.run("INSERT INTO t VALUES (1), (13)")
    assert caught.value.code == 395
    for table in ("t", "fine", "wrong"):
        assert local.value(f"SELECT count() FROM {table}") == 0
    local.run("CREATE TABLE small (a Int8, CONSTRAINT c CHECK a < 100) ENGINE = MergeTree ORDER BY a")
    local.run("DROP TABLE wrong")
    local.run("CREATE MATERIALIZED VIEW wrong TO small AS SELECT a FROM t")
    for value, code in ((1000, 321), (101, 469)):
        with pytest.raises(PandoError, match=r"default\.wrong") as caught:
            local.run(f"INSERT INTO t VALUES (1), ({value})")
        assert caught.value.code == code
    local.run("DROP TABLE small")
    with pytest.raises(PandoError, match=r"default\.wrong") as caught:
        local.run("INSERT INTO t VALUES (1)")
    assert caught.value.code == 60
    assert local.value("SELECT count() FROM t") == local.value("SELECT count() FROM fine") == 0
    local.run("DROP VIEW wrong")
    local.run("INSERT INTO t VALUES (1)")
    assert local.value("SELECT count() FROM fine") == 1


def test_a_circle_of_views_is_refused(local: Local) -> None:
    for name in ("a", "b"):
        local.run(f"CREATE TABLE {name} (x Int32) ENGINE = MergeTree ORDER BY x")
    with pytest.raises(PandoError) as caught:
        local.run("CREATE MATERIALIZED VIEW own TO a AS SELECT x FROM a")
    assert caught.value.code == 269
    local.run("CREATE MATERIALIZED VIEW there TO b AS SELECT x FROM a")
    local.run("CREATE MATERIALIZED VIEW back TO a AS SELECT x FROM b")
    with pytest.raises(PandoError) as caught:
        local.run("INSERT INTO a VALUES (1)")
    assert caught.value.code == 306
    assert local.value("SELECT count() FROM a") == 0


def test_a_transaction_is_refused_where_it_is_staged(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
    local.run("CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY a AS SELECT a FROM t")
    with pytest.raises(PandoError, match="transaction") as caught:
        local.run("INSERT INTO t SETTINGS insert_transaction = 'x' VALUES (1)")
    assert caught.value.code == 48


DEDUPLICATING = "ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 100"


def test_a_repeated_block_is_in_each_target_once(both: Both) -> None:
    both.run(f"CREATE TABLE t (a UInt32) {DEDUPLICATING}")
    both.run(f"CREATE TABLE of_t (n UInt64) {DEDUPLICATING}")
    both.run("CREATE MATERIALIZED VIEW v TO of_t AS SELECT count() AS n FROM t")
    for values in ("(1), (2)", "(3), (4)", "(1), (2)"):
        both.run(f"INSERT INTO t VALUES {values}")
    both.run("SELECT (SELECT count() FROM t), (SELECT count() FROM of_t)")


def test_a_known_block_goes_to_no_view(local: Local) -> None:
    """In ClickHouse it goes to a target that has forgotten it."""
    local.run(f"CREATE TABLE t (a UInt32) {DEDUPLICATING}")
    local.run(f"CREATE TABLE of_t (n UInt64) {DEDUPLICATING}")
    local.run("CREATE MATERIALIZED VIEW v TO of_t AS SELECT count() AS n FROM t")
    local.run("INSERT INTO t VALUES (1), (2)")
    local.run("TRUNCATE TABLE of_t")
    local.run("CREATE MATERIALIZED VIEW later ENGINE = Memory AS SELECT count() AS n FROM t")
    local.run("INSERT INTO t VALUES (1), (2)")
    assert local.run("SELECT (SELECT count() FROM of_t), (SELECT count() FROM later)") == [(0, 0)]


def test_what_a_table_takes_its_targets_take(local: Local) -> None:
    """In ClickHouse a target that remembers blocks leaves out equal ones, whatever the table did."""
    local.run(f"CREATE TABLE plain (a UInt32) {DEDUPLICATING.partition(' SETTINGS')[0]}")
    local.run(f"CREATE TABLE of_plain (n UInt64) {DEDUPLICATING}")
    local.run("CREATE MATERIALIZED VIEW v TO of_plain AS SELECT count() AS n FROM plain")
    for _ in range(3):
        local.run("INSERT INTO plain VALUES (1), (2)")
    assert local.run("SELECT (SELECT count() FROM plain), (SELECT count() FROM of_plain)") == [(6, 3)]


def test_a_view_that_was_not_committed_is_repaired_by_the_repeated_insert(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.run(f"CREATE TABLE t (a UInt32) {DEDUPLICATING}")
    for name in ("one", "two"):
        local.run(f"CREATE TABLE of_{name} (n UInt64) {DEDUPLICATING}")
        local.run(f"CREATE MATERIALIZED VIEW {name} TO of_{name} AS SELECT count() AS n FROM t")
    monkeypatch.setitem(failpoints._actions, "insert.before_views", "error@1")
    insert = "INSERT INTO t VALUES (1), (2)"
    with pytest.raises(PandoError):
        local.run(insert)
    counts = "SELECT (SELECT count() FROM t), (SELECT count() FROM of_one), (SELECT count() FROM of_two)"
    assert local.run(counts) == [(2, 0, 0)]
    for _ in range(2):
        local.run(insert)
        assert local.run(counts) == [(2, 1, 1)]
    local.run("INSERT INTO t VALUES (3), (4)")
    assert local.run(counts) == [(4, 2, 2)]


def test_blocks_of_one_insert_and_partitions(local: Local) -> None:
    """Equal blocks of one INSERT are rows like any others; a repeat stores nothing."""
    local.run(f"CREATE TABLE t (a UInt32) {DEDUPLICATING}")
    local.run(f"CREATE TABLE of_t (p UInt8, n UInt64) {DEDUPLICATING.replace('ORDER', 'PARTITION BY p ORDER')}")
    local.run("CREATE MATERIALIZED VIEW v TO of_t AS SELECT a % 2 AS p, count() AS n FROM t GROUP BY p")
    data = b"".join(b"%d\n" % (number % 10) for number in range(30))
    for _ in range(2):
        local.run("INSERT INTO t SETTINGS max_insert_block_size = 10 FORMAT TSV", data)
        assert local.run("SELECT p, count(), sum(n) FROM of_t GROUP BY p ORDER BY p") == [(0, 3, 15), (1, 3, 15)]


def test_every_query_of_a_union_gets_the_block(local: Local) -> None:
    """ClickHouse runs the first alone."""
    local.run("CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a")
    local.run("CREATE MATERIALIZED VIEW v ENGINE = Memory AS SELECT a FROM t UNION ALL SELECT a + 100 AS a FROM t")
    local.run("INSERT INTO t VALUES (1), (2)")
    assert local.run("SELECT a FROM v ORDER BY a") == [(1,), (2,), (101,), (102,)]


def test_rows_come_into_a_view_s_columns(local: Local) -> None:
    local.run("CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a")
    local.run("CREATE TABLE wide (z UInt8 DEFAULT 5, a UInt32) ENGINE = MergeTree ORDER BY a")
    local.run("CREATE MATERIALIZED VIEW v TO wide AS SELECT a FROM t")
    local.run("INSERT INTO v VALUES (9)")
    local.run("INSERT INTO v SELECT 10")
    assert local.run("SELECT a, z FROM wide ORDER BY a") == [(9, 5), (10, 5)]
    assert local.run("SELECT * FROM v ORDER BY a") == [(9,), (10,)]


def test_views_come_back_whatever_the_order_of_names(local: Local) -> None:
    local.run("CREATE TABLE m (a UInt32) ENGINE = MergeTree ORDER BY a")
    local.run("CREATE TABLE z (a UInt32) ENGINE = MergeTree ORDER BY a")
    local.run("CREATE MATERIALIZED VIEW a_view TO z AS SELECT a FROM m")
    local.run("CREATE MATERIALIZED VIEW zz_view ENGINE = MergeTree ORDER BY a AS SELECT a + 1 AS a FROM m")
    local.run("CREATE DATABASE other")
    local.run("RENAME TABLE zz_view TO other.moved")
    local.run("CREATE VIEW a_plain AS SELECT * FROM other.moved")
    for number in range(1, 3):
        local.run(f"INSERT INTO m VALUES ({number})")
        assert local.value("SELECT count() FROM z") == local.value("SELECT count() FROM a_plain") == number
        local.restart()
    local.run("DROP DATABASE other")
    local.run("INSERT INTO m VALUES (7)")
    assert local.value("SELECT count() FROM z") == 3


def test_a_view_that_is_replaced(both: Both) -> None:
    _tables(both)
    both.run("CREATE OR REPLACE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY a AS SELECT a FROM t")
    both.run("INSERT INTO t VALUES (1, 'x')")
    both.run("CREATE OR REPLACE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY b AS SELECT b, a + 1 AS c FROM t")
    both.run("INSERT INTO t VALUES (2, 'y')")
    assert both.run("SELECT * FROM v") == "y\t3\n"
    both.run("CREATE OR REPLACE MATERIALIZED VIEW v TO wide AS SELECT a FROM t")
    both.run("CREATE OR REPLACE MATERIALIZED VIEW v TO wide AS SELECT a + 1 AS a FROM t")
    both.run("INSERT INTO t VALUES (3, 'z')")
    assert both.run("SELECT a FROM wide") == "4\n"
    both.run("CREATE OR REPLACE MATERIALIZED VIEW v ENGINE = Memory POPULATE AS SELECT a FROM t")
    assert both.run("SELECT * FROM v ORDER BY a") == "1\n2\n3\n"
    assert both.run("SELECT count() FROM system.tables WHERE database = currentDatabase()") == "5\n"
    both.restart()
    both.run("SHOW CREATE TABLE v")
    both.run("CREATE OR REPLACE VIEW v AS SELECT max(a) AS m FROM t")
    both.run("SELECT * FROM v")
    both.run("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v TO wide AS SELECT a FROM t")


def test_a_view_that_cannot_replace_leaves_the_one_that_is_there(local: Local) -> None:
    local.run("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
    local.run("INSERT INTO t VALUES (1)")
    local.run("CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY a AS SELECT a FROM t")
    names = local.run("SELECT name FROM system.tables WHERE database = 'default'")
    for query in ("SELECT throwIf(a = 1) AS a FROM t", "SELECT nothing FROM t", "SELECT a FROM v"):
        with pytest.raises(PandoError):
            local.run(f"CREATE OR REPLACE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY a POPULATE AS {query}")
    assert local.run("SELECT name FROM system.tables WHERE database = 'default'") == names
    local.run("INSERT INTO t VALUES (2)")
    assert local.run("SELECT * FROM v") == [(2,)]
