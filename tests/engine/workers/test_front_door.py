"""The front door in front of real worker processes: who serves what, and what their ends do to clients."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.workers.connections.first_bytes import is_status_page_request
from tests.engine.workers.door_process import DoorServer, get, rest, wait_for, who

pytestmark = pytest.mark.long

ENDLESS = b"GET /?query=SELECT+sum(sqrt(number))+FROM+numbers(1000000000000) HTTP/1.1\r\nHost: x\r\n\r\n"
STREAMED = b"GET /?query=SELECT+number+FROM+numbers(1000000000) HTTP/1.1\r\nHost: x\r\n\r\n"
SELECT_1 = b"GET /?query=SELECT+1 HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def start() -> Iterator[Callable[..., DoorServer]]:
    with contextlib.ExitStack() as running:

        def start(workers: int, **options: Any) -> DoorServer:
            server = DoorServer(workers, **options)
            running.callback(server.end)
            return server

        yield start


@pytest.fixture(scope="module")
def shared() -> Iterator[DoorServer]:
    server = DoorServer(2, max_connections=400)
    yield server
    server.end()


Start = Callable[..., DoorServer]


# -- whose the connection is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"G", None),
        (b"GET /pin", None),
        (b"GET /ping", None),
        (b"GET /ping HTTP/1.1\r\n", True),
        (b"HEAD /replicas_status?verbose=1", True),
        (b"GET /metrics ", True),
        (b"GET /ready ", True),
        (b"GET /pinge", False),
        (b"GET / HTTP", False),
        (b"POST /ping ", False),
        (b"\r\n", False),
    ],
)
def test_first_bytes_say_whose_a_request_is(data: bytes, expected: bool | None) -> None:
    assert is_status_page_request(data) is expected


def test_the_replica_process_serves_its_pages_and_ends_the_connection(shared: DoorServer) -> None:
    assert shared.get("/ping") == (200, "Ok.\n")
    assert shared.get("/ready") == (503, "not yet\n")
    assert shared.get("/replicas_status") == (200, "Ok.\n")
    assert shared.get("/replicas_status?verbose=1") == (200, "verbose\n")
    assert shared.get("/metrics") == (200, "# replica\n")
    answer = rest(shared.connect(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n" + SELECT_1))
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close\r\n" in answer.lower()
    assert rest(shared.connect(b"HEAD /ping HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"\r\n\r\n")


def test_a_page_asked_for_in_pieces(shared: DoorServer) -> None:
    with shared.connect(b"GE") as connection:
        for piece in (b"T /pi", b"ng", b" HTTP/1.1\r\n", b"Host: x\r\n\r\n"):
            time.sleep(0.02)
            connection.sendall(piece)
        assert rest(connection).endswith(b"\r\n\r\nOk.\n")


def test_a_query_in_pieces(shared: DoorServer) -> None:
    with shared.connect(b"GET /") as connection:
        for piece in (b"?query=SEL", b"ECT+1 HTTP/1.1\r\nHost: x\r\nConnection: clo", b"se\r\n\r\n"):
            time.sleep(0.02)
            connection.sendall(piece)
        assert rest(connection).endswith(b"\r\n\r\n1\n")


def test_connections_are_dealt_evenly_and_kept(shared: DoorServer) -> None:
    clients = [shared.client() for _ in range(10)]
    homes = [who(client) for client in clients]
    assert sorted(homes) == ["worker 0"] * 5 + ["worker 1"] * 5
    assert shared.ask("connections") == [5, 5]
    assert [who(client) for client in clients] == homes
    shared.wait_for_states(IDLE=10)
    for client in clients:
        client.close()
    shared.wait_for_states()
    assert shared.ask("connections") == [0, 0]


def test_slots_are_freed_whoever_closes(shared: DoorServer) -> None:
    for closing in (b"", b"Connection: close\r\n"):
        connection = shared.connect(b"GET /?query=SELECT+1 HTTP/1.1\r\nHost: x\r\n" + closing + b"\r\n")
        if closing:
            assert rest(connection).endswith(b"\r\n\r\n1\n")
        else:
            assert connection.recv(1 << 16)
        connection.close()
        shared.wait_for_states()
    connection = shared.connect(b"nonsense\r\n\r\n")
    assert rest(connection).startswith(b"HTTP/1.1 400 ")
    connection.close()
    shared.wait_for_states()


def test_no_descriptor_is_lost(shared: DoorServer) -> None:
    def descriptors() -> list[int]:
        return [shared.ask("descriptors", *number) for number in ([], [0], [1])]

    clients = [shared.client() for _ in range(2)]
    assert len({who(client) for client in clients}) == 2  # a worker opens some of its own with its first request
    for client in clients:
        client.close()
    shared.wait_for_states()
    before = descriptors()
    for number in range(1000):
        connection = shared.connect(SELECT_1 if number % 3 else b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        if number % 2:
            assert connection.recv(1 << 16)
        connection.close()
    shared.wait_for_states()
    # a slot is free a moment before its socket is closed: the first reading may be one too high
    wait_for(lambda: all(now <= then for now, then in zip(descriptors(), before, strict=True)))


def test_a_large_body_and_a_large_answer_pass(shared: DoorServer) -> None:
    with contextlib.closing(shared.client()) as client:
        rows = "".join(f"{number}\n" for number in range(300_000))
        query = "SELECT+count(),sum(c1)+FROM+input('c1+UInt64')+FORMAT+TSV"
        client.request("POST", f"/?query={query}", rows)
        client.getresponse().read()  # whatever the dialect says of it
        status, text = get(client, "/?query=SELECT+number+FROM+numbers(1000000)")
        assert (status, len(text.splitlines())) == (200, 1_000_000)
        shared.wait_for_states(IDLE=1)


# -- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_silent_connection_is_closed(start: Start) -> None:
    server = start(1, profiles={"default": {"http_receive_timeout": 0.3}})
    assert rest(server.connect()) == b""
    assert rest(server.connect(b"GET /pin")).startswith(b"HTTP/1.1 408 ")
    assert server.get("/?query=SELECT+1") == (200, "1\n")


@pytest.mark.long
def test_too_many_connections_are_turned_away(start: Start) -> None:
    server = start(1, max_connections=3)
    clients = [server.client() for _ in range(3)]
    assert {who(client) for client in clients} == {"worker 0"}
    status, text = server.get("/?query=SELECT+1")
    assert status == 503
    assert text.startswith("Code: 202. DB::Exception: Too many connections: at most 3 at a time; retry later")
    clients[0].close()
    wait_for(lambda: server.get("/?query=SELECT+1")[0] == 200)


# -- workers that stop, end and are replaced --------------------------------------------------------------------------


@pytest.mark.long
def test_pages_are_served_while_every_worker_is_stopped(start: Start) -> None:
    server = start(2)
    server.get("/?query=SELECT+1")
    for number in range(2):
        server.pause(number)
    waiting = server.connect(SELECT_1)
    seconds = []
    for _ in range(20):
        begin = time.perf_counter()
        assert server.get("/ping") == (200, "Ok.\n")
        assert server.get("/replicas_status") == (200, "Ok.\n")
        seconds.append(time.perf_counter() - begin)
    assert sorted(seconds)[10] < 1.0  # far from any time-out: the workers have no part in it
    for number in range(2):
        server.go_on(number)
    assert waiting.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_a_stopped_worker_gets_no_more_connections(start: Start) -> None:
    server = start(2)
    server.pause(0)
    stuck = next(connection for _ in range(20) if not _is_answered(connection := server.connect(SELECT_1)))
    for _ in range(5):
        assert server.get("/?query=SELECT+1") == (200, "1\n")
    server.go_on(0)
    stuck.settimeout(30.0)
    assert stuck.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def _is_answered(connection: socket.socket, seconds: float = 1.0) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1 << 16) != b""
    except TimeoutError:
        return False


def test_an_idle_connection_outlives_its_worker(start: Start) -> None:
    server = start(2)
    clients = [server.client() for _ in range(4)]
    homes = [who(client) for client in clients]
    sockets = [client.sock for client in clients]
    server.wait_for_states(IDLE=4)
    server.kill(0)
    assert [who(client) for client in clients] == ["worker 1"] * 4
    assert [client.sock for client in clients] == sockets
    assert homes.count("worker 0") == 2
    assert server.ask("connections") == [0, 4]


def test_a_running_query_gets_a_code_when_its_worker_is_killed(start: Start) -> None:
    server = start(1)
    connection = server.connect(ENDLESS)
    server.wait_for_states(ASKED=1)
    time.sleep(0.3)
    server.kill(0)
    head, body = rest(connection).split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"\r\nx-clickhouse-exception-code: 210\r\n" in head.lower()
    assert re.fullmatch(
        rb"Code: 210\. DB::Exception: The worker process that ran the query ended \(signal 9\); an INSERT may or may "
        rb"not have been stored: repeat it unchanged, it will be deduplicated \(NETWORK_ERROR\) \(version .*\)\n",
        body,
    )
    server.wait_for_states()


def test_half_a_request_gets_a_code_when_its_worker_is_killed(start: Start) -> None:
    server = start(1)
    connection = server.connect(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nINSERT INTO t")
    server.wait_for_states(ASKED=1)
    server.kill(0)
    connection.sendall(b" VALUES (1)")
    assert b"x-clickhouse-exception-code: 210" in rest(connection)


def test_a_head_that_has_begun_ends_with_a_code(start: Start) -> None:
    server = start(1)
    options = b"/?send_progress_in_http_headers=1&http_headers_progress_interval_ms=20&"
    connection = server.connect(ENDLESS.replace(b"/?", options))
    server.wait_for_states(BEGUN=1)
    wait_for(lambda: b"X-ClickHouse-Progress" in connection.recv(1 << 16, socket.MSG_PEEK))
    server.kill(0)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    assert answer.status == 200
    assert answer.headers["X-ClickHouse-Progress"]
    assert answer.headers["X-ClickHouse-Exception-Code"] == "210"
    assert answer.read().startswith(b"Code: 210. DB::Exception: The worker process")


def test_an_answer_that_has_begun_is_cut_off(start: Start) -> None:
    server = start(1)
    connection = server.connect(STREAMED)
    server.wait_for_states(ANSWERED=1)
    server.kill(0)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    assert answer.status == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    server.wait_for_states()


@pytest.mark.long
def test_connections_a_worker_never_took_go_to_another(start: Start) -> None:
    server = start(2, added=1)
    server.get("/?query=SELECT+1")
    server.wait_for_states()
    server.pause(0)
    connections = [server.connect(SELECT_1) for _ in range(5)]
    server.wait_for_states(PASSED=5)
    server.kill(0)
    server.ask("add", 1)
    for connection in connections:
        assert b"display-name: worker 1" in connection.recv(1 << 16)


@pytest.mark.long
def test_bytes_that_a_stopped_idle_worker_has_not_read_are_not_lost(start: Start) -> None:
    server = start(2, added=1)
    with contextlib.closing(server.client()) as client:
        assert who(client) == "worker 0"
        server.wait_for_states(IDLE=1)
        server.pause(0)
        client.request("GET", "/?query=SELECT+1")
        server.ask("add", 1)
        server.kill(0)
        assert client.getresponse().headers["X-ClickHouse-Server-Display-Name"] == "worker 1"


def test_kills_under_load_lose_no_request_without_a_word(start: Start) -> None:
    """Every request of keep-alive connections gets an answer, or a code; workers are killed meanwhile."""
    server = start(5, added=2)
    connections = [server.connect() for _ in range(8)]
    answers = {200: 0, 500: 0}
    for number in range(4):
        for connection in connections:
            connection.sendall(SELECT_1)
        if number:
            time.sleep(0.003 * number)
            if number + 1 < 5:
                server.ask("add", number + 1)
            server.kill(number - 1)
        for index, connection in enumerate(connections):
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            text = answer.read()
            answers[answer.status] += 1
            if answer.status == 500:
                assert answer.headers["X-ClickHouse-Exception-Code"] == "210"
                connections[index] = server.connect()
            else:
                assert text == b"1\n"
    assert sum(answers.values()) == 32


@pytest.mark.long
def test_without_a_worker_there_is_an_answer_with_a_code(start: Start) -> None:
    server = start(2, added=1)
    with contextlib.closing(server.client()) as client:
        who(client)
        server.wait_for_states(IDLE=1)
        server.kill(0)
        with contextlib.closing(server.client()) as other:
            status, text = get(other, "/?query=SELECT+1")
        assert status == 503
        assert text.startswith("Code: 210. DB::Exception: No worker process is running now; retry (NETWORK_ERROR)")
        assert server.get("/ping") == (200, "Ok.\n")
        server.ask("add", 1)
        assert server.get("/?query=SELECT+1") == (200, "1\n")


@pytest.mark.long
def test_a_connection_waits_for_the_worker_that_replaces_another(start: Start) -> None:
    server = start(2, added=1)
    server.kill(0)
    connection = server.connect(SELECT_1)
    server.wait_for_states(PASSED=1)
    server.ask("add", 1)
    assert b"display-name: worker 1" in connection.recv(1 << 16)


@pytest.mark.long
def test_a_worker_that_drains_gives_its_idle_connections_back(start: Start) -> None:
    server = start(2, added=1)
    with contextlib.closing(server.client()) as client:
        assert who(client) == "worker 0"
        server.wait_for_states(IDLE=1)
        server.ask("add", 1)
        server.ask("shut", 0)
        os.kill(server.pids[0], signal.SIGTERM)
        wait_for(lambda: server.ask("connections") == [0, 1])
        assert who(client) == "worker 1"
        server.ask("rescue", 0, "ended")


# -- the end ----------------------------------------------------------------------------------------------------------


def test_the_door_stops(start: Start) -> None:
    server = start(1)
    silent, idle = server.connect(), server.connect(SELECT_1)
    while not idle.recv(1 << 16).endswith(b"1\n"):
        pass
    server.ask("stop_accepting")
    assert rest(silent) == b""
    with pytest.raises(ConnectionError):
        server.connect(SELECT_1)
    os.kill(server.pids[0], signal.SIGTERM)
    assert rest(idle) == b""
    server.ask("rescue", 0, "ended")
    server.ask("stop")


def test_workers_end_when_the_replica_process_is_gone(start: Start) -> None:
    server = start(2)
    clients = [server.client() for _ in range(2)]
    assert sorted(map(who, clients)) == ["worker 0", "worker 1"]
    server.kill_replica()
    for client in clients:
        assert client.sock.recv(1) == b""


@pytest.mark.long
def test_clients_wait_until_there_is_a_worker(start: Start) -> None:
    server = start(1, added=0)
    waiting = server.connect(SELECT_1)
    server.wait_for_states()
    server.ask("add", 0)
    assert waiting.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
