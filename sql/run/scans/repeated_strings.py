"""Decides which strings DuckDB gets as dictionaries: those that repeat.

DuckDB then groups, counts, compares and matches a value once a batch. In merged parts such columns are stored with
dictionaries (``parts.blocks.dictionary_strings``). In others, columns of the table's key, and what follows from them,
come in long runs, which shows in their size on disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql.pruning.pruned_parts import PrunedPart

_ROWS_PER_BYTE = 8
"""A column with at least this many rows in a byte on disk has long runs."""


def is_repeated(name: str, parts: Sequence[PrunedPart]) -> bool:
    """Returns whether strings of the column repeat, judged by the parts to read."""
    rows = sum(pruned.part.rows for pruned in parts)
    repeated = sum(pruned.part.rows for pruned in parts if pruned.part.starts_with_dictionary(name))
    return repeated * 2 > rows or has_long_runs(name, parts)


def has_long_runs(name: str, parts: Sequence[PrunedPart]) -> bool:
    """Returns whether the column is so small on disk that it must have long runs."""
    sizes = [pruned.part.column_sizes().get(name) for pruned in parts]
    stored_bytes = sum(size[0] for size in sizes if size is not None)
    rows = sum(pruned.part.rows for pruned in parts)
    return bool(sizes) and None not in sizes and stored_bytes * _ROWS_PER_BYTE < rows
