"""sleep, sleepEachRow and what tells of blocks: bounded as in ClickHouse, and ended with the query."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine.queries.session import Session
from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.reading.conftest import Pair

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT sleep(3.1)", 160),
        ("SELECT sleepEachRow(0.1) FROM numbers(100)", 160),
        ("SELECT sleepEachRow(0.0001) FROM numbers(50000)", 160),
        ("SELECT sleep(0.1) SETTINGS function_sleep_max_microseconds_per_block = 99999", 160),
        ("SELECT sleep(-1)", 43),
        ("SELECT sleep('1')", 43),
        ("SELECT sleep(number) FROM numbers(1)", 44),
        ("SELECT sleep(1 / 0)", 36),
        ("SELECT sleep()", 42),
        ("SELECT sleepEachRow(0.001) FROM numbers(10)", 0),
    ],
)
def test_bounds(pair: Pair, query: str, code: int) -> None:
    assert pair.same_code(query) == code


def test_a_block_sleeps_once(local: Local) -> None:
    started = time.monotonic()
    assert local.run("SELECT count() FROM numbers(30000) WHERE sleep(0.2) = 0") == [(30_000,)]
    assert 0.2 <= time.monotonic() - started < 2
    local.run("SELECT count() FROM numbers(40) WHERE sleepEachRow(0.01) = 0")
    assert time.monotonic() - started >= 0.6


@pytest.mark.parametrize("is_killed", [True, False])
def test_whoever_ends_the_query_ends_the_sleep(tmp_path: Path, is_killed: bool) -> None:
    local = Local(tmp_path / "data")
    seconds = 20
    text = f"SELECT sleep({seconds}) SETTINGS function_sleep_max_microseconds_per_block = 0"
    text += "" if is_killed else ", max_execution_time = 0.2"
    errors: list[PandoError] = []

    def run() -> None:
        try:
            result = local.engine.execute(text, Session())
            list(result.batches)
        except PandoError as error:
            errors.append(error)

    started = time.monotonic()
    thread = threading.Thread(target=run)
    thread.start()
    if is_killed:
        while not (found := local.run("SELECT query_id FROM system.processes WHERE query LIKE 'SELECT sleep%'")):
            assert thread.is_alive()
        local.run(f"KILL QUERY WHERE query_id = '{found[0][0]}'")
    thread.join()
    assert time.monotonic() - started < seconds
    assert [error.code for error in errors] == [394 if is_killed else 159]
    local.engine.stop()


def test_blocks(pair: Pair) -> None:
    assert pair.same_table("SELECT blockSize() FROM numbers(3)")
    assert pair.same_table("SELECT rowNumberInBlock() FROM numbers(3)")
    assert pair.same_table(
        "SELECT max(blockSize()), sum(rowNumberInBlock()) FROM numbers(100) SETTINGS max_block_size = 10"
    )
