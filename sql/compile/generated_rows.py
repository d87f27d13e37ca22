"""How many rows ``numbers`` and its kin may make: ``max_rows_to_read`` and its kin count for them too.

As in ClickHouse rows are counted in blocks of ``max_block_size``: ``break`` leaves out what comes behind the block that
reaches a limit. With ``throw`` a query fails when it takes more rows than that block's.
"""

from __future__ import annotations

from dataclasses import dataclass

from sql.settings.supported_settings import Settings
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment
from sql.typing.typed_expressions import string_literal


@dataclass(frozen=True, slots=True)
class GeneratedRows:
    """``rows`` are made; beyond ``most`` of them the query fails with ``error``."""

    rows: int
    most: int
    error: str = ""

    def check(self, start: int, step: int) -> Fragment:
        """A WHERE over DuckDB's ``range`` that raises the error, if there may be one."""
        if self.most >= self.rows:
            return EMPTY
        return fragment("WHERE CASE WHEN range >= {} THEN error({}) ELSE true END", start + self.most * step,
                        string_literal(self.error))  # fmt: skip


def generated_rows(rows: int, row_bytes: int, settings: Settings) -> GeneratedRows:
    """``rows`` of ``row_bytes`` each under the limits of the settings."""
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
