"""INSERTs into a table of too many parts wait, and are refused, at the counts at which ClickHouse's are."""

from __future__ import annotations

import threading

import pytest
from chdb.session import Session

from engine.tables.insert_delay import PartCounts, compute_delay_seconds
from engine.tables.statement_options import InsertOptions
from parts.common.errors import PandoError
from sql.settings.merge_tree_settings import MergeTreeSettings
from tests.engine.conftest import Local

_CASES = [
    ("parts_to_throw_insert = 3", "", "p"),
    ("parts_to_throw_insert = 2", "parts_to_throw_insert = 4", "p"),
    ("parts_to_delay_insert = 1, parts_to_throw_insert = 1", "", "p"),
    ("max_parts_in_total = 3", "", "tuple()"),
    ("parts_to_throw_insert = 3", "", "tuple()"),
    ("parts_to_throw_insert = 2, max_avg_part_size_for_too_many_parts = 1", "", "p"),
]


@pytest.fixture(scope="module")
def clickhouse() -> Session:
    session = Session()
    session.query("CREATE DATABASE back_pressure")
    session.query("USE back_pressure")
    return session


def script(table_settings: str, settings: str, partition: str) -> tuple[list[str], list[str]]:
    prepare = [
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t (p Int32) ENGINE = MergeTree PARTITION BY {partition} ORDER BY p SETTINGS {table_settings}",
        "SYSTEM STOP MERGES t",
    ]
    clause = f"SETTINGS {settings}" if settings else ""
    return prepare, [f"INSERT INTO t {clause} VALUES ({number % 2})" for number in range(10)]


@pytest.mark.parametrize("case", _CASES)
def test_the_same_insert_is_refused(local: Local, clickhouse: Session, case: tuple[str, str, str]) -> None:
    prepare, inserts = script(*case)
    for statement in prepare:
        clickhouse.query(statement)
        local.run(statement)
    expected, found = [], []
    for statement in inserts:
        try:
            clickhouse.query(statement)
            expected.append(0)
        except Exception as error:
            expected.append(int(str(error).partition("Code: ")[2].partition(".")[0]))
        try:
            local.run(statement)
            found.append(0)
        except PandoError as error:
            found.append(error.code)
    assert found == expected
    assert set(found) <= {0, 252}


def test_outdated_parts_count_too(local: Local) -> None:
    prepare, inserts = script("inactive_parts_to_throw_insert = 2, old_parts_lifetime = 1000", "", "tuple()")
    for statement in (*prepare, *inserts[:2], "SYSTEM START MERGES t", "OPTIMIZE TABLE t FINAL"):
        local.run(statement)
    with pytest.raises(PandoError, match=r"Too many inactive parts \(2\) in table 'default.t'") as refused:
        local.run(inserts[0])
    assert refused.value.code == 252
    local.run("ALTER TABLE t MODIFY SETTING inactive_parts_to_throw_insert = 3")
    local.run(inserts[0])


@pytest.mark.parametrize(
    ("counts", "seconds"),
    [
        (PartCounts(9, 9), 0.0),
        (PartCounts(10, 10), 0.2),
        (PartCounts(12, 12), 0.6),
        (PartCounts(14, 14), 1.0),
        (PartCounts(14, 14, "", 14 * 2 * 1024**3), 0.0),
        (PartCounts(1, 1, inactive=100), 2.0),
        (PartCounts(1, 1, inactive=50), 0.01),
        (PartCounts(14, 14, inactive=51), 1.0),
    ],
)
def test_how_long_it_waits(counts: PartCounts, seconds: float) -> None:
    settings = MergeTreeSettings(
        parts_to_delay_insert=10,
        parts_to_throw_insert=20,
        inactive_parts_to_delay_insert=50,
        inactive_parts_to_throw_insert=10_050,
        max_delay_to_insert=2,
    )
    if counts.inactive == 100:
        settings = MergeTreeSettings(inactive_parts_to_delay_insert=50, max_delay_to_insert=2)
    assert compute_delay_seconds(counts, settings, InsertOptions(), "d.t") == pytest.approx(seconds)


def test_it_waits_and_a_stop_ends_the_wait(local: Local) -> None:
    prepare, inserts = script("parts_to_delay_insert = 1, parts_to_throw_insert = 2, max_delay_to_insert = 3", "", "p")
    for statement in (*prepare, inserts[0]):
        local.run(statement)
    waited: list[float] = []

    def wait(event: threading.Event, seconds: float) -> bool:
        waited.append(seconds)
        return event.is_set()

    local.engine.services.wait = wait
    local.run(inserts[0])
    assert sum(waited) == pytest.approx(3.0)
