"""Reads the segments of a journal: their records in the order of their commits.

Segments hold records in the order in which a replica learned of them. A mutation may be read after a log entry that
was committed later, so the zxids of segments may overlap. All functions read only bytes that are durable, and may run
while another thread appends.
"""

from __future__ import annotations

import errno
import heapq
import os
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from coordination.links.positions import MAX_ZXID
from engine.link_store.journal_segment import (
    HEADER_BYTES,
    NO_SEGMENT,
    JournalRecord,
    SegmentHeader,
    SegmentSummary,
    read_records,
    read_zxids,
)
from parts.common.errors import CorruptionError

_CHUNK_BYTES = 32 * 1024
_DAMAGED = (errno.EIO, errno.EREMOTEIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA)


class Chunk(NamedTuple):
    """A run of records of a segment, and their smallest and largest zxid."""

    smallest: int
    largest: int
    begin: int
    end: int


class SegmentIndex:
    """The chunks of a segment. One thread adds records; others may list chunks meanwhile."""

    def __init__(self) -> None:
        self._begins, self._smallest, self._largest = array("Q"), array("Q"), array("Q")

    def add(self, offset: int, zxid: int) -> None:
        """Adds the record at ``offset``, which lies behind all others."""
        if not self._begins or offset - self._begins[-1] >= _CHUNK_BYTES:
            self._smallest.append(zxid)
            self._largest.append(zxid)
            self._begins.append(offset)  # last: whoever sees it sees the rest
        else:
            self._smallest[-1] = min(self._smallest[-1], zxid)
            self._largest[-1] = max(self._largest[-1], zxid)

    def list_chunks(self, size_bytes: int) -> list[Chunk]:
        """Lists the chunks of the first ``size_bytes`` bytes of the segment."""
        begins = list(self._begins)
        ends = [*begins[1:], size_bytes]
        chunks = zip(self._smallest, self._largest, begins, ends, strict=False)
        return [Chunk(small, large, begin, min(end, size_bytes)) for small, large, begin, end in chunks]


@dataclass(slots=True)
class IndexHolder:
    """The index of a segment, once somebody has needed it."""

    index: SegmentIndex | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment at one moment. What is behind ``summary.size_bytes`` in its file is not part of it."""

    folder: Path
    header: SegmentHeader
    summary: SegmentSummary
    holder: IndexHolder = field(default_factory=IndexHolder, compare=False)

    @property
    def path(self) -> Path:
        return self.folder / self.header.file_name

    @property
    def next_position(self) -> int:
        """The position of the segment after this one."""
        return max(self.header.position, self.summary.largest)

    def list_chunks(self) -> list[Chunk]:
        """Lists the chunks. The first call may read the segment.

        Raises ``CorruptionError`` that names segment and offset, and ``FileNotFoundError``.
        """
        size = self.summary.size_bytes
        if self.holder.index is None:
            index = SegmentIndex()
            data = read_bytes(self.path, HEADER_BYTES, size)
            for offset, zxid in read_zxids(data, self.path.name, HEADER_BYTES):
                index.add(offset, zxid)
            self.holder.index = index
        return self.holder.index.list_chunks(size)

    def read(self, chunk: Chunk) -> Iterator[JournalRecord]:
        """Yields the records of a chunk, in the order in which they were appended.

        Raises as :meth:`list_chunks`.
        """
        return read_records(read_bytes(self.path, chunk.begin, chunk.end), self.path.name, chunk.begin)


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

    All records of one zxid are on one page. Chunks are read in the order of their smallest zxids, until no further one
    can hold a record of the page. So a page and a chunk are in memory, or a segment that has no index yet.
    """
    waiting: list[tuple[int, int, int, Segment, Chunk | None]] = []
    for segment in segments:
        if segment.summary.largest > after:
            waiting.append((segment.summary.smallest, segment.header.number, 0, segment, None))
    heapq.heapify(waiting)
    found: list[_Placed] = []
    last = MAX_ZXID
    while waiting and waiting[0][0] <= last:
        _, number, _, segment, chunk = heapq.heappop(waiting)
        if chunk is None:
            for each in segment.list_chunks():
                if each.largest > after:
                    heapq.heappush(waiting, (each.smallest, number, each.begin, segment, each))
            continue
        place = (number, chunk.begin)
        found += [(r.zxid, place, r) for r in segment.read(chunk) if after < r.zxid <= last]
        last = min(last, _cut(found, limit_bytes))
    return JournalPage(tuple(record for _, _, record in found), last == MAX_ZXID)


_Placed = tuple[int, tuple[int, int], JournalRecord]
"""Zxid, number of the segment and begin of the chunk, record."""


def _cut(records: list[_Placed], limit_bytes: int) -> int:
    """Sorts the records by zxid and removes the last ones that do not fit.

    Returns the largest zxid that may still come onto the page.
    """
    records.sort(key=lambda placed: placed[:2])
    size, end = 0, 0
    for place, (zxid, _, record) in enumerate(records):
        size += record.size
        if place and zxid != records[place - 1][0]:
            end = place
        if size > limit_bytes and end:
            last = records[end][0] - 1
            del records[end:]
            return last
    return MAX_ZXID


def find_known(segments: Iterable[Segment], keys: Collection[tuple[int, str]]) -> set[tuple[int, str]]:
    """Returns which of the keys the segments have. Reads only chunks that may have some, one at a time."""
    found: set[tuple[int, str]] = set()
    zxids = sorted({zxid for zxid, _ in keys})
    for segment in segments:
        facts = segment.summary
        if facts.records and _has_between(zxids, facts.smallest, facts.largest):
            for chunk in segment.list_chunks():
                if _has_between(zxids, chunk.smallest, chunk.largest):
                    found.update(record.key for record in segment.read(chunk))
                    found.intersection_update(keys)
    return found


def _has_between(numbers: Sequence[int], smallest: int, largest: int) -> bool:
    place = bisect_left(numbers, smallest)
    return place < len(numbers) and numbers[place] <= largest
