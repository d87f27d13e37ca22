"""Errors over HTTP: statuses, the trailer of an answer cut off, and a client that never takes half for whole."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest

from engine.front.http.error_responses import (
    convert_to_pando_error,
    format_error,
    get_http_status,
    make_exception_trailer,
)
from engine.front.session_store import SessionStore
from engine.http_client.connections import Connections
from engine.http_client.errors import RefusedError, make_response_error, parse_error
from engine.http_client.http_client import HttpClient
from engine.http_client.response_file import ResponseFile
from engine.http_client.retry import try_servers
from engine.queries.session import Session
from parts.common.errors import CorruptionError, PandoError, UnavailableError, UnknownOutcomeError, UserError


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UserError("SYNTAX_ERROR", ""), 400),
        (UserError("TYPE_MISMATCH", ""), 400),
        (UserError("UNKNOWN_TABLE", ""), 404),
        (UserError("NOT_IMPLEMENTED", ""), 501),
        (UserError("TIMEOUT_EXCEEDED", ""), 408),
        (UnavailableError("TABLE_IS_READ_ONLY", ""), 503),
        (UnavailableError("KEEPER_EXCEPTION", ""), 503),
        (UnknownOutcomeError("UNKNOWN_STATUS_OF_INSERT", ""), 500),
        (CorruptionError("x"), 500),
    ],
)
def test_status(error: PandoError, status: int) -> None:
    assert get_http_status(error) == status


def test_error_text_is_read_back() -> None:
    error = UserError("UNKNOWN_TABLE", "Table default.t (with a bracket) does not exist\nsecond line")
    parsed = parse_error(format_error(error))
    assert parsed is not None
    assert (parsed.code, parsed.message) == (error.code, error.message)
    assert parse_error("<html>502 Bad Gateway</html>") is None


def test_bug_is_told_as_such() -> None:
    error = convert_to_pando_error(ValueError("oops"))
    assert (error.code, get_http_status(error)) == (1001, 500)
    assert "ValueError: oops" in error.message


# -- a server that does what a real one rarely does -------------------------------------------------------------------


@contextmanager
def _scripted(answer: bytes) -> Iterator[HttpClient]:
    """A client of a server that sends these bytes to whoever asks, and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            received = b""
            while b"SELECT 1" not in received:
                received += connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        with HttpClient(port=listener.getsockname()[1]) as client:
            yield client
        thread.join(10)
    finally:
        listener.close()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-ClickHouse-Exception-Tag: abcdefghijklmnop\r\n\r\n"


def test_error_in_the_middle_is_raised_after_the_data() -> None:
    trailer = make_exception_trailer(
        CorruptionError("bad bytes", part="all_1_1_0", file="data.bin"), "abcdefghijklmnop"
    )
    with _scripted(_HEAD + _chunk(b"1\n2\n") + _chunk(trailer)) as client:
        received = b""
        with pytest.raises(CorruptionError, match="part all_1_1_0") as caught:
            received = client.execute("SELECT 1").data
        assert caught.value.code == 40
        assert received == b""
    with _scripted(_HEAD + _chunk(b"1\n2\n" + trailer[:20]) + _chunk(trailer[20:])) as client:
        chunks: list[bytes] = []
        with pytest.raises(CorruptionError), client.stream("SELECT 1") as stream:
            chunks.extend(stream)
        assert b"".join(chunks) in (b"", b"1\n2\n")


def test_data_that_looks_like_a_trailer_is_data() -> None:
    data = b"1\n\r\n__exception__\r\nzzzzzzzzzzzzzzzz\r\nCode: 40. DB::Exception: x (Y)\n5 zz\r\n__exception__\r\n"
    with _scripted(_HEAD + _chunk(data) + b"0\r\n\r\n") as client:
        assert client.execute("SELECT 1").data == data


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\n", _HEAD + _chunk(b"1\n"), _HEAD.replace(b"X-Cl", b"Y-Cl") + b"3\r\n1\n"]
)
def test_lost_connection_is_an_unknown_outcome(answer: bytes) -> None:
    with _scripted(answer) as client, pytest.raises(UnknownOutcomeError, match="connection was lost"):
        client.execute("SELECT 1")


@pytest.mark.parametrize(
    ("status", "text", "kind", "code"),
    [
        (
            503,
            "Code: 60. DB::Exception: no table (UNKNOWN_TABLE) (version 24.3.1 (official build))\n",
            RefusedError,
            60,
        ),
        (500, "Code: 252. DB::Exception: many parts (TOO_MANY_PARTS)\n", RefusedError, 252),
        (500, "Code: 319. DB::Exception: who knows (UNKNOWN_STATUS_OF_INSERT)\n", UnknownOutcomeError, 319),
        (502, "<html>Bad Gateway</html>", RefusedError, 210),
        (404, "<html>Not Found</html>", PandoError, 210),
    ],
)
def test_what_an_answer_means_for_trying_again(status: int, text: str, kind: type[PandoError], code: int) -> None:
    error = make_response_error(text, status, "http://h:1", "http://h:1")
    assert (type(error), error.code) == (kind, code)
    assert error.message.startswith("http://h:1 answered") or error.message.endswith("(from http://h:1)")


def test_a_file_of_an_answer_ends_with_the_servers_error() -> None:
    """Also when little came before the connection broke."""
    tag = "abcdefghijklmnop"
    trailer = make_exception_trailer(CorruptionError("bad bytes"), tag)
    with _scripted(_HEAD + _chunk(b"rows" * 50_000) + _chunk(trailer)) as client:
        connections = Connections(timeout_seconds=10, names_servers=True)
        with connections.post(f"http://127.0.0.1:{client.port}", "/", b"SELECT 1") as answer:
            file = ResponseFile(answer)
            assert file.read(100_000) == b"rows" * 25_000
            error = file.failure(OSError("not Arrow"))
        connections.close()
    assert isinstance(error, CorruptionError)
    assert f"bad bytes (from http://127.0.0.1:{client.port})" in error.message


@pytest.mark.parametrize(("is_idempotent", "asked"), [(True, ["a", "b", "a", "b"]), (False, ["a", "b"])])
def test_servers_are_tried_in_turn(is_idempotent: bool, asked: list[str]) -> None:
    urls: list[str] = []
    pauses: list[float] = []

    def ask(url: str) -> str:
        urls.append(url)
        if len(urls) < 4:
            raise (RefusedError if len(urls) == 1 else UnknownOutcomeError)("NETWORK_ERROR", "away")
        return url

    with nullcontext() if is_idempotent else pytest.raises(UnknownOutcomeError):
        assert try_servers(("a", "b"), ask, retries=3, is_idempotent=is_idempotent, sleep=pauses.append) == "b"
    assert urls == asked
    assert len(pauses) == len(asked) // 2 - 1


# -- sessions -------------------------------------------------------------------------------------------------------


def _store(on_end: Callable[[Session], None] = lambda _: None) -> tuple[SessionStore, Callable[[float], None]]:
    now = [0.0]

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    return SessionStore(clock=lambda: now[0], on_end=on_end), pass_time


def test_session_is_for_one_request_at_a_time() -> None:
    store, _ = _store()
    session = store.acquire("default", "s", Session, must_exist=False)
    with pytest.raises(UserError) as caught:
        store.acquire("default", "s", Session, must_exist=False)
    assert caught.value.code == 373
    assert store.acquire("bob", "s", Session, must_exist=False) is not session
    store.release("default", "s", 60)
    assert store.acquire("default", "s", Session, must_exist=True) is session


def test_session_expires() -> None:
    ended: list[Session] = []
    store, pass_time = _store(ended.append)
    first = store.acquire("default", "s", Session, must_exist=False)
    store.release("default", "s", 60)
    pass_time(59)
    assert store.acquire("default", "s", Session, must_exist=True) is first
    pass_time(1000)  # in use: it stays
    store.release("default", "s", 60)
    pass_time(61)
    with pytest.raises(UserError) as caught:
        store.acquire("default", "s", Session, must_exist=True)
    assert caught.value.code == 372
    assert len(store) == 0
    assert ended == [first]
