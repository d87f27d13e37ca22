"""An engine in this process, as in ``tests/engine``, and ClickHouse beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from chdb.session import Session

from tests.engine.conftest import Local, local

__all__ = ["Local", "Oracle", "local", "oracle"]


class Oracle:
    """ClickHouse, with a database for itself: all of a process share one server."""

    _count = 0

    def __init__(self) -> None:
        self._session = Session()
        Oracle._count += 1
        self._database = f"skip_indexes_{Oracle._count}"
        self.run(f"CREATE DATABASE {self._database}")
        self.run(f"USE {self._database}")

    def run(self, sql: str) -> str:
        result = self._session.query(sql, "TSVRaw")
        return result.bytes().decode() if result else ""

    def error(self, sql: str) -> int:
        """Its code; 0 if there is none."""
        try:
            self.run(sql)
        except RuntimeError as error:
            return int(re.findall(r"Code: (\d+)", str(error))[0])
        return 0

    def end(self) -> None:
        self.run(f"DROP DATABASE {self._database}")
        self._session.close()


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    running = Oracle()
    yield running
    running.end()
