"""HTTP requests that have been damaged, on raw sockets: bytes, heads, parameters, chunks, order and timing.

Every answer must be HTTP with ClickHouse's code when it is an error; none may be a fault of the server. Nothing may
stay behind: no traceback in the log, no connection, no running query, no growing number of threads or open files.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from parts.common.errors import UnknownOutcomeError, UserError
from tests.fuzz.damaged_requests import Case, case_of
from tests.fuzz.limits import Faults

if TYPE_CHECKING:
    from tests.engine.front.conftest import RunningServer

SECONDS = 40.0
_ANSWER_SECONDS = 20.0
_MOST_ANSWER_BYTES = 4 << 20
_LOOK_EVERY = 50
_SHOULD_NOT_HAPPEN = frozenset({49, 1001})


def shown(seed: int) -> str:
    case = case_of(seed)
    return f"{case.ending}: " + "\n".join(repr(piece[:1500]) for piece in case.pieces[:20])


@contextmanager
def opened() -> Iterator[Callable[[int], None]]:
    from tests.engine.front.conftest import started

    profile = {
        "http_receive_timeout": 0.1,
        "http_send_timeout": 0.5,
        "max_execution_time": 3,
        "max_memory_usage": 1 << 29,
    }
    options = {"profiles": {"default": profile}, "keep_alive_timeout": 0, "max_concurrent_queries": 8}
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), **options) as server,
        Faults.watched() as faults,
    ):
        with server.client() as client:
            _check_lives(server)  # the first query takes long
            client.execute("CREATE TABLE t (k UInt8, s String) ENGINE = MergeTree ORDER BY k")
        before: list[int] = []

        def run(seed: int) -> None:
            _run(server, case_of(seed))
            faults.check()
            if seed % _LOOK_EVERY == _LOOK_EVERY - 1:
                _check_nothing_stays(server, before)

        yield run


def _run(server: RunningServer, case: Case) -> None:
    with socket.create_connection(("127.0.0.1", server.http.port), timeout=_ANSWER_SECONDS) as connection:
        with contextlib.suppress(OSError):
            for piece in case.pieces:
                connection.sendall(piece)
            if case.ending == "half":
                connection.shutdown(socket.SHUT_WR)
        if case.ending == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        if case.ending in ("read", "half"):
            is_head = b"HEAD" in b"".join(case.pieces)
            _check_answers(_answer(connection), is_head)


def _answer(connection: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionError):
        while len(answer) < _MOST_ANSWER_BYTES and (data := connection.recv(1 << 18)):
            answer += data
    return answer


_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[!-9;-~]+: [^\r\n\x00]*\r\n)*)\r\n")


def _check_answers(answer: bytes, is_head: bool) -> None:
    """One answer behind the other; the last may be cut off by the end of the connection."""
    position = 0
    while position < len(answer):
        match = _HEAD.match(answer, position)
        if match is None:
            assert b"\r\n\r\n" not in answer[position:], f"no HTTP at {position}: {answer[position : position + 300]!r}"
            return
        status = int(match[1])
        headers = dict(line.lower().split(b": ", 1) for line in match[2].split(b"\r\n") if line)
        position = match.end()
        if status == 100:
            continue
        length = int(headers.get(b"content-length", b"0"))
        body = answer[position : position + length]
        if status >= 400 and not (status == 404 and b"x-clickhouse-exception-code" not in headers):
            _check_error(status, headers, body, is_head)
        if b"chunked" in headers.get(b"transfer-encoding", b""):
            ended = answer.find(b"\r\n0\r\n\r\n", position - 2)
            if ended < 0:
                return
            position = ended + 7
        elif not (is_head and not body.startswith(b"Code")) or body[:4] != b"HTTP":
            position += 0 if is_head and answer[position : position + 5] == b"HTTP/" else length


def _check_error(status: int, headers: dict[bytes, bytes], body: bytes, is_head: bool) -> None:
    assert b"x-clickhouse-exception-code" in headers, f"{status} without a code: {headers} {body[:300]!r}"
    code = int(headers[b"x-clickhouse-exception-code"])
    assert code not in _SHOULD_NOT_HAPPEN, body[:1000].decode(errors="replace")
    if body and not is_head:
        assert body.startswith(b"Code: %d. DB::Exception: " % code), body[:300]
        assert b"Traceback" not in body


def _check_lives(server: RunningServer) -> None:
    with server.client(settings={"http_receive_timeout": 10}) as client:
        for _ in range(5):
            with contextlib.suppress(UnknownOutcomeError, UserError):  # a busy machine: idle, or running, for too long
                assert client.value("SELECT 1") == 1
                return
    raise AssertionError("the server answers no more")


def _check_nothing_stays(server: RunningServer, before: list[int]) -> None:
    _check_lives(server)
    state = server.http._server.server_state  # type: ignore[union-attr]
    deadline = time.monotonic() + SECONDS / 2
    while (left := [*state.connections, *state.tasks, *server.engine.processes()]) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not left, f"stays: {left}"
    assert threading.active_count() < 150, "too many threads"
    before.append(len(os.listdir("/proc/self/fd")))
    assert before[-1] < before[0] + 60, f"open files: {before}"
