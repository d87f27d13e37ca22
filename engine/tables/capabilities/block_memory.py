"""Interface of a table that remembers which materialized views lack blocks of its INSERTs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from coordination.inserts.block_views import MissingViews


class BlockMemory(Protocol):
    """A table that remembers the blocks of its INSERTs and the views that lack them."""

    def missing_of(self, block_ids: Sequence[str]) -> list[MissingViews | None] | None:
        """Returns for each block which views lack it; ``None`` for an unknown block.

        Returns ``None`` instead of a list if a replica runs an older version, so that nothing is recorded.
        """

    def views_have(self, tokens: Mapping[str, str], views: Collection[str]) -> None:
        """Records that the named views have the blocks now.

        ``tokens`` gives, by block id, the token of what they lacked.
        """
