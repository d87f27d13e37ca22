"""A server of this process for the tests of its front: the real engine behind the real HTTP interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.client.http.client import HttpClient
from engine.config import Config

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.http.server import HttpServer


@dataclass
class RunningServer:
    engine: Engine
    http: HttpServer

    def client(self, **options: object) -> HttpClient:
        return HttpClient(port=self.http.port, **options)  # type: ignore[arg-type]


@contextmanager
def started(path: Path, **options: object) -> Iterator[RunningServer]:
    from engine.engine import Engine
    from engine.http.server import HttpServer

    users = {
        "default": {}, "bob": {"password": "secret"}, "reader": {"readonly": True}, "reader2": {"readonly": 2},
    }  # fmt: skip
    values = {"path": path, "http_port": 0, "interserver_http_port": None, "users": users, **options}
    config = Config.model_validate(values)
    http = HttpServer(config)
    engine = Engine(config)
    engine.start()
    http.start(engine)
    try:
        yield RunningServer(engine, http)
    finally:
        http.stop()
        engine.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("server")
    with started(path, display_name="front-test", max_concurrent_queries=8, shutdown_wait_unfinished=2) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[HttpClient]:
    with server.client() as client:
        yield client
