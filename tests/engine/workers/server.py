"""A real server with workers, for tests: its processes, its clients, and ways to hurt it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from engine.http_client.http_client import HttpClient

WAIT_SECONDS = 60.0


def wait_for(condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.01)


class WorkerServer:
    """``pando server`` with ``workers``; ends with the ``with`` block."""

    def __init__(self, directory: Path, workers: int = 2, failpoints: str = "", **config: object) -> None:
        self.path = directory / "data"
        self._log = directory / "log"
        file = directory / "server.yaml"
        values = {"path": str(self.path), "http_port": 0, "interserver_http_port": None, "workers": workers, **config}
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
        command = [sys.executable, "-m", "engine.cli", "server", "--config", str(file)]
        environment = {**os.environ, "PANDO_FAILPOINTS": failpoints}
        with open(self._log, "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline().decode()
        found = re.search(r"http_port=(\d+)", ready)
        assert found, (ready, self.log())
        self.port = int(found[1])

    def __enter__(self) -> WorkerServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        return self._log.read_text()

    def client(self, **options: Any) -> HttpClient:
        return HttpClient(port=self.port, **options)

    def run(self, sql: str, **options: Any) -> list[list[Any]]:
        """Over a connection of its own, so that the workers serve in turn."""
        with self.client() as client:
            return client.rows(sql, **options)

    def execute(self, sql: str, **options: Any) -> None:
        with self.client() as client:
            client.execute(sql, **options)

    def value(self, sql: str) -> Any:
        return self.run(sql)[0][0]

    def everywhere(self, sql: str, times: int = 6) -> set[str]:
        """What new connections get, one after the other: every worker is asked."""
        return {str(self.run(sql)) for _ in range(times)}

    def pids(self) -> dict[int, int]:
        """Of the workers that take connections, by number."""
        return {number: pid for number, pid, state in self.run("SELECT number, pid, state FROM system.workers")
                if state == "open"}  # fmt: skip
