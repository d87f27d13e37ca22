"""What takes too much memory ends with ClickHouse's codes, and the memory goes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.queries.process_list import Process, ProcessList
from engine.queries.session import QueryStatistics, Session
from engine.queries.watchdog import Watchdog, attribute_measured_bytes
from engine.server.config import Config
from parts.common.errors import PandoError
from parts.common.process_memory import get_held_bytes
from parts.common.query_status import MemoryTracker, QueryStatus
from sql.settings.session_settings import (
    make_settings,
)
from tests.portions import one_in

GIGABYTE = 1_000_000_000


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(Config.local(tmp_path_factory.mktemp("memory")))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def rows(engine: Engine, sql: str, **settings: object) -> list[dict[str, object]]:
    result = engine.execute(sql, Session(settings=settings))
    return [row for batch in result.batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("sql", "code"),
    one_in(
        13,
        [
            ("SELECT length(range(100000000))", 241),
            ("SELECT length(range(600000000))", 69),
            ("SELECT sum(length(range(100000 + number))) FROM numbers(10000)", 241),
            ("SELECT range(100000) FROM numbers(100000)", 241),
            ("SELECT r, number FROM (SELECT range(10000000) AS r) AS a CROSS JOIN numbers(100000) AS b", 241),
            ("SELECT length(repeat('a', 1000001))", 131),
            ("SELECT length(repeat(repeat('a', 1000000), 10000))", 241),
            ("SELECT length(space(1000001))", 131),
            ("SELECT length(leftPad('a', 1000001))", 131),
            ("SELECT length(arrayResize([1], 1073741825))", 128),
            ("SELECT length(arrayResize([1], 1000000000))", 241),
            ("SELECT length(replaceAll(repeat('a', 1000000), 'a', repeat('b', 100000)))", 241),
            ("SELECT length(arrayMap(x -> range(10000), range(1000000)))", 241),  # grows bit by bit
        ],
    ),
)
def test_one_call_that_makes_much_of_little(engine: Engine, sql: str, code: int) -> None:
    before = get_held_bytes()
    with pytest.raises(PandoError) as caught:
        rows(engine, sql, max_memory_usage=GIGABYTE)
    assert caught.value.code == code
    assert get_held_bytes() - before < 2 * GIGABYTE


def test_what_fits_is_as_before(engine: Engine) -> None:
    sql = (
        "SELECT range(3) AS a, range(1, 4) AS b, range(1, 10, 3) AS c, range(2 * 2) AS d, repeat('ab', 2) AS e, "
        "replaceAll('abcabc', 'b', 'xyz') AS f, leftPad('a', 3, '-') AS g, arrayResize([1], 2) AS h, "
        "arrayMap(x -> arrayMap(y -> x * y, range(x + 1)), range(3)) AS i, space(2) AS j"
    )
    assert rows(engine, sql) == [
        {
            "a": [0, 1, 2], "b": [1, 2, 3], "c": [1, 4, 7], "d": [0, 1, 2, 3], "e": "abab", "f": "axyzcaxyzc",
            "g": "--a", "h": [1, 0], "i": [[0], [0, 1], [0, 2, 4]], "j": "  ",
        }
    ]  # fmt: skip


@pytest.mark.parametrize("setting", ["max_memory_usage", "max_memory_usage_for_user"])
def test_a_state_that_grows(engine: Engine, setting: str) -> None:
    with pytest.raises(PandoError) as caught:
        rows(engine, "SELECT length(groupArray(number)) FROM numbers(100000000)", **{setting: 100_000_000})
    assert caught.value.code == 241


def test_groups_beyond_the_limit_go_to_disk(engine: Engine) -> None:
    sql = "SELECT count() AS n FROM (SELECT number FROM numbers(4000000) GROUP BY number)"
    assert rows(engine, sql, max_memory_usage=150_000_000) == [{"n": 4_000_000}]


@pytest.mark.long
def test_memory_goes_back(engine: Engine) -> None:
    rows(engine, "SELECT 1")
    before = get_held_bytes()
    rows(engine, "SELECT length(groupArray(number)) FROM numbers(10000000)")
    deadline = time.monotonic() + 20
    while get_held_bytes() - before > 64 << 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert get_held_bytes() - before <= 64 << 20


def test_processes_tell_their_memory(engine: Engine) -> None:
    (row,) = rows(engine, "SELECT is_cancelled, peak_memory_usage, current_database FROM system.processes")
    assert (row["is_cancelled"], row["current_database"]) == (0, "default")
    assert isinstance(row["peak_memory_usage"], int)


# The watchdog


def process(processes: ProcessList, name: str, **settings: object) -> Process:
    status = processes.new_status("u", make_settings(settings))
    made = Process(name, "", "u", QueryStatistics(), time.time(), status=status)
    processes.add(made)
    return made


def test_growth_is_shared_out_among_those_that_work() -> None:
    processes = ProcessList(time.monotonic)
    a, b = process(processes, "a"), process(processes, "b")
    attribute_measured_bytes(100, [a, b])
    assert [p.status.memory.measured_bytes for p in (a, b)] == [50, 50]
    b.is_working = False
    attribute_measured_bytes(200, [a, b])
    assert [p.status.memory.measured_bytes for p in (a, b)] == [150, 50]
    attribute_measured_bytes(100, [a, b])
    assert [p.status.memory.measured_bytes for p in (a, b)] == [75, 25]


def test_who_holds_most_is_stopped_for_the_server() -> None:
    held = [1000]
    processes = ProcessList(time.monotonic, MemoryTracker("total", 5000))
    watchdog = Watchdog(processes, lambda: held[0])
    big, small = process(processes, "big"), process(processes, "small")
    small.is_working = False
    held[0] = 4000
    watchdog.check_once()
    assert not big.is_cancelled
    held[0] = 6000
    watchdog.check_once()
    assert big.is_cancelled
    assert not small.is_cancelled
    with pytest.raises(PandoError) as caught:
        big.status.check()
    assert caught.value.code == 241
    assert "(total)" in caught.value.message


def test_a_small_query_does_not_end_for_what_another_left_behind() -> None:
    held = [0]
    processes = ProcessList(time.monotonic, MemoryTracker("total", 5000))
    watchdog = Watchdog(processes, lambda: held[0])
    small = process(processes, "small")
    held[0] = 6000
    watchdog.wake()
    held[0] = 6040
    watchdog.check_once()
    assert not small.is_cancelled
    held[0] = 6060
    watchdog.check_once()
    assert small.is_cancelled


def test_what_a_query_left_behind_is_not_the_growth_of_the_next() -> None:
    held = [0]
    processes = ProcessList(time.monotonic, MemoryTracker("total"), on_add=lambda: watchdog.wake())
    watchdog = Watchdog(processes, lambda: held[0])
    held[0] = 1000  # of one that has just ended
    status = QueryStatus(MemoryTracker("for query", 500))
    processes.add(Process("q", "", "u", QueryStatistics(), time.time(), status=status))
    watchdog.check_once()
    assert (status.memory.total_bytes, status.is_stopped) == (0, False)
    held[0] = 1600
    watchdog.check_once()
    assert (status.memory.total_bytes, status.is_stopped) == (600, True)


def test_buffers_are_given_back_only_while_nothing_runs() -> None:
    processes, done = ProcessList(time.monotonic), []
    end = processes.add(Process("q", "", "u", QueryStatistics(), time.time()))
    processes.run_if_idle(lambda: done.append("beside a query"))
    end()
    processes.run_if_idle(lambda: done.append("alone"))
    assert done == ["alone"]


def test_an_interrupt_that_was_lost_is_repeated() -> None:
    calls = []
    processes = ProcessList(time.monotonic)
    one = process(processes, "one")
    one.status.register_interrupt(lambda: calls.append(1))
    one.stop()
    Watchdog(processes, lambda: 0).check_once()
    assert len(calls) == 2


def test_what_is_taken_back_is_not_interrupted() -> None:
    calls: list[int] = []
    status = QueryStatus()
    status.register_interrupt(lambda: calls.append(1))()
    status.stop()
    assert not calls
    status.register_interrupt(lambda: calls.append(2))
    assert calls == [2]


def test_the_limit_of_a_server(tmp_path: Path) -> None:
    config = Config(path=tmp_path, max_server_memory_usage=GIGABYTE)
    assert config.memory_limit_bytes == GIGABYTE
    assert config.default_max_memory_usage == 256 << 20
    assert Config(path=tmp_path, max_server_memory_usage=1 << 20).default_max_memory_usage == 1 << 20
    ratio = Config(path=tmp_path, max_server_memory_usage_to_ram_ratio=0.5).memory_limit_bytes
    assert ratio < Config(path=tmp_path).memory_limit_bytes
