"""TTL that is the same in every row: refused, unless allow_suspicious_ttl_expressions takes it, as in ClickHouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from parts.common.errors import PandoError
from tests.alter.test_altered_keys import answer
from tests.engine.conftest import Local
from tests.sql.oracle import Oracle

ROWS = "SELECT * FROM t ORDER BY k"
HISTORY = [
    "CREATE TABLE t (k UInt32, s String) ENGINE = MergeTree ORDER BY k TTL toDate('2000-01-01')",
    "INSERT INTO t VALUES (1, 'a')",
    "OPTIMIZE TABLE t FINAL",
    "ALTER TABLE t MODIFY TTL toDate('2100-01-01')",
    "INSERT INTO t VALUES (2, 'b')",
    "OPTIMIZE TABLE t FINAL",
    "ALTER TABLE t MODIFY COLUMN s String TTL toDateTime('2000-01-01 00:00:00', 'UTC')",
    "OPTIMIZE TABLE t FINAL",
    "INSERT INTO t VALUES (3, 'c')",
    "OPTIMIZE TABLE t FINAL",
    "ALTER TABLE t MODIFY TTL toDate('2000-01-01') WHERE k = 2",
    "OPTIMIZE TABLE t FINAL",
    "ALTER TABLE t MODIFY TTL toDate('2000-01-01') + 1",
    "OPTIMIZE TABLE t FINAL",
]


def test_the_same_rows_as_in_clickhouse(tmp_path: Path) -> None:
    local, oracle = Local(tmp_path / "data"), Oracle()
    try:
        for server in (local.run, oracle.query):
            server("CREATE DATABASE constant_ttl")
            server("USE constant_ttl")
            with pytest.raises((PandoError, RuntimeError), match="does not depend on any of the columns"):
                server(HISTORY[0])
            server("SET allow_suspicious_ttl_expressions = 1")
        for statement in HISTORY:
            local.run(statement)
            oracle.query(statement)
            if "OPTIMIZE" in statement:  # merges in the background may come before
                assert answer(local, ROWS) == oracle.query(ROWS).decode()
        for server in (local.run, oracle.query):
            server("SET allow_suspicious_ttl_expressions = 0")
            with pytest.raises((PandoError, RuntimeError), match="does not depend on any of the columns"):
                server("ALTER TABLE t MODIFY TTL toDate('2000-01-01')")
        local.restart()  # a table that has one starts
        assert local.run("SELECT * FROM constant_ttl.t") == []
    finally:
        oracle.query("USE default")
        oracle.query("DROP DATABASE IF EXISTS constant_ttl")
        oracle.close()
        local.engine.stop()
