"""What the materialized views of a replicated table miss of its blocks: written down with the blocks in ZooKeeper."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from coordination.inserts.block_views import MissingViews, find_missing_views, views_have
from coordination.keeper.interface import Keeper
from coordination.nodes.replica_activation import FEATURE_VIEWS, Activation, find_replica_without
from engine.tables.replicated.replica_state import ReplicaState


class ReplicatedBlockViews:
    """Implements :class:`engine.tables.capabilities.block_memory.BlockMemory`."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._understood: Activation | None = None
        """The activation in which every replica was seen to understand the records."""

    def missing_of(self, block_ids: Sequence[str]) -> list[MissingViews | None] | None:
        with self._state.working() as (keeper, activation):
            if not self._is_understood(keeper, activation):
                return None
            return find_missing_views(keeper, self._state.paths, block_ids)

    def views_have(self, tokens: Mapping[str, str], views: Collection[str]) -> None:
        with self._state.working() as (keeper, _):
            views_have(keeper, self._state.paths, tokens, views)

    def _is_understood(self, keeper: Keeper, activation: Activation) -> bool:
        if (
            self._understood is not activation
            and find_replica_without(keeper, self._state.paths, FEATURE_VIEWS) is None
        ):
            self._understood = activation
        return self._understood is activation
