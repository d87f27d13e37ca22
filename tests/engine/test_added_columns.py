"""A table whose definition has columns that its parts lack: as ALTER TABLE … ADD COLUMN leaves it."""

from __future__ import annotations

from pathlib import Path

from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config

ROWS = 20_000
ADDED = "c LowCardinality(String) DEFAULT concat('x', s), n Nullable(UInt8), z UInt64 MATERIALIZED length(c) + k"


def rows(engine: Engine, sql: str) -> list[tuple[object, ...]]:
    batches = engine.execute(sql, Session(), None).batches
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_old_parts_answer_with_the_defaults_of_added_columns(tmp_path: Path) -> None:
    engine = Engine(Config.local(tmp_path))
    engine.start()
    rows(engine, "CREATE TABLE t (k UInt32, s String) ENGINE = MergeTree ORDER BY k")
    rows(engine, f"INSERT INTO t SELECT number, toString(number) FROM numbers({ROWS})")
    engine.stop()
    (definition,) = tmp_path.rglob("t.sql")
    definition.write_text(definition.read_text().replace("`s` String", f"`s` String, {ADDED}"))
    engine = Engine(Config.local(tmp_path))
    engine.start()
    try:
        rows(engine, "INSERT INTO t (k, s, n) VALUES (77, 'new', 1)")
        for _ in range(2):  # two parts, then one
            assert rows(engine, "SELECT count(), min(c), max(z), any(n) FROM t") == [(ROWS + 1, "x0", ROWS + 5, 1)]
            assert rows(engine, "SELECT *, z FROM t WHERE k = 77 ORDER BY s") == [
                (77, "77", "x77", None, 80),
                (77, "new", "xnew", 1, 81),
            ]
            assert rows(engine, "SELECT k, n FROM t WHERE c = 'x19999' AND z > 100") == [(19999, None)]
            rows(engine, "OPTIMIZE TABLE t FINAL")
        assert len(rows(engine, "SELECT name FROM system.parts WHERE active AND table = 't'")) == 1
        assert [row[1] for row in rows(engine, "CHECK TABLE t")] == [1]
    finally:
        engine.stop()
