"""Clients that are slow, silent or too many, and a server that stops: nobody else waits for them."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from engine.front.http.http_server import HttpServer
from engine.front.http.listener import get_max_connections
from engine.server.config import Config
from parts.common.errors import PandoError
from tests.engine.front.asking import ask, code_of, is_running, rest, wait_for
from tests.engine.front.conftest import RunningServer, started
from tests.worker_count import WORKERS

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with little patience and few connections."""
    with started(
        tmp_path_factory.mktemp("hurried"),
        max_connections=20,
        max_concurrent_queries=4 + (WORKERS > 0),  # one to ask who runs
        profiles={"default": {"http_receive_timeout": 0.4, "http_send_timeout": 0.4}},
    ) as server:
        yield server


def test_half_a_request_does_not_stay(hurried: RunningServer) -> None:
    for nothing in (b"", b"\r\n\r\n"):
        assert ask(hurried, nothing) == b""
    scan = b"POST /scan/plan HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"
    assert b"Code: 209." in ask(hurried, scan.replace(b"\r\n\r\n{", b"\r\nConnection: close\r\n\r\n{"))
    for half in (b"GET /?query=SEL", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nX: "):
        assert ask(hurried, half).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection(("127.0.0.1", hurried.http.port), timeout=20) as connection:
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):  # a byte now and then does not help
                connection.sendall(b"GET / HTTP/1.1\r\nX: "[:1] if _ == 0 else b"E")
                connection.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    if answer := connection.recv(1000):
                        break
        assert answer.startswith(b"HTTP/1.1 4")


def test_a_body_that_follows_its_answer_does_not_keep_the_connection(tmp_path: Path) -> None:
    with (
        started(tmp_path, keep_alive_timeout=1) as server,
        socket.create_connection(("127.0.0.1", server.http.port), timeout=20) as connection,
    ):
        connection.sendall(b"POST /?no_such_setting=1 HTTP/1.1\r\nContent-Length: 8\r\n\r\n")
        answer = connection.recv(65536)
        connection.sendall(b"SELECT 1")
        assert (answer + rest(connection)).startswith(b"HTTP/1.1 404 ")


def test_slow_bodies_keep_nobody_out(hurried: RunningServer) -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"
    query = f"INSERT INTO FUNCTION null('x String') VALUES {'(1),' * 100_000}".encode()
    with contextlib.ExitStack() as stack:
        connections = []
        for part in (b"", b"SELECT 1", query):
            for _ in range(5):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", hurried.http.port), timeout=30))
                connection.sendall(head + part)
                connections.append(connection)
        for connection in connections:
            answer = rest(connection) if connection.fileno() < 0 else connection.recv(4096)
            assert re.match(rb"HTTP/1.1 (408|400|503|501|404) ", answer), answer
    with hurried.client() as client:
        assert client.value("SELECT 1") == 1


def test_clients_that_do_not_read_are_left(hurried: RunningServer) -> None:
    request = b"GET /?query=SELECT+number+FROM+system.numbers&query_id=%b HTTP/1.1\r\n\r\n"
    ids = [uuid.uuid4().hex for _ in range(4)]
    with contextlib.ExitStack() as stack:
        for query_id in ids:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", hurried.http.port), timeout=30))
            connection.sendall(request % query_id.encode())
        wait_for(lambda: any(is_running(hurried, query_id) for query_id in ids))
        wait_for(lambda: not any(is_running(hurried, query_id) for query_id in ids))
        with hurried.client() as client:
            assert client.value("SELECT 1") == 1


def test_a_scan_waits_for_its_client(hurried: RunningServer) -> None:
    """As long as its parts are held for it."""
    with hurried.client() as client, contextlib.ExitStack() as stack:
        client.execute("CREATE TABLE long_rows (text String) ENGINE = MergeTree ORDER BY tuple()")
        client.execute("INSERT INTO long_rows SELECT repeat(toString(number), 20000) FROM numbers(400)")
        connections = []
        head = b"POST /scan/read HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
        for name, seconds in (("patient", 300), ("hasty", 0.3)):
            fields = {"scan": name, "lease_seconds": seconds, "table": "long_rows", "columns": ["text"]}
            body = json.dumps({**fields, "compression": "none"}).encode()
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", hurried.http.port), timeout=30))
            connection.sendall(head % (len(body), body))
            connections.append(connection)
        patient, hasty = connections
        wait_for(lambda: _is_cut_off(hasty))
        answer = rest(patient)
        assert answer.endswith(b"\r\n0\r\n\r\n")
        assert len(answer) > 20_000_000


def _is_cut_off(connection: socket.socket) -> bool:
    """Without reading from it."""
    try:
        connection.sendall(b" ")
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def test_an_answer_waits_on_disk_for_its_client(server: RunningServer) -> None:
    """The query has ended, and its place is free, long before the client has read."""
    query_id = uuid.uuid4().hex
    query = f"SELECT+number+FROM+numbers(3000000)&query_id={query_id}&http_send_timeout=60"
    with socket.create_connection(("127.0.0.1", server.http.port), timeout=30) as connection:
        connection.sendall(f"GET /?query={query} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
        wait_for(lambda: is_running(server, query_id))
        wait_for(lambda: not is_running(server, query_id))
        if isinstance(server.http, HttpServer):  # the places of other processes are not seen from here
            wait_for(lambda: server.http._queries is not None and not server.http._queries._with_slot)  # type: ignore[union-attr]
        answer = rest(connection)
    assert answer.endswith(b"2999999\n\r\n0\r\n\r\n")
    assert len(answer) > 22_888_890


def test_answers_made_whole_are_bounded(tmp_path: Path) -> None:
    with (
        started(tmp_path, max_temporary_data_on_disk_size=5_000_000) as server,
        server.client(settings={"wait_end_of_query": 1}) as client,
    ):
        assert len(client.execute("SELECT number FROM numbers(300000)").data) > 1_900_000
        for _ in range(3):
            with pytest.raises(PandoError) as caught:
                client.execute("SELECT number FROM numbers(3000000)")
            assert caught.value.code == 243
        assert len(client.execute("SELECT number FROM numbers(300000)").data) > 1_900_000
        with pytest.raises(PandoError) as caught:
            client.execute("SELECT throwIf(number = 200000) FROM numbers(300000)")
        assert caught.value.code == 395


def test_connections_are_bounded(hurried: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", hurried.http.port), timeout=30))
            for _ in range(60)
        ]
        answers = [rest(connection) for connection in connections]
    assert sum(answer.startswith(b"HTTP/1.1 503 ") and b"Code: 202." in answer for answer in answers) >= 30
    assert len([record for record in caplog.records if "connections" in record.getMessage()]) <= 1
    wait_for(hurried.client().ping)


def test_connections_leave_files_for_the_tables() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert get_max_connections(1) == 1
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert get_max_connections(4096) == 128
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_stopping_server_tells_the_queries_it_cancels(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[httpx.Response] = []
    with started(tmp_path_factory.mktemp("stopping"), shutdown_wait_unfinished=0) as server:

        def ask() -> None:
            url = f"http://127.0.0.1:{server.http.port}/"
            answers.append(
                httpx.post(url, content="SELECT sum(number) FROM system.numbers", timeout=60, trust_env=False)
            )

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(list(server.engine.processes())) == 3)
    for thread in threads:
        thread.join(20)
    assert [(answer.status_code, code_of(answer)) for answer in answers] == [(500, 394)] * 3
    assert not [record for record in caplog.records if record.exc_info]


def test_a_stopping_server_does_not_wait_for_clients_that_take_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        started(tmp_path / "server", shutdown_wait_unfinished=0) as server,
        socket.create_connection(("127.0.0.1", server.http.port), timeout=20) as connection,
    ):
        connection.sendall(b"GET /?query=SELECT+number+FROM+system.numbers HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1)
        if isinstance(server.http, HttpServer):
            wait_for(lambda: next(iter(server.http._server.server_state.connections)).flow.write_paused)
            server.http.stop()
            assert not server.http._thread.is_alive()
    assert "graceful shutdown exceeded" not in caplog.text  # it did not wait for as long as clients that read may take


def test_configuration_of_connections() -> None:
    config = Config.model_validate({"path": "x", "http_options_response": [{"name": "A", "value": "b"}]})
    assert config.http_options_response[0].name == "A"
