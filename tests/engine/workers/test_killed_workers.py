"""Processes of a server with workers that are killed, hang or grow: what they take with them, and who replaces them."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.cluster.os_processes import list_descendants
from parts.common.errors import PandoError
from tests.engine.workers.running import ENDLESS
from tests.engine.workers.server import WorkerServer, wait_for
from tests.portions import one_in

pytestmark = pytest.mark.cluster


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.parametrize("point", one_in(2, ["before the commit", "in the body"]))
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


@pytest.mark.long
@pytest.mark.parametrize("point", ["stage.after_move", "insert.after_temporary_part", ""])
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


@pytest.mark.long
def test_a_worker_that_gives_no_turn_is_replaced(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, worker_stuck_seconds=2) as server:
        victim = server.pids()[1]
        os.kill(victim, signal.SIGSTOP)
        wait_for(lambda: b"Ok." in _ping(server.port), "a ping")
        wait_for(lambda: not Path(f"/proc/{victim}").exists(), "its end", 20)
        wait_for(lambda: len(server.pids()) == 2 and victim not in server.pids().values(), "another")


@pytest.mark.long
def test_a_fork_server_that_is_killed_has_a_successor(tmp_path: Path) -> None:
    def fork_servers() -> set[int]:
        children = [int(pid) for pid in Path(f"/proc/{main}/task/{main}/children").read_text().split()]
        below = [
            int(pid) for child in children for pid in Path(f"/proc/{child}/task/{child}/children").read_text().split()
        ]
        names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in (*children, *below)}
        return {pid for pid, name in names.items() if name == "pando forks"}

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


@pytest.mark.long
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


@pytest.mark.long
def test_the_server_drains(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, shutdown_wait_unfinished=60) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", "/?query=SELECT+count(sqrt(number))+FROM+numbers(300000000)")
        wait_for(lambda: "sqrt" in str(server.run("SELECT query FROM system.processes")), "the query")
        pids = server.pids()
        server.process.terminate()
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"300000000\n")
        assert server.process.wait(60) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())
        assert "Traceback" not in server.log()


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_port_in_use_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(AssertionError, match="the port is in use"):
        WorkerServer(tmp_path, http_port=taken.getsockname()[1])
    assert not (tmp_path / "data").exists()


def _ping(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/ping")
    return connection.getresponse().read()


@pytest.mark.long
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
    return list_descendants(server.process.pid, "pando merge")
