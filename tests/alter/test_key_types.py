"""Other types of columns that keys read: rows are found, merged and divided as before, as in ClickHouse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.simulator.simulated_servers import SimulatedServer
from parts.common.errors import PandoError
from tests.alter.test_alter_on_replicas import MakeServers, make_servers
from tests.alter.test_altered_keys import answer
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.sql.oracle import Oracle

__all__ = ["make_servers"]
CHANGES = [
    ("Enum8('a' = 1, 'b' = 2)", "Enum8('z' = -3, 'a' = 1, 'b' = 2, 'c' = 30)", "'a'", "'c'"),
    ("Enum16('a' = 1, 'b' = 2)", "Int16", "'b'", "-7"),
    ("String", "LowCardinality(String)", "'m'", "'b'"),
    ("LowCardinality(String)", "String", "'m'", "'b'"),
    ("DateTime('UTC')", "DateTime('Europe/Berlin')", "'2020-01-01 10:00:00'", "'2020-01-01 10:00:00'"),
]
KEYS = ("ORDER BY (x, k)", "PARTITION BY x ORDER BY k", "PARTITION BY (k % 2, x) ORDER BY (k, x)")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()


@pytest.mark.parametrize("keys", one_in(3, KEYS))
@pytest.mark.parametrize(("old", "new", "before", "after"), CHANGES)
def test_rows_of_before_and_after(
    local: Local, oracle: Oracle, keys: str, old: str, new: str, before: str, after: str
) -> None:
    questions = [
        "SELECT x, k FROM key_types.t ORDER BY ALL",
        f"SELECT count(), sum(k) FROM key_types.t WHERE x = {after}",
        "SELECT toString(x), count() FROM key_types.t WHERE k > 3 GROUP BY 1 ORDER BY 1",
        "SELECT partition_id, sum(rows) FROM system.parts WHERE database = 'key_types' AND active "
        "GROUP BY 1 ORDER BY 1",
    ]
    statements = [
        "CREATE DATABASE key_types",
        f"CREATE TABLE key_types.t (k UInt32, x {old}) ENGINE = MergeTree {keys} SETTINGS index_granularity = 4",
        f"INSERT INTO key_types.t SELECT number, {before} FROM numbers(20)",
        f"ALTER TABLE key_types.t MODIFY COLUMN x {new}",
        f"INSERT INTO key_types.t SELECT number, {after} FROM numbers(20)",
        f"INSERT INTO key_types.t SELECT number, CAST({before} AS {old}) FROM numbers(20, 5)",
        "OPTIMIZE TABLE key_types.t FINAL",
    ]
    try:
        for number, statement in enumerate(statements):
            local.run(statement)
            oracle.query(statement)
            for question in questions if number > 2 else ():
                assert answer(local, question) == oracle.query(question).decode(), (statement, question)
    finally:
        oracle.query("DROP DATABASE IF EXISTS key_types")


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        ("e", "Enum8('a' = 1)"),
        ("e", "Enum16('a' = 1, 'b' = 2)"),
        ("e", "String"),
        ("s", "Nullable(String)"),
        ("s", "FixedString(3)"),
        ("u", "UInt64"),
        ("u", "Int32"),
        ("f", "LowCardinality(String)"),
        ("t", "DateTime64(6)"),
    ],
)
def test_others_are_refused(local: Local, oracle: Oracle, column: str, type_: str) -> None:
    create = (
        "CREATE TABLE {}t (e Enum8('a' = 1, 'b' = 2), s String, u UInt32, f String, t DateTime64(3), d DateTime) "
        "ENGINE = MergeTree PARTITION BY toDate(d) ORDER BY (e, s, u, lower(f), t)"
    )
    oracle.query("CREATE DATABASE IF NOT EXISTS key_types")
    oracle.query(create.format("key_types."))
    local.run(create.format(""))
    try:
        with pytest.raises(RuntimeError, match="ALTER_OF_COLUMN_IS_FORBIDDEN"):
            oracle.query(f"ALTER TABLE key_types.t MODIFY COLUMN {column} {type_}")
    finally:
        oracle.query("DROP DATABASE key_types")
    with pytest.raises(PandoError) as caught:
        local.run(f"ALTER TABLE t MODIFY COLUMN {column} {type_}")
    assert caught.value.code == 524


def test_on_replicas(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    for node in (one, two):
        node.drop()
    for node in (one, two):
        node.sql(
            "CREATE TABLE t (p Enum8('a' = 1, 'b' = 2), k LowCardinality(String), v UInt32) "
            "ENGINE = ReplicatedMergeTree('/tables/t', '{replica}') PARTITION BY p ORDER BY k"
        )
    one.sql("INSERT INTO t VALUES ('a', 'x', 1), ('b', 'y', 2)")
    servers.settle()
    two.is_frozen = True
    one.sql("ALTER TABLE t MODIFY COLUMN p Enum8('a' = 1, 'b' = 2, 'c' = 3), MODIFY COLUMN k String")
    one.sql("INSERT INTO t VALUES ('c', 'x', 3), ('a', 'w', 4)")
    two.sql("INSERT INTO t VALUES ('a', 'w', 5)")
    two.is_frozen = False
    servers.settle()
    servers.check_equal()

    def found(node: SimulatedServer) -> list[tuple[object, ...]]:
        return node.sql("SELECT toString(p), k, v FROM t WHERE k < 'z' ORDER BY v")[1]

    expected = [("a", "x", 1), ("b", "y", 2), ("c", "x", 3), ("a", "w", 4), ("a", "w", 5)]
    assert found(one) == found(two) == expected
    two.sql("OPTIMIZE TABLE t PARTITION 'a' FINAL")
    servers.settle()
    servers.check_equal()
    assert found(one) == found(two) == expected
