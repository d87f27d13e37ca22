"""The random queries of :mod:`tests.fuzz.differences` over replicated tables: two replicas that fetch each other's
parts answer in turn, as ClickHouse (chdb) does."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.alter.replicas import asked_replicas
from tests.fuzz.differences import compare, shown
from tests.fuzz.random_queries import statements
from tests.sql.oracle import Oracle

__all__ = ["SECONDS", "opened", "shown"]
SECONDS = 60


@contextlib.contextmanager
def opened() -> Iterator[Callable[[int], str]]:
    with tempfile.TemporaryDirectory() as directory, asked_replicas(Path(directory)) as replicas:
        oracle = Oracle()
        try:
            for statement in statements():
                oracle.query(statement)
                replicas.query(statement)
            yield lambda seed: compare(oracle, replicas.one(seed % 2), shown(seed))
        finally:
            oracle.close()
