"""The journal of a linked table: what is appended is read, once, in the order of the commits."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.link_store import journal_reading
from engine.link_store.journal import Journal, PositionTrimmedError
from engine.link_store.journal_segment import HEADER_BYTES, JournalRecord, RecordKind
from parts.common.errors import CorruptionError, UnavailableError, UserError
from parts.format.hashed_file import replace_sync
from tests.links.records import read_everything, record


def make(path: Path, position: int = 0, segment_bytes: int = 400) -> Journal:
    journal = Journal(path / "link_journal", segment_bytes)
    journal.begin_anew(position)
    return journal


def reopened(journal: Journal, segment_bytes: int = 400) -> Journal:
    journal.close()
    other = Journal(journal._folder, segment_bytes)
    assert other.load() == 0
    return other


def test_records_are_read_as_they_were_appended(tmp_path: Path) -> None:
    journal = make(tmp_path)
    records = [
        JournalRecord(7, RecordKind.LOG_ENTRY, "log-0000000000", b"text", 1),
        JournalRecord(8, RecordKind.MUTATION, "0000000003", b"", 2),
        JournalRecord(8, RecordKind.DEFINITION, "ä 5", bytes(range(256)), 3),
        JournalRecord(9, RecordKind.FAILED_QUORUM, "all_1_1_0", b"", 4),
        JournalRecord(2**62, RecordKind.LOSS, "", b"x" * 1000, 2**40),
    ]
    assert journal.append(records) == 5
    assert read_everything(journal) == records
    assert read_everything(reopened(journal)) == records


def test_a_record_is_taken_once(tmp_path: Path) -> None:
    journal = make(tmp_path)
    assert journal.append([record(n) for n in range(1, 20)]) == 19
    assert journal.append([record(n) for n in range(10, 25)]) == 5
    assert journal.append([record(25), record(25)]) == 1
    assert journal.append([record(25, "another node")]) == 1
    journal = reopened(journal)
    assert journal.append([record(n) for n in range(1, 26)]) == 0
    assert [each.zxid for each in read_everything(journal)] == [*range(1, 26), 25]
    assert journal.has_record(25, "another node")
    assert not journal.has_record(25, "a third")


def test_records_are_read_in_the_order_of_their_commits(tmp_path: Path) -> None:
    """A mutation may be loaded after log entries that were committed later."""
    journal = make(tmp_path)
    for start in (100, 50, 150, 1, 60):
        journal.append([record(n, size=40) for n in range(start, start + 50, 5)])
    late = [record(n, "late") for n in (3, 55, 155)]
    journal.append(late)
    expected = sorted({n for start in (100, 50, 150, 1, 60) for n in range(start, start + 50, 5)})
    for limit in (1, 100, 333, 5000):
        found = read_everything(journal, limit)
        assert [each.zxid for each in found if each.name != "late"] == expected
        assert [each.zxid for each in found] == sorted(each.zxid for each in found)
        assert [each for each in found if each.name == "late"] == late


def test_records_of_one_commit_are_on_one_page_in_the_order_of_appending(tmp_path: Path) -> None:
    journal = make(tmp_path, segment_bytes=100)
    for name in ("b", "a", "c"):
        journal.append([record(5, name), record(6, name)])
    page = journal.read(0, 1)
    assert [each.name for each in page.records] == ["b", "a", "c"]
    assert {each.zxid for each in page.records} == {5}
    assert not page.is_last
    assert [each.name for each in journal.read(5, 1).records] == ["b", "a", "c"]
    assert journal.read(5, 1).is_last
    assert journal.read(6, 1).records == ()


def test_a_page_ends_at_its_limit(tmp_path: Path) -> None:
    journal = make(tmp_path, segment_bytes=10_000)
    journal.append([record(n) for n in range(1, 100)])
    size = record(1).size
    for count in (1, 2, 10):
        page = journal.read(3, count * size)
        assert [each.zxid for each in page.records] == list(range(4, 4 + count))


def test_a_journal_begins_after_its_first_position(tmp_path: Path) -> None:
    """A clone has nothing before the pointer that it took over, and takes nothing from there."""
    journal = make(tmp_path, position=100)
    assert journal.append([record(90), record(100), record(101)]) == 1
    with pytest.raises(PositionTrimmedError) as told:
        journal.read(99, 1000)
    assert (told.value.asked, told.value.first) == (99, 100)
    assert [each.zxid for each in journal.read(100, 1000).records] == [101]
    journal.begin_anew(500)
    journal = reopened(journal)
    assert journal.first_position == 500
    assert read_everything(journal) == []
    assert journal.append([record(300), record(501)]) == 1


def test_trimming_removes_whole_segments_but_never_the_newest(tmp_path: Path) -> None:
    journal = make(tmp_path)
    for n in range(1, 41):
        journal.append([record(n)])
    segments = journal.get_statistics().segments
    assert segments > 5
    assert journal.trim(0) == 0
    first = journal.trim(20)
    assert 0 < first <= 20
    assert [each.zxid for each in read_everything(journal)] == list(range(first + 1, 41))
    first = journal.trim(1000)
    assert journal.get_statistics().segments == 1
    left = read_everything(journal)
    assert left
    assert [each.zxid for each in left] == list(range(first + 1, 41))
    journal = reopened(journal)
    assert journal.first_position == first
    assert read_everything(journal) == left
    assert len(list((tmp_path / "link_journal").iterdir())) == 1


def test_a_late_record_holds_its_segment(tmp_path: Path) -> None:
    """Segments go from the oldest on, and only when nothing in them is above the position."""
    journal = make(tmp_path, segment_bytes=150)
    journal.append([record(1), record(500)])
    for n in range(2, 30):
        journal.append([record(n)])
    assert journal.trim(400) == 0
    assert journal.trim(500) == 500
    assert journal.append([record(450, "later")]) == 0


def test_figures(tmp_path: Path) -> None:
    journal = make(tmp_path, position=5)
    facts = journal.get_statistics()
    assert (facts.first_position, facts.last_position, facts.segments, facts.records) == (5, 5, 1, 0)
    journal.append([record(n) for n in (7, 6)])
    facts = journal.get_statistics()
    assert (facts.first_position, facts.last_position, facts.segments, facts.records) == (5, 7, 1, 2)
    for n in range(8, 40):
        journal.append([record(n)])
    facts = journal.get_statistics()
    assert facts.records == 34
    assert facts.size_bytes == sum(file.stat().st_size for file in (tmp_path / "link_journal").iterdir())
    assert reopened(journal).get_statistics() == facts


def test_there_may_be_no_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "link_journal")
    assert journal.load() == 0
    assert not journal.is_begun
    with pytest.raises(UnavailableError, match="There is no journal"):
        journal.append([record(1)])
    with pytest.raises(UnavailableError, match="There is no journal"):
        journal.read(0, 1)
    journal.begin_anew(3)
    assert journal.is_begun
    journal.remove()
    assert not (tmp_path / "link_journal").exists()
    assert not journal.is_begun


def test_a_large_append_is_several_segments(tmp_path: Path) -> None:
    journal = make(tmp_path)
    records = [record(n, size=100) for n in range(1, 30)]
    journal.append(records)
    assert journal.get_statistics().segments > 5
    assert read_everything(journal, 300) == records


def test_reading_begins_near_the_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that follows reads the end of the newest segment, not the whole of it."""
    journal = make(tmp_path, segment_bytes=4 << 20)
    journal.append([record(n, size=200) for n in range(1, 2000)])
    sizes: list[int] = []
    read = journal_reading.read_bytes

    def read_counted(path: Path, begin: int, end: int) -> bytes:
        sizes.append(end - begin)
        return read(path, begin, end)

    monkeypatch.setattr(journal_reading, "read_bytes", read_counted)
    assert [each.zxid for each in journal.read(1995, 10_000).records] == [1996, 1997, 1998, 1999]
    assert sum(sizes) < 40_000


def test_a_damaged_record_in_the_middle_is_named(tmp_path: Path) -> None:
    journal = make(tmp_path, segment_bytes=400)
    for n in range(1, 30):
        journal.append([record(n)])
    files = sorted((tmp_path / "link_journal").iterdir())
    data = bytearray(files[2].read_bytes())
    data[HEADER_BYTES + record(1).size + 50] ^= 1
    files[2].write_bytes(data)
    with pytest.raises(CorruptionError) as told:
        read_everything(journal)
    assert (told.value.file, told.value.offset) == (files[2].name, HEADER_BYTES + record(1).size)
    last = journal.get_statistics().last_position
    assert [each.zxid for each in read_everything(journal, after=last - 2)] == [last - 1, last]
    assert journal.append([record(100)]) == 1
    journal.begin_anew(100)
    assert read_everything(journal) == []


@pytest.mark.parametrize("place", [0, 1, 2])
def test_damage_in_the_newest_segment_is_no_torn_tail(tmp_path: Path, place: int) -> None:
    """What stands before an acknowledged record was acknowledged too."""
    journal = make(tmp_path, segment_bytes=10_000)
    for n in range(1, 5):
        journal.append([record(n)])
    journal.close()
    (file,) = (tmp_path / "link_journal").iterdir()
    data = bytearray(file.read_bytes())
    offset = HEADER_BYTES + place * record(1).size
    data[offset + 60] ^= 1
    file.write_bytes(data)
    other = Journal(tmp_path / "link_journal")
    with pytest.raises(CorruptionError) as told:
        other.load()
    assert (told.value.file, told.value.offset) == (file.name, offset)
    other.begin_anew(4)
    assert other.append([record(5)]) == 1
    assert [each.zxid for each in read_everything(reopened(other))] == [5]


def test_a_segment_that_became_shorter_is_damage(tmp_path: Path) -> None:
    journal = make(tmp_path)
    for n in range(1, 30):
        journal.append([record(n)])
    journal.close()
    files = sorted((tmp_path / "link_journal").iterdir())
    files[1].write_bytes(files[1].read_bytes()[:-8])
    with pytest.raises(CorruptionError, match=f"instead of .*{files[1].name}"):
        Journal(tmp_path / "link_journal").load()


def test_a_missing_segment_is_named_or_told_by_the_first_position(tmp_path: Path) -> None:
    journal = make(tmp_path)
    for n in range(1, 30):
        journal.append([record(n)])
    files = sorted((tmp_path / "link_journal").iterdir())
    files[2].unlink()
    with pytest.raises(CorruptionError, match=f"Segment is missing.*{files[2].name}"):
        read_everything(journal)
    other = reopened(journal)
    assert other.first_position == int(files[3].name.rpartition("_")[2])
    assert [each.zxid for each in read_everything(other)] == list(range(other.first_position + 1, 30))


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    journal = make(tmp_path)
    journal.close()
    (file,) = (tmp_path / "link_journal").iterdir()
    file.write_bytes(file.read_bytes().replace(b"PANDOLJ1", b"PANDOLJ2"))
    with pytest.raises(UserError) as told:
        Journal(tmp_path / "link_journal").load()
    assert told.value.name == "UNKNOWN_FORMAT_VERSION"


def test_a_reader_beside_a_writer_sees_whole_prefixes(tmp_path: Path) -> None:
    """While the writer appends, trims and begins segments, a reader gets every record above its position, once."""
    journal = make(tmp_path, segment_bytes=2000)
    last = 1500
    acknowledged = [0]
    problems: list[str] = []

    def read() -> None:
        position = 0
        try:
            while position < last:
                before = acknowledged[0]
                page = journal.read(position, 700)
                zxids = [each.zxid for each in page.records]
                if zxids != list(range(position + 1, position + 1 + len(zxids))):
                    problems.append(f"after {position}: {zxids}")
                    return
                if page.is_last and position + len(zxids) < before:
                    problems.append(f"after {position}: {zxids}, and {before} was acknowledged")
                    return
                position += len(zxids)
                trimmable[0] = position
        except Exception as error:
            problems.append(repr(error))

    trimmable = [0]
    reader = threading.Thread(target=read)
    reader.start()
    with replace_sync(lambda descriptor: None):
        for n in range(1, last + 1, 3):
            journal.append([record(each) for each in (n + 1, n, n + 2)])
            acknowledged[0] = n + 2
            if n % 7 == 0:
                journal.trim(trimmable[0])
    reader.join(60)
    assert not reader.is_alive()
    assert not problems
