"""ReplacingMergeTree with ``last_writer_wins``: the row of a key with the largest version stays.

Rows of a key are compared by the engine's version column, if it has one, then by ``conflict_order``, if the table has
it, then by the row's own version (``parts.table.row_version``): commit time, origin, block number at the origin. This
is a total order over the blocks of all clusters, so the same row stays in whatever order blocks arrive. Rows of one
block keep the order in which they came.

A row that ``_row_exists`` marks as deleted is a tombstone. It wins or loses as any row does. Merges keep it, because an
older row of its key may still come from another cluster. FINAL leaves it out. A merge of a whole partition removes it
when its commit time is stable: no older row can come any more. Where commit times do not decide alone (a version
column, ``conflict_order``), a row that comes later may be older, and tombstones stay.

Source: YugabyteDB's xCluster replication (the last writer wins) and Tarantool's ``before_replace`` (any order).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.blocks.dictionary_strings import decode_dictionary_columns
from parts.blocks.sort_order import encode_keys, pack_key_codes
from parts.merge.modes.replacing import Replacing
from parts.read.part_reader import Part
from parts.table.merge_mode import MergeMode, SortedRows
from parts.table.row_exists_column import ROW_EXISTS
from parts.table.row_version import COMMIT_TIME, ORIGIN, ROW_VERSION_NAMES
from parts.table.table_description import Key
from parts.write.block_preparation import take_rows


class ConflictCounter:
    """Counts the rows that lost to a row of another origin. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows = 0

    def add(self, rows: int) -> None:
        """Counts more rows."""
        if rows:
            with self._lock:
                self.rows += rows


@dataclass(frozen=True)
class LastWriter(Replacing):
    """The mode of a table with ``last_writer_wins``. ``order`` is its compiled ``conflict_order``."""

    order: Key | None = None
    leaves_out_tombstones: bool = False
    stable_time: int = 0
    """Tombstones of this commit time, or an earlier one, are left out; in microseconds since 1970."""
    conflicts: ConflictCounter | None = field(default=None, compare=False, repr=False)

    @property
    def has_row_versions(self) -> bool:
        return True

    @property
    def order_text(self) -> str:
        """The text of ``conflict_order``, or ``""``."""
        return self.order.expressions[0] if self.order is not None else ""

    @property
    def fixed_columns(self) -> tuple[str, ...]:
        """The columns of ``conflict_order``: with other types rows that have met would compare otherwise."""
        return tuple(name for name in self.order.columns if name not in ROW_VERSION_NAMES) if self.order else ()

    @property
    def columns(self) -> tuple[str, ...]:
        own = self.order.columns if self.order is not None else ()
        return tuple(dict.fromkeys((*super().columns, *own, *ROW_VERSION_NAMES, ROW_EXISTS)))

    def for_final(self) -> LastWriter:
        """Returns the mode that leaves out tombstones, and rows that the engine's own column marks as deleted."""
        return replace(self, leaves_out_deleted=bool(self.is_deleted), leaves_out_tombstones=True)

    @property
    def may_remove_tombstones(self) -> bool:
        """Whether the commit time alone decides which row is older."""
        return not self.version and self.order is None

    def remove_tombstones(self, stable_time: int) -> LastWriter:
        """Returns the mode for a merge of all parts of a partition, without tombstones up to a commit time."""
        return replace(self, stable_time=stable_time) if self.may_remove_tombstones else self

    def count_conflicts(self, counter: ConflictCounter) -> LastWriter:
        """Returns the mode that also counts the rows that lose to another origin's."""
        return replace(self, conflicts=counter)

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Keeps the row with the largest version of each key."""
        if not self._is_known(rows.block):
            return rows.block
        return self._leave_out(super().reduce(rows))

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Reduces a key. A tombstone replaces all older rows of its key and is removed at the end."""
        keeping = replace(self, leaves_out_deleted=False, leaves_out_tombstones=False, stable_time=0)
        for block in MergeMode.reduce_one_key(keeping, blocks):
            left = block.filter(pc.equal(block.column(self.is_deleted), 0)) if self.leaves_out_deleted else block
            yield self._leave_out(left)

    def _is_known(self, block: pa.Table) -> bool:
        """Tells whether the block has what rows are compared by.

        An inserted block has no version yet. All its rows will share one, so ``conflict_order`` alone may need it.
        """
        return self.order is None or all(name in block.column_names for name in self.order.columns)

    def _leave_out(self, block: pa.Table) -> pa.Table:
        if not (self.leaves_out_tombstones or self.stable_time) or ROW_EXISTS not in block.column_names:
            return block
        stays = pc.equal(block.column(ROW_EXISTS), 1)
        if not self.leaves_out_tombstones:
            stays = pc.or_(stays, pc.greater(_get_commit_times(block), self.stable_time))
        return block if pc.all(stays).as_py() else block.filter(stays)

    def _last_of_each(self, block: pa.Table, starts: np.ndarray) -> np.ndarray:
        """Returns the row that stays for each key. Only keys with several rows are looked at."""
        sizes = np.diff(starts, append=block.num_rows)
        several = sizes > 1
        stays = starts.copy()
        if not several.any():
            return stays
        rows = np.flatnonzero(np.repeat(several, sizes))
        names = [name for name in self.columns if name in block.column_names and name != ROW_EXISTS]
        compared = take_rows(block.select(names), rows) if names and len(rows) < block.num_rows else block
        sizes = sizes[several]
        stays[several] = rows[self._find_largest(compared, np.cumsum(sizes) - sizes, sizes)]
        return stays

    def _find_largest(self, block: pa.Table, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Returns the last row of the largest version of each key."""
        rows, last = block.num_rows, starts + sizes - 1
        words = [word.codes for word in pack_key_codes(encode_keys(self._list_compared(block), rows), rows)]
        if len(words) == 1 and _never_falls(words[0], starts):  # versions in the order of arrival, as they mostly are
            stays = last
        else:
            is_largest = np.ones(rows, np.bool_)
            for word in words:
                codes = np.where(is_largest, word, np.uint64(0))
                is_largest &= codes == np.repeat(np.maximum.reduceat(codes, starts), sizes)
            stays = np.maximum.reduceat(np.where(is_largest, np.arange(rows), -1), starts)
        if self.conflicts is not None and ORIGIN in block.column_names:
            (origins,) = encode_keys([block.column(ORIGIN)], rows)
            if origins.bits:
                self.conflicts.add(int(np.count_nonzero(origins.codes != np.repeat(origins.codes[stays], sizes))))
        return stays

    def _list_compared(self, block: pa.Table) -> list[pa.ChunkedArray]:
        compared = [block.column(self.version)] if self.version else []
        if self.order is not None:
            texts = [name for name in self.order.columns if name != ORIGIN]
            compared += self.order.evaluate(decode_dictionary_columns(block, texts))
        return compared + [block.column(name) for name in ROW_VERSION_NAMES if name in block.column_names]


def find_tombstone_times(part: Part) -> tuple[int, int]:
    """Returns the times of a part's oldest tombstone, and of the newest row that may be one.

    Zeros if it has no tombstone.
    """
    version = part.row_version
    if not part.has_deleted_rows or version.tombstones == 0:
        return 0, 0
    newest = max(1, version.commit_time)
    if version.is_mixed:
        return version.tombstones or 1, newest
    return newest, newest


class OldestTombstone:
    """Finds the commit time of the oldest tombstone in the blocks of a merge."""

    def __init__(self) -> None:
        self.commit_time = 0
        """In microseconds since 1970, at least 1; 0 while none was met."""

    def add(self, block: pa.Table) -> None:
        """Looks at another block, which has the columns of versions."""
        if ROW_EXISTS not in block.column_names:
            return
        oldest = pc.min(_get_commit_times(block).filter(pc.equal(block.column(ROW_EXISTS), 0))).as_py()
        if oldest is not None:
            self.commit_time = min(self.commit_time or max(1, oldest), max(1, oldest))


def _get_commit_times(block: pa.Table) -> pa.ChunkedArray:
    return block.column(COMMIT_TIME).cast(pa.int64())


def _never_falls(codes: np.ndarray, starts: np.ndarray) -> bool:
    """Tells whether no code is below the one before it within a key."""
    falls = codes[1:] < codes[:-1]
    falls[starts[1:] - 1] = False
    return not falls.any()


def make_last_writer(mode: Replacing, order: Key | None) -> LastWriter:
    """Returns the mode of a ReplacingMergeTree with ``last_writer_wins``."""
    return LastWriter(mode.version, mode.is_deleted, order=order)
