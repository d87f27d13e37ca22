"""INSERTs that run past the application look like all others: to their clients, and to who watches the server."""

from __future__ import annotations

import json
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator

import httpx
import pytest

from engine.cluster.os_processes import wait_until
from engine.front.http import connection as protocol
from engine.front.http.insert_request import RunningInsert
from engine.front.http.query_exchange import QueryExchange
from engine.tables.insert_sink import PartSink
from tests.front.conftest import RunningServer
from tests.worker_count import WORKERS


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http.port}", trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def table(http: httpx.Client) -> Iterator[str]:
    name = f"i_{uuid.uuid4().hex[:12]}"
    http.post("/", content=f"CREATE TABLE {name} (k UInt64, s String) ENGINE = MergeTree ORDER BY k").raise_for_status()
    yield name
    http.post("/", content=f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[RunningInsert]:
    """Those that ran past the application."""
    if WORKERS:
        pytest.skip("what other processes do is not counted here")
    cycles: list[RunningInsert] = []

    def cycle(cancel: Callable[[], None]) -> RunningInsert:
        cycles.append(RunningInsert(cancel))
        return cycles[-1]

    monkeypatch.setattr(protocol, "RunningInsert", cycle)
    return cycles


def _rows(http: httpx.Client, table: str) -> list[list[object]]:
    text = http.get("/", params={"query": f"SELECT k, s FROM {table} ORDER BY k FORMAT JSONCompactEachRow"}).text
    return [json.loads(line) for line in text.splitlines()]


def _both_ways(server: RunningServer, path: str, body: bytes) -> tuple[list[str], list[str]]:
    """The answer's lines to a request that keeps its connection, and to one that does not: the application's."""
    answers = []
    for keeping in (b"", b"Connection: close\r\n"):
        with socket.create_connection(("127.0.0.1", server.http.port), timeout=20) as connection:
            head = b"POST %b HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n" % (path.encode(), keeping, len(body))
            connection.sendall(head + body)
            answers.append(_answer(connection))
    return answers[0], answers[1]


def _answer(connection: socket.socket) -> list[str]:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(100_000)
        assert more, data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(100_000)
    changing = ("date:", "x-clickhouse-query-id:", "x-clickhouse-summary:", "connection:")
    return [line for line in head.decode().split("\r\n") if not line.startswith(changing)] + [body.decode()]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/?query=INSERT+INTO+{t}+FORMAT+TSV", b"1\ta\n2\tb\n", 200),
        ("/?query=insert+into+{t}+values", b"(1, 'a'), (2, 'b')", 200),
        ("/", b"INSERT INTO {t} VALUES (1, 'a')", 200),
        ("/?async_insert=0", b' INSERT INTO {t} (s) FORMAT JSONEachRow\n{"s": "x"}', 200),
        ("/?query=INSERT+INTO+{t}+FORMAT+TSV", b"1\ta\tb\n", 400),
        ("/?query=INSERT+INTO+{t}+FORMAT+TSV", b"x\ta\n", 400),
        ("/?query=INSERT+INTO+{t}+FORMAT+Nothing", b"x", 404),
        ("/?query=INSERT+INTO+{t}+(q)+FORMAT+TSV", b"1\n", 400),
        ("/?query=INSERT+INTO+no_table+FORMAT+TSV", b"1\ta\n", 404),
        ("/?query=INSERT+INTO+{t}", b"nonsense", 400),
        ("/?query=INSERT+INTO+{t}+FORMAT+TSV&max_execution_time=x", b"1\ta\n", 400),
        ("/?query=INSERT+INTO+{t}+FORMAT+TSV&readonly=1", b"1\ta\n", 400),
        ("/?query=INSERT+INTO+{t}+FORMAT+TSV&user=bob&password=wrong", b"1\ta\n", 403),
    ],
)
def test_the_same_answer_both_ways(server: RunningServer, table: str, path: str, body: bytes, status: int) -> None:
    body = body.replace(b"{t}", table.encode())
    short, other = _both_ways(server, path.format(t=table), body)
    assert short == other
    assert short[0].split(" ")[1] == str(status)


def test_rows_are_there_when_it_is_answered(http: httpx.Client, table: str, begun: list[RunningInsert]) -> None:
    for number in range(3):
        answer = http.post("/", params={"query": f"INSERT INTO {table} FORMAT TSV"}, content=f"{number}\trow\n")
        assert answer.status_code == 200
        assert json.loads(answer.headers["x-clickhouse-summary"])["written_rows"] == "1"
        assert len(_rows(http, table)) == number + 1
    assert len(begun) == 3


@pytest.mark.parametrize("query", ["SELECT 'insert'", "INSERT INTO {t} SELECT 1, 'insert'"])
def test_others_are_left_alone(http: httpx.Client, table: str, begun: list[RunningInsert], query: str) -> None:
    http.post("/", content=query.format(t=table)).raise_for_status()
    assert not begun


def test_requests_in_one_packet_are_answered_in_their_order(
    server: RunningServer, table: str, begun: list[RunningInsert]
) -> None:
    def request(body: str) -> bytes:
        return f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    bodies = [f"INSERT INTO {table} VALUES (1, 'a')", f"SELECT s FROM {table}", f"INSERT INTO {table} VALUES (2, 'b')",
              f"SELECT count() FROM {table}", "nonsense", "SELECT 7"]  # fmt: skip
    with socket.create_connection(("127.0.0.1", server.http.port), timeout=20) as connection:
        connection.sendall(b"".join(map(request, bodies)))
        data = b""
        while not data.endswith(b"7\n\r\n0\r\n\r\n") and not data.endswith(b"\r\n\r\n7\n"):
            more = connection.recv(100_000)
            assert more, data
            data += more
    assert len(begun) == 1
    assert re.findall(rb"HTTP/1\.1 (\d+)", data) == [b"200"] * 4 + [b"400", b"200"]
    places = [data.index(text) for text in (b"a\n", b"2\n", b"Syntax error", b"7\n")]
    assert places == sorted(places)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, Callable[[], None]]]:
    """An INSERT that stands before its commit: whether it has come there, and what lets it go on."""
    if WORKERS:
        pytest.skip("it runs in another process")
    here, free = threading.Event(), threading.Event()
    real = PartSink.commit

    def commit(self: PartSink) -> object:
        here.set()
        while not free.wait(0.01):
            self.options.status.check()
        return real(self)

    monkeypatch.setattr(PartSink, "commit", commit)
    yield here, free.set
    free.set()


Held = tuple[threading.Event, Callable[[], None]]


def _begin(server: RunningServer, table: str, query_id: str = "") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.http.port), timeout=20)
    body = f"INSERT INTO {table} VALUES (1, 'a')"
    connection.sendall(
        f"POST /?query_id={query_id} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    return connection


def test_one_that_lasts_is_seen_and_stopped(server: RunningServer, http: httpx.Client, table: str, held: Held) -> None:
    with _begin(server, table, "lasting") as connection:
        assert held[0].wait(20)
        running = http.get("/", params={"query": "SELECT query_id FROM system.processes FORMAT TSV"}).text
        assert "lasting" in running.split()
        http.post("/", content="KILL QUERY WHERE query_id = 'lasting'").raise_for_status()
        lines = _answer(connection)
    assert "x-clickhouse-exception-code: 394" in lines
    assert _rows(http, table) == []


def test_a_client_that_leaves_ends_it(server: RunningServer, http: httpx.Client, table: str, held: Held) -> None:
    with _begin(server, table, "left"):
        assert held[0].wait(20)

    def is_gone() -> bool:
        return "left" not in http.get("/", params={"query": "SELECT query_id FROM system.processes"}).text.split()

    assert wait_until(is_gone, 20)
    held[1]()
    assert _rows(http, table) == []


def test_what_comes_behind_it_waits(server: RunningServer, table: str, held: Held) -> None:
    with _begin(server, table) as connection:
        assert held[0].wait(20)
        connection.sendall(b"GET /?query=SELECT+5 HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        held[1]()
        connection.settimeout(20)
        data = b""
        while b"5\n" not in data:
            data += connection.recv(100_000)
    assert data.count(b"HTTP/1.1 200") == 2


def test_a_bug_is_an_answer(
    http: httpx.Client, table: str, begun: list[RunningInsert], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: QueryExchange) -> bytes:
        raise KeyError("it")

    monkeypatch.setattr(QueryExchange, "start", broken)
    answer = http.post("/", content=f"INSERT INTO {table} VALUES (1, 'a')")
    assert (answer.status_code, answer.headers["x-clickhouse-exception-code"], len(begun)) == (500, "1001", 1)
