"""The bytes of a journal's segments: those of version 1 are read for ever, and damage is never read as a record."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.link_store.journal import Journal
from engine.link_store.journal_segment import (
    HEADER_BYTES,
    JournalRecord,
    RecordKind,
    SegmentHeader,
    SegmentSummary,
    encode_record,
    find_end,
    parse_segment_number,
    read_records,
)
from parts.common.errors import CorruptionError, PandoError, UserError
from tests.links.make_golden import GOLDEN, POSITION, RECORDS, write_journal
from tests.links.records import read_everything, record

ANY_RECORD = st.builds(
    JournalRecord,
    st.integers(1, 2**63 - 1),
    st.sampled_from(list(RecordKind)),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    st.binary(max_size=200),
    st.integers(0, 2**63 - 1),
)


def test_the_golden_journal_reads(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "link_journal")
    journal = Journal(tmp_path / "link_journal")
    assert journal.load() == 0
    assert journal.first_position == POSITION
    assert read_everything(journal) == sorted(RECORDS, key=lambda each: each.zxid)
    assert journal.append(RECORDS) == 0
    assert journal.append([record(8_589_934_595)]) == 1


def test_the_writer_still_writes_the_same_bytes(tmp_path: Path) -> None:
    write_journal(tmp_path / "link_journal")
    written = {file.name: file.read_bytes() for file in (tmp_path / "link_journal").iterdir()}
    assert written == {file.name: file.read_bytes() for file in GOLDEN.iterdir()}
    assert len(written) > 1


def test_a_record_as_its_description_says() -> None:
    data = encode_record(JournalRecord(258, RecordKind.MUTATION, "ab", b"xyz", 772), 88)
    assert data[8:].hex() == (
        "504c4a52" "38000000" "5800000000000000" "0201000000000000" "0403000000000000" "03000000" "0200" "02" "00"
        "616278797a000000"
    )  # fmt: skip


@given(st.lists(ANY_RECORD, max_size=5))
def test_records_round_trip(records: list[JournalRecord]) -> None:
    data = b"".join(encode_record(each, 0) for each in records)
    assert list(read_records(data, "segment", 0)) == records
    assert len(data) == sum(each.size for each in records)
    assert find_end(bytes(HEADER_BYTES) + data, "segment", HEADER_BYTES) == HEADER_BYTES + len(data)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=8, max_size=8))
def test_headers_round_trip(numbers: list[int]) -> None:
    header = SegmentHeader(*numbers[:3], SegmentSummary(*numbers[3:]))  # type: ignore[arg-type]
    assert SegmentHeader.decode(header.encode(), header.file_name) == header
    assert len(header.encode()) == HEADER_BYTES
    assert parse_segment_number(header.file_name) == numbers[0]


@pytest.mark.parametrize("name", ["segment_1_2", "segment_0000000001_02", "tmp_segment_0000000001_2", "202001_1_1_0"])
def test_other_files_are_no_segments(name: str) -> None:
    assert parse_segment_number(name) is None


def test_a_change_of_any_byte_of_a_durable_record_is_found(tmp_path: Path) -> None:
    first = record(1, size=30)
    clean = bytes(HEADER_BYTES) + encode_record(first, HEADER_BYTES)
    for place in range(HEADER_BYTES, len(clean)):
        data = bytearray(clean + encode_record(record(2), len(clean)))
        data[place] ^= 0x11
        with pytest.raises(CorruptionError) as told:
            find_end(bytes(data), "segment", HEADER_BYTES)
        assert told.value.offset == HEADER_BYTES
        with pytest.raises(CorruptionError):
            list(read_records(bytes(data[HEADER_BYTES:]), "segment", HEADER_BYTES))


def test_every_torn_tail_is_cut_off() -> None:
    """Of the last append any bytes may be missing: nobody was told that they were there."""
    start = bytes(HEADER_BYTES) + encode_record(record(1), HEADER_BYTES)
    tail = b"".join(encode_record(record(n), len(start)) for n in (2, 3))
    size = record(2).size
    for length in range(len(tail)):
        assert find_end(start + tail[:length], "segment", HEADER_BYTES) == len(start) + length // size * size
        zeros = tail[:length] + bytes(len(tail) - length)
        end = find_end(start + zeros, "segment", HEADER_BYTES)
        assert (start + zeros)[:end] == (start + tail)[:end]
    later_pages_first = bytes(size) + tail[size:]
    assert find_end(start + later_pages_first, "segment", HEADER_BYTES) == len(start)


def test_a_content_that_looks_like_a_record_is_no_proof_of_damage() -> None:
    """It would say that more bytes were durable than stand before it."""
    start = bytes(HEADER_BYTES)
    inner = encode_record(record(9), 10_000)
    content = bytes(-(HEADER_BYTES + 48 + 5) % 8) + inner
    data = start + encode_record(JournalRecord(1, RecordKind.LOG_ENTRY, "inner", content, 0), HEADER_BYTES)
    torn = bytearray(data)
    torn[HEADER_BYTES + 20] ^= 1
    assert find_end(bytes(torn), "segment", HEADER_BYTES) == HEADER_BYTES


def test_what_was_there_when_the_segment_got_its_name_is_no_tail() -> None:
    data = bytearray(bytes(HEADER_BYTES) + encode_record(record(1), 0))
    data[-1] ^= 1
    with pytest.raises(CorruptionError, match="Checksum of a record"):
        find_end(bytes(data), "segment", len(data))
    with pytest.raises(CorruptionError, match="instead of"):
        find_end(bytes(data[:HEADER_BYTES]), "segment", len(data))


def test_damaged_headers_and_unknown_kinds_are_refused() -> None:
    header = SegmentHeader(1, 2)
    good = header.encode()
    for place in range(HEADER_BYTES):
        data = bytearray(good)
        data[place] ^= 0x11
        with pytest.raises(PandoError):
            SegmentHeader.decode(bytes(data), header.file_name)
    with pytest.raises(CorruptionError, match="name of another one"):
        SegmentHeader.decode(good, "segment_0000000001_3")
    with pytest.raises(CorruptionError):
        SegmentHeader.decode(good[:50], header.file_name)
    kind = JournalRecord(1, 99, "new", b"", 0)  # type: ignore[arg-type]
    with pytest.raises(UserError) as told:
        list(read_records(encode_record(kind, 0), "segment_0000000001_2", 0))
    assert told.value.name == "UNKNOWN_FORMAT_VERSION"
