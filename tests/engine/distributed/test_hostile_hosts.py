"""``remote`` with hosts that are no servers, are silent, or send what nobody asked for."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat

import pyarrow as pa
import pytest

from engine.server.remote_servers_config import AllowedHosts
from parts.common.errors import PandoError
from tests.engine.conftest import Local

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
COLUMNS = OK + b'{"data": [["x", "UInt64", "", ""]]}'
WAIT_SECONDS = 20


class Host:
    """Answers the first request with the first of ``answers``, and so on; the last one again and again."""

    def __init__(self, *answers: Callable[[], Iterator[bytes]]) -> None:
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.sent_bytes = 0
        self.was_left = threading.Event()
        """The client closed the connection before its answer was whole."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            for number in range(1000):
                connection, _ = self._socket.accept()
                answer = self._answers[min(number, len(self._answers) - 1)]
                threading.Thread(target=self._answer, args=(connection, answer()), daemon=True).start()

    def _answer(self, connection: socket.socket, pieces: Iterator[bytes]) -> None:
        with connection:
            connection.recv(1 << 16)
            try:
                for piece in pieces:
                    connection.sendall(piece)
                    self.sent_bytes += len(piece)
            except OSError:
                self.was_left.set()
                return
            with contextlib.suppress(OSError):  # what came later than the first bytes, or closing resets the connection
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("hosts") / "data")
    yield running
    running.engine.stop()


@pytest.fixture
def host() -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def start(*answers: bytes | Callable[[], Iterator[bytes]]) -> Host:
        hosts.append(Host(*((lambda each=each: iter([each])) if isinstance(each, bytes) else each for each in answers)))
        return hosts[-1]

    yield start
    for each in hosts:
        each.close()


def error(local: Local, host: Host, settings: str = "", what: str = "count()") -> PandoError:
    with pytest.raises(PandoError) as raised:
        local.run(f"SELECT {what} FROM remote('127.0.0.1:{host.port}', default.t){settings and ' SETTINGS '}{settings}")
    return raised.value


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1/path", "127.0.0.1?x=1", "127.0.0.1#x", "me@127.0.0.1", "me:x@127.0.0.1", "a\\b", "a b", "[x/y]:1"],
)
def test_a_host_is_a_host(local: Local, text: str) -> None:
    with pytest.raises(PandoError) as raised:
        local.run(f"SELECT 1 FROM remote('{text}', system.one)".replace("\\", "\\\\"))
    assert raised.value.code == 36
    assert "host or host:port" in raised.value.message


@pytest.mark.parametrize(
    ("allowed", "is_allowed"),
    [
        ({"host": ["127.0.0.1"]}, True),
        ({"host": "127.0.0.1:1"}, True),
        ({"host_regexp": r"127\.0\.0\.\d+:1"}, True),
        ({"host": "127.0.0.1:2", "host_regexp": r"127\.0"}, False),
        ({}, False),
    ],
)
def test_only_allowed_hosts_are_asked(
    local: Local, monkeypatch: pytest.MonkeyPatch, allowed: dict[str, object], is_allowed: bool
) -> None:
    section = {"remote_url_allow_hosts": AllowedHosts.model_validate(allowed)}
    monkeypatch.setattr(local.engine, "config", local.engine.config.model_copy(update=section))
    with pytest.raises(PandoError) as raised:
        local.run("SELECT 1 FROM remote('127.0.0.1:1', system.one)")
    assert raised.value.code == (519 if is_allowed else 491)
    assert is_allowed or 'URL "127.0.0.1:1" is not allowed' in raised.value.message


def silent() -> Iterator[bytes]:
    threading.Event().wait(WAIT_SECONDS)
    yield OK


@pytest.mark.parametrize("answers", [(silent,), (COLUMNS, silent)])
@pytest.mark.long
def test_a_silent_host_is_waited_for_as_long_as_the_query_may_take(
    local: Local, host: Callable[..., Host], answers: tuple[object, ...]
) -> None:
    began = time.monotonic()
    assert error(local, host(*answers), "max_execution_time = 0.3").code == 159
    assert time.monotonic() - began < WAIT_SECONDS / 2


def test_a_silent_host_is_waited_for_until_receive_timeout(local: Local, host: Callable[..., Host]) -> None:
    told = error(local, found := host(silent), "receive_timeout = 0.2")
    assert told.code == 519
    assert f"127.0.0.1:{found.port} sent nothing for 0.2 s" in told.message
    assert error(local, host(COLUMNS, silent), "receive_timeout = 0.2").code == 279


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b'{"data": 5}',
        b'{"data": [[1, 2, 3, 4]]}',
        b'{"data": [["x"]]}',
        b"\xff",
        b"[" * 5000,
    ],
)
def test_columns_that_are_none(local: Local, host: Callable[..., Host], answer: bytes) -> None:
    told = error(local, found := host(OK + answer))
    assert told.code == 519
    assert f"127.0.0.1:{found.port} did not answer as a server does" in told.message


def test_rows_that_are_none(local: Local, host: Callable[..., Host]) -> None:
    told = error(local, found := host(COLUMNS, OK + b"<html>" * 100), what="x")
    assert told.code == 210
    assert f"127.0.0.1:{found.port} did not answer as a server does" in told.message


def endless(head: bytes) -> Callable[[], Iterator[bytes]]:
    def answer() -> Iterator[bytes]:
        yield head
        yield from repeat(b"[" * (1 << 20))

    return answer


@pytest.mark.parametrize("head", [OK, OK.replace(b"200", b"500"), OK.replace(b"200", b"503")])
def test_an_endless_answer_is_not_heard_out(local: Local, host: Callable[..., Host], head: bytes) -> None:
    told = error(local, found := host(endless(head)))
    assert told.code in (210, 519)
    assert str(found.port) in told.message
    assert found.was_left.wait(WAIT_SECONDS)
    assert found.sent_bytes < 64 << 20


def test_an_answer_is_left_within_a_message(local: Local, host: Callable[..., Host]) -> None:
    """The rest of a large block is not read once the query has ended."""
    table = pa.table({"x": pa.array(range(1_000_000), pa.uint64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = OK + sink.getvalue().to_pybytes()

    def slowly() -> Iterator[bytes]:
        yield data[: 1 << 20]
        for start in range(1 << 20, len(data), 1024):
            time.sleep(0.01)
            yield data[start : start + 1024]

    found = host(COLUMNS, slowly)
    assert error(local, found, "max_execution_time = 0.3", what="x").code == 159
    assert found.was_left.wait(WAIT_SECONDS)
