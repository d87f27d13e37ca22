"""The two engines with the same tables, once for each worker process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sql.run.dataset import Engines


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    from chdb import session

    oracle = session.Session()
    try:
        yield Engines(oracle)
    finally:
        oracle.close()
