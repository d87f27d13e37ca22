"""A front door with its workers as a process, for tests: what is asked of it, what is done to it, and its clients."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PROGRAM = """
from engine.commands.process_startup import block_pandas_import

block_pandas_import()  # as a server does
from tests.engine.workers.door_server import main

main()
"""


class DoorServer:
    """``tests.engine.workers.door_server`` as a process, its workers added at once."""

    def __init__(self, workers: int, added: int | None = None, **options: object) -> None:
        command = [sys.executable, "-c", _PROGRAM, json.dumps(options), str(workers)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = self._answer()
        self.port: int = first["port"]
        self.pids: list[int] = first["pids"]
        for number in range(workers if added is None else added):
            self.ask("add", number)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def ask(self, *command: object) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self, number: int) -> None:
        os.kill(self.pids[number], signal.SIGKILL)
        self.ask("rescue", number, "ended (signal 9)")

    def pause(self, number: int) -> None:
        os.kill(self.pids[number], signal.SIGSTOP)
        stats = Path(f"/proc/{self.pids[number]}/task")
        wait_for(lambda: all((task / "stat").read_text().split(")")[-1].split()[0] == "T" for task in stats.iterdir()))

    def go_on(self, number: int) -> None:
        os.kill(self.pids[number], signal.SIGCONT)

    def kill_replica(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(30)
        for pid in self.pids:  # of which one that has ended may be somebody else's by now
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if b"door_server" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    # -- clients ------------------------------------------------------------------------------------------------------

    def connect(self, data: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(data)
        return connection

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def get(self, path: str) -> tuple[int, str]:
        with contextlib.closing(self.client()) as client:
            return get(client, path)

    def wait_for_states(self, **states: int) -> None:
        wait_for(lambda: self.ask("state") == states)


def get(client: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    client.request("GET", path)
    answer = client.getresponse()
    return answer.status, answer.read().decode()


def who(client: http.client.HTTPConnection) -> str:
    client.request("GET", "/?query=SELECT+1")
    answer = client.getresponse()
    assert answer.read() == b"1\n"
    return answer.headers["X-ClickHouse-Server-Display-Name"]


def rest(connection: socket.socket) -> bytes:
    """All that comes until the end."""
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
    return data


def wait_for(condition: Callable[[], bool], timeout_seconds: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)
