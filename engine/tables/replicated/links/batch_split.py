"""Splits a batch before ALTERs, which are carried out between its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coordination.links.positions import Position
from coordination.links.stream.definition_split import split_before_definitions
from engine.tables.capabilities.table_links import IncomingBatch


def split_batch(batch: IncomingBatch) -> Iterator[IncomingBatch]:
    """Yields the batch, in parts if an ALTER that is carried out comes behind a mutation."""
    if not batch.link.settings.get("replicate_ddl", False):
        yield batch
        return
    state, after = batch.state, batch.state.vector.applied(batch.end.origin)
    for changes, place in split_before_definitions(batch.changes, after, batch.end.zxid):
        vector = state.vector
        for change in changes:
            vector = vector.apply(change.position)
        end = Position(batch.end.origin, place)
        yield replace(batch, state=state, changes=changes, vector=vector, end=end)
        state = replace(state, vector=vector.pass_idle(end), vector_version=state.vector_version + 1)
