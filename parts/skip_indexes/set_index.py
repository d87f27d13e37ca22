"""set(n): the distinct keys of a run of granules, unless there are more than n (0: no limit).

``sizes`` are the numbers of keys of the runs; the greatest UInt32 for a run with too many. The keys of all runs follow
each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.format.array_file import to_plain_array
from parts.skip_indexes.minmax_index import NamedArrays, get_plain_types, to_single_array
from parts.table.table_description import SkipIndex
from parts.types import IntegerType

_TOO_MANY = (1 << 32) - 1
_SIZE = IntegerType(32, False)


class SetIndex:
    """Summaries of type set. Implements ``parts.skip_indexes.index_builder.RunIndexKind``."""

    def __init__(self, index: SkipIndex) -> None:
        self._types = index.key.types
        self._plain_types = get_plain_types(index)
        self._most = int(index.arguments[0]) or _TOO_MANY - 1

    def summarize(self, arrays: list[pa.Array], cuts: np.ndarray) -> pa.Table:
        runs = np.repeat(np.arange(len(cuts) - 1, dtype=np.uint32), np.diff(cuts))
        keys = [to_plain_array(array, type_) for array, type_ in zip(arrays, self._types, strict=True)]
        return self._collect_distinct(runs, keys, np.zeros(len(cuts) - 1, bool))

    def merge_runs(self, runs: pa.Table) -> pa.Table:
        sizes = to_single_array(runs["sizes"]).to_numpy()
        is_full = bool((sizes == _TOO_MANY).any())
        keys = [to_single_array(runs[f"{number}"]).flatten() for number in range(len(self._types))]
        return self._collect_distinct(np.zeros(len(keys[0]), np.uint32), keys, np.array([is_full]))

    def finish_runs(self, runs: pa.Table) -> pa.Table:
        return runs

    def to_named_arrays(self, runs: pa.Table) -> NamedArrays:
        keys = [to_single_array(runs[f"{number}"]).flatten() for number in range(len(self._types))]
        return [
            ("sizes", _SIZE, to_single_array(runs["sizes"])),
            *(
                (f"{number}", type_, key)
                for number, (type_, key) in enumerate(zip(self._plain_types, keys, strict=True))
            ),
        ]

    def _collect_distinct(self, runs: np.ndarray, keys: list[pa.Array], is_full: np.ndarray) -> pa.Table:
        names = [f"{number}" for number in range(len(keys))]
        table = pa.table([pa.array(runs), *keys], names=["run", *names])
        found = table.group_by(["run", *names], use_threads=False).aggregate([])
        found = found.take(pc.sort_indices(found["run"]))  # stable: keys stay in the order of first appearance
        counts = np.bincount(to_single_array(found["run"]).to_numpy(), minlength=len(is_full))
        is_full = is_full | (counts > self._most)
        found = found.filter(pa.array(~is_full).take(to_single_array(found["run"])))
        counts = np.where(is_full, 0, counts)
        offsets = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
        sizes = pa.array(np.where(is_full, _TOO_MANY, counts).astype(np.uint32))
        lists = {name: pa.ListArray.from_arrays(offsets, to_single_array(found[name])) for name in names}
        return pa.table({"sizes": sizes, **lists})


@dataclass(frozen=True)
class StoredSets:
    """The distinct keys of all runs: ``keys`` one after the other, ``sizes`` of each run.

    ``is_full`` marks runs with too many keys.
    """

    keys: list[pa.Array]
    sizes: np.ndarray
    is_full: np.ndarray

    @classmethod
    def from_named_arrays(cls, entries: NamedArrays) -> StoredSets:
        """Decodes an index's entries."""
        sizes = entries[0][2].to_numpy().astype(np.int64)
        is_full = sizes == _TOO_MANY
        return cls([array for _, _, array in entries[1:]], np.where(is_full, 0, sizes), is_full)

    def match_runs(self, mask: np.ndarray) -> np.ndarray:
        """Returns for each run whether the mask holds for one of its keys, or these are unknown."""
        sums = np.concatenate(([0], np.cumsum(mask)))
        ends = np.cumsum(self.sizes)
        return (sums[ends] > sums[ends - self.sizes]) | self.is_full
