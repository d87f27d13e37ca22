"""Applies ``max_result_rows`` and ``max_result_bytes`` to the result of a SELECT.

With ``result_overflow_mode = 'break'`` the result ends with the block that exceeds the limit, as in ClickHouse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from engine.queries.session import QueryResult
from parts.common.errors import UserError
from sql.settings.supported_settings import (
    Settings,
)


def limit_result(result: QueryResult, settings: Settings) -> QueryResult:
    """Returns the result with limits applied.

    Beyond a limit reading the batches raises 396 (TOO_MANY_ROWS_OR_BYTES), unless the mode is ``break``.
    """
    if not (settings.max_result_rows or settings.max_result_bytes):
        return result
    return replace(result, batches=_limit_batches(result.batches, settings))


def _limit_batches(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    most_rows, most_bytes = settings.max_result_rows, settings.max_result_bytes
    cut = settings.max_block_size
    rows = size = 0
    for whole in batches:
        for start in range(0, whole.num_rows, cut):
            batch = whole.slice(start, cut)
            rows += batch.num_rows
            size += batch.nbytes
            exceeded = _describe_excess("rows", rows, most_rows) or _describe_excess("bytes", size, most_bytes)
            if exceeded and settings.result_overflow_mode == "throw":
                raise UserError("TOO_MANY_ROWS_OR_BYTES", f"Limit for result exceeded, {exceeded}")
            yield batch
            if exceeded:
                return


def _describe_excess(what: str, count: int, limit: int) -> str:
    return f"max {what}: {limit}, current {what}: {count}" if limit and count > limit else ""
