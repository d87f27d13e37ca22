"""The folder of a journal: its segments are found, begun and removed here.

Used by one thread at a time: the journal's lock sees to that.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.link_store.journal_reading import IndexHolder, Segment, SegmentIndex, read_bytes, summarize
from engine.link_store.journal_segment import (
    DRAFT_PREFIX,
    HEADER_BYTES,
    JournalRecord,
    SegmentHeader,
    encode_record,
    find_end,
    parse_segment_number,
    read_zxids,
)
from parts.format.hashed_file import sync_descriptor, sync_directory

logger = logging.getLogger(__name__)


def load_segments(folder: Path) -> tuple[Segment, ...]:
    """Returns the segments of the journal, the oldest first, and removes everything else.

    The newest one may have a torn tail: :func:`open_newest`. Raises ``CorruptionError`` that names segment and offset.
    """
    names = [name for name in os.listdir(folder) if parse_segment_number(name) is not None]
    chain = _select_chain([SegmentHeader.decode(_read_beginning(folder / name), name) for name in names])
    remove_leftovers(folder, {header.file_name for header in chain})
    older = [_describe_older(folder, *pair) for pair in itertools.pairwise(chain)]
    return (*older, *(_scan_newest(folder, header) for header in chain[-1:]))


def _read_beginning(path: Path) -> bytes:
    with open(path, "rb", buffering=0) as stream:
        return stream.read(HEADER_BYTES)


def _select_chain(headers: Iterable[SegmentHeader]) -> list[SegmentHeader]:
    """Returns the newest segment, behind the one that it names, and so on."""
    by_number = {header.number: header for header in headers}
    chain: list[SegmentHeader] = []
    number = max(by_number, default=0)
    while (header := by_number.get(number)) is not None:
        chain.append(header)
        number = header.previous.number if header.previous.number < number else 0
    return chain[::-1]


def remove_leftovers(folder: Path, kept: Collection[str]) -> None:
    """Deletes the segments and drafts that are not kept. What stays after an error goes at the next start."""
    with suppress(OSError):
        names = [name for name in sorted(os.listdir(folder)) if name not in kept and _is_ours(name)]
        if names:
            sync_directory(folder)  # first the names of those that are kept
        for name in names:
            logger.info("%s does not belong to the journal any more: it is removed", folder / name)
            (folder / name).unlink()


def _is_ours(name: str) -> bool:
    return parse_segment_number(name.removeprefix(DRAFT_PREFIX)) is not None


def _describe_older(folder: Path, header: SegmentHeader, following: SegmentHeader) -> Segment:
    segment = Segment(folder, header, following.previous)
    size = segment.path.stat().st_size
    if size < segment.summary.size_bytes:
        read_bytes(segment.path, size, segment.summary.size_bytes)  # raises the error of a segment that is short
    return segment


def _scan_newest(folder: Path, header: SegmentHeader) -> Segment:
    path = folder / header.file_name
    data = read_bytes(path, 0, path.stat().st_size)
    end = find_end(data, path.name, header.named_bytes)
    index = SegmentIndex()
    zxids = []
    for offset, zxid in read_zxids(data[HEADER_BYTES:end], path.name, HEADER_BYTES):
        index.add(offset, zxid)
        zxids.append(zxid)
    return Segment(folder, header, summarize(header.number, end, zxids), IndexHolder(index))


def open_newest(segment: Segment) -> tuple[int, int]:
    """Opens the newest segment for appending and cuts its torn tail off.

    Returns a descriptor, and the size of the tail.
    """
    size, end = segment.path.stat().st_size, segment.summary.size_bytes
    descriptor = os.open(segment.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        if end < size:
            logger.warning("The last %d bytes of %s are torn: they are cut off", size - end, segment.path)
            os.ftruncate(descriptor, end)
        # A killed server leaves records that are not on the disk yet. They count from here on.
        sync_descriptor(descriptor)
        sync_directory(segment.folder)
    except BaseException:
        close_quietly(descriptor)
        raise
    return descriptor, size - end


def start_segment(folder: Path, header: SegmentHeader, run: Sequence[JournalRecord]) -> tuple[SegmentHeader, int]:
    """Makes a segment with ``run`` in it, which gets its name when it is durable.

    Returns its header and a descriptor for appending. After an error it may have its name all the same.
    """
    header = replace(header, named_bytes=HEADER_BYTES + sum(record.size for record in run))
    path = folder / header.file_name
    draft = path.with_name(DRAFT_PREFIX + path.name)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, header.encode() + b"".join(encode_record(record, 0) for record in run))
        sync_descriptor(descriptor)
        os.rename(draft, path)
        sync_directory(folder)
    except BaseException:
        close_quietly(descriptor)
        for file in (draft, path):
            with suppress(OSError):
                file.unlink(missing_ok=True)
        raise
    return header, descriptor


def find_free_number(folder: Path) -> int:
    """Returns a number above that of every file.

    A failed attempt may have left a file that could not be deleted.
    """
    numbers = (parse_segment_number(name) for name in os.listdir(folder))
    return max((number for number in numbers if number is not None), default=0) + 1


def write_all(descriptor: int, data: bytes) -> None:
    """Writes everything: a write may be short."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def close_quietly(descriptor: int) -> None:
    """Closes a segment. Everything that counts is fsynced, so an error means nothing."""
    with suppress(OSError):
        os.close(descriptor)
