"""An engine in this process and ClickHouse beside it, which get the same statements."""

from __future__ import annotations

from contextlib import suppress

import pytest

from parts.common.errors import PandoError
from sql.formats.registry import write_blocks
from sql.settings.session_settings import (
    make_settings,
)
from tests.sql.pruning.conftest import Local, Oracle, local, oracle

__all__ = ["Local", "Oracle", "Pair", "local", "oracle", "pair"]


class Pair:
    def __init__(self, local: Local, oracle: Oracle) -> None:
        self.local, self.oracle = local, oracle

    def run(self, *statements: str) -> None:
        for sql in statements:
            self.local.run(sql)
            self.oracle.run(sql)

    def code(self, sql: str) -> int:
        """Of the error here; 0 if there is none."""
        with suppress(PandoError):
            self.local.run(sql)
            return 0
        try:
            self.local.run(sql)
        except PandoError as error:
            return error.code
        raise AssertionError("the second time there is no error")

    def same_code(self, sql: str) -> int:
        """Of both."""
        code = self.code(sql)
        assert code == self.oracle.error(sql), sql
        return code

    def same_table(self, sql: str) -> str:
        """The answer of both as text, with names and types."""
        return self.same_text(sql, "TSVWithNamesAndTypes")

    def same_text(self, sql: str, format: str) -> str:
        """The answer of both. Here it is asked twice: what runs again may be answered another way."""
        theirs = self.oracle.run(f"{sql} FORMAT {format}")
        for _ in range(2):
            result = self.local.engine.execute(sql, self.local.session)
            settings = make_settings({"output_format_pretty_color": int("pretty_color = 1" in sql)})
            written = write_blocks(format, result.columns, result.batches, settings=settings)
            assert b"".join(written).decode() == theirs, sql
        return theirs


@pytest.fixture
def pair(local: Local, oracle: Oracle) -> Pair:
    return Pair(local, oracle)
