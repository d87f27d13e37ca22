"""The journal on disks that fail: power cuts, killed processes, EIO and ENOSPC at every operation."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from engine.link_store.journal import Journal
from engine.link_store.journal_segment import JournalRecord, encode_record
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs, write_directory
from parts.format.hashed_file import replace_sync
from tests.failing_disk.disk import failing
from tests.links.crashes import run_until
from tests.links.records import read_everything, record
from tests.portions import one_in

SEGMENT_BYTES = 200


@dataclass
class Work:
    """Appends, trims and begins anew, and knows what was acknowledged."""

    root: Path
    known: list[JournalRecord] = field(default_factory=list)
    """Acknowledged, above the newest beginning."""
    pending: list[JournalRecord] = field(default_factory=list)
    """Of the append that is under way, or failed."""
    begun: list[int] = field(default_factory=list)
    """Where the journal may begin: trimming and beginning anew are under way, or done."""
    former: list[JournalRecord] | None = None
    """While it begins anew: what it had before."""

    def __call__(self) -> None:
        journal = Journal(self.root / "link_journal", SEGMENT_BYTES)
        journal.load()
        self.begin_anew(journal, 10)
        for start in (11, 14, 17):
            self.append(journal, [record(start + n) for n in range(3)])
        self.append(journal, [record(13, "late"), record(20)])
        self.trim(journal, 18)
        self.append(journal, [record(21, size=300)])
        self.append(journal, [record(22)])
        self.begin_anew(journal, 30)
        self.append(journal, [record(31), record(32)])
        journal.close()
        journal = Journal(self.root / "link_journal", SEGMENT_BYTES)
        journal.load()
        self.append(journal, [record(33)])
        journal.close()

    def append(self, journal: Journal, records: list[JournalRecord]) -> None:
        self.pending = records
        journal.append(records)
        self.known, self.pending = [*self.known, *records], []

    def trim(self, journal: Journal, position: int) -> None:
        self.begun.append(position)
        journal.trim(position)

    def begin_anew(self, journal: Journal, position: int) -> None:
        self.former, self.begun = self.known, [*self.begun, position]
        journal.begin_anew(position)
        self.former, self.known, self.begun = None, [], [position]

    def check(self, journal: Journal) -> None:
        """The journal has everything that was acknowledged, once, in order, and nothing that never was."""
        if not journal.is_begun:
            assert self.former == []
            return
        first = journal.first_position
        assert first <= max(self.begun)
        found = read_everything(journal, 150)
        if self.former is not None and found != _above(first, self.former):
            assert (found, first) == ([], self.begun[-1])
            return
        expected = self.known if self.former is None else self.former
        assert [each for each in found if each not in self.pending] == _above(first, expected)
        keys = [each.key for each in found]
        assert len(keys) == len(set(keys))
        assert [zxid for zxid, _ in keys] == sorted(zxid for zxid, _ in keys)


def _load(journal: Journal) -> None:
    journal.load()


def _above(first: int, records: list[JournalRecord]) -> list[JournalRecord]:
    return sorted((each for each in records if each.zxid > first), key=lambda each: each.zxid)


def _fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def _sweep(check: Callable[[int], bool]) -> int:
    """Until an operation of this number is not reached any more."""
    number = 1
    while check(number):
        number += 1
        assert number < 500
    return number - 1


def test_a_crash_at_every_operation_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    def crashed_at(number: int) -> bool:
        root = _fresh(tmp_path / "disk")
        work = Work(root)
        crash = run_until(root, number, work)
        for name, image in crash.images():
            write_directory(root, image)
            try:
                journal = Journal(root / "link_journal", SEGMENT_BYTES)
                journal.load()
                work.check(journal)
                if journal.is_begun:
                    journal.append([*work.pending, record(40)])
                    assert journal.has_record(40, record(40).name)
                    journal.close()
                    journal.load()
                    journal.append([record(40)])
                    assert read_everything(journal)[-1] == record(40)
                journal.close()
            except Exception as error:
                raise AssertionError(f"{name} at {number}, {crash.operation}") from error
        return bool(crash.operation)

    assert _sweep(crashed_at) > 40


@pytest.mark.long
def test_a_crash_during_a_start_loses_nothing(tmp_path: Path) -> None:
    """Every image of a crash is started; the start crashes at each of its operations, and the next one is whole."""
    number, starts = 0, 0
    while True:
        number += 5  # a fifth of them is enough
        work = Work(_fresh(tmp_path / "disk"))
        crash = run_until(work.root, number, work)
        for _, image in crash.images():
            for second in range(1, 30):
                write_directory(work.root, image)
                journal = Journal(work.root / "link_journal", SEGMENT_BYTES)
                again = run_until(work.root, second, partial(_load, journal))
                for _, left in again.images():
                    write_directory(work.root, left)
                    other = Journal(work.root / "link_journal", SEGMENT_BYTES)
                    other.load()
                    work.check(other)
                    other.close()
                    starts += 1
                journal.close()
                if not again.operation:
                    break
        if not crash.operation:
            break
    assert starts > 50


@pytest.mark.parametrize("error", one_in(2, [errno.EIO, errno.ENOSPC]))
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.long
def test_a_failing_disk_leaves_a_journal_that_can_be_read_and_appended(tmp_path: Path, error: int, times: int) -> None:
    def failed_at(number: int) -> bool:
        root = _fresh(tmp_path / "disk")
        journal = Journal(root / "link_journal", SEGMENT_BYTES)
        journal.begin_anew(10)
        appended: list[JournalRecord] = []
        waiting: list[JournalRecord] = []
        failures = 0
        with failing(number, times=times, error=error) as disk:
            for n in range(11, 26):
                waiting.append(record(n))
                try:
                    if n % 9 == 0:
                        journal.trim(n - 5)
                    journal.append(waiting)
                    appended, waiting = [*appended, *waiting], []
                except OSError:
                    failures += 1
                assert read_everything(journal) == _above(journal.first_position, appended)
        assert journal.append(waiting) == len(waiting)
        appended += waiting
        expected = _above(journal.first_position, appended)
        assert read_everything(journal) == expected
        journal.close()
        other = Journal(root / "link_journal", SEGMENT_BYTES)
        assert other.load() == 0
        assert _above(journal.first_position, read_everything(other)) == expected
        assert other.append(appended) == 0
        other.close()
        assert bool(failures) == disk.has_failed
        return disk.has_failed

    assert _sweep(failed_at) > 30


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_beginning_that_fails_leaves_the_former_journal(tmp_path: Path, error: int, times: int) -> None:
    """Also where the new segment could not be deleted: what is appended then is newer than that."""

    def failed_at(number: int) -> bool:
        root = _fresh(tmp_path / "disk")
        journal = Journal(root / "link_journal", SEGMENT_BYTES)
        journal.begin_anew(10)
        journal.append([record(n) for n in range(11, 20)])
        with failing(number, times=times, error=error) as disk:
            try:
                journal.begin_anew(30)
                expected = []
            except OSError:
                expected = [record(n) for n in range(11, 20)]
        assert read_everything(journal) == expected
        expected.append(record(31))
        journal.append([record(31)])
        journal.close()
        other = Journal(root / "link_journal", SEGMENT_BYTES)
        other.load()
        assert read_everything(other) == expected
        other.close()
        return disk.has_failed

    assert _sweep(failed_at) > 3


def test_what_a_failed_fsync_left_is_not_written_behind(tmp_path: Path) -> None:
    """The kernel may forget what it could not write, and tell of it once."""
    journal = Journal(tmp_path / "link_journal")
    journal.begin_anew(0)
    journal.append([record(1)])

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "fsync failed")

    with replace_sync(fail), pytest.raises(OSError, match="fsync failed"):
        journal.append([record(2)])
    assert read_everything(journal) == [record(1)]
    journal.append([record(2)])
    assert journal.get_statistics().segments == 2
    first, second = sorted((tmp_path / "link_journal").iterdir())
    first.write_bytes(first.read_bytes() + b"whatever the disk has there")
    other = Journal(tmp_path / "link_journal")
    other.load()
    assert read_everything(other) == [record(1), record(2)]
    assert second.name.endswith("_1")


def test_records_of_a_killed_server_are_fsynced_before_they_count(tmp_path: Path) -> None:
    """They may be in the kernel's memory alone; the pull that finds them here moves the pointer on."""
    root = tmp_path / "disk"
    root.mkdir()
    journal = Journal(root / "link_journal")
    journal.begin_anew(0)
    journal.close()
    path = next((root / "link_journal").iterdir())
    before = path.read_bytes()
    disk = SimulatedDisk(root)
    path.write_bytes(before + encode_record(record(1), len(before)))
    with record_syncs({root: disk}):
        other = Journal(root / "link_journal")
        other.load()
    assert other.append([record(1)]) == 0
    other.close()
    write_directory(root, disk.get_durable_tree())
    disk.close()
    other.load()
    assert read_everything(other) == [record(1)]
