"""What a merge leaves of rows that expire is what ClickHouse leaves of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sql.formats.registry import write_blocks
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.engine.conftest import Local
from tests.sql.oracle import Oracle
from tests.ttl.tables import Expiring

pytestmark = pytest.mark.long

SEEDS = range(int(os.environ.get("TTL_SEEDS", "25")))
# Nothing is merged but by OPTIMIZE, once.
_STILL = "max_bytes_to_merge_at_max_space_in_pool = 1, max_number_of_merges_with_ttl_in_pool = 0"
_FORMATS = ("", ", min_bytes_for_wide_part = 1", ", index_granularity = 16")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def pando(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("ttl"))
    yield running
    running.engine.stop()


def tsv(pando: Local, sql: str) -> bytes:
    result = pando.engine.execute(sql, pando.session, None)
    return b"".join(write_blocks("TSV", result.columns, result.batches, settings=DEFAULT_SETTINGS))


def definition(text: bytes) -> str:
    return text.decode().partition("(")[2].partition("\\nSETTINGS")[0].strip()


@pytest.mark.parametrize("seed", SEEDS)
def test_generated(pando: Local, oracle: Oracle, seed: int) -> None:
    name = f"e{seed}"
    table = Expiring(seed, name, f" SETTINGS {_STILL}{_FORMATS[seed % 3]}")
    steps = [table.create(), *table.inserts(), f"OPTIMIZE TABLE {name} FINAL"]
    for sql in steps:
        oracle.query(sql)
        tsv(pando, sql)
    rows = f"SELECT *, m FROM {name} ORDER BY ALL"
    assert tsv(pando, rows) == oracle.query(rows), steps[0]
    ours, theirs = (definition(run(f"SHOW CREATE TABLE {name}")) for run in (lambda sql: tsv(pando, sql), oracle.query))
    assert ours == theirs
    pando.run(f"DROP TABLE {name}")
    oracle.query(f"DROP TABLE {name} SYNC")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_alter_makes_of_the_parts_that_are_there(pando: Local, oracle: Oracle, seed: int) -> None:
    name = f"a{seed}"
    table = Expiring(seed, name, f" SETTINGS {_STILL}{_FORMATS[seed % 3]}")
    if not {*table.column_ttls} <= {"n", "a", "l"}:
        return  # ClickHouse's mutation fails where the default of an expired column reads another (10)
    create, inserts, alter = table.create_without_ttl(), list(table.inserts()), table.alter()
    if seed % 2:
        steps = [create, *inserts, f"{alter} SETTINGS mutations_sync = 2"]
    else:
        later = [
            f"{alter} SETTINGS materialize_ttl_after_modify = 0",
            f"ALTER TABLE {name} MATERIALIZE TTL SETTINGS mutations_sync = 2",
        ]
        steps = [create, *inserts, *later]
    rows = f"SELECT *, m FROM {name} ORDER BY ALL"
    for sql in steps:
        oracle.query(sql)
        tsv(pando, sql)
    assert tsv(pando, rows) == oracle.query(rows), steps
    commands = f"SELECT command, is_done FROM system.mutations WHERE table = '{name}' AND command LIKE '%TTL%'"
    assert tsv(pando, commands) == oracle.query(commands)
    pando.run(f"DROP TABLE {name}")
    oracle.query(f"DROP TABLE {name} SYNC")


FAR = {
    "Date": ["d + INTERVAL 150 YEAR", "addMonths(d, 1600)", "toStartOfMonth(d + INTERVAL 150 YEAR)", "d + 60000"],
    "DateTime('UTC')": [
        "d + INTERVAL 110 YEAR",
        "d + toIntervalDay(40000)",
        "toDateTime(d, 'UTC') + toIntervalDay(40000)",
    ],
    "DateTime64(3, 'UTC')": ["d + INTERVAL 110 YEAR"],
    "Date32": ["d + INTERVAL 150 YEAR"],
}


@pytest.mark.parametrize(("type_", "time"), [(type_, time) for type_ in FAR for time in FAR[type_]])
def test_a_time_behind_the_end_of_a_type_is_not_one_that_is_over(
    pando: Local, oracle: Oracle, type_: str, time: str
) -> None:
    answers = []
    for run in (oracle.query, lambda sql: tsv(pando, sql)):
        run(f"CREATE TABLE far (k UInt8, d {type_}, s String TTL {time}) ENGINE = MergeTree ORDER BY k TTL {time}")
        run("INSERT INTO far VALUES (1, '2001-01-01', 'a'), (2, '1971-01-01', 'b')")
        run("OPTIMIZE TABLE far FINAL")
        answers.append(run("SELECT * FROM far ORDER BY k"))
        run("DROP TABLE far SYNC")
    assert answers[0] == answers[1]
