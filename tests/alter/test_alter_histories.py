"""The same histories here and in ClickHouse: equal rows and an equal definition after every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.config import Config
from engine.engine import Engine
from engine.session import Session
from sql.formats.registry import write_blocks
from sql.settings.session import DEFAULT_SETTINGS
from tests.alter.histories import History
from tests.sql_statements.oracle import Oracle

HISTORIES = 60
STEPS = 14
_WIDE = " SETTINGS min_bytes_for_wide_part = 1"


class Pando:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.restart()

    def restart(self) -> None:
        self._engine = Engine(Config.local(self._path))
        self._engine.start()

    def stop(self) -> None:
        self._engine.stop()

    def query(self, sql: str) -> bytes:
        result = self._engine.execute(sql, Session(), None)
        return b"".join(write_blocks("TSV", result.columns, result.batches, settings=DEFAULT_SETTINGS))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def pando(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pando]:
    running = Pando(tmp_path_factory.mktemp("histories"))
    yield running
    running.stop()


def look(table: str) -> tuple[str, ...]:
    return (
        f"SELECT * FROM {table} ORDER BY ALL",
        f"SELECT name, type, default_kind, comment FROM system.columns WHERE table = '{table}'",
    )


@pytest.mark.parametrize("block", range(6))
@pytest.mark.parametrize("has_mutations", [False, True], ids=["alter", "mutate"])
def test_histories(oracle: Oracle, pando: Pando, block: int, has_mutations: bool) -> None:
    first = 1000 * has_mutations
    seeds = range(first + block, first + HISTORIES, 6)
    for seed in seeds:
        follow(oracle, pando, seed, has_mutations)
    pando.stop()
    pando.restart()
    for seed in seeds:
        assert_equal(oracle, pando, f"h{seed}", [f"seed {seed}, after a restart"])


def follow(oracle: Oracle, pando: Pando, seed: int, has_mutations: bool) -> None:
    history = History(seed, f"h{seed}", _WIDE if seed % 3 == 0 else "", has_mutations)
    told: list[str] = [f"seed {seed}"]
    for statement in history.statements(STEPS):
        told.append(statement)
        oracle.query(statement)
        pando.query(statement)
        assert_equal(oracle, pando, history.table, told)


def assert_equal(oracle: Oracle, pando: Pando, table: str, told: list[str]) -> None:
    for question in look(table):
        expected, found = oracle.query(question), pando.query(question)
        assert found == expected, ";\n".join([*told, question])
