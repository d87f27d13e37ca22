"""Requests byte by byte, and what a server says of its queries."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import httpx

from parts.common.errors import PandoError
from tests.engine.front.conftest import RunningServer


def wait_for(condition: Callable[[], bool], timeout_seconds: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def code_of(response: httpx.Response) -> int:
    """The code of an error, which must be told in header and text alike."""
    assert response.text.startswith(f"Code: {response.headers['x-clickhouse-exception-code']}. DB::Exception: ")
    assert "Traceback" not in response.text
    return int(response.headers["x-clickhouse-exception-code"])


def ask(server: RunningServer, data: bytes, timeout_seconds: float = 20.0) -> bytes:
    """All that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.http.port), timeout=timeout_seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        return rest(connection)


def rest(connection: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            answer += data
    return answer


def is_running(server: RunningServer, query_id: str) -> bool:
    return any(process.query_id == query_id for process in server.engine.processes())


@contextlib.contextmanager
def running_query(server: RunningServer) -> Iterator[tuple[str, list[int]]]:
    """A query of bob, and the codes it ended with."""
    query_id = uuid.uuid4().hex
    codes: list[int] = []

    def run() -> None:
        with server.client(user="bob", password="secret") as client:
            try:
                client.execute("SELECT sum(number) FROM system.numbers", query_id=query_id)
            except PandoError as error:
                codes.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: is_running(server, query_id))
    yield query_id, codes
    with server.client() as client:
        client.kill(query_id)
    thread.join(20)
