"""Merging parts: key-range slices of all sources, each sorted and run through the mode, appended to one writer.

``slices``       where to cut: pivot keys from the sparse indexes, exact row numbers in every source
``ordinary``     the Ordinary mode: the stable merge of the sources, optionally without duplicates
``deduplicate``  which rows repeat others
"""

from parts.merge.ordinary import MergeProgress, merge_parts

__all__ = ["MergeProgress", "merge_parts"]
