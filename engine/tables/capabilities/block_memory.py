"""What a table that remembers the blocks of its INSERTs says of the materialized views that they go through."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from coordination.inserts.block_views import MissingViews


class BlockMemory(Protocol):
    def missing_of(self, block_ids: Sequence[str]) -> list[MissingViews | None] | None:
        """For each block what its views miss of it, ``None`` for one that is not known.

        ``None`` for all of them: it is not written down here, since a replica runs an older version."""

    def views_have(self, tokens: Mapping[str, str], views: Collection[str]) -> None:
        """The named views have the blocks now; ``tokens`` are those of what they missed, by block id."""
