"""Plans of queries over views, and of the queries of materialized views, are used again as long as nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

from engine.interpreter.session_relations import SessionRelations
from sql.run.query_engine import QueryEngine
from tests.engine.conftest import Local, local

__all__ = ["local"]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are compiled."""
    texts: list[str] = []
    plain = QueryEngine._compile

    def counting(self: QueryEngine, query: str, *given: Any) -> Any:
        texts.append(query)
        return plain(self, query, *given)

    monkeypatch.setattr(QueryEngine, "_compile", counting)
    return texts


def _insert_twice(local: Local, compiled: list[str], values: str) -> list[int]:
    """How many texts each compiled."""
    counts = []
    for _ in range(2):
        del compiled[:]
        local.run(f"INSERT INTO t VALUES {values}")
        counts.append(len(compiled))
    return counts


def test_the_query_of_a_materialized_view_is_compiled_once(local: Local, compiled: list[str]) -> None:
    local.run("CREATE TABLE t (k UInt8, v UInt32) ENGINE = MergeTree ORDER BY k")
    local.run("CREATE TABLE names (k UInt8, name String) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
    joined = "SELECT name, sum(v) AS total FROM t INNER JOIN names USING (k) GROUP BY name"
    local.run(f"CREATE MATERIALIZED VIEW m ENGINE = MergeTree ORDER BY name AS {joined}")
    assert _insert_twice(local, compiled, "(1, 10), (2, 20)") == [1, 0]
    local.run("ALTER TABLE t ADD COLUMN w UInt8")
    assert _insert_twice(local, compiled, "(2, 7, 1)") == [1, 0]
    local.run("INSERT INTO names VALUES (3, 'three')")
    assert _insert_twice(local, compiled, "(3, 5, 1)") == [0, 0]
    local.run(f"ALTER TABLE m MODIFY QUERY {joined.replace('sum', 'max')}")
    assert _insert_twice(local, compiled, "(1, 1, 1), (1, 2, 1)") == [1, 0]
    rows = [("one", 10), ("two", 20), ("two", 7), ("three", 5), ("one", 2)]
    assert sorted(local.run("SELECT * FROM m")) == sorted(2 * rows)


def test_the_blocks_of_two_tables_have_plans_of_their_own(local: Local) -> None:
    """The same text, once over the table and once over a block of it."""
    local.run("CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k")
    local.run("CREATE MATERIALIZED VIEW m ENGINE = MergeTree ORDER BY c AS SELECT count() AS c FROM t")
    text = str(local.value("SELECT as_select FROM system.tables WHERE name = 'm'"))
    for _ in range(2):
        local.run("INSERT INTO t VALUES (1), (2)")
        local.run(text)
    assert local.run(text) == [(4,)]
    assert local.run("SELECT c FROM m") == [(2,), (2,)]


def test_a_query_over_a_view_knows_when_it_is_another(local: Local, compiled: list[str]) -> None:
    local.run("CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO t VALUES (1), (2), (3)")
    local.run("CREATE VIEW w AS SELECT k FROM t WHERE k < 3")
    del compiled[:]
    query = "SELECT sum(k) FROM w WHERE k > 1"
    assert [local.value(query), local.value(query)] == [2, 2]
    assert len(compiled) == 1
    local.run("CREATE OR REPLACE VIEW w AS SELECT k FROM t")
    assert local.value(query) == 5
    local.run("CREATE VIEW other AS SELECT toUInt8(k + 1) AS k FROM t")
    local.run("EXCHANGE TABLES w AND other")
    assert local.value(query) == 9
    local.run("DROP VIEW w")
    local.run("CREATE TABLE w (k UInt8) ENGINE = MergeTree ORDER BY k")
    assert local.value(query) == 0


def test_a_subquery_over_tables_by_pattern_sees_those_that_come(local: Local) -> None:
    query = "SELECT sum(k) FROM (SELECT k FROM every)"
    local.run("CREATE TABLE every (k UInt8) ENGINE = Merge(default, '^t')")
    for number in range(1, 4):
        local.run(f"CREATE TABLE t{number} (k UInt8) ENGINE = MergeTree ORDER BY k")
        local.run(f"INSERT INTO t{number} VALUES (1)")
        assert [local.value(query), local.value(query)] == [number, number]


def test_a_table_is_looked_up_once(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    local.run("CREATE TABLE t (k UInt8, s String) ENGINE = MergeTree ORDER BY k")
    local.run("CREATE TABLE u (k UInt8) ENGINE = MergeTree ORDER BY k")
    names: list[str] = []
    plain = SessionRelations.relation

    def counting(self: SessionRelations, database: str | None, table: str) -> Any:
        names.append(table)
        return plain(self, database, table)

    monkeypatch.setattr(SessionRelations, "relation", counting)
    local.run("SELECT length(s) FROM t JOIN u USING (k) WHERE k IN (SELECT k FROM u)")
    assert sorted(names) == ["t", "u"]
