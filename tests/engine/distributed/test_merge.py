"""Merge tables and ``merge(…)`` answer as in ClickHouse, and read only what they must."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chdb.session import Session as Oracle

from parts.common.errors import PandoError
from sql.formats.registry import write_blocks
from tests.engine.conftest import Local

DATABASE = "merge_oracle"
SETUP = [
    f"CREATE DATABASE {DATABASE}",
    "CREATE TABLE {d}.a1 (x UInt8, y String, n Nullable(Int32)) ENGINE = MergeTree ORDER BY x",
    "CREATE TABLE {d}.a2 (x UInt64, z Int8, y String) ENGINE = MergeTree ORDER BY x",
    "CREATE TABLE {d}.b1 (x UInt8, y String) ENGINE = Log",
    "INSERT INTO {d}.a1 SELECT number, toString(number % 3), if(number % 2 = 0, NULL, number) FROM numbers(100)",
    "INSERT INTO {d}.a2 SELECT number * 10, number % 5, toString(number % 4) FROM numbers(100)",
    "INSERT INTO {d}.b1 VALUES (7, 'seven')",
    "CREATE TABLE {d}.m (x UInt64, y String, z Int8, extra String) ENGINE = Merge({d}, '^a')",
    "CREATE TABLE {d}.all ENGINE = Merge('{d}', '^[ab].$')",
    "CREATE TABLE {d}.none (x UInt8) ENGINE = Merge('{d}', '^nothing')",
    "CREATE TABLE {d}.wide (x UInt8) ENGINE = Merge(REGEXP('^{d}$'), '^b')",
    "CREATE TABLE {d}.a3 (x UInt8, y String) ENGINE = Merge('{d}', '^a[13]$')",
]
QUERIES = [
    "SELECT * FROM m ORDER BY ALL LIMIT 20",
    "SELECT *, _table FROM m WHERE x = 30 ORDER BY _table",
    "SELECT _table, _database, count(), sum(x) FROM m GROUP BY ALL ORDER BY ALL",
    "SELECT count() FROM m WHERE _table = 'a2' AND y = '1'",
    "SELECT count() FROM m WHERE _table IN ('a1', 'b1') OR x > 900",
    "SELECT m.y AS why, max(x) FROM m WHERE why != '2' GROUP BY why ORDER BY why",
    "SELECT count() FROM m WHERE z = 0 AND extra = ''",
    "SELECT count(), toTypeName(any(x)) FROM `all`",
    "SELECT count(), sum(x) FROM none",
    "SELECT x, _database FROM wide",
    "SELECT count(n), sum(n) FROM merge('merge_oracle', '^a[12]$')",
    "SELECT sum(x) FROM merge('^b1$')",
    "SELECT toTypeName(_table), toTypeName(x) FROM merge('^a[12]$') LIMIT 1",
    "SELECT count() FROM m AS l JOIN b1 AS r ON l.x = r.x",
    "SELECT count() FROM b1 JOIN m USING x",
    "SELECT count() FROM m WHERE x IN (SELECT x FROM b1)",
    "SELECT count(), sum(x) FROM a3",
    "SELECT arraySort(groupUniqArray(_table)) FROM merge('merge_oracle', 'a|b') WHERE x < 10",
    "SELECT y FROM m WHERE arrayExists(x -> x = 3, [x]) ORDER BY y",
    "SELECT dummy, _table FROM merge('system', '^one$')",
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("merge") / "data")
    for statement in SETUP:
        running.run(statement.replace("{d}", DATABASE))
    running.run(f"USE {DATABASE}")
    yield running
    running.engine.stop()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    session = Oracle()
    session.query(f"DROP DATABASE IF EXISTS {DATABASE}")
    for statement in SETUP:
        session.query(statement.replace("{d}", DATABASE))
    yield session
    session.query(f"DROP DATABASE {DATABASE}")
    session.close()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.long
def test_the_same_as_clickhouse(local: Local, oracle: Oracle, query: str) -> None:
    oracle.query(f"USE {DATABASE}")
    expected = oracle.query(query, "JSONCompactEachRow").data()
    result = local.engine.execute(query, local.session)
    found = b"".join(write_blocks("JSONCompactEachRow", list(result.columns), result.batches))
    assert found.decode() == expected


@pytest.mark.parametrize("name", ["m", "wide", "a3"])
def test_a_definition_is_kept(local: Local, oracle: Oracle, name: str) -> None:
    shown = oracle.query(f"SHOW CREATE TABLE {DATABASE}.{name}", "TSVRaw").data()
    assert f"{local.value(f'SHOW CREATE TABLE {DATABASE}.{name}')}\n" == shown


def test_conditions_reach_the_tables(local: Local) -> None:
    """Of a key's one value no more than a granule of each table is read, and of another table nothing."""

    def rows_read(query: str) -> int:
        result = local.engine.execute(query, local.session)
        list(result.batches)
        return result.statistics.rows_read

    local.run("CREATE TABLE k1 (k UInt64, v String) ENGINE = MergeTree ORDER BY k SETTINGS index_granularity = 100")
    local.run("CREATE TABLE k2 AS k1")
    for name in ("k1", "k2"):
        local.run(f"INSERT INTO {name} SELECT number, 'v' FROM numbers(10000)")
    assert rows_read("SELECT v FROM merge('^k[12]$')") == 20_000
    assert rows_read("SELECT v FROM merge('^k[12]$') WHERE k = 5") <= 200
    assert rows_read("SELECT count() FROM merge('^k[12]$') WHERE _table = 'k2' AND v != ''") == 10_000


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("INSERT INTO m (x) VALUES (1)", 48),
        ("TRUNCATE TABLE m", 48),
        ("OPTIMIZE TABLE m", 48),
        ("ALTER TABLE m RENAME COLUMN x TO q", 48),
        ("ALTER TABLE m DELETE WHERE 1", 48),
        ("SELECT 1 FROM merge('^nothing')", 636),
        ("SELECT 1 FROM merge('nodb', '.')", 81),
        ("SELECT 1 FROM merge('[')", 427),
        ("CREATE TABLE bad (x UInt8) ENGINE = Merge('x')", 42),
        ("CREATE TABLE bad ENGINE = Merge(merge_oracle, '^nothing')", 636),
    ],
)
def test_what_is_refused(local: Local, sql: str, code: int) -> None:
    with pytest.raises(PandoError) as caught:
        local.run(sql)
    assert caught.value.code == code


def test_columns_change(local: Local) -> None:
    local.run("ALTER TABLE none ADD COLUMN q String, MODIFY COLUMN x UInt16")
    assert local.run("SELECT name, type FROM system.columns WHERE table = 'none'") == [("x", "UInt16"), ("q", "String")]


@pytest.mark.long
def test_tables_that_read_each_other_have_an_end(local: Local) -> None:
    local.run("CREATE TABLE ring1 (x UInt8) ENGINE = Merge(merge_oracle, '^ring2$')")
    local.run("CREATE TABLE ring2 (x UInt8) ENGINE = Merge(merge_oracle, '^ring1$')")
    with pytest.raises(PandoError) as caught:
        local.run("SELECT * FROM ring1")
    assert caught.value.code == 306
