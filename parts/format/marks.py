"""Marks: where each granule of each column begins.

All integers are little-endian.

The file begins with ``u32`` number of columns and ``u32`` number of granules G. Every stored column follows in order: G
times ``u64`` offset of the frame in the column's file, then G times ``u32`` row inside the frame.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parts.common.errors import CorruptionError


@dataclass(frozen=True, slots=True)
class ColumnMarks:
    """The marks of one column. ``offsets[g]`` is the frame of granule g, ``rows[g]`` its first row there."""

    offsets: np.ndarray
    rows: np.ndarray

    @property
    def frame_starts(self) -> np.ndarray:
        """The granules at which a frame begins."""
        return np.flatnonzero(self.rows == 0)


def encode_marks(columns: Sequence[ColumnMarks]) -> bytes:
    """Returns the file's bytes, from one entry per stored column."""
    granules = len(columns[0].offsets) if columns else 0
    pieces = [struct.pack("<II", len(columns), granules)]
    for marks in columns:
        assert len(marks.offsets) == len(marks.rows) == granules
        pieces.append(marks.offsets.astype("<u8").tobytes())
        pieces.append(marks.rows.astype("<u4").tobytes())
    return b"".join(pieces)


def decode_marks(data: bytes, column_count: int, granules: int, part: str, file: str) -> list[ColumnMarks]:
    """Returns one entry per stored column. Raises ``CorruptionError`` if the counts are not the part's."""
    expected = struct.pack("<II", column_count, granules)
    if data[:8] != expected or len(data) != 8 + 12 * granules * column_count:
        message = f"Marks are not of {column_count} columns of {granules} granules"
        raise CorruptionError(message, part=part, file=file, offset=0, name="CORRUPTED_DATA")
    result = []
    for position in range(column_count):
        start = 8 + 12 * granules * position
        offsets = np.frombuffer(data, "<u8", granules, start)
        rows = np.frombuffer(data, "<u4", granules, start + 8 * granules)
        result.append(ColumnMarks(offsets, rows))
    return result
