"""What clients must not be able to do, and what those who do it badly are told."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import uuid
from collections.abc import Iterator

import httpx
import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from sql.settings.supported_settings import (
    SUPPORTED_SETTINGS,
)
from tests.engine.front.asking import ask, code_of, is_running, running_query, wait_for
from tests.engine.front.conftest import RunningServer
from tests.portions import one_in


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


def test_a_used_query_id_touches_nothing(server: RunningServer, http: httpx.Client) -> None:
    with running_query(server) as (query_id, codes):
        given = {"query_id": query_id, "query": "SELECT 1", "user": "reader"}
        assert code_of(http.get("/", params=given)) == 216
        assert http.head("/", params=given).headers["x-clickhouse-exception-code"] == "216"
        assert code_of(http.post("/", params=given, content="x" * 1000)) in (62, 216)
        for _ in range(5):  # clients that leave at once
            with socket.create_connection(("127.0.0.1", server.http.port)) as connection:
                connection.sendall(f"POST /?query_id={query_id} HTTP/1.1\r\nContent-Length: 8\r\n\r\nSELECT 1".encode())
        assert http.get("/", params={"query": "SELECT 1"}).text == "1\n"
        assert is_running(server, query_id)
        assert codes == []
    assert codes == [394]


def test_only_the_owner_or_who_may_write_kills(server: RunningServer) -> None:
    with running_query(server) as (query_id, codes):
        with server.client(user="reader") as reader, pytest.raises(PandoError) as caught:
            reader.kill(query_id)
        assert caught.value.code == 497
        assert is_running(server, query_id)
        with server.client(user="bob", password="secret", settings={"readonly": 1}) as owner:
            owner.kill(query_id)
        wait_for(lambda: not is_running(server, query_id))
    assert codes == [394]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE", "PATCH", "PROPFIND"])
def test_methods_that_are_not_there(http: httpx.Client, client: HttpClient, table: str, method: str) -> None:
    for path in ("/", "/ping", "/scan/plan"):
        response = http.request(method, path, params={"query": f"INSERT INTO {table} VALUES (1, 'a')"})
        assert (response.status_code, code_of(response)) == (405, 1)
    assert client.value(f"SELECT count() FROM {table}") == 0


def test_options_executes_nothing(http: httpx.Client, client: HttpClient, table: str) -> None:
    response = http.options("/", params={"query": f"INSERT INTO {table} VALUES (1, 'a')"})
    assert (response.status_code, response.headers["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
    assert "access-control-allow-origin" not in response.headers
    assert client.value(f"SELECT count() FROM {table}") == 0


def test_readonly_is_not_lifted(http: httpx.Client, table: str) -> None:
    insert = f"INSERT INTO {table} VALUES (1, 'a')"
    reader = {"user": "reader2"}
    assert code_of(http.post("/", params={**reader, "readonly": 0}, content=insert)) == 164
    assert code_of(http.post("/", params=reader, content=insert)) == 164
    assert (
        code_of(http.post("/", params=reader, content=f"INSERT INTO {table} SETTINGS readonly=0 VALUES (1, 'a')"))
        == 164
    )
    assert code_of(http.post("/", params=reader, content="SELECT 1 SETTINGS readonly = 0")) == 164
    assert code_of(http.post("/", params={**reader, "session_id": "r"}, content="SET readonly = 0")) == 164
    assert (
        http.post("/", params={**reader, "max_threads": 1}, content="SELECT 1 SETTINGS max_threads = 2").text == "1\n"
    )
    assert code_of(http.get("/", params={"readonly": 0, "query": insert})) == 164
    assert code_of(http.get("/", params={"query": f"INSERT INTO {table} SETTINGS readonly=0 VALUES (1, 'a')"})) == 164
    assert code_of(http.get("/", params={"query": "SELECT 1 SETTINGS readonly = 0"})) == 164
    assert code_of(http.post("/", params={"readonly": 1}, content="SELECT 1 SETTINGS max_threads = 3")) == 164
    assert http.post("/", params={"readonly": 1}, content="SELECT 1 SETTINGS max_threads = 0").text == "1\n"
    assert code_of(http.post("/", content=f"INSERT INTO {table} SETTINGS readonly=1 VALUES (1, 'a')")) == 164


READER = {"user": "reader"}


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("max_execution_time", 5),
        ("max_execution_time", -1),
        ("max_memory_usage", 0),
        ("max_memory_usage", 5),
        ("max_ast_depth", 0),
    ],
)
def test_a_read_only_user_lifts_no_limit(http: httpx.Client, limit: str, value: int) -> None:
    """The server's own limit of memory is no setting of the session, but is one to the user."""
    assert code_of(http.post("/", params={**READER, limit: value}, content="SELECT 1")) == 164
    assert code_of(http.post("/", params=READER, content=f"SELECT 1 SETTINGS {limit} = {value}")) == 164
    session = {**READER, "session_id": f"lift-{limit}-{value}"}
    assert code_of(http.post("/", params=session, content=f"SET {limit} = {value}")) == 164
    told = http.post("/", params=session, content=f"SELECT value FROM system.settings WHERE name = '{limit}'").text
    assert told != f"{value}\n"
    assert http.post("/", params=session, content=f"SET {limit} = DEFAULT").status_code == 200


def test_a_read_only_user_may_use_what_is_no_setting_in_clickhouse(http: httpx.Client) -> None:
    asks = {**READER, "wait_end_of_query": "1", "buffer_size": "1000000", "default_format": "JSONEachRow",
            "database": "system", "query_id": "reader's", "quota_key": "k", "stacktrace": "1"}  # fmt: skip
    response = http.post("/", params=asks, content="SELECT count() AS n FROM one")
    assert response.text == '{"n":1}\n'
    assert response.headers["x-clickhouse-query-id"] == "reader's"
    assert (
        http.post("/", params={**asks, "session_id": "s", "session_timeout": "5"}, content="SELECT 1").status_code
        == 200
    )
    assert http.post("/", params={**READER, "compress": "1"}, content="SELECT 1").content[16:17] in (b"\x82", b"\x90")
    fails = "SELECT number, throwIf(number = 3000000) FROM numbers(4000000)"
    with http.stream("POST", "/", params={**READER, "buffer_size": "1"}, content=fails) as begun:
        assert begun.status_code == 200
    assert code_of(http.post("/", params={**READER, "wait_end_of_query": "1"}, content=fails)) == 395
    for setting in ("http_response_buffer_size", "max_block_size"):
        assert code_of(http.post("/", params={**READER, setting: "5"}, content="SELECT 1")) == 164


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO {t} SELECT 1, ''", "CREATE DATABASE x", "CREATE TABLE x AS {t}", "DROP TABLE {t}",
     "TRUNCATE TABLE {t}", "RENAME TABLE {t} TO x", "OPTIMIZE TABLE {t}", "SYSTEM STOP MERGES", "DETACH TABLE {t}",
     "ATTACH TABLE {t}", "DROP DATABASE default", "SYSTEM DROP REPLICA 'x' FROM TABLE {t}"],
)  # fmt: skip
def test_what_changes_something_is_refused(http: httpx.Client, scanned: str, statement: str) -> None:
    for user in ("reader", "reader2"):
        assert code_of(http.post("/", params={"user": user}, content=statement.format(t=scanned))) == 164


def test_users_are_not_told_apart(http: httpx.Client) -> None:
    answers = set()
    for user, password in (("bob", "wrong"), ("bob", ""), ("nobody", "wrong"), ("nobody", "")):
        response = http.get("/", params={"query": "SELECT 1", "user": user, "password": password})
        assert (response.status_code, code_of(response)) == (403, 516)
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
    assert code_of(http.post("/", headers=encoded, content="SELECT 1")) == code


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("session_id=a&session_timeout=%C2%B2", 374), ("session_id=a&session_timeout=0", 374),
        ("query_id=a%0D%0AX-Y:1", 36),
        ("session_id=%00", 36), ("query_id=" + "x" * 5000, 36), ("query=%FF", 36), ("max_threads=%C2%B2", 72),
        ("param_x=1&query=SELECT+{y:UInt8}", 456), ("database=%00", 81), ("max_execution_time=nan", 72),
    ],
)  # fmt: skip
def test_bad_parameters(http: httpx.Client, parameters: str, code: int) -> None:
    separator = "" if "query=" in parameters else "&query=SELECT+1"
    response = http.get(f"/?{parameters}{separator}")
    assert code_of(response) == code
    assert "x-y" not in response.headers


@pytest.mark.parametrize(
    "name", one_in(4, sorted(name for name, setting in SUPPORTED_SETTINGS.items() if "Int64" in setting.type))
)
def test_largest_values_of_settings(http: httpx.Client, scanned: str, name: str) -> None:
    for value in (2**64 - 1, 2**63 - 1):
        if name == "readonly" or (SUPPORTED_SETTINGS[name].type == "Int64" and value >= 2**63):
            continue
        given = {name: value}
        selected = http.post("/", params=given, content="SELECT number, 'a' FROM numbers(3) FORMAT JSON")
        inserted = http.post("/", params=given, content=f"INSERT INTO {scanned} VALUES (1)")
        for answer in (selected, inserted):
            assert answer.status_code == 200 or code_of(answer) in (36, 48, 69, 243, 285), answer.text


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
    assert response.status_code == 200 or code_of(response) not in (1001, 49), response.text
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
        assert response.status_code == 200 or code_of(response) not in (1001, 49), response.text
    assert not [record for record in caplog.records if record.exc_info]


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
    answer = ask(server, data)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert re.search(rb"x-clickhouse-exception-code: (\d+)\r\n.*\r\n\r\nCode: \1\. DB::Exception: ", answer, re.DOTALL)


def test_earlier_requests_are_answered_before_what_is_no_request(server: RunningServer) -> None:
    query = b"GET /?query=SELECT+count()+FROM+numbers(3000000) HTTP/1.1\r\n\r\n"
    answer = ask(server, query + query + b"what?\r\n\r\n")
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
        wait_for(lambda: is_running(server, query_id))
    wait_for(lambda: not is_running(server, query_id))


def test_upgrade_is_not_taken(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: %b\r\n"
    for protocol in (b"h2c", b"websocket"):
        head = b"GET /?query=SELECT+1 HTTP/1.1\r\n" + upgrade % protocol
        answer = ask(server, head + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"\r\n\r\n1\n")
        # Its body would be left out: an INSERT without its rows.
        answer = ask(server, head.replace(b"GET", b"POST") + b"Content-Length: 8\r\n\r\nSELECT 1")
        assert answer.startswith(b"HTTP/1.1 400 ")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
