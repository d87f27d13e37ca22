"""max_execution_time and KILL QUERY end a query wherever it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus
from tests.portions import one_in

MANY = "FROM numbers(1000000000)"
_SECONDS = 10.0
"""Far more than it takes, far less than the statements would run."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(Config.local(tmp_path_factory.mktemp("deadlines")))
    engine.start()
    engine.execute("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a", Session())
    try:
        yield engine
    finally:
        engine.stop()


def run(engine: Engine, sql: str, query_id: str = "", **settings: object) -> None:
    for _ in engine.execute(sql, Session(settings=settings, query_id=query_id)).batches:
        pass


@pytest.mark.parametrize(
    "sql",
    one_in(
        3,
        [
            f"SELECT count() FROM (SELECT number {MANY} GROUP BY number)",
            f"SELECT number {MANY} ORDER BY number % 1000, number DESC",
            f"SELECT count() FROM numbers(10) WHERE number IN (SELECT number {MANY})",
            "SELECT length(arrayMap(x -> length(toString(x)), range(20000000)))",
            "SELECT length(arrayMap(x -> arrayMap(y -> x + y, range(10000)), range(100000)))",
            f"SELECT count() {MANY} WHERE match(toString(number), '^(1|2)*3.*4$')",
            "SELECT sum(a.number * b.number) FROM numbers(1000000) AS a CROSS JOIN numbers(1000000) AS b",
            f"INSERT INTO t SELECT number {MANY}",
            f"INSERT INTO t SELECT count() {MANY} WHERE toString(number) LIKE '%1%2%3%4%'",
        ],
    ),
)
def test_time_is_over(engine: Engine, sql: str) -> None:
    started = time.monotonic()
    with pytest.raises(PandoError) as caught:
        run(engine, sql, max_execution_time=0.5)
    assert (caught.value.code, caught.value.name) == (159, "TIMEOUT_EXCEEDED")
    assert time.monotonic() - started < _SECONDS


@pytest.mark.parametrize(
    "sql", [f"INSERT INTO t SELECT number {MANY}", "SELECT max(number + 1) FROM numbers(1000000000000)"]
)
def test_kill(engine: Engine, sql: str) -> None:
    caught: list[PandoError] = []

    def work() -> None:
        try:
            run(engine, sql, "victim")
        except PandoError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not engine.kill_query("victim") and thread.is_alive():
        time.sleep(0.005)
    thread.join(_SECONDS)
    assert [error.code for error in caught] == [394]


def test_a_limit_of_thousands_of_years(engine: Engine) -> None:
    run(engine, "SELECT 1", max_execution_time=1e11)


def test_a_part_is_not_read_further(engine: Engine) -> None:
    run(engine, "INSERT INTO t SELECT number FROM numbers(1000)")
    status = QueryStatus()
    status.stop()
    with engine.catalog.table("default", "t").snapshot() as snapshot, pytest.raises(PandoError) as caught:
        snapshot.parts[0].verify(status.check)
    assert caught.value.code == 394


LONG = "SELECT " + ", ".join(f"number + {n}" for n in range(400_000)) + " FROM numbers(1)"


def test_the_time_of_a_long_text_counts(engine: Engine) -> None:
    """A statement does not get its time once more when it is read."""
    session = Session(settings={"max_execution_time": 0.5})
    text = f"SELECT 1 /* {'a' * 200_000} */"
    before = time.monotonic()
    parsed = engine.parse(text, session)
    time.sleep(0.01)
    read = time.monotonic()
    began: list[float] = []
    engine.execute_parsed(parsed, text, session, on_start=lambda process: began.append(process.status.began)).close()
    assert before <= began[0] < read - 0.01
    engine.execute_parsed(parsed, text, session, on_start=lambda process: began.append(process.status.began)).close()
    assert began[1] >= read
    with pytest.raises(PandoError):
        engine.parse(text[:-2], session)
    assert session.began == 0


def test_time_is_over_while_a_long_text_is_read(engine: Engine) -> None:
    started = time.monotonic()
    with pytest.raises(PandoError) as caught:
        engine.parse(LONG, Session(settings={"max_execution_time": 0.2}))
    assert caught.value.code == 159
    assert time.monotonic() - started < _SECONDS / 2


def test_a_statement_is_killed_while_its_long_text_is_read(engine: Engine) -> None:
    def kill() -> None:
        run(engine, "KILL QUERY WHERE query_id = 'long'")

    begun: list[threading.Thread] = []

    def on_start(_: object) -> None:
        begun.append(threading.Thread(target=kill))
        begun[0].start()

    with pytest.raises(PandoError) as caught:
        engine.parse(LONG, Session(query_id="long"), on_start)
    begun[0].join()
    assert caught.value.code == 394
