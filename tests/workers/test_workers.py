"""Whole servers with workers: what one process does the others see, and what ends one does not end the server."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.cluster.processes import below
from parts.errors import PandoError
from tests.workers.server import WorkerServer, wait_for

pytestmark = pytest.mark.cluster
ENDLESS = "SELECT sum(sqrt(number)) FROM numbers(1000000000000)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    with WorkerServer(tmp_path_factory.mktemp("workers"), workers=3) as server:
        yield server


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
    with _running(server, ENDLESS, query_id="holds", session_id="s2"):
        with pytest.raises(PandoError) as caught:
            server.run("SELECT 1", settings={"session_id": "s2"})
        assert caught.value.name == "SESSION_IS_LOCKED"


def test_processes_of_all_workers_are_seen_and_killed(server: WorkerServer) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(4):
            stack.enter_context(_running(server, ENDLESS, query_id=f"long{number}"))
        found = "SELECT count() FROM system.processes WHERE query_id LIKE 'long%'"
        assert server.everywhere(found) == {"[[4]]"}
        for number in range(4):
            assert server.run(f"KILL QUERY WHERE query_id = 'long{number}'") == [["finished", f"long{number}"]]
        wait_for(lambda: server.value(found) == 0, "the end of the killed")


def test_a_query_id_is_used_once_in_the_whole_server(server: WorkerServer) -> None:
    with _running(server, ENDLESS, query_id="mine"):
        for _ in range(6):
            with pytest.raises(PandoError) as caught:
                server.run("SELECT 1", query_id="mine")
            assert caught.value.name == "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING"
    wait_for(lambda: server.value("SELECT count() FROM system.processes WHERE query_id = 'mine'") == 0, "its end")
    assert server.run("SELECT 1", query_id="mine") == [[1]]


def test_parts_that_are_read_stay(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, merge_tree={"old_parts_lifetime": 0}) as server:
        server.execute("CREATE TABLE t (k UInt64, v String) ENGINE = MergeTree ORDER BY k")
        for number in range(4):
            server.execute(f"INSERT INTO t SELECT number, repeat('x', 100) FROM numbers({number * 100000}, 100000)")
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/?query=SELECT+*+FROM+t+FORMAT+TabSeparated&max_block_size=1000")
        answer = connection.getresponse()
        lines = answer.read(1 << 16).count(b"\n")
        server.execute("OPTIMIZE TABLE t FINAL")
        outdated = "SELECT count() FROM system.parts WHERE table = 't' AND NOT active"
        time.sleep(0.5)
        server.execute("DROP TABLE t")
        while data := answer.read(1 << 20):
            lines += data.count(b"\n")
        assert lines == 400_000
        assert server.value(outdated) == 0


def test_a_killed_worker_takes_nothing_with_it(tmp_path: Path) -> None:
    with WorkerServer(tmp_path) as server:
        server.execute("CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k")
        server.execute("INSERT INTO t SELECT number FROM numbers(1000)")
        for _ in range(4):
            before = server.pids()
            victim = before[0]
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda victim=victim: victim not in server.pids().values() and len(server.pids()) == 2, "another")
            assert server.everywhere("SELECT count() FROM t") == {"[[1000]]"}
        assert server.value("SELECT sum(restarts) FROM system.workers") == 4


def test_the_query_of_a_killed_worker_gets_a_code(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, workers=1) as server:
        (pid,) = server.pids().values()
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/?query=" + ENDLESS.replace(" ", "+"))
        wait_for(lambda: "sqrt" in str(server.run("SELECT query FROM system.processes")), "the query")
        os.kill(pid, signal.SIGKILL)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert (answer.status, answer.getheader("X-ClickHouse-Exception-Code")) == (500, "210")
        assert "signal 9" in text
        assert "NETWORK_ERROR" in text
        wait_for(lambda: server.run("SELECT 1") == [[1]], "a new worker")


@pytest.mark.parametrize("point", ["in the body", "before the commit"])
def test_an_insert_whose_worker_is_killed_leaves_nothing_behind(tmp_path: Path, point: str) -> None:
    gate = tmp_path / "gate"
    failpoints = f"insert.after_temporary_part=pause:{gate}" if point == "before the commit" else ""
    with WorkerServer(tmp_path, workers=2, failpoints=failpoints) as server:
        server.execute("CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k")
        connection = socket.create_connection(("127.0.0.1", server.port))
        rows = b"".join(b"%d\n" % k for k in range(2_000_000))
        head = b"POST /?query=INSERT+INTO+t+FORMAT+TabSeparated HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        if point == "in the body":
            connection.sendall(head % (2 * len(rows)) + rows)
            wait_for(lambda: any(server.path.glob("data/default/t/tmp_insert_*")), "a temporary part")
        else:
            connection.sendall(head % len(rows) + rows)
            wait_for(lambda: Path(f"{gate}.reached").exists(), "the failpoint")
        (leftover,) = {str(path.name).split("_")[2] for path in server.path.glob("data/default/t/tmp_insert_*")}
        os.kill(int(leftover), signal.SIGKILL)
        assert b"HTTP/1.1 500" in connection.recv(1 << 16)
        gate.touch()
        wait_for(lambda: not any(server.path.glob("data/default/t/tmp_insert_*")), "the clean-up")
        wait_for(lambda: len(server.pids()) == 2, "a new worker")
        assert server.everywhere("SELECT count() FROM t") == {"[[0]]"}


@pytest.mark.parametrize("point", ["insert.after_temporary_part", "stage.after_move", ""])
def test_a_worker_that_is_killed_under_a_transaction_takes_nothing_of_it(tmp_path: Path, point: str) -> None:
    """In the middle of its second INSERT, which is repeated, or between that and the COMMIT."""
    gate = tmp_path / "gate"
    with WorkerServer(tmp_path, workers=1, failpoints=f"{point}=pause:{gate}" if point else "") as server:
        gate.touch()
        server.execute("CREATE TABLE t (p UInt8, k UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY k")
        options = "insert_transaction = 'x', insert_deduplication_token = "
        server.execute(f"INSERT INTO t SETTINGS {options} 'first' VALUES (1, 1), (2, 2)")
        second = f"INSERT INTO t SETTINGS {options} 'second' SELECT number % 3, number FROM numbers(10, 1000)"
        (pid,) = server.pids().values()
        if point:
            gate.unlink()
            Path(f"{gate}.reached").unlink()
            with ThreadPoolExecutor(1) as pool:
                inserting = pool.submit(server.execute, second)
                wait_for(lambda: Path(f"{gate}.reached").exists(), "the failpoint")
                os.kill(pid, signal.SIGKILL)
                with pytest.raises(PandoError) as lost:
                    inserting.result(60)
                assert lost.value.code == 210
                gate.touch()
        else:
            server.execute(second)
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: list(server.pids().values()) not in ([pid], []), "a new worker")
        server.execute(second)
        assert server.value("SELECT count() FROM t") == 0
        assert server.value("SELECT rows FROM system.transactions") == 1002
        assert server.run("COMMIT TRANSACTION 'x' ON t ROWS 1002")[0][:2] == ["committed", 1002]
        assert server.run("SELECT count(), uniqExact(k) FROM t") == [[1002, 1002]]


def test_a_worker_that_gives_no_turn_is_replaced(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, worker_stuck_seconds=2) as server:
        victim = server.pids()[1]
        os.kill(victim, signal.SIGSTOP)
        wait_for(lambda: b"Ok." in _ping(server.port), "a ping")
        wait_for(lambda: not Path(f"/proc/{victim}").exists(), "its end", 20)
        wait_for(lambda: len(server.pids()) == 2 and victim not in server.pids().values(), "another")


def test_a_fork_server_that_is_killed_has_a_successor(tmp_path: Path) -> None:
    def fork_servers() -> set[int]:
        children = [int(pid) for pid in Path(f"/proc/{main}/task/{main}/children").read_text().split()]
        below = [
            int(pid) for child in children for pid in Path(f"/proc/{child}/task/{child}/children").read_text().split()
        ]
        names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in (*children, *below)}
        return {pid for pid, name in names.items() if name == "pando nursery"}

    with WorkerServer(tmp_path) as server:
        main = server.process.pid
        for _ in range(2):  # the successor has one, too
            wait_for(lambda: len(fork_servers()) == 2, "one that works and one that stands by")
            workers = server.pids()
            working = int(Path(f"/proc/{workers[0]}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(working, signal.SIGKILL)
            os.kill(workers[0], signal.SIGKILL)
            wait_for(lambda workers=workers: len(pids := server.pids()) == 2 and pids[0] != workers[0], "another")
            os.kill(workers[1], signal.SIGKILL)
            wait_for(lambda workers=workers: len(pids := server.pids()) == 2 and pids[1] != workers[1], "another")
        assert server.everywhere("SELECT 1") == {"[[1]]"}
    log = server.log()
    assert log.count("takes its place") == 2
    assert "Traceback" not in log


def test_without_the_replica_process_workers_answer_210_and_end(tmp_path: Path) -> None:
    server = WorkerServer(tmp_path)
    pids = server.pids()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/?query=SELECT+1")
    assert connection.getresponse().read() == b"1\n"
    running = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    running.request("GET", "/?query=" + ENDLESS.replace(" ", "+"))
    wait_for(lambda: "sqrt" in str(server.run("SELECT query FROM system.processes")), "the query")
    server.process.kill()
    server.process.wait()
    answer = running.getresponse()
    assert (answer.status, answer.getheader("X-ClickHouse-Exception-Code")) == (503, "210")
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.values()), "the end of the workers", 30)
    with WorkerServer(tmp_path) as again:  # the port and the directory are free
        assert again.run("SELECT 1") == [[1]]


def test_the_server_drains(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, shutdown_wait_unfinished=60) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", "/?query=SELECT+count(sqrt(number))+FROM+numbers(1000000000)")
        wait_for(lambda: "sqrt" in str(server.run("SELECT query FROM system.processes")), "the query")
        pids = server.pids()
        server.process.terminate()
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"1000000000\n")
        assert server.process.wait(60) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())
        assert "Traceback" not in server.log()


def test_memory_of_all_workers_counts(tmp_path: Path) -> None:
    limit = 1200 << 20
    with WorkerServer(tmp_path, max_server_memory_usage=limit) as server:
        hog = "SELECT length(groupArray(number)) FROM numbers(60000000)"
        errors: list[PandoError] = []

        def run() -> None:
            try:
                server.run(hog, settings={"max_memory_usage": 0})
            except PandoError as error:
                errors.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {error.name for error in errors} == {"MEMORY_LIMIT_EXCEEDED"}
        assert server.run("SELECT 1") == [[1]]
        assert server.value("SELECT sum(restarts) FROM system.workers") == 0


def _set_wall(pid: int, room_bytes: int) -> None:
    """So much more memory the system lets the process have from now on."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    data_kib = next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
    wall, most = resource.prlimit(pid, resource.RLIMIT_DATA)
    assert 0 < wall < 1 << 40
    resource.prlimit(pid, resource.RLIMIT_DATA, ((data_kib << 10) + room_bytes, most))


def _is_well(server: WorkerServer, sql: str, answer: str) -> bool:
    try:
        return server.everywhere(sql, 2) == {answer}
    except PandoError as error:
        if error.name not in ("MEMORY_LIMIT_EXCEEDED", "CANNOT_SCHEDULE_TASK", "NETWORK_ERROR"):
            raise
        return False


def test_a_worker_at_the_systems_wall_is_replaced_or_goes_on(tmp_path: Path) -> None:
    """What nobody accounted for ends at the limit of the process, and the server lives on."""
    with WorkerServer(tmp_path, workers=1, profiles={"default": {"max_memory_usage": 0}}) as server:
        server.execute("CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k")
        server.execute("INSERT INTO t VALUES (1)")
        (pid,) = server.pids().values()
        _set_wall(pid, 64 << 20)
        with pytest.raises(PandoError) as caught:
            server.run("SELECT length(groupArray(number)) FROM numbers(100000000)")
        assert caught.value.name in ("MEMORY_LIMIT_EXCEEDED", "NETWORK_ERROR", "CANNOT_SCHEDULE_TASK")
        wait_for(lambda: _is_well(server, "SELECT count() FROM t", "[[1]]"), "the server")


def test_a_worker_that_leaked_to_the_wall_makes_room_for_another(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, shutdown_wait_unfinished=60) as server:
        victim = server.pids()[1]

        def is_gone() -> bool:
            """Whatever it gives back is leaked again."""
            try:
                _set_wall(victim, 24 << 20)
            except (OSError, StopIteration):
                return True
            return False

        wait_for(is_gone, "its end", 20)
        wait_for(lambda: len(server.pids()) == 2 and victim not in server.pids().values(), "another")
        assert _is_well(server, "SELECT 1", "[[1]]")
        assert "at the system's limit" in server.log()


def test_a_port_in_use_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(AssertionError, match="the port is in use"):
        WorkerServer(tmp_path, http_port=taken.getsockname()[1])
    assert not (tmp_path / "data").exists()


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


@contextlib.contextmanager
def _running(server: WorkerServer, sql: str, **options: str) -> Iterator[None]:
    """A query on a connection of its own, until the end of the block."""
    query = "&".join(f"{name}={value}" for name, value in options.items())
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/?{query}&query=" + sql.replace(" ", "+"))
    found = f"SELECT count() FROM system.processes WHERE query_id = '{options['query_id']}'"
    wait_for(lambda: server.value(found) == 1, "the query")
    try:
        yield
    finally:
        connection.close()


def _ping(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/ping")
    return connection.getresponse().read()


def test_merges_run_in_processes_of_their_own(tmp_path: Path) -> None:
    """Below queries in priority; one that is killed leaves nothing, and the merge is made by another."""
    with WorkerServer(tmp_path) as server:
        server.execute("CREATE TABLE t (k UInt64, v String) ENGINE = MergeTree ORDER BY k")
        server.execute("SYSTEM STOP MERGES")
        for number in range(8):
            server.execute(
                f"INSERT INTO t SELECT intHash64(number), repeat('y', 50) FROM numbers({number}000000, 500000)"
            )
        server.execute("SYSTEM START MERGES")
        optimize = threading.Thread(target=lambda: server.execute("OPTIMIZE TABLE t FINAL"))
        optimize.start()
        wait_for(lambda: _merge_processes(server), "a process")
        for pid in _merge_processes(server):
            assert os.getpriority(os.PRIO_PROCESS, pid) > 0
            os.kill(pid, signal.SIGKILL)
        optimize.join()
        wait_for(lambda: _optimized(server), "the merge")
        assert server.run("SELECT count(), uniqExact(k) FROM t") == [[4000000, 4000000]]
        wait_for(lambda: not any(server.path.glob("data/default/t/tmp_*")), "no leftover")


def _optimized(server: WorkerServer) -> bool:
    with contextlib.suppress(PandoError):
        server.execute("OPTIMIZE TABLE t FINAL")
    return bool(server.value("SELECT count() FROM system.parts WHERE table = 't' AND active") == 1)


def _merge_processes(server: WorkerServer) -> list[int]:
    return below(server.process.pid, "pando merge")
