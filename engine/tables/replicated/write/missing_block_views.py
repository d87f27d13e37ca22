"""Records in ZooKeeper which materialized views lack blocks of a replicated table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from coordination.inserts.block_views import MissingViews, find_missing_views, views_have
from coordination.keeper.interface import Keeper
from coordination.nodes.replica_activation import FEATURE_VIEWS, Activation, find_replica_without
from engine.tables.replicated.replica_state import ReplicaState


class ReplicatedBlockViews:
    """The records of one table. Implements :class:`engine.tables.capabilities.block_memory.BlockMemory`."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._understood: Activation | None = None
        """The activation in which every replica was known to understand the records."""

    def missing_of(self, block_ids: Sequence[str]) -> list[MissingViews | None] | None:
        """Returns for each block which views lack it; ``None`` if a replica runs an older version."""
        with self._state.hold_write_access() as (keeper, activation):
            if not self._is_understood(keeper, activation):
                return None
            return find_missing_views(keeper, self._state.paths, block_ids)

    def views_have(self, tokens: Mapping[str, str], views: Collection[str]) -> None:
        """Records that the views have the blocks now."""
        with self._state.hold_write_access() as (keeper, _):
            views_have(keeper, self._state.paths, tokens, views)

    def _is_understood(self, keeper: Keeper, activation: Activation) -> bool:
        if (
            self._understood is not activation
            and find_replica_without(keeper, self._state.paths, FEATURE_VIEWS) is None
        ):
            self._understood = activation
        return self._understood is activation
