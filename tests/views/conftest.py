"""The same statements here and in chdb."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parts.common.errors import PandoError
from sql.formats.registry import write_blocks
from tests.engine.conftest import Local, local

__all__ = ["local"]

_INNER = re.compile(r"\.inner_id\.[0-9a-f-]{36}")


class Both:
    """Runs a statement here and there, in a database of its own, and compares what it answers: text, or error code."""

    def __init__(self, path: Path) -> None:
        from chdb import session

        self._there: Any = session.Session()
        self._path = path
        self.here = Local(path)
        self.name = f"views_{uuid.uuid4().hex[:8]}"
        for sql in (f"CREATE DATABASE {self.name}", f"USE {self.name}"):
            self.here.run(sql)
            self._there.query(sql)

    def answer_here(self, sql: str) -> str:
        try:
            result = self.here.engine.execute(sql, self.here.session)
            return b"".join(write_blocks("TSVRaw", result.columns, result.batches)).decode()
        except PandoError as error:
            return f"error {error.code}"

    def answer_there(self, sql: str) -> str:
        try:
            return str(self._there.query(sql, "TSVRaw"))
        except Exception as error:
            found = re.findall(r"Code: (\d+)", str(error))
            return f"error {found[0]}"

    def run(self, sql: str) -> str:
        here, there = (_INNER.sub(".inner", answer(sql)) for answer in (self.answer_here, self.answer_there))
        assert here == there, sql
        return here

    def restart(self) -> None:
        """Of this side."""
        self.here.restart()
        self.here.run(f"USE {self.name}")

    def close(self) -> None:
        self._there.query(f"DROP DATABASE {self.name}")
        self._there.query("USE default")
        self.here.engine.stop()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    running = Both(tmp_path / "data")
    yield running
    running.close()
