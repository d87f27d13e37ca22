"""The deduplication window: how many block ids are kept, and for how long.

Ages are measured against the newest block, not the clock, so a table without inserts forgets nothing. Deleting is
guarded (:mod:`coordination.inserts.block_ids`): several replicas may clean at a time, and each deletion may be lost or
repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.inserts.block_ids import delete_unchanged_ids
from coordination.keeper.interface import Keeper, Stat
from coordination.nodes.paths import TablePaths


def select_expired_block_ids(blocks: Sequence[tuple[str, Stat]], *, window: int, window_seconds: float) -> list[str]:
    """Returns the block ids that are out of the window, the oldest first."""
    newest_first = sorted(blocks, key=lambda block: block[1].created_zxid, reverse=True)
    if not newest_first:
        return []
    oldest_kept_ms = newest_first[0][1].created_ms - window_seconds * 1000
    surplus = [
        name
        for position, (name, stat) in enumerate(newest_first)
        if position >= window or stat.created_ms < oldest_kept_ms
    ]
    return surplus[::-1]


class DeduplicationWindow:
    """Cleans one table's block ids, and caches their stats between rounds.

    A cached stat may belong to an id that was deleted and made again. The deletion notices that, and the next round
    reads the stat again.
    """

    def __init__(self) -> None:
        self._stats: dict[str, Stat] = {}

    def clean(self, keeper: Keeper, table: TablePaths, *, window: int, window_seconds: float) -> int:
        """Runs one round. Returns how many ids were deleted."""
        names = keeper.children(table.blocks)
        self._stats = {name: self._stats[name] for name in names if name in self._stats}
        new = [name for name in names if name not in self._stats]
        for name, stat in zip(new, keeper.exists_many([table.block(name) for name in new]), strict=True):
            if stat is not None:
                self._stats[name] = stat
        planned = select_expired_block_ids(list(self._stats.items()), window=window, window_seconds=window_seconds)
        surplus = [(name, self._stats.pop(name)) for name in planned]
        return delete_unchanged_ids(keeper, table, surplus)
