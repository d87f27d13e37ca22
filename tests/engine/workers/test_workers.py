"""Whole servers with workers: what one process does the others see."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.common.errors import PandoError
from tests.engine.workers.running import ENDLESS, running
from tests.engine.workers.server import WorkerServer, wait_for

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    with WorkerServer(tmp_path_factory.mktemp("workers"), workers=3) as server:
        yield server


@pytest.mark.long
def test_what_is_acknowledged_is_seen_by_every_worker(server: WorkerServer) -> None:
    server.execute("CREATE TABLE seen (k UInt64, v String) ENGINE = MergeTree ORDER BY k")
    for count in range(1, 31):
        server.execute(f"INSERT INTO seen VALUES ({count}, 'x')")
        assert server.everywhere("SELECT count(), max(k) FROM seen", 4) == {f"[[{count}, {count}]]"}
    server.execute("OPTIMIZE TABLE seen FINAL")
    assert server.everywhere("SELECT count() FROM seen") == {"[[30]]"}
    assert server.value("SELECT count() FROM system.parts WHERE table = 'seen' AND active") == 1
    server.execute("TRUNCATE TABLE seen")
    assert server.everywhere("SELECT count() FROM seen") == {"[[0]]"}
    server.execute("DROP TABLE seen")
    for _ in range(6):
        with pytest.raises(PandoError, match="does not exist"):
            server.run("SELECT count() FROM seen")


@pytest.mark.long
def test_small_tables_are_the_same_in_every_worker(server: WorkerServer) -> None:
    for engine, rows in (("Memory", 20), ("Log", 20), ("Null", 0)):
        table = f"small_{engine}"
        server.execute(f"CREATE TABLE {table} (k UInt64) ENGINE = {engine}")
        for k in range(10):
            server.execute(f"INSERT INTO {table} VALUES ({k})")
            server.execute(f"INSERT INTO {table} SELECT {k}")
        expected = [[k // 2] for k in range(rows)]
        assert server.everywhere(f"SELECT k FROM {table}") == {str(expected)}
    server.execute("TRUNCATE TABLE small_Memory")
    assert server.everywhere("SELECT count() FROM small_Memory") == {"[[0]]"}
    server.execute("RENAME TABLE small_Log TO small_Log_2")
    assert server.everywhere("SELECT count() FROM small_Log_2") == {"[[20]]"}


def test_every_worker_shows_what_became_of_parts(server: WorkerServer) -> None:
    server.execute("CREATE TABLE logged (k UInt64) ENGINE = MergeTree ORDER BY k")
    for k in range(2):
        server.execute(f"INSERT INTO logged VALUES ({k})")
    server.execute("OPTIMIZE TABLE logged FINAL")
    with pytest.raises(PandoError):
        server.run("SELECT nothing_of_this_name")
    condition = "table = 'logged' AND event_type != 'RemovePart'"
    events = f"SELECT toString(event_type), part_name FROM system.part_log WHERE {condition}"
    expected = [["NewPart", "all_1_1_0"], ["NewPart", "all_2_2_0"], ["MergeParts", "all_1_2_1"]]
    assert server.everywhere(events) == {str(expected)}
    assert server.everywhere("SELECT count() FROM system.parts_columns WHERE table = 'logged' AND active") == {"[[1]]"}
    assert server.value("SELECT value > 0 FROM system.errors WHERE code = 47") == 1
    assert server.value("SELECT value > 5 FROM system.events WHERE event = 'Query'") == 1


def test_too_many_parts_are_too_many_for_every_worker(server: WorkerServer) -> None:
    server.execute("CREATE TABLE crowded (k UInt8) ENGINE = MergeTree ORDER BY k SETTINGS parts_to_throw_insert = 3")
    server.execute("SYSTEM STOP MERGES crowded")
    for k in range(3):
        server.execute(f"INSERT INTO crowded VALUES ({k})")
    for _ in range(6):
        with pytest.raises(PandoError, match=r"Too many parts \(3 with average size of \d+ bytes in partition all\)"):
            server.execute("INSERT INTO crowded VALUES (9)")
    server.execute("INSERT INTO crowded SETTINGS parts_to_throw_insert = 5 VALUES (3)")
    assert server.everywhere("SELECT count() FROM crowded") == {"[[4]]"}


@pytest.mark.long
def test_tables_that_take_each_others_names(server: WorkerServer) -> None:
    server.execute("CREATE TABLE taken_1 ENGINE = MergeTree AS SELECT 1 AS k")
    server.execute("CREATE TABLE taken_2 ENGINE = Memory AS SELECT 'two' AS v")
    for _ in range(3):
        server.execute("EXCHANGE TABLES taken_1 AND taken_2")
        assert server.everywhere("SELECT * FROM taken_1") == {"[['two']]"}
        server.execute("EXCHANGE TABLES taken_1 AND taken_2")
        assert server.everywhere("SELECT * FROM taken_1") == {"[[1]]"}
    for number in range(3):
        server.execute(f"CREATE OR REPLACE TABLE taken_1 ENGINE = Log AS SELECT {number} AS n FROM numbers(3)")
        server.execute("INSERT INTO taken_1 VALUES (7)")
        assert server.everywhere("SELECT sum(n) FROM taken_1") == {f"[[{3 * number + 7}]]"}
    with pytest.raises(PandoError):
        server.execute("CREATE OR REPLACE TABLE taken_1 ENGINE = Log AS SELECT throwIf(number = 1) FROM numbers(3)")
    assert server.run("SHOW TABLES LIKE 'taken%'") == [["taken_1"], ["taken_2"]]
    assert server.run("SHOW TABLES LIKE '%tmp%'") == []


def test_a_table_of_the_same_name_and_other_columns(server: WorkerServer) -> None:
    for number in range(5):
        server.execute(f"CREATE TABLE again (k UInt64, c{number} String) ENGINE = MergeTree ORDER BY k")
        server.execute(f"INSERT INTO again VALUES (1, '{number}')")
        assert server.everywhere("SELECT * FROM again") == {f"[[1, '{number}']]"}
        server.execute("DROP TABLE again")


def test_partitions_that_go_and_come(server: WorkerServer) -> None:
    server.execute("CREATE TABLE parted (p UInt8, k UInt32) ENGINE = MergeTree PARTITION BY p ORDER BY k")
    server.execute("INSERT INTO parted VALUES (1, 1), (2, 2)")
    for command, expected in (
        ("DETACH PARTITION 1", "[[[2]]]"),
        ("ATTACH PARTITION 1", "[[[1, 2]]]"),
        ("FREEZE WITH NAME 'backup'", "[[[1, 2]]]"),
        ("REPLACE PARTITION 1 FROM parted", "[[[1, 2]]]"),
        ("DROP PARTITION 2", "[[[1]]]"),
    ):
        server.execute(f"ALTER TABLE parted {command}")
        assert server.everywhere("SELECT groupArray(k) FROM (SELECT k FROM parted ORDER BY k)") == {expected}


def test_databases_and_renames(server: WorkerServer) -> None:
    server.execute("CREATE DATABASE other")
    assert all("other" in answer for answer in server.everywhere("SHOW DATABASES"))
    server.execute("CREATE TABLE other.a (k UInt64) ENGINE = MergeTree ORDER BY k AS SELECT 4 AS k")
    server.execute("RENAME TABLE other.a TO other.b")
    assert server.everywhere("SELECT sum(k) FROM other.b") == {"[[4]]"}
    server.execute("DROP DATABASE other")
    assert not any("other" in answer for answer in server.everywhere("SHOW DATABASES"))


@pytest.mark.long
def test_many_clients_at_once_lose_and_double_nothing(server: WorkerServer) -> None:
    server.execute("CREATE TABLE busy (k UInt64) ENGINE = MergeTree ORDER BY k")
    failures: list[BaseException] = []

    def write(first: int) -> None:
        try:
            with server.client() as client:
                for k in range(first, first + 25):
                    client.execute(f"INSERT INTO busy VALUES ({k})")
                    assert client.value(f"SELECT count() FROM busy WHERE k = {k}") == 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(100 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert server.everywhere("SELECT count(), uniqExact(k) FROM busy") == {"[[150, 150]]"}
    server.execute("DROP TABLE busy")


def test_a_session_has_one_home(server: WorkerServer) -> None:
    server.execute("CREATE DATABASE home")
    server.execute("USE home", settings={"session_id": "s1"})
    server.execute("SET max_block_size = 1234", settings={"session_id": "s1"})
    for _ in range(6):
        assert server.run("SELECT currentDatabase(), getSetting('max_block_size')", settings={"session_id": "s1"}) == [
            ["home", 1234]
        ]
    assert server.run("SELECT currentDatabase()") == [["default"]]
    server.execute("DROP DATABASE home")


def test_a_session_is_locked_while_another_worker_serves_it(server: WorkerServer) -> None:
    with running(server, ENDLESS, query_id="holds", session_id="s2"):
        with pytest.raises(PandoError) as caught:
            server.run("SELECT 1", settings={"session_id": "s2"})
        assert caught.value.name == "SESSION_IS_LOCKED"


def test_processes_of_all_workers_are_seen_and_killed(server: WorkerServer) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(4):
            stack.enter_context(running(server, ENDLESS, query_id=f"long{number}"))
        found = "SELECT count() FROM system.processes WHERE query_id LIKE 'long%'"
        assert server.everywhere(found) == {"[[4]]"}
        for number in range(4):
            assert server.run(f"KILL QUERY WHERE query_id = 'long{number}'") == [["finished", f"long{number}"]]
        wait_for(lambda: server.value(found) == 0, "the end of the killed")


def test_a_query_id_is_used_once_in_the_whole_server(server: WorkerServer) -> None:
    with running(server, ENDLESS, query_id="mine"):
        for _ in range(6):
            with pytest.raises(PandoError) as caught:
                server.run("SELECT 1", query_id="mine")
            assert caught.value.name == "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING"
    wait_for(lambda: server.value("SELECT count() FROM system.processes WHERE query_id = 'mine'") == 0, "its end")
    assert server.run("SELECT 1", query_id="mine") == [[1]]


@pytest.mark.long
def test_counters_of_all_workers_come_together(tmp_path: Path) -> None:
    def count(server: WorkerServer) -> float:
        with server.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("pando_queries_total"))

    with WorkerServer(tmp_path) as server:
        before = count(server)
        for _ in range(10):
            server.run("SELECT 1")
        assert count(server) == before + 10
        os.kill(server.pids()[0], signal.SIGKILL)
        wait_for(lambda: len(server.pids()) == 2, "another")
        assert count(server) >= before + 10
