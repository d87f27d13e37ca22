"""Encodes a statement's result in an output format, for the HTTP interface and for ``pando local``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from engine.queries.session import QueryResult, Session
from engine.server.config import Config
from sql.formats.registry import (
    write_blocks,
)
from sql.formats.text.text_writers import (
    RunStatistics,
)
from sql.grammar.statements.statement import Insert, ParsedStatement, SelectQuery
from sql.settings.session_settings import (
    make_settings,
)
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)

_MOST_ROWS = 1 << 62


def resolve_output_settings(
    config: Config, session: Session, parsed: ParsedStatement, extra: Mapping[str, object]
) -> Settings:
    """Returns the settings of session and statement, overridden by ``extra``."""
    # CREATE keeps its SETTINGS with the table.
    own = parsed.statement.settings if isinstance(parsed.statement, Insert | SelectQuery) else {}
    return make_settings({**session.settings, **own, **extra}, config.timezone)


def encode_result(
    result: QueryResult,
    format: str,
    settings: Settings,
    monotonic: Callable[[], float],
    *,
    client_protocol_version: int = 0,
) -> Iterator[bytes]:
    """Yields the rows in the format, as they arrive. Raises 73 (UNKNOWN_FORMAT).

    Blocks are as the query makes them; only a ``max_block_size`` that was set explicitly cuts them further.
    """
    counts = RunStatistics()
    limit = min(settings.max_block_size, _MOST_ROWS)
    is_limited = limit != DEFAULT_SETTINGS.max_block_size
    started = monotonic()

    def counted() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in result.batches:
            rows += batch.num_rows
            result.statistics.result_rows = rows
            if is_limited:
                yield from (batch.slice(start, limit) for start in range(0, batch.num_rows, limit))
            else:
                yield batch
        counts.elapsed_seconds = monotonic() - started
        counts.rows_read = result.statistics.read_rows
        counts.bytes_read = result.statistics.read_bytes

    return write_blocks(
        format,
        result.columns,
        counted(),
        settings=settings,
        statistics=counts,
        client_protocol_version=client_protocol_version,
    )
