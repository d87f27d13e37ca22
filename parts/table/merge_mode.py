"""What a merge does with rows of equal keys: the protocol that every merge mode follows.

Merging parts and reading with FINAL cut their sources into slices of whole keys (``parts.merge.slice_plan``) and hand
each to the table's mode. A mode never sees files, sources or threads; the modes stand in ``parts.merge.modes``.

- :meth:`MergeMode.reduce` gets a slice of many keys as one sorted block and returns the rows that stay, in order.
- :meth:`MergeMode.reduce_one_key` gets a key with more rows than a slice may hold as a stream of blocks, so that no
  number of equal keys needs more memory than a few blocks.

Both must give the same rows for the same input: where slices end depends on indexes, never on the mode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import concat_blocks
from parts.blocks.sort_order import encode_keys


@dataclass(frozen=True)
class SortedRows:
    """All rows of some keys, by key; rows of one key in the order in which they were inserted."""

    block: pa.Table
    evaluate_key: Callable[[pa.Table], Sequence[pa.ChunkedArray]] = field(compare=False, repr=False)

    @cached_property
    def key_starts(self) -> np.ndarray:
        """True for the rows whose key is not that of the row before."""
        starts = np.zeros(self.block.num_rows, np.bool_)
        starts[:1] = True
        for words in encode_keys(self.evaluate_key(self.block), self.block.num_rows):
            starts[1:] |= words.codes[1:] != words.codes[:-1]
        return starts

    def group_starts(self, *, has_key: bool) -> np.ndarray:
        """The numbers of the rows that begin a key; without a sorting key each row is one of its own."""
        return np.flatnonzero(self.key_starts) if has_key else np.arange(self.block.num_rows)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that the keys of a table read: modes leave them as they are. ``rollups``: those of the server's
    configuration, by section (``modes.graphite``)."""

    sorting: frozenset[str] = frozenset()
    partition: frozenset[str] = frozenset()
    rollups: Mapping[str, object] = field(default_factory=dict, compare=False)


NO_KEY_COLUMNS = KeyColumns()


class MergeMode(ABC):
    """One way to reduce rows of equal keys. Modes are values: equal when they do the same."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As replicas agree on it in ZooKeeper, for example ``Ordinary``."""

    @property
    def roles(self) -> tuple[tuple[str, str], ...]:
        """Columns that the engine's arguments name, each with what it is to it: ALTER may not take them away."""
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        """What it reads besides the sorting key; FINAL reads these too."""
        return tuple(name for name, _ in self.roles)

    @property
    def last_key_column(self) -> str:
        """What the sorting key ends with besides what ORDER BY says, or ``""``."""
        return ""

    @property
    def is_done_when_merged(self) -> bool:
        """Whether FINAL may give the rows of a part that was merged as they are, if no other part has their keys."""
        return True

    @property
    def has_final(self) -> bool:
        """Whether SELECT … FINAL is possible."""
        return True

    @property
    def needs_time(self) -> bool:
        """Whether what stays depends on the time of the merge."""
        return False

    def at(self, time: int) -> MergeMode:
        """The mode of a merge at this time, seconds since 1970. 0: the merge has none."""
        return self

    @property
    def of_slices(self) -> MergeMode:
        """What is done to each slice, before :meth:`across`."""
        return self

    def across(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """What stays of all reduced slices, in order: for a mode in which rows of several keys become one."""
        return blocks

    def for_reading(self) -> MergeMode:
        """What FINAL does, where that differs from what a merge does."""
        return self

    @abstractmethod
    def reduce(self, rows: SortedRows) -> pa.Table:
        """The rows that stay. Depends on the rows alone, or replicas would differ. Called from several threads."""

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """As :meth:`reduce` for one key whose rows come in blocks, in the order in which they were inserted.

        This one reduces the rows kept so far together with the next block: right for a mode that may take its own
        result for its input and keeps few rows of a key. Others override it.
        """
        kept: pa.Table | None = None
        for block in blocks:
            rows = block if kept is None else concat_blocks([kept, block])
            kept = self.reduce(SortedRows(rows, lambda _: ()))
        if kept is not None:
            yield kept


@dataclass(frozen=True)
class Ordinary(MergeMode):
    """MergeTree's, and that of a table without another: every row stays, equal keys in the order of insertion.

    Source: ClickHouse documentation, "MergeTree".
    """

    @property
    def name(self) -> str:
        return "Ordinary"

    def reduce(self, rows: SortedRows) -> pa.Table:
        return rows.block

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        return blocks


ORDINARY = Ordinary()
