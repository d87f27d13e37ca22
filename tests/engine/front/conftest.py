"""A server of this process for the tests of its front: the real engine behind the real HTTP interface."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.http_client.http_client import HttpClient
from engine.server.config import Config
from tests.worker_count import WORKERS

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.front.http.http_server import HttpServer


@dataclass
class RunningServer:
    engine: Engine | EngineElsewhere
    http: HttpServer | HttpElsewhere

    def client(self, **options: object) -> HttpClient:
        return HttpClient(port=self.http.port, **options)  # type: ignore[arg-type]

    def running(self) -> int:
        """Queries that have a place among the concurrent ones."""
        with self.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return int(float(next(line.split()[1] for line in lines if line.startswith("pando_queries_running"))))


@dataclass
class HttpElsewhere:
    port: int


@dataclass
class Running:
    query_id: str


@dataclass
class EngineElsewhere:
    """What the tests ask of an engine, of a server in processes of its own."""

    config: Config
    port: int

    @property
    def path(self) -> Path:
        return self.config.path

    def processes(self) -> list[Running]:
        with HttpClient(port=self.port) as client:
            own = uuid.uuid4().hex
            rows = client.rows("SELECT query_id FROM system.processes", query_id=own)
            return [Running(str(query_id)) for (query_id,) in rows if query_id != own]


@contextmanager
def started(path: Path, **options: object) -> Iterator[RunningServer]:
    from engine.engine import Engine
    from engine.front.http.http_server import HttpServer

    users = {
        "default": {}, "bob": {"password": "secret"}, "reader": {"readonly": True}, "reader2": {"readonly": 2},
    }  # fmt: skip
    values = {"path": path, "http_port": 0, "interserver_http_port": None, "users": users, **options}
    config = Config.model_validate(values)
    if WORKERS:
        with _started_elsewhere(values, config) as running:
            yield running
        return
    http = HttpServer(config)
    engine = Engine(config)
    engine.start()
    http.start(engine)
    try:
        yield RunningServer(engine, http)
    finally:
        http.stop()
        engine.stop()


@contextmanager
def _started_elsewhere(values: dict[str, object], config: Config) -> Iterator[RunningServer]:
    directory = config.path.parent / f"{config.path.name}-server"
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "server.yaml"
    file.write_text(json.dumps({**values, "path": str(config.path), "workers": WORKERS}, default=str))
    command = [sys.executable, "-m", "engine.cli", "server", "--config", str(file)]
    with open(directory / "log", "w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        assert process.stdout is not None
        try:
            ready = process.stdout.readline().decode()
            found = re.search(r"http_port=(\d+)", ready)
            assert found, (ready, (directory / "log").read_text())
            port = int(found[1])
            yield RunningServer(EngineElsewhere(config, port), HttpElsewhere(port))
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("server")
    with started(path, display_name="front-test", max_concurrent_queries=8, shutdown_wait_unfinished=2) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[HttpClient]:
    with server.client() as client:
        yield client
