"""ON CLUSTER: where it may stand, and the statement that is left without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parts.common.errors import UserError
from sql.grammar.statement_parser import parse_statement, parse_statements

STATEMENTS = [
    "CREATE DATABASE IF NOT EXISTS d@ ENGINE = Atomic",
    "CREATE TABLE d.t@ (a UInt8, s String DEFAULT ' ON CLUSTER x ') ENGINE = MergeTree ORDER BY a SETTINGS x = 1",
    "CREATE TABLE t@ AS u ENGINE = Memory",
    "CREATE OR REPLACE TABLE t@ (a UInt8) ENGINE = MergeTree ORDER BY a",
    "CREATE VIEW v@ AS SELECT 1",
    "CREATE MATERIALIZED VIEW v@ TO u AS SELECT a FROM t",
    "CREATE INDEX i ON t@ (a) TYPE minmax",
    "ATTACH TABLE t@",
    "ATTACH DATABASE d@",
    "DETACH TABLE t@",
    "DROP TABLE IF EXISTS t, u@ SYNC",
    "DROP DATABASE d@",
    "DROP VIEW v@",
    "DROP INDEX i ON t@",
    "RENAME TABLE a TO b, c TO d@",
    "EXCHANGE TABLES a AND b@",
    "TRUNCATE TABLE IF EXISTS t@",
    "ALTER TABLE t@ ADD COLUMN a UInt8, DROP COLUMN b",
    "ALTER TABLE t@ UPDATE v = v + 1 WHERE 1",
    "DELETE FROM t@ WHERE a = 1",
    "UPDATE t@ SET a = 1 WHERE b = 2",
    "OPTIMIZE TABLE t@ PARTITION 1 FINAL",
    "KILL QUERY@ WHERE query_id = 'x'",
    "KILL MUTATION@ WHERE table = 't'",
    "SYSTEM STOP MERGES@ t",
    "SYSTEM STOP MERGES t@",
    "SYSTEM START FETCHES@",
    "SYSTEM SYNC REPLICA@ t STRICT",
    "SYSTEM SYNC REPLICA t@ STRICT",
    "SYSTEM RESTART REPLICAS@",
    "SYSTEM DROP REPLICA@ 'r1' FROM TABLE t",
    "SYSTEM FLUSH LOGS@",
    "SYSTEM UNFREEZE@ WITH NAME 'b'",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_statement_is_the_same_without_it(statement: str) -> None:
    plain = parse_statement(statement.replace("@", ""))
    parsed = parse_statement(statement.replace("@", " /* here */ on cluster `my cluster`"))
    assert parsed.on_cluster is not None
    assert parsed.on_cluster.cluster == "my cluster"
    assert "CLUSTER `" not in parsed.on_cluster.text.upper()
    assert replace(parsed, on_cluster=None) == plain
    assert parse_statement(parsed.on_cluster.text).statement == plain.statement
    assert plain.on_cluster is None


def test_what_follows_is_left_out_of_the_text() -> None:
    parsed = parse_statement("ALTER TABLE t ON CLUSTER '{cluster}' DROP COLUMN a SETTINGS alter_sync = 2 FORMAT JSON")
    assert parsed.on_cluster is not None
    assert (parsed.on_cluster.cluster, parsed.on_cluster.text) == ("{cluster}", "ALTER TABLE t DROP COLUMN a")
    assert (parsed.settings, parsed.format) == ({"alter_sync": 2}, "JSON")


def test_of_several_statements_each_has_its_own() -> None:
    first, second, third = parse_statements("DROP TABLE a ON CLUSTER c; DROP TABLE b; DROP TABLE e ON CLUSTER f SYNC")
    assert first.on_cluster is not None
    assert first.on_cluster.text == "DROP TABLE a"
    assert second.on_cluster is None
    assert third.on_cluster is not None
    assert third.on_cluster.text == "DROP TABLE e SYNC"


@pytest.mark.parametrize(
    "text",
    [
        "SYSTEM STOP MERGES ON CLUSTER a t ON CLUSTER b",
        "DROP TABLE t ON CLUSTER",
        "INSERT INTO t ON CLUSTER c VALUES (1)",
        "CHECK TABLE t ON CLUSTER c",
    ],
)
def test_where_it_may_not_stand(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_statement(text)
    assert caught.value.code == 62
