"""Fixtures of tests that ask ClickHouse (chdb) and a server in this process the same; a ``conftest.py`` names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.alter.following import Pando
from tests.sql.oracle import Oracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def pando(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pando]:
    running = Pando(tmp_path_factory.mktemp("pando"))
    yield running
    running.stop()
