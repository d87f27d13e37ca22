"""The HTTP interface against the real engine: what a ClickHouse client relies on."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator

import httpx
import pyarrow as pa
import pytest
import zstandard

from engine.front.compressed_blocks import compress_block
from engine.http_client.http_client import HttpClient
from parts.common.errors import CorruptionError, PandoError, UserError
from tests.engine.front.conftest import RunningServer


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


# -- health and queries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/ping", "/ready", "/replicas_status"])
def test_health(http: httpx.Client, path: str) -> None:
    response = http.get(path)
    assert (response.status_code, response.text) == (200, "Ok.\n")
    assert http.head(path).status_code == 200


def test_answer_and_headers(http: httpx.Client) -> None:
    response = http.get("/", params={"query": "SELECT 1 AS a, 'x' AS b", "query_id": "my-query"})
    assert (response.status_code, response.text) == (200, "1\tx\n")
    headers = response.headers
    assert headers["x-clickhouse-query-id"] == "my-query"
    assert headers["x-clickhouse-format"] == "TabSeparated"
    assert headers["x-clickhouse-timezone"] == "UTC"
    assert headers["x-clickhouse-server-display-name"] == "front-test"
    assert headers["content-type"].startswith("text/tab-separated-values")
    summary = json.loads(headers["x-clickhouse-summary"])
    assert {"read_rows", "read_bytes", "written_rows", "result_rows", "elapsed_ns", "deduplicated_blocks"} <= set(
        summary
    )
    assert summary["result_rows"] == "1"
    assert all(isinstance(value, str) for value in summary.values())


def test_query_in_url_and_body_is_one_text(http: httpx.Client) -> None:
    assert http.post("/", params={"query": "SELECT 1"}, content=b"+ 1").text == "2\n"
    assert http.post("/", content=b"SELECT 3").text == "3\n"


@pytest.mark.parametrize(
    ("parameters", "headers"),
    [({"default_format": "JSONEachRow"}, {}), ({}, {"X-ClickHouse-Format": "JSONEachRow"})],
)
def test_default_format(http: httpx.Client, parameters: dict[str, str], headers: dict[str, str]) -> None:
    response = http.post("/", params=parameters, headers=headers, content="SELECT 1 AS a")
    assert response.text == '{"a":1}\n'
    assert response.headers["x-clickhouse-format"] == "JSONEachRow"
    assert http.post("/", params=parameters, headers=headers, content="SELECT 1 AS a FORMAT CSV").text == "1\n"


def test_query_parameters(http: httpx.Client) -> None:
    response = http.get("/", params={"query": "SELECT {n:UInt8} + 1, {s:String}", "param_n": "41", "param_s": "a'b"})
    assert response.text == "42\ta\\'b\n"


def test_database_parameter(http: httpx.Client) -> None:
    query = {"query": "SELECT currentDatabase()"}
    assert http.get("/", params={**query, "database": "system"}).text == "system\n"
    assert http.get("/", params=query, headers={"X-ClickHouse-Database": "system"}).text == "system\n"
    response = http.get("/", params={**query, "database": "nowhere"})
    assert (response.status_code, response.headers["x-clickhouse-exception-code"]) == (404, "81")


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status", "code", "name"),
    [
        ("SELEC 1", 400, 62, "SYNTAX_ERROR"),
        ("", 400, 62, "SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", 400, 62, "SYNTAX_ERROR"),
        ("SELECT * FROM no_such_table", 404, 60, "UNKNOWN_TABLE"),
        ("SELECT no_such_function(1)", 404, 46, "UNKNOWN_FUNCTION"),
        ("SELECT 1 FORMAT NoSuchFormat", 404, 73, "UNKNOWN_FORMAT"),
        ("SELECT 1 SETTINGS no_such_setting = 1", 404, 115, "UNKNOWN_SETTING"),
        ("SELECT 1 INTO OUTFILE 'x'", 400, 344, "SUPPORT_IS_DISABLED"),
    ],
)
def test_error(http: httpx.Client, query: str, status: int, code: int, name: str) -> None:
    response = http.post("/", content=query)
    assert response.status_code == status
    assert response.headers["x-clickhouse-exception-code"] == str(code)
    assert response.text.startswith(f"Code: {code}. DB::Exception: ")
    assert f"({name}) (version " in response.text


def test_bad_url_parameters(http: httpx.Client) -> None:
    response = http.get("/", params={"query": "SELECT 1", "max_threds": "1"})
    assert (response.status_code, response.headers["x-clickhouse-exception-code"]) == (404, "115")
    assert "max_threads" in response.text
    assert http.get("/", params={"query": "SELECT 1", "max_threads": "x"}).status_code == 400


def test_get_only_reads(http: httpx.Client, table: str) -> None:
    response = http.get("/", params={"query": f"INSERT INTO {table} VALUES (1, 'a')"})
    assert response.headers["x-clickhouse-exception-code"] == "164"
    assert "readonly" in response.text


def test_readonly_setting(http: httpx.Client, table: str) -> None:
    response = http.post("/", params={"readonly": 1}, content=f"DROP TABLE {table}")
    assert response.headers["x-clickhouse-exception-code"] == "164"


def test_parameters_of_a_session(http: httpx.Client, table: str) -> None:
    session = {"session_id": uuid.uuid4().hex}
    assert http.post("/", params=session, content="SET param_num = 42, param_s = 'a'").status_code == 200
    for _ in range(2):
        assert http.post("/", params=session, content="SELECT {num:UInt8}, {s:String}").text == "42\ta\n"
    given = {**session, "param_num": "7"}
    assert http.post("/", params=given, content="SELECT {num:UInt8}, {s:String}").text == "7\ta\n"
    assert http.post("/", params=session, content="SELECT {num:UInt8}").text == "42\n"
    assert "456" in http.post("/", content="SELECT {num:UInt8}").text


def test_readonly_session_stays_so(http: httpx.Client, table: str) -> None:
    session = {"session_id": uuid.uuid4().hex}
    assert http.post("/", params=session, content="SET readonly = 2, max_threads = 2").status_code == 200
    assert http.post("/", params=session, content="SET max_threads = 1").status_code == 200
    for statement in ("SET readonly = 0", "SET readonly = 1"):
        refused = http.post("/", params=session, content=statement)
        assert refused.headers["x-clickhouse-exception-code"] == "164"
    only_reading = {"session_id": uuid.uuid4().hex}
    assert http.post("/", params=only_reading, content="SET readonly = 1").status_code == 200
    for statement in ("SET readonly = 0", "SET max_threads = 1", f"DROP TABLE {table}"):
        refused = http.post("/", params=only_reading, content=statement)
        assert refused.headers["x-clickhouse-exception-code"] == "164"


def test_query_text_limit(http: httpx.Client) -> None:
    query = "SELECT 1" + " " * 300_000
    assert "max_query_size" in http.post("/", content=query).text
    assert http.post("/", params={"max_query_size": 1_000_000}, content=query).text == "1\n"
    any_size = {"max_query_size": 2**64 - 1, "decompress": 1}
    assert http.post("/", params=any_size, content=compress_block(query.encode())).text == "1\n"


def test_query_that_is_not_utf8(http: httpx.Client) -> None:
    response = http.post("/", content=b"SELECT '\xff'")
    assert response.status_code == 400
    assert "not valid UTF-8 at byte 8" in response.text


# -- users ----------------------------------------------------------------------------------------------------------


def test_authentication(http: httpx.Client) -> None:
    query = {"query": "SELECT currentUser()"}
    assert http.get("/", params=query, auth=("bob", "secret")).text == "bob\n"
    assert http.get("/", params={**query, "user": "bob", "password": "secret"}).text == "bob\n"
    headers = {"X-ClickHouse-User": "bob", "X-ClickHouse-Key": "secret"}
    assert http.get("/", params=query, headers=headers).text == "bob\n"
    response = http.get("/", params=query, auth=("bob", "wrong"))
    assert (response.status_code, response.headers["x-clickhouse-exception-code"]) == (403, "516")
    response = http.get("/", params={**query, "user": "nobody"})
    assert (response.status_code, response.headers["x-clickhouse-exception-code"]) == (403, "516")
    response = http.get("/", params={**query, "user": "bob"})
    assert (response.status_code, response.headers["x-clickhouse-exception-code"]) == (403, "516")


def test_readonly_user(server: RunningServer) -> None:
    with server.client(user="reader") as client:
        assert client.execute("SELECT 1").text == "1\n"
        with pytest.raises(UserError) as caught:
            client.execute("CREATE DATABASE other")
        assert caught.value.code == 164


# -- sessions -------------------------------------------------------------------------------------------------------


def test_session_keeps_use_and_set(http: httpx.Client) -> None:
    session = {"session_id": uuid.uuid4().hex}
    http.post("/", params=session, content="USE system").raise_for_status()
    http.post("/", params=session, content="SET max_threads = 3").raise_for_status()
    assert http.post("/", params=session, content="SELECT currentDatabase()").text == "system\n"
    assert http.post("/", content="SELECT currentDatabase()").text == "default\n"
    response = http.post("/", params={"session_id": "never", "session_check": "1"}, content="SELECT 1")
    assert response.headers["x-clickhouse-exception-code"] == "372"
    response = http.post("/", params={**session, "session_timeout": "never"}, content="SELECT 1")
    assert response.status_code == 400


# -- INSERT ---------------------------------------------------------------------------------------------------------


def test_insert_data_in_body(http: httpx.Client, client: HttpClient, table: str) -> None:
    response = http.post("/", params={"query": f"INSERT INTO {table} FORMAT TabSeparated"}, content=b"1\ta\n2\tb\n")
    assert response.status_code == 200, response.text
    assert json.loads(response.headers["x-clickhouse-summary"])["written_rows"] == "2"
    http.post("/", content=f"INSERT INTO {table} FORMAT CSV\n3,c\n").raise_for_status()
    http.post("/", content=f"INSERT INTO {table} VALUES (4, 'd'), (5, 'e')").raise_for_status()
    assert client.rows(f"SELECT count(), sum(id) FROM {table}") == [[5, 15]]


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data)


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", _deflate), ("zstd", zstandard.compress)]
)
def test_compressed_body(
    http: httpx.Client, client: HttpClient, table: str, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    data = "".join(f"{number},x\n" for number in range(1000)).encode()
    http.post(
        "/",
        params={"query": f"INSERT INTO {table} FORMAT CSV"},
        headers={"Content-Encoding": encoding},
        content=compress(data),
    ).raise_for_status()
    assert client.value(f"SELECT count() FROM {table}") == 1000


def test_streamed_insert(client: HttpClient, table: str) -> None:
    def data() -> Iterator[bytes]:
        for start in range(0, 200_000, 10_000):
            yield "".join(f"{number}\ttext {number}\n" for number in range(start, start + 10_000)).encode()

    summary = client.insert(table, data(), "TabSeparated")
    assert summary.written_rows == 200_000
    assert client.rows(f"SELECT count(), sum(id) FROM {table}") == [[200_000, 200_000 * 199_999 // 2]]


def test_large_rows_make_blocks_of_bounded_size(http: httpx.Client, client: HttpClient, table: str) -> None:
    """However the body arrives: the second one stores nothing, because its blocks are the same."""
    client.execute(f"DROP TABLE {table}")
    settings = "SETTINGS non_replicated_deduplication_window = 100, parts_to_throw_insert = 1000"
    client.execute(f"CREATE TABLE {table} (id UInt64, text String) ENGINE = MergeTree ORDER BY id {settings}")
    body = b"".join(b"%d\t%b\n" % (number, b"x" * 10_000) for number in range(1000))
    parameters = {"query": f"INSERT INTO {table} FORMAT TSV", "min_insert_block_size_bytes": 3_000_000}
    pieces = (body[start : start + 70_001] for start in range(0, len(body), 70_001))
    answers = [http.post("/", params=parameters, content=content) for content in (body, pieces)]
    counts = [json.loads(answer.headers["x-clickhouse-summary"]) for answer in answers]
    assert [count["written_rows"] for count in counts] == ["1000", "0"]
    assert counts[1]["deduplicated_blocks"] == "3"
    assert client.value(f"SELECT count() FROM {table}") == 1000


def test_null_is_told_with_its_row_in_the_whole_data(client: HttpClient, table: str) -> None:
    settings = {"max_insert_block_size": 2, "input_format_null_as_default": 0}
    with pytest.raises(UserError, match="at row 4, column id"):
        client.insert(table, b"1\ta\n2\tb\n3\tc\n\\N\td\n", "TSV", settings=settings)


def test_bad_row_fails_the_insert(client: HttpClient, table: str) -> None:
    with pytest.raises(UserError) as caught:
        client.insert(table, b"1\ta\nx\tb\n", "TabSeparated")
    assert caught.value.code in (6, 27, 72)
    assert "row 2" in caught.value.message
    assert client.value(f"SELECT count() FROM {table}") == 0


def test_client_that_leaves_while_sending(server: RunningServer, client: HttpClient, table: str) -> None:
    """Half a request is no request: nothing of it is stored, and the server goes on."""
    connection = socket.create_connection(("127.0.0.1", server.http.port))
    query_id = uuid.uuid4().hex
    connection.sendall(
        f"POST /?query=INSERT+INTO+{table}+FORMAT+CSV&query_id={query_id} HTTP/1.1\r\nHost: x\r\n"
        "Transfer-Encoding: chunked\r\n\r\n".encode()
    )
    rows = b"1,a\n" * 100_000
    connection.sendall(b"%x\r\n%b\r\n" % (len(rows), rows))
    _wait_for(lambda: any(process.query_id == query_id for process in server.engine.processes()))
    connection.close()
    _wait_for(lambda: not any(process.query_id == query_id for process in server.engine.processes()))
    assert client.value(f"SELECT count() FROM {table}") == 0


# -- answers ----------------------------------------------------------------------------------------------------------


def test_large_answer_streams(client: HttpClient) -> None:
    with client.stream("SELECT number FROM system.numbers LIMIT 1000000") as stream:
        total = sum(chunk.count(b"\n") for chunk in stream)
    assert total == 1_000_000


def test_block_size_of_an_answer(client: HttpClient) -> None:
    data = client.execute(
        "SELECT number FROM system.numbers LIMIT 25 FORMAT ArrowStream", settings={"max_block_size": 10}
    ).data
    assert [batch.num_rows for batch in pa.ipc.open_stream(data)] == [10, 10, 5]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_compressed_answer(http: httpx.Client, encoding: str) -> None:
    query = {"query": "SELECT number FROM system.numbers LIMIT 1000"}
    expected = "".join(f"{number}\n" for number in range(1000))
    response = http.get("/", params={**query, "enable_http_compression": "1"}, headers={"Accept-Encoding": encoding})
    assert response.headers["content-encoding"] == encoding
    assert response.text == expected
    assert "content-encoding" not in http.get("/", params=query).headers


@pytest.mark.long
def test_error_after_the_first_byte(server: RunningServer, client: HttpClient) -> None:
    """The answer ends with the error, broken, so that it cannot be taken for whole."""
    query = "SELECT number, throwIf(number = 3000000) FROM system.numbers LIMIT 5000000"

    def read() -> None:
        with client.stream(query, settings={"http_response_buffer_size": 1}) as stream:
            assert sum(len(chunk) for chunk in stream) > 0

    with pytest.raises(PandoError) as caught:
        read()
    if caught.value.code == 46:
        pytest.skip("there is no throwIf")
    assert not isinstance(caught.value, CorruptionError)
    assert caught.value.code not in (210, 1001)
    with pytest.raises(PandoError):
        client.execute(query, settings={"wait_end_of_query": 1})


def test_client_that_leaves_cancels_the_query(server: RunningServer, client: HttpClient) -> None:
    query_id = uuid.uuid4().hex

    def is_running() -> bool:
        return any(process.query_id == query_id for process in server.engine.processes())

    with client.stream("SELECT number FROM system.numbers", query_id=query_id) as stream:
        answer = iter(stream)  # kept: the connection ends with it
        next(answer)
        assert is_running()
    _wait_for(lambda: not is_running())


def test_time_limit(client: HttpClient) -> None:
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        client.execute("SELECT sum(number) FROM system.numbers", settings={"max_execution_time": 0.3})
    assert caught.value.code == 159
    assert time.monotonic() - started < 10


def test_kill_query(server: RunningServer, client: HttpClient) -> None:
    query_id = uuid.uuid4().hex
    codes: list[int] = []

    def run() -> None:
        try:
            client.execute("SELECT sum(number) FROM system.numbers", query_id=query_id)
        except PandoError as error:
            codes.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    _wait_for(lambda: any(process.query_id == query_id for process in server.engine.processes()))
    with server.client() as other:
        other.kill(query_id)
    thread.join(20)
    assert codes == [394]


def test_clients_that_send_no_body_keep_nobody_out(server: RunningServer, http: httpx.Client) -> None:
    head = b"POST /?http_receive_timeout=0.05 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(2 * server.engine.config.max_concurrent_queries):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", server.http.port), timeout=30))
            silent.sendall(head)
        assert http.get("/", params={"query": "SELECT 1"}).text == "1\n"
        late = stack.enter_context(socket.create_connection(("127.0.0.1", server.http.port), timeout=30))
        late.sendall(head)
        assert late.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_concurrent_queries_beyond_the_limit(server: RunningServer) -> None:
    stop = threading.Event()
    begun: list[bytes] = []

    def hold(client: HttpClient) -> None:
        with client.stream("SELECT number FROM system.numbers") as stream:
            answer = iter(stream)  # kept: the connection ends with it
            begun.append(next(answer))
            stop.wait(20)

    with server.client() as client:
        threads = [threading.Thread(target=hold, args=(client,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            _wait_for(lambda: len(begun) == 8)  # the server may count one of another test that is ending
            with pytest.raises(PandoError) as caught:
                client.execute("SELECT 1")
            assert caught.value.code == 202
        finally:
            stop.set()
            for thread in threads:
                thread.join(20)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(number) FROM numbers(50000000)",
        "SELECT throwIf(number = 30000000) FROM numbers(50000000) FORMAT Null",
    ],
)
@pytest.mark.long
def test_progress_in_headers(server: RunningServer, http: httpx.Client, query: str) -> None:
    """The answer's head begins while the query runs."""
    given = {"query": query, "send_progress_in_http_headers": 1, "http_headers_progress_interval_ms": 1}
    for _ in range(2):
        response = http.get("/", params=given)
        assert response.status_code == 200
        told = [json.loads(text) for text in response.headers.get_list("x-clickhouse-progress")]
        assert told
        assert {"read_rows", "read_bytes", "elapsed_ns"} <= set(told[0])
        assert int(told[-1]["elapsed_ns"]) > int(told[0]["elapsed_ns"]) or len(told) == 1
        if "throwIf" in query:
            assert response.headers["x-clickhouse-exception-code"] == "395"
            assert response.text.startswith("Code: 395.")
        else:
            assert response.text == "1249999975000000\n"
    assert "x-clickhouse-progress" not in http.get("/", params={"query": query}).headers


def test_pages_of_other_origins(http: httpx.Client) -> None:
    query = {"query": "SELECT 1"}
    origin = {"Origin": "http://elsewhere"}
    assert "access-control-allow-origin" not in http.get("/", params=query, headers=origin).headers
    allowed = {**query, "add_http_cors_header": "1"}
    assert http.get("/", params=allowed, headers=origin).headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in http.get("/", params=allowed).headers


# -- pages ----------------------------------------------------------------------------------------------------------


def test_metrics(http: httpx.Client, client: HttpClient, table: str) -> None:
    client.insert(table, b"1,a\n", "CSV")
    text = http.get("/metrics").text
    for name in (
        "pando_queries_total",
        "pando_inserts_total",
        "pando_written_rows_total",
        "pando_query_seconds_bucket",
    ):
        assert name in text


def test_play_page_is_self_contained(http: httpx.Client) -> None:
    response = http.get("/play")
    assert response.headers["content-type"].startswith("text/html")
    assert "src=" not in response.text
    assert "http://" not in response.text
    assert "https://" not in response.text


def _wait_for(condition: Callable[[], bool], timeout_seconds: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)
