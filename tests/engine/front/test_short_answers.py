"""Short queries over HTTP look like all others, whoever answers them."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Iterator

import httpx
import pytest

from engine.front.http.short_answers import ShortAnswers
from sql.run.short_queries.short_query_cache import ShortQueryCache
from tests.engine.front.conftest import RunningServer
from tests.worker_count import WORKERS


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http.port}", trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def table(http: httpx.Client) -> Iterator[str]:
    name = f"s_{uuid.uuid4().hex[:12]}"
    http.post("/", content=f"CREATE TABLE {name} (k UInt64, s String) ENGINE = MergeTree ORDER BY k").raise_for_status()
    insert = f"INSERT INTO {name} SELECT number, concat('v', toString(number)) FROM numbers(20000)"
    http.post("/", content=insert).raise_for_status()
    yield name
    http.post("/", content=f"DROP TABLE IF EXISTS {name}")


class _Answers:
    """How many of the requests since it was made were answered on the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.short = 0
        real = ShortAnswers._answer

        def answer(own: ShortAnswers, *given: object) -> object:
            found = real(own, *given)  # type: ignore[arg-type]
            self.short += found is not None
            return found

        monkeypatch.setattr(ShortAnswers, "_answer", answer)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> _Answers:
    if WORKERS:
        pytest.skip("what other processes do is not counted here")
    return _Answers(monkeypatch)


_CHANGING = ("date", "x-clickhouse-query-id", "x-clickhouse-summary")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("format", ["TabSeparated", "JSON", "JSONEachRow", "Native", "CSVWithNames"])
def test_the_same_answer_as_before(http: httpx.Client, table: str, answers: _Answers, method: str, format: str) -> None:
    def ask(where: str) -> httpx.Response:
        query = f"SELECT * FROM {table} WHERE {where} FORMAT {format} SETTINGS output_format_write_statistics = 0"
        query = query.removesuffix(" SETTINGS output_format_write_statistics = 0")
        settings = {"output_format_write_statistics": "0"}
        if method == "GET":
            return http.get("/", params={"query": query, **settings})
        return http.post("/", params=settings, content=query)

    first, *others = [ask("k = 7") for _ in range(4)]
    assert answers.short >= 1
    for other in others:
        assert (other.status_code, other.content) == (200, first.content)
        assert list(other.headers) == list(first.headers)
        for name, value in first.headers.items():
            assert other.headers[name] == value or name in _CHANGING
        before, after = (json.loads(answer.headers["x-clickhouse-summary"]) for answer in (first, other))
        assert before.keys() == after.keys()
        for name in ("read_rows", "result_rows", "total_rows_to_read"):
            assert before[name] == after[name], name
    short = answers.short
    assert ask("k = 19999").text != first.text
    assert answers.short == short + 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "br", "gzip, br", "identity"])
def test_answers_are_compressed(http: httpx.Client, table: str, answers: _Answers, encoding: str) -> None:
    """The decoded bytes, and what they are encoded with, are the same whoever answers."""
    query = f"SELECT * FROM {table} WHERE k < 300 ORDER BY k"
    settings = {"query": query, "enable_http_compression": "1"}
    first, *others = [http.get("/", params=settings, headers={"accept-encoding": encoding}) for _ in range(4)]
    assert first.text == "".join(f"{key}\tv{key}\n" for key in range(300))
    for other in others:
        assert other.text == first.text
        names = [name for name in other.headers if name not in ("content-length", "transfer-encoding")]
        assert names == [name for name in first.headers if name not in ("content-length", "transfer-encoding")]
        assert other.headers.get("content-encoding") == first.headers.get("content-encoding")
    assert (answers.short > 0) == ("br" not in encoding)


def test_a_session_with_an_id_is_answered_shortly_too(
    http: httpx.Client, table: str, answers: _Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    real = ShortQueryCache.answer

    def answer(own: ShortQueryCache, *given: object) -> object:
        found.append(real(own, *given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(ShortQueryCache, "answer", answer)
    session = {"session_id": f"of-{table}"}
    for key in range(4):
        params = {"query": f"SELECT s FROM {table} WHERE k = {key} FORMAT JSON", **session}
        got = http.get("/", params=params)
        assert got.json()["data"] == [{"s": f"v{key}"}]
        assert json.loads(got.headers["x-clickhouse-summary"])["result_rows"] == "1"
    assert answers.short == 0
    assert found[0] is None
    assert found[-1] is not None
    http.post("/", params=session, content="SET output_format_json_quote_64bit_integers = 1").raise_for_status()
    for key in range(4):
        query = f"SELECT k FROM {table} WHERE k = {key} FORMAT JSONEachRow"
        assert http.get("/", params={"query": query, **session}).json() == {"k": str(key)}


def test_parameters_find_rows(http: httpx.Client, table: str, answers: _Answers) -> None:
    query = f"SELECT s FROM {table} WHERE k = {{key:UInt64}}"
    for key in (*range(5), 19999):
        assert http.get("/", params={"query": query, "param_key": str(key)}).text == f"v{key}\n"
    assert answers.short >= 3
    refused = http.get("/", params={"query": query, "param_key": "x"})
    assert (refused.status_code, refused.headers["x-clickhouse-exception-code"]) == (400, "457")
    refused = http.get("/", params={"query": query})
    assert refused.headers["x-clickhouse-exception-code"] == "456"


def test_what_is_written_is_read_at_once(http: httpx.Client, table: str, answers: _Answers) -> None:
    for number in range(30_000, 30_010):
        http.post("/", content=f"INSERT INTO {table} VALUES ({number}, 'new')").raise_for_status()
        assert http.get("/", params={"query": f"SELECT s FROM {table} WHERE k = {number}"}).text == "new\n"
    assert answers.short > 0
    http.post("/", content=f"DROP TABLE {table}").raise_for_status()
    gone = http.get("/", params={"query": f"SELECT s FROM {table} WHERE k = 30000"})
    assert (gone.status_code, gone.headers["x-clickhouse-exception-code"]) == (404, "60")


def test_who_asks_is_checked_every_time(http: httpx.Client, answers: _Answers) -> None:
    for _ in range(3):
        assert http.get("/", params={"query": "SELECT 1", "user": "bob", "password": "secret"}).text == "1\n"
    assert answers.short > 0
    refused = http.get("/", params={"query": "SELECT 1", "user": "bob", "password": "wrong"})
    assert (refused.status_code, refused.headers["x-clickhouse-exception-code"]) == (403, "516")


@pytest.mark.parametrize(
    "given",
    [
        {"query_id": "of-mine"},
        {"max_result_rows": "1"},
        {"max_memory_usage": "1000000"},
        {"session_id": "short-session"},
        {"default_format": "JSONEachRow"},
        {"dialect": "spark"},
        {"session_timezone": "Asia/Tokyo"},
        {"max_execution_time": "0.5"},
        {"param_x": "3"},
        {"database": "system"},
    ],
)
def test_what_else_is_asked_for_is_kept(http: httpx.Client, answers: _Answers, given: dict[str, str]) -> None:
    got = [http.get("/", params={"query": "SELECT 1 AS one", **given}) for _ in range(4)]
    assert {answer.text for answer in got} == {got[0].text}
    assert {answer.status_code for answer in got} == {200}
    assert {answer.headers["content-type"] for answer in got} == {got[0].headers["content-type"]}
    if "query_id" in given:
        assert {answer.headers["x-clickhouse-query-id"] for answer in got} == {"of-mine"}


def test_unknown_settings_and_databases_are_refused_as_before(http: httpx.Client) -> None:
    for _ in range(3):
        http.get("/", params={"query": "SELECT 1"}).raise_for_status()
    for name, code in (("no_such_setting", "115"), ("database", "81"), ("profile", "180")):
        refused = http.get("/", params={"query": "SELECT 1", name: "nowhere"})
        assert refused.headers["x-clickhouse-exception-code"] == code


def test_a_body_that_comes_late_and_requests_in_one_packet(server: RunningServer, http: httpx.Client) -> None:
    for _ in range(3):
        http.post("/", content="SELECT 1").raise_for_status()
    port = server.http.port
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"POST /?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nSELE".replace(b"?x=1", b"?"))
        threading.Event().wait(0.1)
        connection.sendall(b"CT 1")
        assert _answers_of(connection, 1) == ["1\n"]
        one = b"GET /?query=SELECT+1 HTTP/1.1\r\nHost: x\r\n\r\n"
        other = b"GET /?query=SELECT+count()+FROM+numbers(5) HTTP/1.1\r\nHost: x\r\n\r\n"
        connection.sendall(one * 9 + other + one + other + b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n" + one)
        assert _answers_of(connection, 14) == ["1\n"] * 9 + ["5\n", "1\n", "5\n", "Ok.\n", "1\n"]


def test_the_body_of_a_get_means_nothing(http: httpx.Client, answers: _Answers) -> None:
    for _ in range(4):
        answer = http.request("GET", "/", params={"query": "SELECT 1"}, content=b" + 1")
        assert answer.text == "1\n"
    assert answers.short > 0
    for _ in range(4):
        assert http.post("/", params={"query": "SELECT 1"}, content=b" + 1").text == "2\n"
    refused = http.post("/", params={"query": "SELECT 1"}, content=b"\xff")
    assert refused.headers["x-clickhouse-exception-code"] == "62"


def test_nonsense_behind_a_short_query(server: RunningServer, http: httpx.Client) -> None:
    for _ in range(3):
        http.post("/", content="SELECT 1").raise_for_status()
    for begun in (b"SELE", b""):
        with socket.create_connection(("127.0.0.1", server.http.port), timeout=10) as connection:
            head = b"POST /?a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head + (b"4\r\n%b\r\n" % begun if begun else b"") + b"zz zz\r\n")
            answer = connection.recv(100_000)
            assert answer.startswith(b"HTTP/1.1 400 "), answer


def _answers_of(connection: socket.socket, count: int) -> list[str]:
    """The bodies of so many answers."""
    data, bodies = b"", []
    while len(bodies) < count:
        head, found, rest = data.partition(b"\r\n\r\n")
        if found:
            fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
            length = int(fields["content-length"])
            if len(rest) >= length:
                bodies.append(rest[:length].decode())
                data = rest[length:]
                continue
        more = connection.recv(100_000)
        assert more, data
        data += more
    assert not data
    return bodies
