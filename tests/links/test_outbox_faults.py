"""The outbox on disks that fail: power cuts, killed processes, EIO and ENOSPC at every operation."""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.link_store.outbox import OUTBOX_FOLDER, Outbox
from engine.link_store.outbox_retention import BlockRange, RetentionLimits
from engine.simulator.simulated_disk import read_directory, write_directory
from tests.failing_disk.disk import failing
from tests.links.crashes import run_until
from tests.links.parts import Surroundings, make_part, name, verify
from tests.portions import one_in

NO_WAIT = RetentionLimits(min_seconds=0)
EVERYTHING = RetentionLimits(min_seconds=0, max_bytes=1)
COUNT = 4


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = tmp_path / "table"
    for n in range(1, COUNT + 1):
        make_part(table, f"p_{n}_{n}_0")
    return table


@dataclass
class Work:
    """Keeps blocks, gives up those that are released, then one that is needed."""

    table: Path
    kept: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)
    """Those that a trim under way, or done, may have removed."""

    def __call__(self) -> None:
        outbox = Surroundings().outbox(self.table / OUTBOX_FOLDER)
        for n in range(1, COUNT):
            self.keep(outbox, n)
        outbox.release(1)
        self.going = {1}
        outbox.trim(NO_WAIT)
        self.keep(outbox, COUNT)
        self.going = {1, 2, 3}
        outbox.trim(EVERYTHING)

    def keep(self, outbox: Outbox, n: int) -> None:
        outbox.keep(self.table / f"p_{n}_{n}_0", name(f"p_{n}_{n}_0"), n, 1)
        self.kept.add(n)

    def check(self, outbox: Outbox) -> None:
        blocks = outbox.list_blocks()
        assert {block.zxid for block in blocks} >= self.kept - self.going
        for block in blocks:
            verify(block.folder, block.part)
        facts = outbox.get_statistics()
        gone = self.kept - {block.zxid for block in blocks}
        assert facts.size_bytes == sum(block.size_bytes for block in blocks)
        assert all(zxid <= facts.trimmed_position for zxid in gone)
        if gone - {1}:
            assert facts.lost is not None
            assert (facts.lost.first, facts.lost.last, facts.lost.blocks) == (2, 3, 2)


@pytest.mark.long
def test_a_crash_at_every_operation_leaves_whole_blocks(table: Path, tmp_path: Path) -> None:
    before = read_directory(table)
    number = 0
    while True:
        number += 1
        write_directory(table, before)
        work = Work(table)
        crash = run_until(table, number, work)
        for image_name, image in crash.images():
            write_directory(table, image)
            try:
                outbox = Surroundings().outbox(table / OUTBOX_FOLDER)
                work.check(outbox)
                for n in range(1, COUNT + 1):
                    Work(table).keep(outbox, n)
                assert len(outbox.list_blocks()) == COUNT
                outbox.trim(EVERYTHING)
                lost = outbox.get_statistics().lost
                assert lost is not None
                assert lost.last == COUNT - 1
            except Exception as error:
                raise AssertionError(f"{image_name} at {number}, {crash.operation}") from error
        if not crash.operation:
            break
    assert number > 25


@pytest.mark.parametrize("error", one_in(2, [errno.EIO, errno.ENOSPC]))
@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.long
def test_a_failing_disk_leaves_an_outbox_that_goes_on(table: Path, error: int, times: int) -> None:
    number = 0
    while True:
        number += 1
        assert number < 200
        shutil.rmtree(table / OUTBOX_FOLDER, ignore_errors=True)
        outbox = Surroundings().outbox(table / OUTBOX_FOLDER)
        outbox.release(1)
        with failing(number, times=times, error=error) as disk:
            for n in range(1, COUNT + 1):
                while not _is_done(lambda: outbox.keep(table / f"p_{n}_{n}_0", name(f"p_{n}_{n}_0"), n, 1)):  # noqa: B023
                    pass
            while not _is_done(lambda: outbox.trim(EVERYTHING)):  # noqa: B023
                for block in outbox.list_blocks():
                    verify(block.folder, block.part)
        assert [block.zxid for block in outbox.list_blocks()] == [COUNT]
        size = sum(file.stat().st_size for n in (2, 3) for file in (table / f"p_{n}_{n}_0").iterdir())
        assert outbox.get_statistics().lost == BlockRange(2, 3, 2, size)
        again = Surroundings().outbox(table / OUTBOX_FOLDER)
        again.release(1)
        assert again.get_statistics() == outbox.get_statistics()
        assert again.list_blocks() == outbox.list_blocks()
        if not disk.has_failed:
            break
    assert number > 25


def _is_done(work: object) -> bool:
    try:
        work()  # type: ignore[operator]
    except OSError:
        return False
    return True


def test_a_disk_without_room_for_the_note_is_freed_all_the_same(table: Path) -> None:
    """The outbox is given up because the disk is full: the note of that must not need the disk first."""
    world = Surroundings()
    outbox = world.outbox(table / OUTBOX_FOLDER)
    for n in range(1, COUNT + 1):
        outbox.keep(table / f"p_{n}_{n}_0", name(f"p_{n}_{n}_0"), n, world.now_ms())
        shutil.rmtree(table / f"p_{n}_{n}_0")
    world.free = 0
    with failing(1, times=1, error=errno.ENOSPC, only=("open", "write")) as disk:
        lost = outbox.trim(RetentionLimits(min_free_bytes=1 << 40))
    assert disk.has_failed
    assert lost is not None
    assert (lost.first, lost.last) == (1, COUNT - 1)
    assert world.outbox(table / OUTBOX_FOLDER).get_statistics().lost == lost
