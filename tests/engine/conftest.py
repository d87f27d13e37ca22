"""An engine in this process, without network or ZooKeeper."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config


class Local:
    """Runs statements and gives rows of Python values."""

    def __init__(self, path: Path, **config: object) -> None:
        self.path = path
        self.engine = Engine(Config.local(path).model_copy(update=config))
        self.engine.start()
        self.session = Session()

    def run(self, sql: str, data: bytes | None = None) -> list[tuple[object, ...]]:
        result = self.engine.execute(sql, self.session, io.BytesIO(data) if data is not None else None)
        return [tuple(row.values()) for batch in result.batches for row in batch.to_pylist()]

    def value(self, sql: str) -> object:
        return self.run(sql)[0][0]

    def restart(self) -> None:
        self.engine.stop()
        self.__init__(self.path)  # type: ignore[misc]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    running = Local(tmp_path / "data")
    yield running
    running.engine.stop()
