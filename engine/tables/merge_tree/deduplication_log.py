"""The last blocks of a table of one server, which it deduplicates as long as the server runs.

The setting ``non_replicated_deduplication_window`` tells how many are remembered.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from coordination.inserts.block_views import BlockNode, MissingViews
from parts.common.part_name import PartName


class RecentBlocks:
    """The remembered blocks of one table.

    May be called from any thread. Implements :class:`engine.tables.capabilities.block_memory.BlockMemory`.
    """

    def __init__(self, window: Callable[[], int]) -> None:
        """Starts empty. ``window`` returns how many blocks to remember now."""
        self._window = window
        self._lock = threading.Lock()
        self._blocks: dict[str, BlockNode] = {}

    def deduplicating(self) -> AbstractContextManager[object]:
        """Returns the lock to hold from looking up blocks to their commit.

        Without it a block of two INSERTs could be stored twice.
        """
        return self._lock if self._window() else nullcontext()

    def find(self, block_id: str) -> BlockNode | None:
        """Returns the block's record, if known.

        Requires :meth:`deduplicating`, as do :meth:`remember`, :meth:`forget` and :meth:`clear`.
        """
        return self._blocks.get(block_id) if block_id else None

    def remember(self, blocks: Mapping[str, BlockNode]) -> None:
        """Adds blocks, and removes the oldest beyond the window."""
        self._blocks.update((block_id, node) for block_id, node in blocks.items() if block_id)
        surplus = len(self._blocks) - self._window()
        for block_id in list(itertools.islice(self._blocks, max(surplus, 0))):
            del self._blocks[block_id]

    def forget(self, gone: Callable[[PartName], bool]) -> None:
        """Removes the blocks whose parts match ``gone``."""
        kept = self._blocks.items()
        self._blocks = {block_id: node for block_id, node in kept if not gone(PartName.parse(node.part))}

    def clear(self) -> None:
        """Removes all blocks."""
        self._blocks.clear()

    # -- what views miss of them ----------------------------------------------------------------------------------

    def missing_of(self, block_ids: Sequence[str]) -> list[MissingViews | None]:
        """Returns for each block which views lack it; ``None`` for an unknown block."""
        with self._lock:
            nodes = map(self.find, block_ids)
            return [node.missing if node is not None else None for node in nodes]

    def views_have(self, tokens: Mapping[str, str], views: Collection[str]) -> None:
        """Records that the views have the blocks now."""
        with self._lock:
            for block_id, token in tokens.items():
                node = self._blocks.get(block_id)
                if node is not None and node.missing.token == token:
                    self._blocks[block_id] = BlockNode(node.part, node.missing.remove_views(views))
