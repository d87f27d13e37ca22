"""Limits of reading for table functions that make rows: ``numbers``, ``zeros``, ``generate_series``.

As in ClickHouse, rows are counted in blocks of ``max_block_size``. With ``break`` the rows end with the block that
reaches a limit. With ``throw`` the query fails when it reads a row behind that block.
"""

from __future__ import annotations

from dataclasses import dataclass

from sql.settings.supported_settings import Settings
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment
from sql.typing.typed_expressions import string_literal


@dataclass(frozen=True, slots=True)
class GeneratedRows:
    """The number of rows to make; a query that reads more than ``most`` fails with ``error``."""

    rows: int
    most: int
    error: str = ""

    def check(self, start: int, step: int) -> Fragment:
        """Returns a WHERE over DuckDB's ``range`` that raises the error; empty if no limit can be exceeded."""
        if self.most >= self.rows:
            return EMPTY
        return fragment("WHERE CASE WHEN range >= {} THEN error({}) ELSE true END", start + self.most * step,
                        string_literal(self.error))  # fmt: skip


def generated_rows(rows: int, row_bytes: int, settings: Settings) -> GeneratedRows:
    """Applies the limits of the settings to ``rows`` of ``row_bytes`` each."""
    most, error = rows, ""
    for suffix in ("", "_leaf"):
        throws = getattr(settings, f"read_overflow_mode{suffix}") == "throw"
        for what, size, code in (("rows", 1, 158), ("bytes", row_bytes, 307)):
            name = f"max_{what}_to_read{suffix}"
            limit = getattr(settings, name)
            if not limit:
                continue
            allowed = -(-limit // (size * settings.max_block_size)) * settings.max_block_size
            if not throws:
                rows = min(rows, allowed)
            elif allowed < most:
                most = allowed
                error = f"pando:{code}:Limit for {what} (controlled by '{name}' setting) exceeded, max {what}: {limit}"
    return GeneratedRows(rows, most, error)
