"""The protocol of merge modes, which decide what a merge does with rows of equal keys.

Merges and reads with FINAL cut their sources into slices of whole keys (``parts.merge.slice_plan``) and pass each to
the table's mode. A mode never sees files, sources or threads. The modes are in ``parts.merge.modes``.

- :meth:`MergeMode.reduce` gets a slice of many keys as one sorted block and returns the resulting rows, in order.
- :meth:`MergeMode.reduce_one_key` gets a key with more rows than a slice may hold as a stream of blocks. So no number
  of equal keys needs more memory than a few blocks.

Both must give the same rows for the same input: the ends of slices depend on indexes, never on the mode.
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
    """All rows of some keys, sorted by key; rows of one key in the order of insertion."""

    block: pa.Table
    evaluate_key: Callable[[pa.Table], Sequence[pa.ChunkedArray]] = field(compare=False, repr=False)

    @cached_property
    def key_starts(self) -> np.ndarray:
        """A mask of the rows whose key differs from that of the row before."""
        starts = np.zeros(self.block.num_rows, np.bool_)
        starts[:1] = True
        for words in encode_keys(self.evaluate_key(self.block), self.block.num_rows):
            starts[1:] |= words.codes[1:] != words.codes[:-1]
        return starts

    def group_starts(self, *, has_key: bool) -> np.ndarray:
        """Returns the numbers of the rows that begin a key. Without a sorting key every row is its own group."""
        return np.flatnonzero(self.key_starts) if has_key else np.arange(self.block.num_rows)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that the table's keys read. Modes do not change them.

    ``rollups``: the rollup rules of the server's configuration, by section (``modes.graphite``).
    """

    sorting: frozenset[str] = frozenset()
    partition: frozenset[str] = frozenset()
    rollups: Mapping[str, object] = field(default_factory=dict, compare=False)


NO_KEY_COLUMNS = KeyColumns()


class MergeMode(ABC):
    """A way to reduce rows of equal keys. Modes are values: equal when they do the same."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that replicas agree on in ZooKeeper, for example ``Ordinary``."""

    @property
    def fixed_columns(self) -> tuple[str, ...]:
        """The columns by whose values rows are compared, beside those with a role: their types cannot change."""
        return ()

    @property
    def role_columns(self) -> tuple[tuple[str, str], ...]:
        """The columns named by the engine's arguments, each with its role. ALTER may not drop them."""
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads besides the sorting key. FINAL reads these too."""
        return tuple(name for name, _ in self.role_columns)

    @property
    def last_key_column(self) -> str:
        """A column that the engine appends to the sorting key of ORDER BY, or ``""``."""
        return ""

    @property
    def is_final_when_merged(self) -> bool:
        """Whether FINAL may return a merged part's rows unchanged if no other part has their keys."""
        return True

    @property
    def has_final(self) -> bool:
        """Whether SELECT … FINAL is possible."""
        return True

    @property
    def has_row_versions(self) -> bool:
        """Whether the version of every row counts (``parts.table.row_version``).

        Then merges keep versions, and merges and FINAL see deleted rows too.
        """
        return False

    @property
    def needs_time(self) -> bool:
        """Whether the result depends on the time of the merge."""
        return False

    def with_time(self, time: int) -> MergeMode:
        """Returns the mode of a merge at this time, seconds since 1970; 0 for a merge without a time."""
        return self

    @property
    def slice_mode(self) -> MergeMode:
        """The mode applied to each slice, before :meth:`reduce_across_slices`."""
        return self

    def reduce_across_slices(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Reduces the rows of all reduced slices, in order. For modes that combine rows of several keys."""
        return blocks

    def for_final(self) -> MergeMode:
        """Returns the mode of FINAL, if it differs from that of a merge."""
        return self

    @abstractmethod
    def reduce(self, rows: SortedRows) -> pa.Table:
        """Returns the resulting rows of a slice. Called from several threads.

        It must depend only on the rows, or replicas would differ.
        """

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Reduces one key whose rows come in blocks, in the order of insertion, as :meth:`reduce` does.

        The default reduces the rows kept so far together with the next block. That is right for a mode that may reduce
        its own result again and keeps few rows of a key. Others override it.
        """
        kept: pa.Table | None = None
        for block in blocks:
            rows = block if kept is None else concat_blocks([kept, block])
            kept = self.reduce(SortedRows(rows, lambda _: ()))
        if kept is not None:
            yield kept


@dataclass(frozen=True)
class Ordinary(MergeMode):
    """MergeTree's mode: every row stays, equal keys in the order of insertion.

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
