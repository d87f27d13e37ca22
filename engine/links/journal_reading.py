"""Reads the segments of a journal: their records in the order of their commits.

Segments hold records in the order in which a replica learned of them. A mutation may be read after a log entry that
was committed later, so the zxids of segments may overlap. All functions read only bytes that are durable, and may run
while another thread appends.
"""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.links.journal_segment import (
    HEADER_BYTES,
    NO_SEGMENT,
    JournalRecord,
    SegmentHeader,
    SegmentSummary,
    read_records,
)
from parts.common.errors import CorruptionError

_INDEX_BYTES = 16 * 1024
_DAMAGED = (errno.EIO, errno.EREMOTEIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA)


class SegmentIndex:
    """Finds the offset from which on a segment must be read.

    One thread adds records; others may look offsets up meanwhile.
    """

    def __init__(self) -> None:
        self._offsets = array("Q", [HEADER_BYTES])
        self._largest = array("Q", [0])
        """For each offset the largest zxid before it: these never decrease."""
        self._newest = 0

    def add(self, offset: int, zxid: int) -> None:
        """Adds the record at ``offset``, which lies behind all others."""
        if offset - self._offsets[-1] >= _INDEX_BYTES:
            self._offsets.append(offset)
            self._largest.append(self._newest)
        self._newest = max(self._newest, zxid)

    def find_start(self, zxid: int) -> int:
        """Returns an offset before which no record has a larger zxid."""
        return self._offsets[bisect_right(self._largest, zxid) - 1]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment at one moment. What is behind ``summary.size_bytes`` in its file is not part of it."""

    folder: Path
    header: SegmentHeader
    summary: SegmentSummary
    index: SegmentIndex | None = field(default=None, compare=False)

    @property
    def path(self) -> Path:
        return self.folder / self.header.file_name

    @property
    def next_position(self) -> int:
        """The position of the segment after this one."""
        return max(self.header.position, self.summary.largest)

    def read(self, after: int = 0) -> Iterator[JournalRecord]:
        """Yields the records with a larger zxid than ``after``, in the order in which they were appended.

        Raises ``CorruptionError`` that names segment and offset, and ``FileNotFoundError``.
        """
        start = HEADER_BYTES if self.index is None else self.index.find_start(after)
        data = read_bytes(self.path, start, self.summary.size_bytes)
        return (record for _, record in read_records(data, self.path.name, start) if record.zxid > after)


def read_bytes(path: Path, begin: int, end: int) -> bytes:
    """Returns the bytes of a segment from ``begin`` to ``end``.

    Raises ``CorruptionError`` if they are not there.
    """
    if begin >= end:
        return b""
    try:
        with open(path, "rb", buffering=0) as stream:
            pieces, place = [], begin
            while place < end and (piece := os.pread(stream.fileno(), end - place, place)):
                pieces.append(piece)
                place += len(piece)
    except OSError as error:
        if error.errno not in _DAMAGED:
            raise
        message = f"Segment cannot be read ({error.strerror})"
        name = "CANNOT_READ_FROM_FILE_DESCRIPTOR"
        raise CorruptionError(message, file=path.name, offset=begin, name=name) from None
    if place < end:
        raise CorruptionError(f"Segment has {place} bytes instead of {end}", file=path.name, offset=place)
    return b"".join(pieces)


def summarize(
    number: int, size_bytes: int, zxids: Collection[int], before: SegmentSummary = NO_SEGMENT
) -> SegmentSummary:
    """Returns the summary of a segment after records were added to what ``before`` says of it."""
    if not zxids:
        return SegmentSummary(number, size_bytes, before.records, before.smallest, before.largest)
    smallest = min(zxids) if before.records == 0 else min(before.smallest, *zxids)
    return SegmentSummary(number, size_bytes, before.records + len(zxids), smallest, max(before.largest, *zxids))


@dataclass(frozen=True, slots=True)
class JournalPage:
    """Records in the order of their zxids; those of one zxid in the order in which they were appended."""

    records: tuple[JournalRecord, ...]
    is_last: bool
    """No record follows, as far as the journal goes now."""


def read_page(segments: Sequence[Segment], after: int, limit_bytes: int) -> JournalPage:
    """Returns the records that follow ``after``: at most ``limit_bytes``, but at least those of one zxid.

    Holds one segment and twice the page in memory. All records of one zxid are on one page.
    """
    waiting = sorted(
        (segment for segment in segments if segment.summary.largest > after),
        key=lambda segment: (segment.summary.smallest, segment.header.number),
    )
    found: list[_Placed] = []
    is_cut = False
    for place, segment in enumerate(waiting):
        last = found[-1][0] if is_cut else None
        number = segment.header.number
        more = [(r.zxid, number, r) for r in segment.read(after) if last is None or r.zxid <= last]
        found, was_cut = _cut([*found, *more], limit_bytes)
        is_cut = is_cut or was_cut
        following = waiting[place + 1].summary.smallest if place + 1 < len(waiting) else None
        if is_cut and (following is None or found[-1][0] < following):
            break
    return JournalPage(tuple(record for _, _, record in found), not is_cut)


_Placed = tuple[int, int, JournalRecord]
"""Zxid, number of the segment, record."""


def _cut(records: list[_Placed], limit_bytes: int) -> tuple[list[_Placed], bool]:
    """Returns the first records in the order of their zxids that fit, and whether there are more."""
    records.sort(key=lambda placed: placed[:2])
    size, end = 0, 0
    for place, (zxid, _, record) in enumerate(records):
        size += record.size
        if place and zxid != records[place - 1][0]:
            end = place
        if size > limit_bytes and end:
            return records[:end], True
    return records, False


def find_known(segments: Iterable[Segment], keys: Collection[tuple[int, str]]) -> set[tuple[int, str]]:
    """Returns which of the keys the segments have. Reads only segments that may have some, one at a time."""
    found: set[tuple[int, str]] = set()
    for segment in segments:
        facts = segment.summary
        possible = {key for key in keys if facts.records and facts.smallest <= key[0] <= facts.largest}
        if possible:
            smallest = min(zxid for zxid, _ in possible)
            found |= possible & {record.key for record in segment.read(smallest - 1)}
    return found
