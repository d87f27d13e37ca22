"""Reads a scan with FINAL: the rows that the table's merge mode leaves of its pruned parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa

from parts.common.query_status import QueryStatus
from parts.merge import FinalSource, read_final
from parts.table.part_name_columns import NAME_COLUMNS
from parts.table.table_description import TableDescription
from sql.compile.final_reading import FinalReading
from sql.pruning.pruned_parts import PrunedPart


def read_final_blocks(
    parts: Sequence[PrunedPart],
    description: TableDescription,
    reading: FinalReading,
    names: Sequence[str],
    status: QueryStatus,
) -> Iterator[pa.Table]:
    """Yields blocks of the columns ``names``, or of others if there are none."""
    key = description.sorting_key
    columns = list(names) or list(key.columns[:1]) or [description.schema.stored.names[0]]
    for together in _group_parts(parts, reading):
        sources = [_make_source(pruned, columns) for pruned in together]
        if len(sources) == 1 and _is_already_final(together[0], description):
            blocks = _read_unchanged(sources[0], columns)
        else:
            blocks = read_final(sources, description, columns)
        for block in blocks:
            status.check()
            yield block


def _group_parts(parts: Sequence[PrunedPart], reading: FinalReading) -> Iterator[list[PrunedPart]]:
    """Yields groups of parts whose rows may replace each other, in the order of insertion."""
    if not reading.by_partition:
        yield list(parts)
        return
    for _, group in groupby(parts, lambda pruned: pruned.part.name.partition_id):
        yield list(group)


def _is_already_final(pruned: PrunedPart, description: TableDescription) -> bool:
    """Returns whether a merge has already left only the rows that FINAL would."""
    return pruned.part.name.level > 0 and description.merge_mode.is_final_when_merged


def _make_source(pruned: PrunedPart, columns: Sequence[str]) -> FinalSource:
    part = pruned.part
    values = {"_part": str(part.name), "_partition_id": part.name.partition_id}
    ranges = pruned.find_needed_rows([name for name in columns if name not in NAME_COLUMNS])
    is_whole = sum(chosen.rows for chosen in ranges) == part.rows
    return FinalSource(part, None if is_whole else ranges, {n: values[n] for n in NAME_COLUMNS if n in columns})


def _read_unchanged(source: FinalSource, columns: Sequence[str]) -> Iterator[pa.Table]:
    stored = [name for name in columns if name not in source.constant_columns]
    return (block.select(list(columns)) for block in source.blocks(stored))
