"""``link_journal/segment_<number>_<zxid>``: a segment of a linked table's journal.

``number`` has ten digits and grows. ``zxid`` is the *position* of the segment: every record with a larger zxid is in
this segment or in a later one, unless the journal never had it. All integers are little-endian.

A segment begins with a header of 88 bytes:

======  ====  =======================================================================
offset  size  meaning
======  ====  =======================================================================
0       8     ``PANDOLJ1``; the digit is the version;
8       8     XXH3-64 of the rest of the header;
16      8     number of the segment;
24      8     its position;
32      8     size of the segment when it got its name: these bytes were durable before;
40      8     number of the segment before; 0: the journal begins here;
48      8     valid bytes of the segment before; what follows there was never acknowledged;
56      8     records of the segment before;
64      8     smallest zxid of the segment before (0 without records);
72      8     largest zxid of the segment before (0 without records);
80      8     zero.
======  ====  =======================================================================

Records follow, each with a size that is a multiple of 8:

======  ====  =======================================================================
offset  size  meaning
======  ====  =======================================================================
0       8     XXH3-64 of the record after these 8 bytes;
8       4     ``PLJR``;
12      4     size of the whole record;
16      8     bytes of the segment that were durable when the record was written;
24      8     zxid of the commit;
32      8     time of the commit, in milliseconds since 1970;
40      4     size of the content;
44      2     size of the name;
46      1     kind: 1 log entry, 2 mutation, 3 definition, 4 failed quorum, 5 loss;
47      1     zero;
48            name of the znode (UTF-8), content, zeros up to a multiple of 8.
======  ====  =======================================================================

The last record of the last segment may be torn after a power cut. A bad record is damage, and no torn tail, if a valid
record behind it says that it was durable, or if it lies within the size from the header. Segments of version 1 are
read for ever. Another version, or an unknown kind in a valid record, is refused with 287 (UNKNOWN_FORMAT_VERSION).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum

import xxhash

from coordination.links.positions import MAX_ZXID
from parts.common.errors import CorruptionError, UserError

MAX_CONTENT_BYTES = 64 * 1024 * 1024
MAX_NAME_BYTES = 2**16 - 1
DRAFT_PREFIX = "tmp_"
_MAGIC, _VERSION = b"PANDOLJ", b"1"
_HEADER = struct.Struct("<8sQ9Q")
HEADER_BYTES = _HEADER.size
_MARK = b"PLJR"
_RECORD = struct.Struct("<Q4sIQQQIHBB")
_RECORD_BYTES = _RECORD.size
_ZXID, _ZXID_OFFSET = struct.Struct("<Q"), 24
_ALIGNMENT = 8
_NAME = re.compile(r"segment_([0-9]{10,20})_(0|[1-9][0-9]{0,18})")


class RecordKind(IntEnum):
    """The kind of a record. The values stand in segments."""

    LOG_ENTRY = 1
    MUTATION = 2
    DEFINITION = 3
    FAILED_QUORUM = 4
    LOSS = 5


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A znode that a replica pulled: a change of the table, or what became of one."""

    zxid: int
    kind: RecordKind
    name: str
    """The name of the znode. No two nodes of a table have one zxid and one name."""
    content: bytes
    commit_time_ms: int
    """ZooKeeper's time of the commit, in milliseconds since 1970."""

    @property
    def key(self) -> tuple[int, str]:
        """The zxid and the name, by which a repeated record is recognised."""
        return self.zxid, self.name

    @property
    def size(self) -> int:
        """The bytes that the record takes in a segment."""
        size = _RECORD_BYTES + len(self.name.encode()) + len(self.content)
        return size + -size % _ALIGNMENT


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """Facts about what a segment holds. Both zxids are 0 without records."""

    number: int
    size_bytes: int
    records: int = 0
    smallest: int = 0
    largest: int = 0


NO_SEGMENT = SegmentSummary(0, 0)
"""Stands before the first segment of a journal."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The header of a segment. ``previous`` describes the segment before."""

    number: int
    position: int
    named_bytes: int = HEADER_BYTES
    """The size of the segment when it got its name."""
    previous: SegmentSummary = NO_SEGMENT

    @property
    def file_name(self) -> str:
        return f"segment_{self.number:010d}_{self.position}"

    def encode(self) -> bytes:
        """Returns the header's bytes."""
        before = self.previous
        facts = (before.number, before.size_bytes, before.records, before.smallest, before.largest)
        fields = (self.number, self.position, self.named_bytes, *facts, 0)
        rest = _HEADER.pack(b"", 0, *fields)[16:]
        return _MAGIC + _VERSION + xxhash.xxh3_64_intdigest(rest).to_bytes(8, "little") + rest

    @classmethod
    def decode(cls, data: bytes, file: str) -> SegmentHeader:
        """Parses the header of ``file``. Raises ``CorruptionError``; ``UserError`` 287 for another version."""
        if len(data) < HEADER_BYTES or not data.startswith(_MAGIC):
            raise CorruptionError("Not a segment of a link's journal", file=file, offset=0)
        if data[7:8] != _VERSION:
            raise _make_version_error(file, f"version {data[7:8]!r}")
        _, stored, *fields = _HEADER.unpack_from(data)
        if xxhash.xxh3_64_intdigest(data[16:HEADER_BYTES]) != stored:
            raise CorruptionError("Checksum of a segment's header doesn't match", file=file, offset=0)
        number, position, named_bytes = fields[:3]
        header = cls(number, position, named_bytes, SegmentSummary(*fields[3:8]))
        if header.file_name != file:
            message = f"Segment has the name of another one: its header says {header.file_name}"
            raise CorruptionError(message, file=file, offset=0, name="CORRUPTED_DATA")
        return header


def parse_segment_number(file: str) -> int | None:
    """Returns the number in a segment's name; ``None`` for another file."""
    found = _NAME.fullmatch(file)
    return int(found[1]) if found else None


def encode_record(record: JournalRecord, durable_bytes: int) -> bytes:
    """Returns a record's bytes.

    ``durable_bytes``: how much of the segment is durable before the record is written.
    """
    name, content, size = record.name.encode(), record.content, record.size
    assert 0 < record.zxid <= MAX_ZXID
    assert 0 <= record.commit_time_ms <= MAX_ZXID
    assert len(content) <= MAX_CONTENT_BYTES
    assert len(name) <= MAX_NAME_BYTES
    fields = (size, durable_bytes, record.zxid, record.commit_time_ms, len(content), len(name), record.kind, 0)
    data = _RECORD.pack(0, _MARK, *fields) + name + content
    rest = data[8:] + bytes(size - len(data))
    return xxhash.xxh3_64_intdigest(rest).to_bytes(8, "little") + rest


def read_records(data: bytes, file: str, place: int) -> Iterator[JournalRecord]:
    """Yields the records of bytes that hold whole ones.

    ``place`` is their offset in the segment. Raises ``CorruptionError`` that names segment and offset.
    """
    for offset, _ in read_zxids(data, file, place):
        try:
            yield _decode_record(data, offset - place, file, offset)
        except UnicodeDecodeError as error:
            raise CorruptionError(f"Name of a znode cannot be read ({error})", file=file, offset=offset) from None


def read_zxids(data: bytes, file: str, place: int) -> Iterator[tuple[int, int]]:
    """Yields (offset in the segment, zxid) of the records, as :func:`read_records` reads them."""
    offset = 0
    while offset < len(data):
        try:
            size, _ = _check_record(data, offset)
        except ValueError as error:
            raise CorruptionError(f"{error}", file=file, offset=place + offset) from None
        yield place + offset, _ZXID.unpack_from(data, offset + _ZXID_OFFSET)[0]
        offset += size


def find_end(data: bytes, file: str, named_bytes: int) -> int:
    """Returns where the valid records of the last segment end. A torn tail lies behind.

    Raises ``CorruptionError`` for a bad record that was durable.
    """
    offset = HEADER_BYTES
    while offset < len(data):
        try:
            size, _ = _check_record(data, offset)
        except ValueError as error:
            if offset < named_bytes or offset < _find_durable_bytes(data, offset):
                raise CorruptionError(f"{error}", file=file, offset=offset) from None
            return offset
        offset += size
    if offset < named_bytes:
        message = f"Segment has {offset} bytes instead of {named_bytes}"
        raise CorruptionError(message, file=file, offset=offset)
    return offset


def _find_durable_bytes(data: bytes, after: int) -> int:
    """Returns how much of the segment was durable, as the valid records behind ``after`` say."""
    durable = 0
    found = data.find(_MARK, after)
    while found >= 0:
        start = found - 8
        if start > after and start % _ALIGNMENT == 0:
            with suppress(ValueError):  # the mark stands in a content, or in a damaged record
                told = _check_record(data, start)[1]
                durable = max(durable, told if told <= start else 0)
        found = data.find(_MARK, found + 1)
    return durable


def _check_record(data: bytes, offset: int) -> tuple[int, int]:
    """Returns size and durable bytes of the record at ``offset``. Raises ``ValueError`` that says what is wrong."""
    if len(data) - offset < _RECORD_BYTES:
        raise ValueError(f"Record ends after {len(data) - offset} bytes")
    stored, mark, size, durable, _, _, content, name, _, _ = _RECORD.unpack_from(data, offset)
    if mark != _MARK or size % _ALIGNMENT or not 0 <= size - _RECORD_BYTES - content - name < _ALIGNMENT:
        raise ValueError("Not the beginning of a record")
    if size > len(data) - offset:
        raise ValueError(f"Record of {size} bytes ends after {len(data) - offset}")
    if xxhash.xxh3_64_intdigest(memoryview(data)[offset + 8 : offset + size]) != stored:
        raise ValueError("Checksum of a record doesn't match")
    return size, durable


def _decode_record(data: bytes, offset: int, file: str, place: int) -> JournalRecord:
    _, _, _, _, zxid, time_ms, content_size, name_size, kind, _ = _RECORD.unpack_from(data, offset)
    if kind not in RecordKind.__members__.values():
        raise _make_version_error(file, f"a record of kind {kind} at offset {place}")
    begin = offset + _RECORD_BYTES
    middle = begin + name_size
    name, content = data[begin:middle].decode(), data[middle : middle + content_size]
    return JournalRecord(zxid, RecordKind(kind), name, content, time_ms)


def _make_version_error(file: str, what: str) -> UserError:
    return UserError(
        "UNKNOWN_FORMAT_VERSION",
        f"Segment {file} of a link's journal has {what}, which this server does not know: start a server of the "
        "version that wrote it, or a newer one",
    )
