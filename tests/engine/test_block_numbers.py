"""``_block_number``: the same answers as ClickHouse's, and in a table that keeps it the same after every merge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from coordination.replicas.table_nodes import compare_definitions
from engine.queries.session import Session
from engine.tables.replicated.life.shared_definition import make_shared_definition
from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.sql.definitions.test_ddl import describe
from tests.sql.oracle import Oracle

KEPT = "SETTINGS enable_block_number_column = 1"
CREATE = "CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a"
QUERIES = (
    "SELECT a, _block_number, _part FROM t ORDER BY a, _block_number",
    "SELECT * FROM t WHERE _block_number > 1 ORDER BY ALL",
    "SELECT count() FROM t WHERE _block_number = 2",
    "SELECT count() FROM t WHERE _block_number IN (1, 3) AND a < 4",
    "SELECT _block_number AS n, count(), max(s) FROM t GROUP BY n ORDER BY n",
    "SELECT min(_block_number), max(_block_number), sum(_block_number) FROM t PREWHERE a > 1",
    "SELECT a, toTypeName(_block_number) FROM t ORDER BY _block_number DESC, a LIMIT 2",
    "SELECT x.a FROM t AS x JOIN t AS y ON x._block_number = y._block_number ORDER BY x.a, y.a",
)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()


def texts(local: Local, sql: str) -> bytes:
    result = local.engine.execute(sql, Session())
    rows = [row for batch in result.batches for row in batch.to_pylist()]
    return b"".join("\t".join(str(value) for value in row.values()).encode() + b"\n" for row in rows)


@pytest.mark.parametrize("settings", one_in(2, [KEPT, ""]))
def test_as_in_clickhouse_before_and_after_merges(local: Local, oracle: Oracle, settings: str) -> None:
    statements = (
        f"{CREATE} {settings}",
        "INSERT INTO t VALUES (3, 'x'), (1, 'y')",
        "INSERT INTO t VALUES (2, 'z')",
        "OPTIMIZE TABLE t FINAL",
        "INSERT INTO t VALUES (2, 'z'), (5, 'v')",
        "OPTIMIZE TABLE t FINAL",
        "OPTIMIZE TABLE t FINAL DEDUPLICATE",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (9, 'w')",
    )
    oracle.query("DROP TABLE IF EXISTS t")
    for statement in statements:
        local.run(statement)
        oracle.query(statement)
        for query in QUERIES if "CREATE" not in statement else ():
            assert texts(local, query) == oracle.query(query), (statement, query)


@pytest.mark.long
def test_repeated_shapes_with_other_literals(local: Local, oracle: Oracle) -> None:
    """Known shapes are answered in shorter ways."""
    create = f"CREATE TABLE t (a UInt64, s String, d Date) ENGINE = MergeTree PARTITION BY d ORDER BY a {KEPT}"
    statements = [create]
    for number in range(8):
        day = f"toDate('2020-01-01') + {number % 2}"
        statements.append(f"INSERT INTO t SELECT number * {number + 1}, toString(number % 5), {day} FROM numbers(30)")
    statements.insert(6, "OPTIMIZE TABLE t FINAL")
    oracle.query("DROP TABLE IF EXISTS t")
    for statement in statements:
        local.run(statement)
        oracle.query(statement)
    shapes = (
        "SELECT a, s FROM t WHERE _block_number = {0} ORDER BY ALL",
        "SELECT count(), sum(a) FROM t WHERE _block_number > {0} AND a > {1}",
        "SELECT a, _block_number FROM t WHERE a = {1} ORDER BY ALL",
        "SELECT count() FROM t WHERE _block_number BETWEEN {0} AND {1} AND d > '2020-01-01'",
        "SELECT a FROM t WHERE _block_number = {0} OR a = {1} ORDER BY a LIMIT 5",
        "SELECT _block_number, max(a) FROM t WHERE s = '{0}' GROUP BY 1 ORDER BY 1",
    )
    for query in [shape.format(x, y) for shape in shapes for x in range(0, 10, 2) for y in (0, 4, 12)]:
        assert texts(local, query) == oracle.query(query), query


def test_kept_through_merges_of_merges_and_over_a_restart(local: Local) -> None:
    local.run(f"CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree PARTITION BY a % 2 ORDER BY s {KEPT}")
    random = np.random.default_rng(7)
    expected = []
    for number in range(1, 9):
        values = random.integers(0, 1 << 40, 3000) * 2
        local.run("INSERT INTO t FORMAT ArrowStream", _arrow(values))
        expected += [(int(value), number) for value in values]
        if number % 3 == 0:
            local.run("OPTIMIZE TABLE t FINAL")
    local.run("OPTIMIZE TABLE t FINAL")
    local.restart()
    assert local.value("SELECT count() FROM system.parts WHERE table = 't' AND active") == 1
    found = local.run("SELECT a, _block_number FROM t")
    assert sorted(found) == sorted(expected)


def test_parts_of_other_blocks_are_not_read(local: Local) -> None:
    local.run(f"{CREATE} {KEPT}")
    for number in range(4):
        local.run(f"INSERT INTO t SELECT number, '' FROM numbers({number * 10}, 10)")
    plan = "\n".join(str(line[0]) for line in local.run("EXPLAIN indexes = 1 SELECT a FROM t WHERE _block_number > 3"))
    assert "Parts: 1/4" in plan


def test_the_name_is_reserved(local: Local) -> None:
    with pytest.raises(PandoError) as raised:
        local.run("CREATE TABLE t (a UInt64, _block_number UInt64) ENGINE = MergeTree ORDER BY a")
    assert raised.value.code == 44


def test_replicas_must_agree_on_it() -> None:
    """A merge by one that does not keep the numbers would lose them for all."""
    with_numbers, without = (make_shared_definition(describe(f"{CREATE} {settings}")) for settings in (KEPT, ""))
    with pytest.raises(PandoError) as raised:
        compare_definitions(with_numbers, without, "/t")
    assert raised.value.code == 342
    assert "enable_block_number_column" in str(raised.value)


def _arrow(values: np.ndarray) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": pa.array(values, pa.uint64()), "s": pa.array(map(str, values[::-1]))})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_an_expression_may_use_it_with_other_columns(local: Local) -> None:
    local.run(f"{CREATE} {KEPT}")
    for first in (0, 2, 4):
        local.run(f"INSERT INTO t SELECT number, '' FROM numbers({first}, 2)")
    local.run("OPTIMIZE TABLE t FINAL")
    assert local.run("SELECT a FROM t WHERE a + _block_number > 6 ORDER BY a") == [(4,), (5,)]
