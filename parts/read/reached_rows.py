"""Finds the rows of a part that a command with a reach touches (``parts.common.command_reach``)."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parts.common.command_reach import CommandReach
from parts.read.part_reader import Part
from parts.table.row_version import ROW_PLACE_NAMES


def fill_position_in(part: Part, position: int) -> Part:
    """Returns the part with the position of its rows, which its file lacks.

    See ``RowVersion.lacks_position``.
    """
    filled = copy.copy(part)
    filled.row_version = replace(part.row_version, position=position)
    return filled


def find_reached_rows(part: Part, reach: CommandReach) -> np.ndarray | bool:
    """Returns for each row of the part whether the command touches it.

    It is ``True`` or ``False`` if all rows are alike.
    """
    version = part.row_version
    assert not version.lacks_position, f"the position of {part.name} was not filled in"
    if not version.is_mixed:
        return reach.covers(version.origin, version.position or 0)
    found = [_find_in_batch(batch, reach) for batch in part.read(ROW_PLACE_NAMES, with_deleted=True)]
    mask = np.concatenate(found) if found else np.empty(0, bool)
    return bool(mask[0]) if len(mask) and (mask.all() or not mask.any()) else mask


def _find_in_batch(batch: pa.RecordBatch, reach: CommandReach) -> np.ndarray:
    origins = batch.column(0)
    if not pa.types.is_dictionary(origins.type):
        origins = origins.dictionary_encode()
    limits = np.array([reach.find_last(origin) for origin in origins.dictionary.to_pylist()], np.uint64)
    last: np.ndarray = limits[origins.indices.to_numpy(zero_copy_only=False)]
    reached: np.ndarray = batch.column(1).to_numpy(zero_copy_only=False) <= last
    return reached
