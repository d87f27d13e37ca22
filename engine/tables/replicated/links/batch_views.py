"""Gives the rows that a batch brings to the materialized views of the target (``run_views = 1``).

The views see the rows as the target stores them, in blocks of at least ``_BLOCK_ROWS`` rows as far as there are so
many. What they make is staged, and the batch's multi commits it: so it is there once, whatever fails or is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from engine.tables.capabilities.incoming_blocks import StagedViews
from engine.tables.capabilities.table_links import IncomingBatch
from engine.tables.replicated.links.batch_staging import StagedBlocks
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.query_status import QueryStatus
from parts.read.part_reader import open_part

_BLOCK_ROWS = 1 << 20
"""As in an INSERT; a table of a million rows is in memory at a time."""


@contextmanager
def stage_views(
    state: ReplicaState, batch: IncomingBatch, name: str, pieces: StagedBlocks, status: QueryStatus
) -> Iterator[StagedViews | None]:
    """Yields what the views make of the staged blocks; ``None`` if they do not run, or there are no rows.

    What the block does not commit is dropped. Raises what the views' queries raise.
    """
    if batch.run_views is None or not pieces:
        yield None
        return
    views = batch.run_views(_read_blocks(state, name, pieces), status)
    try:
        state.services.failpoint("link.after_views")
        yield views
    finally:
        views.abort()


def _read_blocks(state: ReplicaState, name: str, pieces: StagedBlocks) -> Iterator[pa.Table]:
    schema = state.description.schema
    names = list(schema.stored.names)
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for staged in (part for parts in pieces.values() for part in parts):
        directory = state.store.staged.path(name, staged.place)
        part = open_part(directory, name=staged.part, table_schema=schema)
        for read in part.adapt_to_schema(schema).read(names):
            waiting.append(read)
            rows += read.num_rows
            if rows >= _BLOCK_ROWS:
                yield pa.Table.from_batches(waiting)
                waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)
