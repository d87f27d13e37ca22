"""Limits that hold without the help of the process that runs the query: workers that are stopped ask nothing."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.engine.workers.running import ENDLESS
from tests.engine.workers.server import WorkerServer, wait_for

pytestmark = [pytest.mark.long, pytest.mark.cluster]

GRACE_SECONDS = 0.3


class Asked:
    """A query on a connection of its own, and the worker that has it."""

    def __init__(self, server: WorkerServer, sql: str, body: bytes | None = None, **options: object) -> None:
        self.started = time.monotonic()
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._connection.request("POST", "/?" + urlencode({**options, "query": sql}), body)

    def answer(self) -> tuple[int, str, str]:
        """Status, code and text."""
        answer = self._connection.getresponse()
        with contextlib.closing(self._connection):
            return answer.status, answer.getheader("X-ClickHouse-Exception-Code", ""), answer.read().decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    directory = tmp_path_factory.mktemp("bounds")
    with WorkerServer(directory, workers=1, query_stop_grace_seconds=GRACE_SECONDS) as running:
        running.execute("CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k")
        yield running


def stop_worker(server: WorkerServer, *query_ids: str) -> int:
    """Stops the one worker once it runs those queries; it is not to continue."""
    found = f"SELECT count() FROM system.processes WHERE query_id IN ({query_ids!r})".replace(",)", ")")
    wait_for(lambda: server.value(found) == len(query_ids), "the queries")
    (pid,) = server.pids().values()
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_a_query_past_its_time_gets_159(server: WorkerServer) -> None:
    late = Asked(server, ENDLESS, query_id="late", max_execution_time=1)
    pid = stop_worker(server, "late")
    status, code, text = late.answer()
    assert (status, code) == (408, "159"), text
    assert "max_execution_time = 1 seconds" in text
    assert 1 + GRACE_SECONDS <= time.monotonic() - late.started < 1 + GRACE_SECONDS + 1
    wait_for(lambda: pid not in server.pids().values(), "another")


@pytest.mark.long
def test_other_queries_of_the_worker_are_repeated(server: WorkerServer) -> None:
    """Those that change nothing; what may have is told so."""
    late = Asked(server, ENDLESS, query_id="late", max_execution_time=2)
    read = Asked(server, "SELECT count() FROM numbers(10) WHERE sleepEachRow(0.1) = 0", query_id="read")
    written = Asked(server, "INSERT INTO t SELECT sleepEachRow(0.1) FROM numbers(10)", query_id="written")
    stop_worker(server, "late", "read", "written")
    assert late.answer()[1] == "159"
    assert read.answer() == (200, "", "10\n")
    assert written.answer()[1] == "210"
    assert server.value("SELECT count() FROM t") == 0


def test_a_query_that_takes_too_much_memory_gets_241(server: WorkerServer) -> None:
    """Gigabytes go into the plan of lambdas over texts of arrays, which nothing can interrupt."""
    planned = "SELECT " + "toString(arrayMap(x -> length(" * 8 + "toString(1)" + "), [1, 2]))" * 8
    (pid,) = server.pids().values()
    hog = Asked(server, planned, query_id="hog", max_memory_usage=100_000_000)
    status, code, text = hog.answer()
    assert (status, code) == (400, "241"), text
    assert "100000000 bytes (max_memory_usage)" in text
    wait_for(lambda: pid not in server.pids().values(), "another worker")


def test_a_killed_query_gets_394(tmp_path: Path) -> None:
    """KILL is told to the worker, which does not hear it: another worker serves the statement."""
    with WorkerServer(tmp_path, query_stop_grace_seconds=GRACE_SECONDS) as server:
        killed = Asked(server, ENDLESS, query_id="killed")
        wait_for(lambda: server.value("SELECT count() FROM system.processes WHERE query_id = 'killed'") == 1, "it")
        busy = _busiest(server)
        os.kill(busy, signal.SIGSTOP)
        assert server.run("KILL QUERY WHERE query_id = 'killed'") == [["finished", "killed"]]
        assert killed.answer()[1] == "394"
        wait_for(lambda: len(pids := server.pids()) == 2 and busy not in pids.values(), "another")


def _busiest(server: WorkerServer) -> int:
    """The worker that takes the most of the processors."""

    def ticks() -> dict[int, int]:
        return {pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]) for pid in pids}

    pids = server.pids().values()
    before = ticks()
    wait_for(lambda: max(ticks()[pid] - before[pid] for pid in pids) > 20, "work")
    return max(pids, key=lambda pid: ticks()[pid] - before[pid])


@pytest.mark.long
def test_the_door_knows_who_asks_for_its_pages(tmp_path: Path) -> None:
    users = {"default": {}, "watch": {"password": "x"}}
    with WorkerServer(tmp_path, workers=1, users=users, pages_need_user=True) as server:
        told = []
        for headers in ({"X-ClickHouse-User": "watch"}, {"X-ClickHouse-User": "watch", "X-ClickHouse-Key": "x"}):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            connection.request("GET", "/metrics", headers=headers)
            answer = connection.getresponse()
            told.append((answer.status, answer.getheader("Connection")))
            connection.close()
        assert told == [(403, "close"), (200, "close")]
