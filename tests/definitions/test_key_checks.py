"""Keys that a new table may not have, compared with ClickHouse; a table that has one is loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.server.config import Config
from parts.common.errors import PandoError
from tests.alter.following import Pando, answer
from tests.side_by_side import oracle, pando
from tests.sql.oracle import Oracle

__all__ = ["oracle", "pando"]
_KEYS = [
    *(f"ORDER BY {key}" for key in (
        "rand()", "(a, generateUUIDv4())", "a + now()", "(a, hostName())", "(a, currentDatabase())", "(a, user())",
        "(a, version())", "(a, rowNumberInBlock())", "(a, blockSize())", "(a, getSetting('max_threads'))",
        "(a, ignore(rand()))", "(a, isConstant(a))", "1", "(a, 'x')", "(a, 1 + 1)", "(a, NULL)", "(a, a)",
        "(a + 1, b, a + 1)", "(a, materialize(1))", "(a, -a, ignore(a))", "tuple()", "()", "(a, b) PRIMARY KEY a",
        "(a, a) SETTINGS allow_suspicious_indices = 1", "(a, r)", "(a, n)", "[toNullable(a)]",
        "(a, n) SETTINGS allow_nullable_key = 1",
    )),
    *(f"ORDER BY a PARTITION BY {key}" for key in (
        "rand()", "today()", "toYYYYMM(now())", "(a, a)", "(a, b)", "tuple()",
    )),
    *(f"ORDER BY (a, {key}) SAMPLE BY {key}" for key in (
        "a", "r", "-b", "b / 2", "toString(b)", "toDate(r)", "cityHash64(b)",
    )),
]  # fmt: skip


def refusal(server: Oracle | Pando, statement: str) -> str:
    try:
        server.query(statement)
    except (PandoError, RuntimeError) as error:
        return "".join(re.findall(r"^Code: (\d+)", str(error)))
    return ""


@pytest.mark.parametrize("key", _KEYS)
def test_keys_of_new_tables(oracle: Oracle, pando: Pando, key: str) -> None:
    statement = "CREATE TABLE keyed (a UInt8, b UInt8, r UInt32 DEFAULT rand(), n Array(Nullable(Int8))) "
    statement += f"ENGINE = MergeTree {key}"
    for server in (oracle, pando):
        server.query("DROP TABLE IF EXISTS keyed")
    assert refusal(pando, statement) == refusal(oracle, statement)


@pytest.mark.parametrize("clauses", ["", "SETTINGS index_granularity = 2", "TTL toDate(a) + 1", "PARTITION BY a"])
@pytest.mark.parametrize("arguments", ["", "()", "(b)"])
def test_engines_without_order_by(oracle: Oracle, pando: Pando, arguments: str, clauses: str) -> None:
    for server in (oracle, pando):
        server.query("DROP TABLE IF EXISTS unordered")
    statement = f"CREATE TABLE unordered (a UInt8, b UInt8) ENGINE = SummingMergeTree{arguments} {clauses}"
    assert refusal(pando, statement) == refusal(oracle, statement)


def test_a_key_that_is_made_longer(oracle: Oracle, pando: Pando) -> None:
    for key, is_refused in (("(a, c, c + rand())", True), ("(a, c)", False)):
        for server in (oracle, pando):
            server.query("DROP TABLE IF EXISTS longer")
            server.query("CREATE TABLE longer (a UInt8) ENGINE = MergeTree ORDER BY a")
            statement = f"ALTER TABLE longer ADD COLUMN c UInt8, MODIFY ORDER BY {key}"
            assert bool(refusal(server, statement)) is is_refused


def test_a_table_that_has_such_a_key_is_loaded_and_altered(tmp_path: Path) -> None:
    first = Pando(tmp_path)
    first.query("CREATE TABLE old (a UInt8, b UInt8) ENGINE = MergeTree ORDER BY (a, b)")
    first.query("INSERT INTO old VALUES (2, 1), (1, 1)")
    first.stop()
    (definition,) = (path for path in tmp_path.rglob("*.sql") if "ORDER BY (a, b)" in path.read_text())
    definition.write_text(definition.read_text().replace("ORDER BY (a, b)", "ORDER BY (a, 1)"))
    second = Pando(tmp_path)
    try:
        second.query("ALTER TABLE old ADD COLUMN c UInt8 DEFAULT 3")
        assert second.query("SELECT * FROM old ORDER BY a") == b"1\t1\t3\n2\t1\t3\n"
    finally:
        second.stop()


@pytest.mark.parametrize("statement", ["CREATE TABLE coded (a UInt8 CODEC()) ENGINE = MergeTree ORDER BY tuple()"])
def test_a_codec_has_a_name(oracle: Oracle, pando: Pando, statement: str) -> None:
    assert refusal(pando, statement) == refusal(oracle, statement) == "62"


@pytest.mark.parametrize("engine", ["MergeTree", "AggregatingMergeTree", "SummingMergeTree", "ReplacingMergeTree"])
@pytest.mark.parametrize(
    "key",
    ["ORDER BY m", "ORDER BY (k, m)", "PRIMARY KEY k ORDER BY (k, m)", "ORDER BY (k, m + 1)", "ORDER BY tuple(m)"],
)
def test_an_aggregated_column_is_no_key(oracle: Oracle, pando: Pando, key: str, engine: str) -> None:
    statement = f"CREATE TABLE merged (k Int8, m SimpleAggregateFunction(max, Int32)) ENGINE = {engine} {key}"
    for server in (oracle, pando):
        server.query("DROP TABLE IF EXISTS merged")
    assert refusal(pando, statement) == refusal(oracle, statement)


def test_an_aggregated_column_becomes_no_key(oracle: Oracle, pando: Pando) -> None:
    def outcomes(server: Oracle | Pando) -> list[str]:
        server.query("DROP TABLE IF EXISTS merged")
        return [
            refusal(server, statement)
            for statement in (
                "CREATE TABLE merged (k Int8, m SimpleAggregateFunction(max, Int32)) ENGINE = AggregatingMergeTree "
                "ORDER BY k",
                "ALTER TABLE merged MODIFY ORDER BY (k, m)",
                "ALTER TABLE merged ADD COLUMN z SimpleAggregateFunction(max, Int32), MODIFY ORDER BY (k, z)",
                "ALTER TABLE merged MODIFY COLUMN k SimpleAggregateFunction(max, Int8)",
                "ALTER TABLE merged MODIFY COLUMN m SimpleAggregateFunction(max, Int64)",
            )
        ]

    assert outcomes(pando) == outcomes(oracle) == ["", "36", "549", "549", ""]


def test_a_table_with_an_aggregated_key_is_loaded(tmp_path: Path) -> None:
    engine = Engine(Config.local(tmp_path))
    engine.start()
    table = "t (k SimpleAggregateFunction(max, Int8), v Int8) ENGINE = AggregatingMergeTree ORDER BY k"
    answer(engine, f"CREATE TABLE {table}", allow_suspicious_primary_key=1)
    answer(engine, "INSERT INTO t VALUES (1, 2)")
    engine.stop()
    engine = Engine(Config.local(tmp_path))
    engine.start()
    assert answer(engine, "SELECT * FROM t") == b"1\t2\n"
    answer(engine, "ALTER TABLE t MODIFY COLUMN v Int16")
    engine.stop()
