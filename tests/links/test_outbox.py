"""The outbox of a linked table: blocks stay until the links have them, or until the limits say otherwise."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from engine.link_store.journal import JOURNAL_FOLDER, Journal
from engine.link_store.outbox import OUTBOX_FOLDER, Outbox
from engine.link_store.outbox_retention import BlockRange, RetentionLimits
from parts.common.errors import CorruptionError, UnavailableError, UserError
from parts.format.hashed_file import replace_sync
from parts.read.part_reader import open_part
from tests.links.parts import GIB, Surroundings, link_part, make_part, name, verify
from tests.parts.stores import LIFETIME, Clock, add_active, new_store

NO_WAIT = RetentionLimits(min_seconds=0)


@pytest.fixture
def world() -> Surroundings:
    return Surroundings()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def fill(outbox: Outbox, table: Path, world: Surroundings, count: int, age_seconds: float = 0) -> None:
    """Blocks at positions 10, 20 … as the oldest are older than the next."""
    template = make_part(table, "template_0_0_0")
    now = world.now
    for n in range(1, count + 1):
        world.now = now - age_seconds - (count - n)
        folder = link_part(template, table / f"p_{n}_{n}_0")
        outbox.keep(folder, name(folder.name), 10 * n, world.now_ms())
    world.now = now


def positions(outbox: Outbox) -> list[int]:
    return [block.zxid for block in outbox.list_blocks()]


def test_an_outbox_is_removed_while_another_thread_keeps_a_block(
    table: Path, world: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its draft goes while the folder is being deleted."""
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 2)
    draft = table / OUTBOX_FOLDER / "tmp_9_202611_3_3_0"
    draft.mkdir()
    remove_tree = shutil.rmtree

    def find_it_gone(path: Path) -> None:
        if draft.exists():
            draft.rmdir()
            raise FileNotFoundError(draft.name)
        remove_tree(path)

    monkeypatch.setattr(shutil, "rmtree", find_it_gone)
    outbox.remove()
    assert not (table / OUTBOX_FOLDER).exists()


def test_a_block_outlives_its_part(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    source = make_part(table, "202611_3_3_0")
    part = name("202611_3_3_0")
    assert outbox.keep(source, part, 7, world.now_ms())
    shutil.rmtree(source)
    block = outbox.find(7, part)
    assert block is not None
    verify(block.folder, part)
    assert outbox.find(8, part) is None
    again = world.outbox(table / OUTBOX_FOLDER)
    assert again.find(7, part) == block
    assert again.get_statistics() == outbox.get_statistics()


def test_merges_in_the_table_leave_the_blocks(table: Path, world: Surroundings) -> None:
    """The store deletes merged parts, and a start of the table passes over journal and outbox."""
    clock = Clock()
    store = new_store(table, clock)
    outbox = world.outbox(table / OUTBOX_FOLDER)
    Journal(table / JOURNAL_FOLDER).begin_anew(5)
    for n in (1, 2):
        part = add_active(store, f"p_{n}_{n}_0")
        outbox.keep(part.path, part.name, n, world.now_ms(), content_hash=part.content_hash)
    add_active(store, "p_1_2_1")
    clock.now += 2 * LIFETIME
    assert len(store.delete(store.list_deletable())) == 2
    again = new_store(table)
    report = again.load()
    assert [str(part.name) for part in report.parts] == ["p_1_2_1"]
    assert not report.broken
    assert [error for _, error in world.outbox(table / OUTBOX_FOLDER).check()] == [None, None]
    journal = Journal(table / JOURNAL_FOLDER)
    journal.load()
    assert journal.first_position == 5


def test_a_block_is_kept_once(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    source = make_part(table, "p_1_1_0")
    assert outbox.keep(source, name("p_1_1_0"), 7, 1)
    assert not outbox.keep(source, name("p_1_1_0"), 7, 1)
    facts = outbox.get_statistics()
    assert (facts.blocks, facts.size_bytes) == (1, sum(file.stat().st_size for file in source.iterdir()))
    assert [each.name for each in (table / OUTBOX_FOLDER).iterdir()] == ["7-1-p_1_1_0"]


def test_threads_that_keep_one_block_keep_it_once(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    source = make_part(table, "p_1_1_0")
    kept: list[bool] = []
    threads = [
        threading.Thread(target=lambda: kept.append(outbox.keep(source, name("p_1_1_0"), 7, 1))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kept) == [False] * 7 + [True]
    assert outbox.get_statistics().blocks == 1
    assert len(list((table / OUTBOX_FOLDER).iterdir())) == 1


@pytest.mark.parametrize("part", ["p_1_1_1", "p_1_1_0_5", "p_1_4_2"])
def test_merged_and_mutated_parts_are_refused(table: Path, world: Surroundings, part: str) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    with pytest.raises(UserError) as told:
        outbox.keep(make_part(table, part), name(part), 7, 1)
    assert told.value.name == "BAD_DATA_PART_NAME"


def test_a_part_that_is_gone_or_half_gone_is_told(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    with pytest.raises(UnavailableError) as told:
        outbox.keep(table / "p_1_1_0", name("p_1_1_0"), 7, 1)
    assert told.value.name == "NO_SUCH_DATA_PART"
    source = make_part(table, "p_2_2_0")
    next(source.glob("*.bin")).unlink()
    with pytest.raises(CorruptionError):
        outbox.keep(source, name("p_2_2_0"), 7, 1)
    assert outbox.get_statistics().blocks == 0
    assert list((table / OUTBOX_FOLDER).iterdir()) == []


def test_other_rows_than_were_inserted_are_told(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    source = make_part(table, "p_1_1_0")
    with pytest.raises(CorruptionError, match="other rows than were inserted"):
        outbox.keep(source, name("p_1_1_0"), 7, 1, content_hash="0" * 32)
    assert outbox.keep(source, name("p_1_1_0"), 7, 1, content_hash=open_part(source).content_hash)


def test_damaged_and_lost_files_are_told(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    for n in range(1, 5):
        outbox.keep(make_part(table, f"p_{n}_{n}_0"), name(f"p_{n}_{n}_0"), n, 1)
    blocks = outbox.list_blocks()
    file = next(blocks[1].folder.glob("*.bin"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    next(blocks[2].folder.glob("*.bin")).unlink()
    shutil.rmtree(blocks[3].folder)
    found = list(outbox.check())
    assert [block.zxid for block, error in found if error is None] == [1]
    assert [block.zxid for block, error in found if error is not None] == [2, 3, 4]
    for block, error in found:
        if error is not None:
            outbox.discard(block)
    assert positions(outbox) == [1]
    assert world.outbox(table / OUTBOX_FOLDER).get_statistics() == outbox.get_statistics()


def test_what_every_link_has_goes_after_the_least_time(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 5, age_seconds=298)  # the newest is 298 s old, the oldest 302 s
    outbox.release(30)
    assert outbox.trim(RetentionLimits()) is None
    assert positions(outbox) == [40, 50]  # 10 and 20 are older than 300 s, 30 exactly
    world.now += 1000
    assert outbox.trim(RetentionLimits()) is None
    assert positions(outbox) == [40, 50]
    facts = outbox.get_statistics()
    assert (facts.trimmed_position, facts.needed_blocks, facts.lost) == (30, 2, None)


def test_a_release_never_moves_back(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 5)
    outbox.release(30)
    outbox.release(10)
    outbox.trim(NO_WAIT)
    assert positions(outbox) == [40, 50]


def test_the_newest_is_never_trimmed(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 3, age_seconds=10_000)
    world.free = 0
    outbox.release(1000)
    outbox.trim(RetentionLimits(min_seconds=0, max_seconds=1, max_bytes=1, min_free_bytes=GIB))
    assert positions(outbox) == [30]
    source = make_part(table, "q_1_1_0")
    outbox.keep(source, name("q_1_1_0"), 30, 1)
    outbox.trim(RetentionLimits(min_seconds=0, max_seconds=1, max_bytes=1, min_free_bytes=GIB))
    assert positions(outbox) == [30, 30]


def test_what_a_link_still_needs_and_retention_gives_up_is_told(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 6, age_seconds=1000)
    size = outbox.list_blocks()[0].size_bytes
    outbox.release(10)
    lost = outbox.trim(RetentionLimits(max_seconds=1002))
    assert lost == BlockRange(20, 30, 2, 2 * size)
    assert positions(outbox) == [40, 50, 60]
    assert outbox.trim(RetentionLimits(max_seconds=1002)) is None
    assert outbox.trim(RetentionLimits(max_bytes=2 * size)) == BlockRange(40, 40, 1, size)
    expected = BlockRange(20, 40, 3, 3 * size)
    assert outbox.get_statistics().lost == expected
    again = world.outbox(table / OUTBOX_FOLDER)
    again.release(10)
    assert (again.get_statistics().lost, again.get_statistics().trimmed_position) == (expected, 40)
    again.release(40)
    assert again.get_statistics().lost is None


def test_a_full_disk_frees_what_the_table_does_not_have_any_more(table: Path, world: Surroundings) -> None:
    """Removing a link to a file that the table still has frees nothing."""
    outbox = world.outbox(table / OUTBOX_FOLDER)
    for n in range(1, 6):
        outbox.keep(make_part(table, f"p_{n}_{n}_0"), name(f"p_{n}_{n}_0"), n, world.now_ms())
    world.free = GIB - 1
    outbox.trim(RetentionLimits(min_free_bytes=GIB))
    assert positions(outbox) == [1, 2, 3, 4, 5]
    shutil.rmtree(table / "p_2_2_0")
    lost = outbox.trim(RetentionLimits(min_free_bytes=GIB))
    assert lost is not None
    assert (lost.first, lost.last) == (1, 2)
    assert positions(outbox) == [3, 4, 5]


def test_removal_is_explicit(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    outbox.check_removable()
    fill(outbox, table, world, 2)
    outbox.release(10)
    with pytest.raises(UserError, match="1 blocks, up to position 20") as told:
        outbox.check_removable()
    assert told.value.name == "QUERY_IS_PROHIBITED"
    outbox.release(20)
    outbox.check_removable()
    outbox.remove()
    assert not (table / OUTBOX_FOLDER).exists()
    assert outbox.get_statistics().blocks == 0
    assert outbox.keep(table / "p_1_1_0", name("p_1_1_0"), 30, 1)


def test_a_start_removes_what_a_crash_left(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 2)
    for leftover in ("tmp_1_p_3_3_0", "gone_1_p_4_4_0"):
        link_part(table / "p_1_1_0", table / OUTBOX_FOLDER / leftover)
    link_part(table / "p_1_1_0", table / OUTBOX_FOLDER / "10-5-p_1_1_0")
    (table / OUTBOX_FOLDER / "notes of somebody").mkdir()
    again = world.outbox(table / OUTBOX_FOLDER)
    assert positions(again) == [10, 20]
    assert sorted(each.name.partition("-")[0] for each in (table / OUTBOX_FOLDER).iterdir()) == [
        "10", "20", "notes of somebody",
    ]  # fmt: skip


def test_a_damaged_note_is_told(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 2)
    outbox.release(10)
    outbox.trim(NO_WAIT)
    (table / OUTBOX_FOLDER / "trimmed").write_bytes(b"{}")
    with pytest.raises(CorruptionError, match="trimmed cannot be read"):
        world.outbox(table / OUTBOX_FOLDER)


def test_blocks_come_and_go_in_several_threads(table: Path, world: Surroundings) -> None:
    """Writers, a trimmer and a checker at a time; then the figures are those of the disk."""
    outbox = world.outbox(table / OUTBOX_FOLDER)
    template = make_part(table, "template_0_0_0")
    problems: list[str] = []
    is_over = threading.Event()

    def write(first: int) -> None:
        for n in range(first, 120, 3):
            part = f"p_{n}_{n}_0"
            try:
                outbox.keep(link_part(template, table / part), name(part), n, world.now_ms())
            except Exception as error:
                problems.append(f"keep {n}: {error!r}")

    def check() -> None:
        while not is_over.is_set():
            problems.extend(f"check {block.zxid}: {error}" for block, error in outbox.check() if error is not None)

    def trim() -> None:
        while not is_over.is_set():
            facts = outbox.get_statistics()
            outbox.release(facts.last_position - 20)
            outbox.trim(NO_WAIT)

    others = [threading.Thread(target=check), threading.Thread(target=trim)]
    writers = [threading.Thread(target=write, args=(first,)) for first in (1, 2, 3)]
    with replace_sync(lambda descriptor: None):
        for thread in (*others, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        is_over.set()
        for thread in others:
            thread.join()
    assert not problems
    again = world.outbox(table / OUTBOX_FOLDER)
    again.release(outbox.get_statistics().last_position)
    outbox.release(again.get_statistics().last_position)
    assert again.get_statistics() == outbox.get_statistics()
    assert again.get_statistics().last_position == 119


def test_a_load_that_is_repeated_keeps_the_blocks(table: Path, world: Surroundings) -> None:
    """A start whose journal cannot be read yet is tried again."""
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 3)
    outbox.load()
    assert positions(outbox) == positions(world.outbox(table / OUTBOX_FOLDER)) == [10, 20, 30]
    assert outbox.get_statistics().blocks == 3


def test_a_block_that_is_sent_stays_until_it_is_sent(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 3)
    first, second = outbox.hold(name("p_1_1_0")), outbox.hold(name("p_1_1_0"))
    assert first is not None
    assert second is not None
    block, let_go = first
    outbox.release(30)
    outbox.trim(NO_WAIT)
    assert positions(outbox) == [30]
    assert outbox.hold(block.part) is None
    verify(block.folder, block.part)
    let_go()
    outbox.trim(NO_WAIT)
    verify(block.folder, block.part)
    second[1]()
    outbox.trim(NO_WAIT)
    assert not block.folder.exists()
    assert positions(world.outbox(table / OUTBOX_FOLDER)) == [30]


def test_a_block_that_is_kept_again_while_it_is_sent_stays(table: Path, world: Surroundings) -> None:
    outbox = world.outbox(table / OUTBOX_FOLDER)
    fill(outbox, table, world, 2)
    held = outbox.hold(name("p_1_1_0"))
    assert held is not None
    block, let_go = held
    outbox.release(10)
    outbox.trim(NO_WAIT)
    assert positions(outbox) == [20]
    outbox.keep(table / "p_1_1_0", block.part, block.zxid, block.commit_time_ms)
    let_go()
    outbox.trim(RetentionLimits())
    assert positions(outbox) == [10, 20]
    verify(block.folder, block.part)
