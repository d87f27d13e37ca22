"""A SELECT over shards gives what ClickHouse gives of one table with all the rows."""

from __future__ import annotations

import pytest
from chdb.session import Session as Oracle

from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.portions import one_in

QUERIES = [
    "SELECT count() FROM d",
    "SELECT * FROM d WHERE k < 5 ORDER BY k",
    "SELECT k, n, e, m, a, low FROM d ORDER BY n DESC NULLS LAST, k LIMIT 7 OFFSET 3",
    "SELECT s, count() AS c, sum(i), min(d), max(f), avg(n), sum(m), any(low) != '' FROM d GROUP BY s ORDER BY c, s",
    "SELECT avg(f), avg(m), sum(n), countIf(i > 0), sumIf(f, e = 'x'), groupBitXor(k) FROM d",
    "SELECT count(), min(k), max(s), sum(n), avg(f) FROM d WHERE k > 100000",
    "SELECT min(n), max(n), sum(n), count(n) FROM d WHERE n IS NULL",
    "SELECT i % 2 AS odd, count() FROM d GROUP BY odd HAVING count() > 10 ORDER BY odd",
    "SELECT toStartOfDay(d) AS day, max(f) / count() AS r FROM d GROUP BY day ORDER BY r, day LIMIT 3",
    "SELECT uniqExact(s), quantileExact(0.5)(k), count(DISTINCT i) FROM d",
    "SELECT groupArray(k) FROM (SELECT k FROM d WHERE k < 9 ORDER BY k)",
    "SELECT DISTINCT low, e FROM d ORDER BY low, e",
    "SELECT x.k, x.s AS name FROM d AS x WHERE x.k IN (3, 4, 5) AND name != 's4' ORDER BY x.k",
    "SELECT d.k + 1 AS k FROM d WHERE k = 12 ORDER BY k",
    "SELECT low, arrayMap(v -> v + 1, [count()]) FROM d GROUP BY low ORDER BY low",
    "SELECT k FROM d WHERE arrayExists(v -> v = i, a) ORDER BY k DESC LIMIT 4",
    "SELECT s, k FROM d ORDER BY k LIMIT 1 BY s LIMIT 3",
    "SELECT count() FROM d WHERE k GLOBAL IN (SELECT k + 1 FROM d WHERE i = 2)",
    "SELECT count(), sum(l.k) FROM d AS l GLOBAL JOIN d AS r ON l.k = r.k + 1 WHERE l.i = 1 AND r.k > 500",
    "SELECT (SELECT max(k) FROM d), count() FROM d WHERE k > (SELECT avg(k) FROM d)",
    "WITH big AS (SELECT * FROM d WHERE k > 900) SELECT low, count() FROM big GROUP BY low ORDER BY low",
    "SELECT sum(c) FROM (SELECT i, count() AS c FROM d GROUP BY i UNION ALL SELECT 1, count() FROM d)",
    "SELECT k, row_number() OVER (PARTITION BY i ORDER BY k) AS n FROM d ORDER BY k LIMIT 5",
    "SELECT i, count() FROM d GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2",
    "SELECT 'a' AS c, count() FROM d GROUP BY c",
    "SELECT arrayJoin(a) AS v, count() FROM d GROUP BY v ORDER BY v",
    "SELECT e, min(k) FROM d GROUP BY e WITH ROLLUP ORDER BY e, min(k)",
    "SELECT count() FROM d PREWHERE s = 's3' WHERE i > 0",
    "SELECT DISTINCT 1, i FROM d ORDER BY i",
    "SELECT max(k) AS k FROM d WHERE i = 1",
    "SELECT toTypeName(sum(i)), toTypeName(avg(m)), toTypeName(min(n)), toTypeName(count()) FROM d",
]


@pytest.mark.parametrize("query", one_in(3, QUERIES))
def test_the_same_as_clickhouse(sharded: Local, oracle: Oracle, query: str) -> None:
    oracle.query("USE shards_oracle")
    expected = oracle.query(query, "JSONCompactEachRow").data()
    assert _json(sharded, query) == expected
    # Where a value of the key stands in WHERE, the other shards are not asked.
    assert _json(sharded, f"{query} SETTINGS optimize_skip_unused_shards = 1") == expected


def _json(local: Local, query: str) -> str:
    from sql.formats.registry import write_blocks

    result = local.engine.execute(query, local.session)
    return b"".join(write_blocks("JSONCompactEachRow", list(result.columns), result.batches)).decode()


def _refused(local: Local, sql: str) -> int:
    with pytest.raises(PandoError) as caught:
        local.run(sql)
    return caught.value.code


def test_a_row_tells_its_shard(sharded: Local) -> None:
    assert sharded.run("SELECT _shard_num, count(), min(k) FROM d GROUP BY _shard_num ORDER BY 1") == [
        (1, 334, 0), (2, 666, 1)
    ]  # fmt: skip
    assert sharded.run("SELECT k FROM d WHERE _shard_num = 1 AND k < 7 ORDER BY k") == [(0,), (3,), (6,)]
    assert "_shard_num" not in [name for name, _ in sharded.engine.execute("SELECT * FROM d", sharded.session).columns]


def test_shards_without_such_keys_are_not_asked(sharded: Local) -> None:
    skip = " SETTINGS optimize_skip_unused_shards = 1, force_optimize_skip_unused_shards = "
    sharded.run("CREATE TABLE gone (k UInt64) ENGINE = Distributed(two, '', nowhere, k)")
    assert _refused(sharded, "SELECT count() FROM gone WHERE k = 3") == 279
    assert _refused(sharded, f"SELECT count() FROM d WHERE i = 3{skip}1") == 507
    wanted = f"SELECT k, _shard_num FROM d WHERE k = 3 OR k IN (4, 6) ORDER BY k{skip}1"
    assert sharded.run(wanted) == [(3, 1), (4, 2), (6, 1)]
    wanted = f"SELECT k, _shard_num FROM d WHERE k = toUInt64(1 + 2) AND k = length('abc') OR k IN (2 * 2){skip}1"
    assert sorted(sharded.run(wanted)) == [(3, 1), (4, 2)]
    assert _refused(sharded, f"SELECT count() FROM d WHERE k = rand(){skip}1") == 507
    sharded.run("CREATE TABLE keyless AS d ENGINE = Distributed(two, '', t)")
    assert sharded.value(f"SELECT count() FROM keyless WHERE k = 3{skip}1") == 1
    assert _refused(sharded, f"SELECT count() FROM d WHERE k = -1{skip}1") == 507
    sharded.run("CREATE TABLE above AS d ENGINE = Distributed(two, default, d, i)")
    assert _refused(sharded, f"SELECT count() FROM above WHERE i = 1{skip}1") == 507
    nesting = ", force_optimize_skip_unused_shards_nesting = 1"
    assert sharded.value(f"SELECT count() FROM above WHERE i = 1{skip}1{nesting}") == 143
    assert _refused(sharded, f"SELECT count() FROM keyless WHERE k = 3{skip}2") == 507


def test_products_of_tables_in_shards_are_refused(sharded: Local) -> None:
    assert _refused(sharded, "SELECT count() FROM d WHERE k IN (SELECT k FROM d)") == 288
    assert _refused(sharded, "SELECT count() FROM d WHERE i = 1 OR NOT k IN (SELECT k FROM d)") == 288
    assert _refused(sharded, "SELECT count() FROM d AS l JOIN d AS r USING k") == 288
    for mode, rows in (("global", 999), ("allow", 999), ("local", 333)):  # of neighbours a third is in one shard
        query = f"SELECT count() FROM d WHERE k + 1 IN (SELECT k FROM d) SETTINGS distributed_product_mode = '{mode}'"
        assert sharded.value(query) == rows


def test_a_set_of_a_plain_table_is_each_shards_own(sharded: Local) -> None:
    sharded.run("CREATE TABLE chosen (k UInt64) ENGINE = Memory AS SELECT number FROM numbers(5)")
    assert sharded.value("SELECT count() FROM d WHERE k IN (SELECT k FROM chosen)") == 5
    assert sharded.value("SELECT count() FROM d WHERE k IN chosen") == 5
    sharded.run("CREATE TEMPORARY TABLE mine (k UInt64)")
    sharded.run("INSERT INTO mine VALUES (1), (2)")
    assert sharded.value("SELECT count() FROM d WHERE k IN (SELECT k FROM mine)") == 2


def test_tables_behind_each_other_have_an_end(sharded: Local) -> None:
    sharded.run("CREATE TABLE outer AS d ENGINE = Distributed(two, default, d)")
    assert sharded.value("SELECT count() FROM outer") == 2000
    assert _refused(sharded, "SELECT count() FROM outer SETTINGS max_distributed_depth = 1") == 581
    sharded.run("CREATE TABLE circle (k UInt64) ENGINE = Distributed(two, default, circle)")
    assert _refused(sharded, "SELECT count() FROM circle") == 581


def test_functions_of_other_servers(sharded: Local) -> None:
    assert sharded.value("SELECT count() FROM cluster('two', '', t)") == 1000
    assert sharded.value("SELECT sum(k) FROM remote('127.0.0.1', s1.t) WHERE k < 7") == 9
    assert sharded.value("SELECT sum(v) FROM remote('{127.0.0.1,localhost}', view(SELECT k + 1 AS v FROM s1.t), v)") > 0
    assert sharded.value("SELECT count() FROM remote('127.0.0.1', 's2', 't', 'default')") == 666
    assert sharded.value("SELECT sum(number) FROM remote('127.0.0.1', numbers(4))") == 6
    assert sharded.value("SELECT count() FROM clusterAllReplicas(two, system.one)") == 2
    assert _refused(sharded, "SELECT 1 FROM cluster('three', system.one)") == 701
    assert _refused(sharded, "SELECT 1 FROM remote('127.0.0.1:1', system.one)") == 519
    assert _refused(sharded, "SELECT 1 FROM remote('127.0.0.1', s1.nothing)") == 519
    assert _refused(sharded, "SELECT 1 FROM remote()") == 42


def test_a_definition_is_kept(sharded: Local) -> None:
    assert "ENGINE = Distributed('two', '', 't', k)" in sharded.value("SHOW CREATE TABLE d")
    shown = sharded.run("SELECT engine_full, total_rows, total_bytes FROM system.tables WHERE name = 'd'")
    assert shown == [("Distributed('two', '', 't', k)", None, 0)]
    sharded.run("CREATE TABLE moved AS s1.t ENGINE = Distributed(two, currentDatabase(), t, rand())")
    assert "Distributed('two', 'default', 't', rand())" in sharded.value("SHOW CREATE TABLE moved")
    sharded.run("RENAME TABLE moved TO renamed")
    sharded.run("ALTER TABLE renamed ADD COLUMN z UInt8, DROP COLUMN a")
    names = [row[0] for row in sharded.run("DESCRIBE TABLE renamed")]
    assert "z" in names
    assert "a" not in names
    sharded.run("DETACH TABLE renamed")
    sharded.run("ATTACH TABLE renamed")
    sharded.run("DROP TABLE renamed")


@pytest.mark.parametrize(
    ("engine", "code"),
    [
        ("Distributed(two, '')", 42),
        ("Distributed(nowhere, '', t)", 701),
        ("Distributed(two, '', t, nothing)", 47),
        ("Distributed(two, '', t, s)", 53),
        ("Distributed(two, '', t, k) ORDER BY k", 36),
    ],
)
def test_what_cannot_be_made(sharded: Local, engine: str, code: int) -> None:
    assert _refused(sharded, f"CREATE TABLE bad (k UInt64, s String) ENGINE = {engine}") == code


def test_clusters_are_shown_without_passwords(sharded: Local) -> None:
    rows = sharded.run(
        "SELECT cluster, shard_num, shard_weight, host_name, is_local, default_database FROM system.clusters"
    )
    assert rows == [("two", 1, 1, "127.0.0.1", 1, "s1"), ("two", 2, 2, "127.0.0.1", 1, "s2")]


def test_no_row_waits_to_be_sent(sharded: Local) -> None:
    sharded.run("SYSTEM STOP DISTRIBUTED SENDS d")
    sharded.run("SYSTEM FLUSH DISTRIBUTED d")
    sharded.run("SYSTEM START DISTRIBUTED SENDS")
    assert _refused(sharded, "SYSTEM FLUSH DISTRIBUTED s1.t") == 36


def test_indexes_stay_where_the_rows_are(sharded: Local) -> None:
    sharded.run("CREATE TABLE indexed (k UInt64, INDEX i k TYPE minmax) ENGINE = MergeTree ORDER BY k")
    sharded.run("CREATE TABLE over_indexed AS indexed ENGINE = Distributed(two, '', t)")
    assert "INDEX" not in str(sharded.value("SHOW CREATE TABLE over_indexed"))
    own = "CREATE TABLE bad (k UInt64, INDEX i k TYPE minmax) ENGINE = Distributed(two, '', t)"
    assert _refused(sharded, own) == 36


def test_columns_come_from_the_shards(sharded: Local) -> None:
    sharded.run("CREATE TABLE found ENGINE = Distributed(two, '', t, k)")
    assert sharded.run("DESCRIBE TABLE found") == sharded.run("DESCRIBE TABLE s1.t")


def test_a_view_reads_tables_of_the_session_s_database(sharded: Local) -> None:
    sharded.run("USE s2")
    try:
        assert sharded.value("SELECT count() FROM remote('127.0.0.1', view(SELECT k FROM t))") == 666
    finally:
        sharded.run("USE default")


def test_a_table_of_with_is_none_of_the_servers(sharded: Local) -> None:
    """Also in subqueries of expressions, where it is a name of the query around them."""
    query = "WITH r AS (SELECT k, i FROM {}) SELECT count(), max(k) FROM r WHERE i = (SELECT max(i) FROM r)"
    assert sharded.run(query.format("d")) == [(142, 993)]
    assert sharded.run(query.format("s1.t")) == [
        tuple(sharded.run("SELECT countIf(i = 3), maxIf(k, i = 3) FROM s1.t")[0])
    ]
