"""Merging parts: key-range slices of all sources, each sorted and reduced by the table's mode.

``slice_plan``      where to cut: pivot keys from the sparse indexes, exact row numbers in every source;
``part_merge``      prepares the slices, passes them to the mode, and appends the blocks to a writer;
``final_read``      yields the blocks to a reader (SELECT … FINAL);
``merge_selector``  which merges are worth making;
``modes``           what happens to rows with equal keys; the protocol is ``parts.table.merge_mode``.
"""

from parts.merge.final_read import FinalSource, read_final
from parts.merge.modes import mode_of_engine
from parts.merge.modes.deduplicating import Deduplicating
from parts.merge.part_merge import MergeProgress, merge_parts

__all__ = ["Deduplicating", "FinalSource", "MergeProgress", "merge_parts", "mode_of_engine", "read_final"]
