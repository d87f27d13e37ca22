"""What clients must not be able to do, and what those who do it badly are told."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import re
import resource
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from engine.client.http.client import HttpClient
from engine.config import Config
from engine.http.listener import most_connections
from engine.http.server import HttpServer
from parts.errors import PandoError
from sql.settings.session import HONOURED
from tests.front.conftest import RunningServer, started
from tests.worker_count import WORKERS


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http.port}", trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def table(client: HttpClient) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:12]}"
    client.execute(f"CREATE TABLE {name} (id UInt64, text String) ENGINE = MergeTree ORDER BY id")
    yield name
    client.execute(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture(scope="module")
def scanned(server: RunningServer) -> str:
    with server.client() as client:
        client.execute("CREATE TABLE scanned (id UInt64) ENGINE = MergeTree ORDER BY id")
        client.execute("INSERT INTO scanned VALUES (1)")
    return "scanned"


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


def _wait_for(condition: Callable[[], bool], timeout_seconds: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def _code(response: httpx.Response) -> int:
    """The code of an error, which must be told in header and text alike."""
    assert response.text.startswith(f"Code: {response.headers['x-clickhouse-exception-code']}. DB::Exception: ")
    assert "Traceback" not in response.text
    return int(response.headers["x-clickhouse-exception-code"])


def _ask(server: RunningServer, data: bytes, timeout_seconds: float = 20.0) -> bytes:
    """All that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.http.port), timeout=timeout_seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        return _rest(connection)


def _rest(connection: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            answer += data
    return answer


def _is_running(server: RunningServer, query_id: str) -> bool:
    return any(process.query_id == query_id for process in server.engine.processes())


# -- other users' queries -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _running_query(server: RunningServer) -> Iterator[tuple[str, list[int]]]:
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
    _wait_for(lambda: _is_running(server, query_id))
    yield query_id, codes
    with server.client() as client:
        client.kill(query_id)
    thread.join(20)


def test_a_used_query_id_touches_nothing(server: RunningServer, http: httpx.Client) -> None:
    with _running_query(server) as (query_id, codes):
        given = {"query_id": query_id, "query": "SELECT 1", "user": "reader"}
        assert _code(http.get("/", params=given)) == 216
        assert http.head("/", params=given).headers["x-clickhouse-exception-code"] == "216"
        assert _code(http.post("/", params=given, content="x" * 1000)) in (62, 216)
        for _ in range(5):  # clients that leave at once
            with socket.create_connection(("127.0.0.1", server.http.port)) as connection:
                connection.sendall(f"POST /?query_id={query_id} HTTP/1.1\r\nContent-Length: 8\r\n\r\nSELECT 1".encode())
        assert http.get("/", params={"query": "SELECT 1"}).text == "1\n"
        assert _is_running(server, query_id)
        assert codes == []
    assert codes == [394]


def test_only_the_owner_or_who_may_write_kills(server: RunningServer) -> None:
    with _running_query(server) as (query_id, codes):
        with server.client(user="reader") as reader, pytest.raises(PandoError) as caught:
            reader.kill(query_id)
        assert caught.value.code == 497
        assert _is_running(server, query_id)
        with server.client(user="bob", password="secret", settings={"readonly": 1}) as owner:
            owner.kill(query_id)
        _wait_for(lambda: not _is_running(server, query_id))
    assert codes == [394]


# -- read-only -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE", "PATCH", "PROPFIND"])
def test_methods_that_are_not_there(http: httpx.Client, client: HttpClient, table: str, method: str) -> None:
    for path in ("/", "/ping", "/scan/plan"):
        response = http.request(method, path, params={"query": f"INSERT INTO {table} VALUES (1, 'a')"})
        assert (response.status_code, _code(response)) == (405, 1)
    assert client.value(f"SELECT count() FROM {table}") == 0


def test_options_executes_nothing(http: httpx.Client, client: HttpClient, table: str) -> None:
    response = http.options("/", params={"query": f"INSERT INTO {table} VALUES (1, 'a')"})
    assert (response.status_code, response.headers["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
    assert "access-control-allow-origin" not in response.headers
    assert client.value(f"SELECT count() FROM {table}") == 0


def test_readonly_is_not_lifted(http: httpx.Client, table: str) -> None:
    insert = f"INSERT INTO {table} VALUES (1, 'a')"
    reader = {"user": "reader2"}
    assert _code(http.post("/", params={**reader, "readonly": 0}, content=insert)) == 164
    assert _code(http.post("/", params=reader, content=insert)) == 164
    assert (
        _code(http.post("/", params=reader, content=f"INSERT INTO {table} SETTINGS readonly=0 VALUES (1, 'a')")) == 164
    )
    assert _code(http.post("/", params=reader, content="SELECT 1 SETTINGS readonly = 0")) == 164
    assert _code(http.post("/", params={**reader, "session_id": "r"}, content="SET readonly = 0")) == 164
    assert (
        http.post("/", params={**reader, "max_threads": 1}, content="SELECT 1 SETTINGS max_threads = 2").text == "1\n"
    )
    assert _code(http.get("/", params={"readonly": 0, "query": insert})) == 164
    assert _code(http.get("/", params={"query": f"INSERT INTO {table} SETTINGS readonly=0 VALUES (1, 'a')"})) == 164
    assert _code(http.get("/", params={"query": "SELECT 1 SETTINGS readonly = 0"})) == 164
    assert _code(http.post("/", params={"readonly": 1}, content="SELECT 1 SETTINGS max_threads = 3")) == 164
    assert http.post("/", params={"readonly": 1}, content="SELECT 1 SETTINGS max_threads = 0").text == "1\n"
    assert _code(http.post("/", content=f"INSERT INTO {table} SETTINGS readonly=1 VALUES (1, 'a')")) == 164


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO {t} SELECT 1, ''", "CREATE DATABASE x", "CREATE TABLE x AS {t}", "DROP TABLE {t}",
     "TRUNCATE TABLE {t}", "RENAME TABLE {t} TO x", "OPTIMIZE TABLE {t}", "SYSTEM STOP MERGES", "DETACH TABLE {t}",
     "ATTACH TABLE {t}", "DROP DATABASE default", "SYSTEM DROP REPLICA 'x' FROM TABLE {t}"],
)  # fmt: skip
def test_what_changes_something_is_refused(http: httpx.Client, scanned: str, statement: str) -> None:
    for user in ("reader", "reader2"):
        assert _code(http.post("/", params={"user": user}, content=statement.format(t=scanned))) == 164


# -- who asks -----------------------------------------------------------------------------------


def test_users_are_not_told_apart(http: httpx.Client) -> None:
    answers = set()
    for user, password in (("bob", "wrong"), ("bob", ""), ("nobody", "wrong"), ("nobody", "")):
        response = http.get("/", params={"query": "SELECT 1", "user": user, "password": password})
        assert (response.status_code, _code(response)) == (403, 516)
        answers.add((response.text.replace(user, "?"), tuple(sorted(set(response.headers) - {"date"}))))
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Authorization": "Basic \xff\xfe"}, 516),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff:\xfe").decode()}, 516),
        ({"Authorization": "Basic"}, 516),
        ({"X-ClickHouse-User": "\xe4\xf6"}, 516),
        ({"Content-Encoding": "snappy"}, 36),
    ],
)
def test_bad_headers(http: httpx.Client, headers: dict[str, str], code: int) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    assert _code(http.post("/", headers=encoded, content="SELECT 1")) == code


# -- requests that are wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("session_id=a&session_timeout=%C2%B2", 374), ("session_id=a&session_timeout=0", 374),
        ("query_id=a%0D%0AX-Y:1", 36),
        ("session_id=%00", 36), ("query_id=" + "x" * 5000, 36), ("query=%FF", 36), ("max_threads=%C2%B2", 72),
        ("param_x=1&query=SELECT+{y:UInt8}", 456), ("database=%00", 81), ("max_execution_time=nan", 69),
    ],
)  # fmt: skip
def test_bad_parameters(http: httpx.Client, parameters: str, code: int) -> None:
    separator = "" if "query=" in parameters else "&query=SELECT+1"
    response = http.get(f"/?{parameters}{separator}")
    assert _code(response) == code
    assert "x-y" not in response.headers


@pytest.mark.parametrize("name", sorted(name for name, setting in HONOURED.items() if "Int64" in setting.type))
def test_largest_values_of_settings(http: httpx.Client, scanned: str, name: str) -> None:
    for value in (2**64 - 1, 2**63 - 1):
        if name == "readonly" or (HONOURED[name].type == "Int64" and value >= 2**63):
            continue
        given = {name: value}
        selected = http.post("/", params=given, content="SELECT number, 'a' FROM numbers(3) FORMAT JSON")
        inserted = http.post("/", params=given, content=f"INSERT INTO {scanned} VALUES (1)")
        for answer in (selected, inserted):
            assert answer.status_code == 200 or _code(answer) in (36, 48, 69, 243, 285), answer.text


def test_pages_that_are_not_there(http: httpx.Client) -> None:
    response = http.get("/nowhere")
    assert response.status_code == 404
    assert response.text.startswith("There is no handle /nowhere\n")


@pytest.mark.parametrize("path", ["/scan/plan", "/scan/read", "/scan/release"])
@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b"1", b"{}", b'{"table": 1}', b'{"table": "t", "columns": ["a"], "scan": []}',
     b'{"table": "t", "columns": [1]}', b"[" * 100_000, b'{"scan": {"a": NaN}}', b'{"scan": "\\ud800"}',
     b'{"database": "system", "table": "one", "columns": ["dummy"], "slot": 5, "scan": ""}'],
)  # fmt: skip
def test_bad_bodies_of_scans(http: httpx.Client, caplog: pytest.LogCaptureFixture, path: str, body: bytes) -> None:
    response = http.post(path, content=body)
    assert response.status_code == 200 or _code(response) not in (1001, 49), response.text
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "fields",
    [{"partitions": 10**30}, {"partitions": True}, {"max_rows_per_task": 10**30}, {"lease_seconds": "x"},
     {"lease_seconds": 1e400}, {"lease_seconds": -1}, {"filter": "("}, {"filter": "1 +"}, {"columns": []},
     {"scan": "\ud800"}, {"scan": "../../x"}, {"scan": "x" * 100_000}, {"scan": ""}, {"slot": -1}, {"slot": True},
     {"slots": 10**30}, {"slot": 1, "slots": 1}, {"slots": 0}, {"behind": -1}, {"behind": 10**30},
     {"is_alone": "no"}, {"sequential_consistency": True}, {"max_delay_seconds": -5}, {"compression": "x"}],
)  # fmt: skip
def test_bad_fields_of_scans(
    http: httpx.Client, scanned: str, caplog: pytest.LogCaptureFixture, fields: dict[str, object]
) -> None:
    for path in ("/scan/plan", "/scan/read"):
        response = http.post(path, content=json.dumps({"table": scanned, "columns": ["id"], "scan": "s", **fields}))
        assert response.status_code == 200 or _code(response) not in (1001, 49), response.text
    assert not [record for record in caplog.records if record.exc_info]


# -- requests that are no HTTP ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"SELECT 1\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET http:///h/?query=SELECT+1 HTTP/1.1\r\n\r\n", 400),
        (b"GET ?query=SELECT+1 HTTP/1.1\r\n\r\n", 400),
        (b"GET /?query=SELECT+1 HTTP/1.1\r\nHo st: x\r\n\r\n", 400),
        (b"GET /?" + b"x" * (2 << 20) + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 2000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * (69 << 20), 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 8\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8;" + b"x" * (3 << 20), 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSELECT 1\r\n0\r\nT: " + b"x" * (3 << 20), 431),
    ],
    ids=range(14),
)  # fmt: skip
def test_what_is_no_request(server: RunningServer, data: bytes, status: int) -> None:
    answer = _ask(server, data)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert re.search(rb"x-clickhouse-exception-code: (\d+)\r\n.*\r\n\r\nCode: \1\. DB::Exception: ", answer, re.DOTALL)


def test_earlier_requests_are_answered_before_what_is_no_request(server: RunningServer) -> None:
    query = b"GET /?query=SELECT+count()+FROM+numbers(3000000) HTTP/1.1\r\n\r\n"
    answer = _ask(server, query + query + b"what?\r\n\r\n")
    assert [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", answer)] == [200, 200, 400]
    assert answer.count(b"\r\n\r\n3000000\n") == 2


@pytest.mark.parametrize(
    "following", [b"GET /ping HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n"]
)
def test_a_client_with_more_requests_that_leaves_is_noticed(server: RunningServer, following: bytes) -> None:
    query_id = uuid.uuid4().hex
    query = f"/?query=SELECT+sum(number)+FROM+system.numbers&query_id={query_id}"
    with socket.create_connection(("127.0.0.1", server.http.port), timeout=20) as connection:
        connection.sendall(f"GET {query} HTTP/1.1\r\n\r\n".encode() + following + b"x" * 100_000)
        _wait_for(lambda: _is_running(server, query_id))
    _wait_for(lambda: not _is_running(server, query_id))


def test_upgrade_is_not_taken(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: %b\r\n"
    for protocol in (b"h2c", b"websocket"):
        head = b"GET /?query=SELECT+1 HTTP/1.1\r\n" + upgrade % protocol
        answer = _ask(server, head + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"\r\n\r\n1\n")
        # Its body would be left out: an INSERT without its rows.
        answer = _ask(server, head.replace(b"GET", b"POST") + b"Content-Length: 8\r\n\r\nSELECT 1")
        assert answer.startswith(b"HTTP/1.1 400 ")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# -- slowness -----------------------------------------------------------------------------------


def test_half_a_request_does_not_stay(hurried: RunningServer) -> None:
    for nothing in (b"", b"\r\n\r\n"):
        assert _ask(hurried, nothing) == b""
    scan = b"POST /scan/plan HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"
    assert b"Code: 209." in _ask(hurried, scan.replace(b"\r\n\r\n{", b"\r\nConnection: close\r\n\r\n{"))
    for half in (b"GET /?query=SEL", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nX: "):
        assert _ask(hurried, half).startswith(b"HTTP/1.1 408 ")
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
        assert (answer + _rest(connection)).startswith(b"HTTP/1.1 404 ")


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
            answer = _rest(connection) if connection.fileno() < 0 else connection.recv(4096)
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
        _wait_for(lambda: any(_is_running(hurried, query_id) for query_id in ids))
        _wait_for(lambda: not any(_is_running(hurried, query_id) for query_id in ids))
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
        _wait_for(lambda: _is_cut_off(hasty))
        answer = _rest(patient)
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
        _wait_for(lambda: _is_running(server, query_id))
        _wait_for(lambda: not _is_running(server, query_id))
        if isinstance(server.http, HttpServer):  # the places of other processes are not seen from here
            _wait_for(lambda: server.http._queries is not None and not server.http._queries._placed)  # type: ignore[union-attr]
        answer = _rest(connection)
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


# -- many connections -----------------------------------------------------------------------------------


def test_connections_are_bounded(hurried: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", hurried.http.port), timeout=30))
            for _ in range(60)
        ]
        answers = [_rest(connection) for connection in connections]
    assert sum(answer.startswith(b"HTTP/1.1 503 ") and b"Code: 202." in answer for answer in answers) >= 30
    assert len([record for record in caplog.records if "connections" in record.getMessage()]) <= 1
    _wait_for(hurried.client().ping)


def test_connections_leave_files_for_the_tables() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_connections(1) == 1
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert most_connections(4096) == 128
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- the end -----------------------------------------------------------------------------------


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
        _wait_for(lambda: len(list(server.engine.processes())) == 3)
    for thread in threads:
        thread.join(20)
    assert [(answer.status_code, _code(answer)) for answer in answers] == [(500, 394)] * 3
    assert not [record for record in caplog.records if record.exc_info]


def test_configuration_of_connections() -> None:
    config = Config.model_validate({"path": "x", "http_options_response": [{"name": "A", "value": "b"}]})
    assert config.http_options_response[0].name == "A"
