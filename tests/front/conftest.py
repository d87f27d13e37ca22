"""A server of this process for the tests of its front: the real engine behind the real HTTP interface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.client.http_client import HttpClient
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


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    from engine.engine import Engine
    from engine.http.server import HttpServer

    path: Path = tmp_path_factory.mktemp("server")
    config = Config.model_validate(
        {
            "path": path,
            "http_port": 0,
            "interserver_http_port": None,
            "display_name": "front-test",
            "users": {"default": {}, "bob": {"password": "secret"}, "reader": {"readonly": True}},
            "max_concurrent_queries": 8,
            "shutdown_wait_unfinished": 2,
        }
    )
    http = HttpServer(config)
    engine = Engine(config)
    engine.start()
    http.start(engine)
    try:
        yield RunningServer(engine, http)
    finally:
        http.stop()
        engine.stop()


@pytest.fixture
def client(server: RunningServer) -> Iterator[HttpClient]:
    with server.client() as client:
        yield client
