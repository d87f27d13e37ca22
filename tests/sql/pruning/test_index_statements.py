"""CREATE INDEX, DROP INDEX and SHOW INDEX are ALTER TABLE and SELECT, with ClickHouse's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from parts.common.errors import PandoError
from tests.alter.test_altered_keys import answer
from tests.engine.conftest import Local
from tests.sql.oracle import Oracle

STATEMENTS = [
    "CREATE DATABASE index_statements",
    "USE index_statements",
    "CREATE TABLE t (k UInt32, v String, s String) ENGINE = MergeTree ORDER BY (k, s)",
    "INSERT INTO t SELECT number, toString(number), '' FROM numbers(20000)",
    "CREATE INDEX i ON t (v) TYPE minmax GRANULARITY 2",
    "CREATE INDEX IF NOT EXISTS i ON t (k) TYPE minmax",
    "CREATE INDEX j ON t (k ASC, lower(v) DESC) TYPE set(10)",
    "CREATE INDEX l ON t lower(v) TYPE tokenbf_v1(256, 2, 0) GRANULARITY 4",
    "CREATE INDEX m ON t (v) TYPE bloom_filter(0.01)",
    "DROP INDEX i ON t",
    "DROP INDEX IF EXISTS i ON index_statements.t",
]
QUESTIONS = [
    "SHOW INDEX FROM t",
    "SHOW INDEXES FROM t FROM index_statements",
    "SHOW EXTENDED INDICES IN index_statements.t",
    "SHOW KEYS IN t WHERE key_name = 'PRIMARY'",
    "SHOW INDEX FROM nope",
    "SELECT name, expr, granularity FROM system.data_skipping_indices WHERE database = 'index_statements' ORDER BY 1",
]
REFUSED = [
    ("CREATE INDEX j ON t (v) TYPE minmax", 44),
    ("CREATE INDEX n ON t (v)", 80),
    ("CREATE UNIQUE INDEX n ON t (v) TYPE minmax", 48),
    ("CREATE INDEX n ON nope (v) TYPE minmax", 60),
    ("CREATE INDEX n ON t (nope) TYPE minmax", 47),
    ("DROP INDEX nope ON t", 36),
    ("DROP INDEX IF EXISTS nope ON nope", 60),
    ("CREATE INDEX n ON t (v", 62),
]


def test_the_same_as_in_clickhouse(tmp_path: Path) -> None:
    local, oracle = Local(tmp_path / "data"), Oracle()
    try:
        for statement in STATEMENTS:
            oracle.query(statement)
            local.run(statement)
        for question in QUESTIONS:
            result = local.engine.execute(question, local.session, None)
            names = oracle.query(question, "TSVWithNames").decode().partition("\n")[0]
            assert not names or "\t".join(name for name, _ in result.columns) == names
            assert answer(local, question) == oracle.query(question).decode(), question
        assert local.value("SELECT count() FROM t WHERE lower(v) = '77'") == 1
        for statement, code in REFUSED:
            with pytest.raises(RuntimeError, match=rf"Code: {code}\."):
                oracle.query(statement)
            with pytest.raises(PandoError) as caught:
                local.run(statement)
            assert caught.value.code == code, statement
    finally:
        oracle.query("USE default")
        oracle.query("DROP DATABASE IF EXISTS index_statements")
        oracle.close()
        local.engine.stop()
