"""Statements in ClickHouse (chdb) and here, one after another, with equal answers and error codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.queries.result_output import encode_result
from parts.common.errors import PandoError
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.engine.conftest import Local, local
from tests.sql.oracle import Oracle

__all__ = ["local"]

_CHANGED_SETTINGS = (
    "allow_deprecated_syntax_for_merge_tree", "create_table_empty_primary_key_by_default", "default_table_engine",
    "max_threads",
)  # fmt: skip


class Both:
    """A database in each."""

    def __init__(self, oracle: Oracle, local: Local, database: str) -> None:
        self._oracle, self._local = oracle, local
        self.compare(f"CREATE DATABASE {database}; USE {database}")

    def compare(self, script: str) -> None:
        """The statements of the script, which semicolons end."""
        for statement in filter(None, map(str.strip, script.split(";"))):
            theirs, ours = self._theirs(statement), self._ours(statement)
            assert ours == theirs, statement

    def _theirs(self, statement: str) -> bytes | int:
        try:
            answer = self._oracle.query(statement)
        except Exception as error:
            return int(re.findall(r"Code: (\d+)", str(error))[0])
        return answer

    def _ours(self, statement: str) -> bytes | int:
        try:
            result = self._local.engine.execute(statement, self._local.session)
            return b"".join(encode_result(result, "TSV", DEFAULT_SETTINGS, self._local.engine.services.monotonic))
        except PandoError as error:
            return error.code


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture
def both(oracle: Oracle, local: Local, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Both]:
    database = f"d_{tmp_path.name}".replace("-", "_")
    yield Both(oracle, local, database)
    for name in _CHANGED_SETTINGS:
        oracle.query(f"SET {name} = DEFAULT")
    oracle.query(f"DROP DATABASE IF EXISTS {database}")
