"""The journal of a linked table: every change that a replica pulled, durable before it moves on.

The journal is a folder of segments (:mod:`engine.link_store.journal_segment`). Records may come in another order than
that of their commits, and a pull that is repeated brings them again; :meth:`Journal.read` gives each once, in the order
of the commits.

Invariants

- A record of an append that returned is on the disk. Records of an append that failed may be there after a restart:
  they are true, and the pull brings them again.
- Above :attr:`Journal.first_position` the journal has every record that it was ever given.
- A chain of headers says which segments belong to the journal, and how much of each. Everything else in the folder is
  left over from a crash, and a start removes it.
- After a failed write or fsync nobody writes to that segment again: the kernel may have dropped what was not written.
  The next append begins a new segment, whose header says how much of the old one counts.

What a crash leaves:

=============================================  ===============================================================
while                                          a start finds
=============================================  ===============================================================
a record is written or fsynced                 whole records, then perhaps a torn one, which it cuts off
a segment is begun, before its rename          the former segments; it deletes the draft
a segment is begun, after its rename           the same, or the new segment too, whole
the journal begins anew, before its rename     the former journal
the journal begins anew, after its rename      the former journal, or the new one; it deletes the former segments
segments are trimmed                           fewer of them gone; it deletes those in front of a hole
=============================================  ===============================================================

One thread at a time appends, trims or begins anew: a lock sees to that. Any thread may read meanwhile.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coordination.links.positions import MAX_ZXID
from engine.link_store.journal_files import (
    close_quietly,
    find_free_number,
    load_segments,
    open_newest,
    remove_leftovers,
    start_segment,
    write_all,
)
from engine.link_store.journal_reading import (
    IndexHolder,
    JournalPage,
    Segment,
    SegmentIndex,
    find_known,
    read_page,
    summarize,
)
from engine.link_store.journal_segment import (
    HEADER_BYTES,
    JournalRecord,
    SegmentHeader,
    SegmentSummary,
    encode_record,
)
from parts.common.errors import CorruptionError, UnavailableError
from parts.format.hashed_file import make_directories, sync_descriptor, sync_directory

JOURNAL_FOLDER = "link_journal"
SEGMENT_BYTES = 4 * 1024 * 1024
"""A segment that has so many bytes is followed by another."""


class PositionTrimmedError(UnavailableError):
    """The journal begins behind the position that was asked for: another replica may have what is missing."""

    def __init__(self, asked: int, first: int) -> None:
        super().__init__(
            "CANNOT_READ_ALL_DATA",
            f"Changes after zxid {asked} are asked for, and the journal here begins after zxid {first}: ask another "
            "replica, or copy the table anew",
        )
        self.asked, self.first = asked, first


@dataclass(frozen=True, slots=True)
class JournalStatistics:
    """Figures of a journal, for system tables."""

    first_position: int
    """The journal has everything after this zxid."""
    last_position: int
    """The largest zxid that it ever had; the first position without records."""
    segments: int
    records: int
    size_bytes: int


class Journal:
    """The journal in ``folder``.

    Call :meth:`load` first. A journal that does not exist yet needs :meth:`begin_anew`.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments: tuple[Segment, ...] = ()
        """Replaced as a whole at each change, so that readers take it without a lock."""
        self._writing = threading.Lock()
        self._descriptor = -1
        """The newest segment, open for appending; -1: the next append begins another."""

    # -- start and end --------------------------------------------------------------------------------------------

    def load(self) -> int:
        """Finds the journal on the disk. Returns the size of the torn tail that it cut off, usually 0.

        Raises ``CorruptionError`` that names segment and offset; then only :meth:`begin_anew` helps. Who finds that a
        replica's ``log_pointer`` has passed records that are not here begins anew too (:meth:`has_record`).
        """
        with self._writing:
            self._close()
            self._segments = ()
            if not self._folder.exists():
                return 0
            segments = load_segments(self._folder)
            if not segments:
                return 0
            self._descriptor, torn = open_newest(segments[-1])
            self._segments = segments
            return torn

    def begin_anew(self, position: int) -> None:
        """Forgets everything and begins after ``position``, as a clone does at the pointer that it takes over.

        The former segments go when the new one is durable. Works on a damaged journal too. After an error the former
        journal goes on, except that a restart may find the new one.
        """
        assert 0 <= position <= MAX_ZXID
        with self._writing:
            make_directories(self._folder)
            header = SegmentHeader(find_free_number(self._folder), position)
            self._start_segment(header, (), ())
            remove_leftovers(self._folder, {header.file_name})

    def remove(self) -> None:
        """Deletes the journal, for a table that has no links any more."""
        with self._writing:
            self._close()
            self._segments = ()
            if self._folder.exists():
                shutil.rmtree(self._folder)
                sync_directory(self._folder.parent)

    def close(self) -> None:
        """Closes the newest segment. Reading goes on; an append begins another segment."""
        with self._writing:
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            close_quietly(descriptor)

    # -- writing --------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[JournalRecord]) -> int:
        """Adds the records that are not there yet, durably. Returns how many were added.

        Records at or below the first position are left out: nobody may ask for them. Raises ``OSError`` if the disk
        fails; the same records may then be appended again.
        """
        with self._writing:
            fresh = self._select_new(records)
            for run in _split_by_size(fresh, self._segment_bytes):
                self._append_run(run)
            return len(fresh)

    def _select_new(self, records: Sequence[JournalRecord]) -> list[JournalRecord]:
        segments = self._get_segments()
        first, last = segments[0].header.position, segments[-1].next_position
        wanted = {record.key: record for record in records if record.zxid > first}
        known = find_known(segments, [key for key in wanted if key[0] <= last])
        return [record for key, record in wanted.items() if key not in known]

    def _append_run(self, run: Sequence[JournalRecord]) -> None:
        newest = self._segments[-1]
        size = newest.summary.size_bytes
        if self._descriptor < 0 or size >= self._segment_bytes:
            header = SegmentHeader(find_free_number(self._folder), newest.next_position, previous=newest.summary)
            self._start_segment(header, run, self._segments)
            return
        data = b"".join(encode_record(record, size) for record in run)
        try:
            write_all(self._descriptor, data)
            sync_descriptor(self._descriptor)
        except BaseException:
            self._abandon_newest(size)
            raise
        self._publish_run(newest, run, self._segments[:-1])

    def _publish_run(self, segment: Segment, run: Sequence[JournalRecord], older: tuple[Segment, ...]) -> None:
        """Shows readers the records, which are durable behind what ``segment`` has."""
        place = segment.summary.size_bytes
        for record in run:
            if segment.holder.index is not None:
                segment.holder.index.add(place, record.zxid)
            place += record.size
        zxids = [record.zxid for record in run]
        facts = summarize(segment.header.number, place, zxids, segment.summary)
        self._segments = (*older, replace(segment, summary=facts))

    def _abandon_newest(self, size: int) -> None:
        """Gives up a segment of which ``size`` bytes count."""
        with suppress(OSError):  # what a start would find there is true, so this is only tidy
            os.ftruncate(self._descriptor, size)
        self._close()

    def _start_segment(self, header: SegmentHeader, run: Sequence[JournalRecord], older: tuple[Segment, ...]) -> None:
        """Begins a segment behind ``older``."""
        try:
            header, descriptor = start_segment(self._folder, header, run)
        except BaseException:
            self._close()  # the next append begins a segment that is newer than one that could not be deleted
            raise
        self._close()
        self._descriptor = descriptor
        empty = SegmentSummary(header.number, HEADER_BYTES)
        self._publish_run(Segment(self._folder, header, empty, IndexHolder(SegmentIndex())), run, older)

    def trim(self, position: int) -> int:
        """Deletes the segments whose records are all at or below ``position``, but never the newest.

        Returns the first position then.
        """
        with self._writing:
            gone = []
            for segment in self._get_segments()[:-1]:
                if segment.next_position > position:
                    break
                gone.append(segment)
            self._segments = self._segments[len(gone) :]
            for segment in gone:
                segment.path.unlink(missing_ok=True)
            if gone:
                sync_directory(self._folder)
            return self.first_position

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def is_begun(self) -> bool:
        """Whether there is a journal."""
        return bool(self._segments)

    @property
    def first_position(self) -> int:
        """The zxid after which the journal has everything."""
        return self._get_segments()[0].header.position

    def _get_segments(self) -> tuple[Segment, ...]:
        if not self._segments:
            raise UnavailableError("CANNOT_READ_ALL_DATA", f"There is no journal in {self._folder}")
        return self._segments

    def read(self, after: int, limit_bytes: int) -> JournalPage:
        """Returns the next records after the zxid ``after``, in the order of their commits.

        They have at most ``limit_bytes``, unless those of the first zxid have more.

        Raises :class:`PositionTrimmedError` if the journal begins later, ``CorruptionError`` that names segment and
        offset of a damaged record.
        """
        while True:
            segments = self._get_segments()
            if after < segments[0].header.position:
                raise PositionTrimmedError(after, segments[0].header.position)
            try:
                return read_page(segments, after, limit_bytes)
            except FileNotFoundError as error:
                if self._get_segments()[0].header == segments[0].header:  # nobody has trimmed it meanwhile
                    message, file = "Segment is missing", Path(error.filename).name
                    raise CorruptionError(message, file=file, name="NO_FILE_IN_DATA_PART") from None

    def has_record(self, zxid: int, name: str) -> bool:
        """Tells whether the journal has the record of this znode."""
        with self._writing:
            return bool(find_known(self._get_segments(), [(zxid, name)]))

    def get_statistics(self) -> JournalStatistics:
        """Returns the figures of this moment."""
        segments = self._get_segments()
        return JournalStatistics(
            segments[0].header.position,
            segments[-1].next_position,
            len(segments),
            sum(segment.summary.records for segment in segments),
            sum(segment.summary.size_bytes for segment in segments),
        )


def _split_by_size(records: Sequence[JournalRecord], limit_bytes: int) -> Iterator[list[JournalRecord]]:
    """Yields runs of records of about ``limit_bytes``."""
    run: list[JournalRecord] = []
    size = 0
    for record in records:
        run.append(record)
        size += record.size
        if size >= limit_bytes:
            yield run
            run, size = [], 0
    if run:
        yield run
